package explain

import (
	"fmt"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	storagehelpers "k8s.io/component-helpers/storage/volume"
)

// takers are the finalizers that every cluster has, with who removes them and when.
var takers = map[string]string{
	metav1.FinalizerDeleteDependents:                                 "it goes when what it owns has gone, and what holds that up is below (foregroundDeletion)",
	metav1.FinalizerOrphanDependents:                                 "the garbage collector first takes its name off what it owns (orphan)",
	batchv1.JobTrackingFinalizer:                                     "its Job's controller has to count it first (batch.kubernetes.io/job-tracking)",
	"kubernetes.io/pvc-protection":                                   "it goes when no pod uses it any more (kubernetes.io/pvc-protection)",
	"kubernetes.io/pv-protection":                                    "it goes when it is bound to no claim any more (kubernetes.io/pv-protection)",
	storagehelpers.PVDeletionProtectionFinalizer:                     "whoever made it deletes its data first (" + storagehelpers.PVDeletionProtectionFinalizer + ")",
	"service.kubernetes.io/load-balancer-cleanup":                    "whoever gave it a load balancer takes that away first (service.kubernetes.io/load-balancer-cleanup)",
	"snapshot.storage.kubernetes.io/volumesnapshot-bound-protection": "it goes when no snapshot needs it any more (snapshot.storage.kubernetes.io/volumesnapshot-bound-protection)",
}

// heldBy says what a deleted object waits for, by its finalizers, and what to do about unknown ones.
func heldBy(kind string, m metav1.Object, finalizers []string) (why, do string) {
	var others []string
	for _, f := range finalizers {
		if words := takers[f]; words != "" {
			why = joined(why, capital(words))
		} else {
			others = append(others, f)
		}
	}
	if len(others) == 0 {
		return why, ""
	}
	why = joined(why, "Whoever set its finalizers must remove them: "+strings.Join(others, ", "))
	where := ""
	if m.GetNamespace() != "" {
		where = " -n " + m.GetNamespace()
	}
	return why, fmt.Sprintf("Only if that program is gone for good: `podo kubectl patch %s%s %s --type=merge -p '{\"metadata\":{\"finalizers\":null}}'`", strings.ToLower(kind), where, quoted(m.GetName()))
}

// leaving is the state of an object that is being deleted.
func (own Owner) leaving(s stand) stand {
	m, is := own.Object.(metav1.Object)
	if !is || m.GetDeletionTimestamp() == nil {
		return s
	}
	out := stand{wanted: s.wanted}
	out.State, out.Since = "is being deleted", m.GetDeletionTimestamp().Time
	out.Why, out.Do = heldBy(kindOf(own.Object), m, m.GetFinalizers())
	if slices.Contains(m.GetFinalizers(), metav1.FinalizerDeleteDependents) && len(own.Pods)+len(own.Children) == 0 {
		out.Do = joined(out.Do, "See what names it in ownerReferences with blockOwnerDeletion")
	}
	if _, is := own.Object.(*v1.PersistentVolume); is && s.fine {
		out.Why = joined(out.Why, "It "+s.State)
	}
	if out.Why == "" {
		out.Why = "Nothing holds it: it is about to go"
	}
	return out
}
