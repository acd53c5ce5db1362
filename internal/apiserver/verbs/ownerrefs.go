package verbs

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The warning to a client whose object names an owner twice.
const (
	dedupedText         = ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: %v"
	dedupedAdmittedText = ".metadata.ownerReferences contains duplicate entries after mutating admission happens; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: %v"
)

// dedupOwners keeps each owner reference once. admitted says that admission has run.
func dedupOwners(m metav1.Object, warn func(string), admitted bool) {
	refs := m.GetOwnerReferences()
	if len(refs) < 2 {
		return
	}
	var keep []metav1.OwnerReference
	var twice []string
	for i := range refs {
		if slices.ContainsFunc(keep, func(r metav1.OwnerReference) bool { return equality.Semantic.DeepEqual(r, refs[i]) }) {
			twice = append(twice, string(refs[i].UID))
			continue
		}
		keep = append(keep, refs[i])
	}
	if len(twice) == 0 {
		return
	}
	text := dedupedText
	if admitted {
		text = dedupedAdmittedText
	}
	warn(fmt.Sprintf(text, strings.Join(twice, ", ")))
	m.SetOwnerReferences(keep)
}
