package job

import (
	"context"
	"errors"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podo.dev/podo/internal/controllers/loop"
	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/registry/batchobject"
	"podo.dev/podo/internal/view"
)

// NewOrphans makes the controller that removes the finalizer from pods that nobody counts any more: their Job is gone, has finished, or
// has let them go. Its keys are pods.
func NewOrphans(c Config) (*loop.Loop, error) {
	if c.View == nil || c.Client == nil {
		return nil, errors.New("job: View and Client are required")
	}
	return loop.New(loop.Config{
		Name: "job-orphans", View: c.View, Logger: c.Logger,
		Watches: []loop.Watch{
			{Resource: pods, Keys: func(ch view.Change) []view.Key {
				if ch.New == nil || !tracked(ch.New.Object.(*v1.Pod)) {
					return nil
				}
				return []view.Key{ch.New.Key}
			}},
			{Resource: jobs, Keys: func(ch view.Change) (out []view.Key) {
				e := ch.New
				if e == nil {
					e = ch.Old
				} else if !batchobject.Finished(e.Object.(*batchv1.Job)) {
					return nil
				}
				for p := range c.View.Snapshot().By(pods, registry.ControllerIndex, string(e.Meta.GetUID())) {
					out = append(out, p.Key)
				}
				return out
			}},
		},
		Reconcile: func(ctx context.Context, s view.Snapshot, key view.Key) (loop.Result, error) {
			e := s.Get(pods, key.Namespace, key.Name)
			if e == nil || !orphan(s, e.Object.(*v1.Pod)) {
				return loop.Result{}, nil
			}
			out, err := untrack(ctx, c.Client, e.Object.(*v1.Pod))
			return loop.Result{Wrote: loop.Revision(out)}, err
		},
	})
}

func orphan(s view.Snapshot, pod *v1.Pod) bool {
	if !tracked(pod) {
		return false
	}
	ref := metav1.GetControllerOfNoCopy(pod)
	if ref == nil {
		return true
	}
	if ref.Kind != Kind.GVK.Kind || ref.APIVersion != batchv1.SchemeGroupVersion.String() {
		return false
	}
	e := s.Get(jobs, pod.Namespace, ref.Name)
	if e == nil || e.Meta.GetUID() != ref.UID {
		return true
	}
	j := e.Object.(*batchv1.Job)
	return ours(j) && batchobject.Finished(j)
}
