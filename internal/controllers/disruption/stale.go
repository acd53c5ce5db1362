package disruption

import (
	"context"
	"errors"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/controllers/loop"
	"podo.dev/podo/internal/view"
)

// staleAfter is how long a pod can say that it is about to be disrupted without being deleted.
const staleAfter = 2 * time.Minute

// NewStale makes the controller that takes DisruptionTarget back from pods that stay. Its keys are pods.
func NewStale(c Config) (*loop.Loop, error) {
	if c.View == nil || c.Client == nil {
		return nil, errors.New("disruption: View and Client are required")
	}
	k := &controller{c}
	return loop.New(loop.Config{
		Name: "stale-disruption", View: c.View, Reconcile: k.takeBack, Logger: c.Logger,
		Watches: []loop.Watch{{Resource: pods, Keys: func(ch view.Change) []view.Key {
			if ch.New == nil || target(ch.New.Object.(*v1.Pod)) == nil {
				return nil
			}
			return []view.Key{ch.New.Key}
		}}},
	})
}

// target is the condition that says that a pod is about to be disrupted, where that may turn out to be untrue: not when the kubelet ends
// it, which takes as long as it takes, and not when it has ended.
func target(pod *v1.Pod) *v1.PodCondition {
	if pod.DeletionTimestamp != nil || pod.Status.Phase == v1.PodFailed || pod.Status.Phase == v1.PodSucceeded {
		return nil
	}
	for i := range pod.Status.Conditions {
		c := &pod.Status.Conditions[i]
		if c.Type == v1.DisruptionTarget && c.Status == v1.ConditionTrue && c.Reason != v1.PodReasonTerminationByKubelet {
			return c
		}
	}
	return nil
}

func (k *controller) takeBack(ctx context.Context, s view.Snapshot, key view.Key) (loop.Result, error) {
	e := s.Get(pods, key.Namespace, key.Name)
	if e == nil {
		return loop.Result{}, nil
	}
	c, now := target(e.Object.(*v1.Pod)), time.Now()
	if c == nil {
		return loop.Result{}, nil
	}
	if left := c.LastTransitionTime.Add(staleAfter).Sub(now); left > 0 {
		return loop.Result{Again: left}, nil
	}
	obj, err := k.Client.Mutate(ctx, client.Pods.At(key.Namespace, key.Name).Sub("status"), func(o runtime.Object) (bool, error) {
		pod := o.(*v1.Pod)
		c := target(pod)
		if c == nil || c.LastTransitionTime.Add(staleAfter).After(now) {
			return false, nil
		}
		*c = v1.PodCondition{
			Type: v1.DisruptionTarget, Status: v1.ConditionFalse, ObservedGeneration: pod.Generation,
			LastTransitionTime: metav1.NewTime(now).Rfc3339Copy(),
		}
		return true, nil
	})
	if apierrors.IsNotFound(err) {
		return loop.Result{}, nil
	}
	return loop.Result{Wrote: loop.Revision(obj)}, err
}
