package replicas

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"podo.dev/podo/internal/client"
)

// ReplicaSets is the kind ReplicaSet.
var ReplicaSets = Kind{
	Resource: client.Resource{Group: appsv1.GroupName, Resource: "replicasets"},
	GVK:      appsv1.SchemeGroupVersion.WithKind("ReplicaSet"),
	Name:     "replicaset-controller",
	Read: func(obj runtime.Object) (Wanted, bool) {
		r := obj.(*appsv1.ReplicaSet)
		selector, err := metav1.LabelSelectorAsSelector(r.Spec.Selector)
		if err != nil || r.Spec.Replicas == nil {
			return Wanted{}, false
		}
		w := Wanted{
			Meta: r, Replicas: int(*r.Spec.Replicas), Selector: selector, Template: &r.Spec.Template,
			MinReady: time.Duration(r.Spec.MinReadySeconds) * time.Second,
		}
		if ref := metav1.GetControllerOfNoCopy(r); ref != nil {
			w.Owner = ref.UID
		}
		return w, true
	},
	Report: func(obj runtime.Object, n Counts, failure *Failure, now time.Time) bool {
		r := obj.(*appsv1.ReplicaSet)
		old, changed := r.Status, false
		r.Status = appsv1.ReplicaSetStatus{
			Replicas: n.Replicas, FullyLabeledReplicas: n.FullyLabeled, ReadyReplicas: n.Ready, AvailableReplicas: n.Available,
			TerminatingReplicas: &n.Terminating, ObservedGeneration: n.Generation,
		}
		r.Status.Conditions, changed = failureIn(old.Conditions, failure,
			func(c appsv1.ReplicaSetCondition) bool { return c.Type == appsv1.ReplicaSetReplicaFailure },
			func() appsv1.ReplicaSetCondition {
				return appsv1.ReplicaSetCondition{
					Type: appsv1.ReplicaSetReplicaFailure, Status: v1.ConditionTrue, Reason: failure.Reason, Message: failure.Message,
					LastTransitionTime: metav1.NewTime(now).Rfc3339Copy(),
				}
			})
		return changed || old.Replicas != n.Replicas || old.FullyLabeledReplicas != n.FullyLabeled || old.ReadyReplicas != n.Ready ||
			old.AvailableReplicas != n.Available || old.TerminatingReplicas == nil || *old.TerminatingReplicas != n.Terminating ||
			old.ObservedGeneration != n.Generation
	},
}
