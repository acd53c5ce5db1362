// Package source says which pods this node shall run. Each source has a name (api, file, http) and reports once that it has told
// everything it had at its start: before that, nothing may be ended because no source wants it.
package source

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// Op is what happened to a pod at its source.
type Op string

// The operations.
const (
	Add    Op = "ADD"
	Update Op = "UPDATE" // what is wanted changed
	Delete Op = "DELETE" // its end is asked for: deletionTimestamp is set
	Remove Op = "REMOVE" // the source no longer has it
	// Reconcile: only what the kubelet or others report changed (status).
	Reconcile Op = "RECONCILE"
	// Synced: the source has told everything that it had at its start. Pod is nil.
	Synced Op = "SYNCED"
)

// Change is one operation on one pod. Pods are shared and not to be changed.
type Change struct {
	Source string
	Op     Op
	Pod    *v1.Pod
}

// classify says what the change from old to pod asks for.
func classify(old, pod *v1.Pod) Op {
	switch {
	case old == nil:
		return Add
	case pod.DeletionTimestamp != nil && (old.DeletionTimestamp == nil || !equality.Semantic.DeepEqual(old.DeletionGracePeriodSeconds, pod.DeletionGracePeriodSeconds)):
		return Delete
	case equality.Semantic.DeepEqual(old.Spec, pod.Spec) && equality.Semantic.DeepEqual(old.Labels, pod.Labels) &&
		equality.Semantic.DeepEqual(old.Annotations, pod.Annotations) && equality.Semantic.DeepEqual(old.DeletionTimestamp, pod.DeletionTimestamp):
		return Reconcile
	}
	return Update
}
