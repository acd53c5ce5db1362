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
			ObservedGeneration: c.Generation, Conditions: c.Status.Conditions,
		}
		i := slices.IndexFunc(s.Conditions, func(c v1.ReplicationControllerCondition) bool {
			return c.Type == v1.ReplicationControllerReplicaFailure
		})
		changed := false
		switch {
		case failure != nil && i < 0:
			s.Conditions = append(s.Conditions, v1.ReplicationControllerCondition{
				Type: v1.ReplicationControllerReplicaFailure, Status: v1.ConditionTrue, Reason: failure.Reason, Message: failure.Message,
				LastTransitionTime: metav1.NewTime(now).Rfc3339Copy(),
			})
			changed = true
		case failure == nil && i >= 0:
			s.Conditions = slices.Delete(s.Conditions, i, i+1)
			changed = true
		}
		old := c.Status
		c.Status = s
		return changed || old.Replicas != s.Replicas || old.FullyLabeledReplicas != s.FullyLabeledReplicas || old.ReadyReplicas != s.ReadyReplicas ||
			old.AvailableReplicas != s.AvailableReplicas || old.ObservedGeneration != s.ObservedGeneration
	},
}
