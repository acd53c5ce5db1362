// Package vacprotection keeps a class of volumes' attributes that is being deleted while a volume or a claim names it.
package vacprotection

import (
	"context"
	"log/slog"
	"slices"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/controllers/loop"
	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/view"
)

// Finalizer is what keeps a class.
const Finalizer = "kubernetes.io/vac-protection"

// Put puts the finalizer on, or takes it off one that goes and is not used; false says that it is right.
func Put(c *storagev1.VolumeAttributesClass, used bool) bool {
	has := slices.Contains(c.Finalizers, Finalizer)
	switch {
	case c.DeletionTimestamp == nil && !has:
		c.Finalizers = append(c.Finalizers, Finalizer)
	case c.DeletionTimestamp != nil && has && !used:
		c.Finalizers = slices.DeleteFunc(c.Finalizers, func(f string) bool { return f == Finalizer })
	default:
		return false
	}
	return true
}

var attributes = client.Resource{Group: storagev1.GroupName, Resource: "volumeattributesclasses"}

// New makes the controller. log may be nil. Its keys are classes.
func New(v *view.View, c client.Client, log *slog.Logger) (*loop.Loop, error) {
	classes := schema.GroupResource(attributes)
	users := []schema.GroupResource{schema.GroupResource(client.Claims), schema.GroupResource(client.Volumes)}
	watches := []loop.Watch{{Resource: classes, Keys: loop.Itself}}
	for _, r := range users {
		watches = append(watches, loop.Watch{Resource: r, Keys: leaves})
	}
	return loop.New(loop.Config{
		Name: "vac-protection", View: v, Logger: log, Watches: watches,
		Reconcile: func(ctx context.Context, s view.Snapshot, key view.Key) (loop.Result, error) {
			e := s.Get(classes, "", key.Name)
			if e == nil {
				return loop.Result{}, nil
			}
			used := slices.ContainsFunc(users, func(r schema.GroupResource) bool {
				for range s.By(r, registry.AttributesIndex, key.Name) {
					return true
				}
				return false
			})
			if !Put(e.Object.(*storagev1.VolumeAttributesClass).DeepCopy(), used) {
				return loop.Result{}, nil
			}
			out, err := c.Mutate(ctx, attributes.At("", key.Name), func(o runtime.Object) (bool, error) {
				return Put(o.(*storagev1.VolumeAttributesClass), used), nil
			})
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

// leaves are the classes that a claim or a volume named and names no more.
func leaves(c view.Change) (out []view.Key) {
	if c.Old == nil {
		return nil
	}
	var still []string
	if c.New != nil {
		still = named(c.New.Object)
	}
	for _, name := range named(c.Old.Object) {
		if !slices.Contains(still, name) {
			out = append(out, view.Key{Name: name})
		}
	}
	return out
}

func named(obj runtime.Object) []string {
	switch o := obj.(type) {
	case *v1.PersistentVolumeClaim:
		return registry.AttributesOfClaim(o)
	case *v1.PersistentVolume:
		return registry.AttributesOfVolume(o)
	}
	return nil
}
