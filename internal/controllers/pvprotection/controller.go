// Package pvprotection keeps a volume that is being deleted while it is bound to a claim.
package pvprotection

import (
	"context"
	"log/slog"
	"slices"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/controllers/loop"
	"podo.dev/podo/internal/view"
)

// Finalizer is what keeps a volume.
const Finalizer = "kubernetes.io/pv-protection"

// Put puts the finalizer on, or takes it off, as the volume is; false says that it is right.
func Put(pv *v1.PersistentVolume) bool {
	has := slices.Contains(pv.Finalizers, Finalizer)
	switch {
	case pv.DeletionTimestamp == nil && !has:
		pv.Finalizers = append(pv.Finalizers, Finalizer)
	case pv.DeletionTimestamp != nil && has && pv.Status.Phase != v1.VolumeBound:
		pv.Finalizers = slices.DeleteFunc(pv.Finalizers, func(f string) bool { return f == Finalizer })
	default:
		return false
	}
	return true
}

var volumes = schema.GroupResource(client.Volumes)

// New makes the controller. log may be nil. Its keys are volumes.
func New(v *view.View, c client.Client, log *slog.Logger) (*loop.Loop, error) {
	return loop.New(loop.Config{
		Name: "pv-protection", View: v, Logger: log,
		Watches: []loop.Watch{{Resource: volumes, Keys: loop.Itself}},
		Reconcile: func(ctx context.Context, s view.Snapshot, key view.Key) (loop.Result, error) {
			e := s.Get(volumes, "", key.Name)
			if e == nil || !Put(e.Object.(*v1.PersistentVolume).DeepCopy()) {
				return loop.Result{}, nil
			}
			out, err := c.Mutate(ctx, client.Volumes.At("", key.Name), func(o runtime.Object) (bool, error) { return Put(o.(*v1.PersistentVolume)), nil })
			if apierrors.IsNotFound(err) {
				return loop.Result{}, nil
			}
			if err != nil {
				return loop.Result{}, err
			}
			return loop.Result{Wrote: loop.Revision(out)}, nil
		},
	})
}
