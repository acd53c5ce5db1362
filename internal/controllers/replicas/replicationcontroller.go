package replicas

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"podo.dev/podo/internal/client"
)

// ReplicationControllers is the kind ReplicationController.
var ReplicationControllers = Kind{
	Resource: client.Resource{Resource: "replicationcontrollers"},
	GVK:      v1.SchemeGroupVersion.WithKind("ReplicationController"),
	Name:     "replication-controller",
	Read: func(obj runtime.Object) (Wanted, bool) {
		c := obj.(*v1.ReplicationController)
		if c.Spec.Replicas == nil || c.Spec.Template == nil {
			return Wanted{}, false
		}
		return Wanted{
			Meta: c, Replicas: int(*c.Spec.Replicas), Selector: labels.SelectorFromSet(c.Spec.Selector), Template: c.Spec.Template,
			MinReady: time.Duration(c.Spec.MinReadySeconds) * time.Second,
		}, true
	},
	Report: func(obj runtime.Object, n Counts, failure *Failure, now time.Time) bool {
		c := obj.(*v1.ReplicationController)
		s := v1.ReplicationControllerStatus{
			Replicas: n.Replicas, FullyLabeledReplicas: n.FullyLabeled, ReadyReplicas: n.Ready, AvailableReplicas: n.Available,
			ObservedGeneration: n.Generation, Conditions: c.Status.Conditions,
		}
		changed := false
		s.Conditions, changed = failureIn(s.Conditions, failure,
			func(c v1.ReplicationControllerCondition) bool {
				return c.Type == v1.ReplicationControllerReplicaFailure
			},
			func() v1.ReplicationControllerCondition {
				return v1.ReplicationControllerCondition{
					Type: v1.ReplicationControllerReplicaFailure, Status: v1.ConditionTrue, Reason: failure.Reason, Message: failure.Message,
					LastTransitionTime: metav1.NewTime(now).Rfc3339Copy(),
				}
			})
		old := c.Status
		c.Status = s
		return changed || old.Replicas != s.Replicas || old.FullyLabeledReplicas != s.FullyLabeledReplicas || old.ReadyReplicas != s.ReadyReplicas ||
			old.AvailableReplicas != s.AvailableReplicas || old.ObservedGeneration != s.ObservedGeneration
	},
}

// failureIn are the conditions with the one that tells of a failure, when there is one, and otherwise without; and whether that is new.
// A failure that was told before stays as it was told.
func failureIn[C any](list []C, failure *Failure, is func(C) bool, tell func() C) ([]C, bool) {
	switch i := slices.IndexFunc(list, is); {
	case failure != nil && i < 0:
		return append(slices.Clip(list), tell()), true
	case failure == nil && i >= 0:
		return slices.Delete(list, i, i+1), true
	}
	return list, false
}
