// Package garbage deletes what nobody owns any more. An object with ownerReferences goes when none of its owners is left; an owner
// that is deleted in the foreground waits for its dependents; one that orphans them lets them go first.
//
//	plan.go        pure: an object, its owners and dependents -> what to do
//	graph.go       who depends on whom, kept from the view's changes
//	controller.go  looks things up, and does it
package garbage

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// OwnerState is what became of an owner that a reference names.
type OwnerState int

const (
	// Solid owners are there. So count owners of kinds that are not served: what cannot be looked up is not known to be gone.
	Solid OwnerState = iota
	// Dangling owners are not there under this name with this UID, in the object's own namespace.
	Dangling
	// Waiting owners are being deleted in the foreground: this object goes now, whether they wait for it (blockOwnerDeletion) or not.
	Waiting
)

// Dependent is what matters of an object that depends on another.
type Dependent struct {
	Blocks     bool // its reference keeps the owner from going (blockOwnerDeletion)
	Foreground bool // it is itself being deleted in the foreground
}

// Action is what to do with an object.
type Action struct {
	// Delete it with this propagation; "" leaves it.
	Delete metav1.DeletionPropagation
	// Disown removes the references to these owners: the object has others.
	Disown []types.UID
	// Unblock turns blockOwnerDeletion off first: the object is in a circle of deletions.
	Unblock bool
	// Orphan removes the references to this object from its dependents, and then the finalizer.
	Orphan bool
	// Finish removes this finalizer: nothing holds the object on that account.
	Finish string
}

// Decide says what to do with an object. states are those of its ownerReferences, in order.
func Decide(m metav1.Object, states []OwnerState, dependents []Dependent) Action {
	deleting := m.GetDeletionTimestamp() != nil
	has := func(f string) bool { return slices.Contains(m.GetFinalizers(), f) }
	switch {
	case deleting && has(metav1.FinalizerOrphanDependents):
		return Action{Orphan: true, Finish: metav1.FinalizerOrphanDependents}
	case deleting && has(metav1.FinalizerDeleteDependents):
		if slices.ContainsFunc(dependents, func(d Dependent) bool { return d.Blocks }) {
			return Action{} // the going of the last one brings us back
		}
		return Action{Finish: metav1.FinalizerDeleteDependents}
	case deleting || len(states) == 0:
		return Action{}
	}
	var gone []types.UID // dangling owners, and those that wait
	solid, waiting := false, false
	for i, ref := range m.GetOwnerReferences() {
		switch states[i] {
		case Solid:
			solid = true
		case Waiting:
			waiting = true
			gone = append(gone, ref.UID)
		case Dangling:
			gone = append(gone, ref.UID)
		}
	}
	switch {
	case solid:
		return Action{Disown: gone}
	case waiting && len(dependents) > 0:
		circle := slices.ContainsFunc(dependents, func(d Dependent) bool { return d.Foreground })
		return Action{Delete: metav1.DeletePropagationForeground, Unblock: circle}
	case has(metav1.FinalizerOrphanDependents):
		return Action{Delete: metav1.DeletePropagationOrphan}
	case has(metav1.FinalizerDeleteDependents):
		return Action{Delete: metav1.DeletePropagationForeground}
	}
	return Action{Delete: metav1.DeletePropagationBackground}
}
