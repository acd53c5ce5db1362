// Package namespaces creates the namespaces that every cluster has, and empties those that are to be deleted.
package namespaces

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// System are the namespaces that every cluster has.
var System = []string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic, v1.NamespaceNodeLease}

// Content is what is left of one kind in a namespace.
type Content struct {
	Resource schema.GroupResource
	Objects  []Object
}

// Object is one that is left.
type Object struct {
	Name       string
	Deleting   bool
	Finalizers []string
}

var podsResource = schema.GroupResource{Resource: "pods"}

// Next are the kinds to delete from now: pods first and alone, so that what they use outlives them.
func Next(content []Content) (out []Content) {
	for _, c := range content {
		if c.Resource == podsResource && len(c.Objects) > 0 {
			return []Content{c}
		}
	}
	for _, c := range content {
		if len(c.Objects) > 0 {
			out = append(out, c)
		}
	}
	return out
}

// Stuck says that pods are still there although none of them has a finalizer and the longest of their graces is over, counted from
// when the namespace was to be deleted. until is when that will be so, zero when it will not.
func Stuck(pods []*v1.Pod, deleted, now time.Time) (stuck bool, until time.Time) {
	if len(pods) == 0 || slices.ContainsFunc(pods, func(p *v1.Pod) bool { return len(p.Finalizers) > 0 }) {
		return false, time.Time{}
	}
	var grace int64
	for _, p := range pods {
		if g := p.Spec.TerminationGracePeriodSeconds; g != nil && p.Status.Phase != v1.PodSucceeded && p.Status.Phase != v1.PodFailed {
			grace = max(grace, *g)
		}
	}
	until = deleted.Add(time.Duration(grace) * time.Second)
	return !now.Before(until), until
}

// Left counts objects.
func Left(content []Content) (n int) {
	for _, c := range content {
		n += len(c.Objects)
	}
	return n
}

// Conditions tell how far the emptying is, in upstream's words. failed are the errors of this round.
func Conditions(old []v1.NamespaceCondition, content []Content, failed []error, now time.Time) []v1.NamespaceCondition {
	out := slices.Clone(old)
	set := func(kind v1.NamespaceConditionType, is bool, reason, message string) {
		c := v1.NamespaceCondition{Type: kind, Status: v1.ConditionFalse, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(now)}
		if is {
			c.Status = v1.ConditionTrue
		}
		i := slices.IndexFunc(out, func(x v1.NamespaceCondition) bool { return x.Type == kind })
		switch {
		case i < 0:
			out = append(out, c)
		case out[i].Status != c.Status || out[i].Reason != c.Reason || out[i].Message != c.Message:
			if out[i].Status == c.Status {
				c.LastTransitionTime = out[i].LastTransitionTime
			}
			out[i] = c
		}
	}
	set(v1.NamespaceDeletionDiscoveryFailure, false, "ResourcesDiscovered", "All resources successfully discovered")
	set(v1.NamespaceDeletionGVParsingFailure, false, "ParsedGroupVersions", "All legacy kube types successfully parsed")
	if len(failed) > 0 {
		words := make([]string, len(failed))
		for i, err := range failed {
			words[i] = err.Error()
		}
		slices.Sort(words)
		set(v1.NamespaceDeletionContentFailure, true, "ContentDeletionFailed",
			fmt.Sprintf("Failed to delete all resource types, %d remaining: %s", len(failed), strings.Join(words, ", ")))
	} else {
		set(v1.NamespaceDeletionContentFailure, false, "ContentDeleted", "All content successfully deleted, may be waiting on finalization")
	}
	remaining, finalizers := count(content)
	if len(remaining) > 0 {
		set(v1.NamespaceContentRemaining, true, "SomeResourcesRemain", "Some resources are remaining: "+strings.Join(remaining, ", "))
	} else {
		set(v1.NamespaceContentRemaining, false, "ContentRemoved", "All content successfully removed")
	}
	if len(finalizers) > 0 {
		set(v1.NamespaceFinalizersRemaining, true, "SomeFinalizersRemain", "Some content in the namespace has finalizers remaining: "+strings.Join(finalizers, ", "))
	} else {
		set(v1.NamespaceFinalizersRemaining, false, "ContentHasNoFinalizers", "All content-preserving finalizers finished")
	}
	return out
}

func count(content []Content) (remaining, finalizers []string) {
	by := map[string]int{}
	for _, c := range content {
		if len(c.Objects) > 0 {
			remaining = append(remaining, fmt.Sprintf("%s.%s has %d resource instances", c.Resource.Resource, c.Resource.Group, len(c.Objects)))
		}
		for _, o := range c.Objects {
			for _, f := range o.Finalizers {
				by[f]++
			}
		}
	}
	slices.Sort(remaining)
	for _, f := range slices.SortedFunc(maps.Keys(by), cmp.Compare) {
		finalizers = append(finalizers, fmt.Sprintf("%s in %d resource instances", f, by[f]))
	}
	return remaining, finalizers
}
