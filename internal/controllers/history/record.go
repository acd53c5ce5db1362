package history

import (
	"bytes"
	"context"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/controllers/loop"
	"podo.dev/podo/internal/controllers/owning"
	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/view"
)

var revisions = client.Resource{Group: "apps", Resource: "controllerrevisions"}

// Record is an owner's history after a plan was done.
type Record struct {
	Current    *appsv1.ControllerRevision   // nil when the owner or its namespace is on its way out and there was none
	Kept       []*appsv1.ControllerRevision // oldest first, Current among them
	Collisions int32
	Wrote      int64
}

// Candidates are the revisions that an object controls and those of its namespace that nobody does.
func Candidates(s view.Snapshot, m metav1.Object) (out []*appsv1.ControllerRevision) {
	for _, key := range []string{string(m.GetUID()), registry.Uncontrolled(m.GetNamespace())} {
		for e := range s.By(schema.GroupResource(revisions), registry.ControllerIndex, key) {
			out = append(out, e.Object.(*appsv1.ControllerRevision))
		}
	}
	return out
}

// Watch tells the owners of a kind of changes of their revisions that are somebody else's doing: one is gone, or has no controller.
func Watch(gvk schema.GroupVersionKind) loop.Watch {
	return loop.Watch{Resource: schema.GroupResource(revisions), Keys: func(c view.Change) []view.Key {
		if c.Old == nil {
			return nil
		}
		ref := metav1.GetControllerOfNoCopy(c.Old.Meta)
		if ref == nil || ref.Kind != gvk.Kind || ref.APIVersion != gvk.GroupVersion().String() {
			return nil
		}
		return []view.Key{{Namespace: c.Old.Key.Namespace, Name: ref.Name}}
	}}
}

// Keep does what the plan says.
func Keep(ctx context.Context, c client.Client, o Owner, p Plan) (Record, error) {
	r := Record{Current: p.Current, Kept: p.Kept, Collisions: o.Collisions}
	for _, rev := range p.Release {
		if err := r.change(ctx, c, rev, func(m *appsv1.ControllerRevision) bool { return owning.Drop(m, o.Meta.GetUID()) }); err != nil {
			return r, err
		}
	}
	for _, rev := range p.Adopt {
		if err := r.change(ctx, c, rev, func(m *appsv1.ControllerRevision) bool { return owning.Take(m, o.Meta, o.GVK) }); err != nil {
			return r, err
		}
	}
	switch {
	case p.Current == nil && o.Meta.GetDeletionTimestamp() == nil:
		return r, r.create(ctx, c, o, p.Number)
	case p.Current != nil && p.Number > 0:
		return r, r.change(ctx, c, p.Current, func(m *appsv1.ControllerRevision) bool {
			changed := m.Revision != p.Number
			m.Revision = p.Number
			return changed
		})
	}
	return r, nil
}

// create makes the template's revision. A name that another template has is counted, and the next one is tried.
func (r *Record) create(ctx context.Context, c client.Client, o Owner, number int64) error {
	for {
		o.Collisions = r.Collisions
		want := o.revision(number)
		out, err := c.Create(ctx, revisions.At(want.Namespace, ""), want)
		if apierrors.IsAlreadyExists(err) {
			have, err := c.Get(ctx, revisions.At(want.Namespace, want.Name))
			if err != nil {
				return err
			}
			if !bytes.Equal(have.(*appsv1.ControllerRevision).Data.Raw, want.Data.Raw) {
				r.Collisions++
				continue
			}
			r.Current = have.(*appsv1.ControllerRevision)
			return nil
		}
		if apierrors.HasStatusCause(err, v1.NamespaceTerminatingCause) {
			return nil // everything here is on its way out: there is no current revision, and nothing to do
		}
		if err != nil {
			return err
		}
		r.Current, r.Wrote = out.(*appsv1.ControllerRevision), max(r.Wrote, loop.Revision(out))
		r.Kept = append(r.Kept[:len(r.Kept):len(r.Kept)], r.Current)
		return nil
	}
}

func (r *Record) change(ctx context.Context, c client.Client, rev *appsv1.ControllerRevision, change func(*appsv1.ControllerRevision) bool) error {
	out, err := c.Mutate(ctx, revisions.At(rev.Namespace, rev.Name), func(o runtime.Object) (bool, error) {
		fresh := o.(*appsv1.ControllerRevision)
		return fresh.UID == rev.UID && change(fresh), nil
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err == nil {
		r.Wrote = max(r.Wrote, loop.Revision(out))
	}
	return err
}

// Delete forgets revisions.
func Delete(ctx context.Context, c client.Client, list []*appsv1.ControllerRevision) error {
	for _, r := range list {
		err := c.Delete(ctx, revisions.At(r.Namespace, r.Name), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &r.UID}})
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}
