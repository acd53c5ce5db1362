package verbs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/user"

	"podo.dev/podo/internal/apiserver/admit"
	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/timeline"
	"podo.dev/podo/internal/view"
)

// collectionWorkers delete the objects of a collection in parallel; the store commits them in groups.
const collectionWorkers = 64

// Delete asks for an object's end.
//
//	alive ─ grace > 0 ──► terminating (deletionTimestamp in the future) ── grace 0 ──┐
//	  │  └─ finalizers ─► terminating (grace 0) ─ last finalizer goes (an update) ───┼─► gone
//	  └─ neither ────────────────────────────────────────────────────────────────────┘
//
// A terminating object's grace can only get shorter. deleted says that the object is gone; out is its last state, or the state
// in which it now waits; nil for one that could not be read.
func (v *Verbs) Delete(ctx context.Context, u user.Info, ref client.Ref, d *metav1.DeleteOptions, o Options) (out runtime.Object, deleted bool, err error) {
	r, err := v.request(ctx, u, "delete", ref, o)
	if err != nil {
		return nil, false, err
	}
	if errs := metavalidation.ValidateDeleteOptions(d); len(errs) > 0 {
		return nil, false, apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "DeleteOptions"}, "", errs)
	}
	r.DryRun = r.DryRun || len(d.DryRun) > 0
	if toUnread(d) {
		err := v.deleteUnreadable(ctx, r)
		return nil, err == nil, err
	}
	r.warnOfOrphans(r.kind, d)
	return v.delete(ctx, r, nil, d)
}

// warnOfOrphans warns that dependents may stay, unless the client asked for that.
func (o *Options) warnOfOrphans(k *registry.Kind, d *metav1.DeleteOptions) {
	//lint:ignore SA1019 old clients say it so
	if k.DeleteWarning != "" && d.PropagationPolicy == nil && d.OrphanDependents == nil {
		o.warning(k.DeleteWarning)
	}
}

// delete is Delete after its checks; known, if set, is the object as the caller has just read it.
func (v *Verbs) delete(ctx context.Context, r request, known *view.Entry, d *metav1.DeleteOptions) (runtime.Object, bool, error) {
	k, ref := r.kind, r.ref
	cur, fresh := known, false
	var err error
	if cur == nil {
		if cur, fresh, err = v.current(ctx, k, ref, 0); err != nil {
			return nil, false, err
		}
	}
	for range writeTries {
		w, err := v.plan(ctx, r, cur, d)
		if (err != nil || w.same) && !fresh {
			next, readErr := v.freshly(ctx, k, ref)
			if readErr != nil {
				return nil, false, readErr
			}
			fresh = true
			if next.Rev != cur.Rev {
				cur = next
				continue
			}
		}
		if err != nil || w.same || r.DryRun {
			return w.obj, w.remove, err
		}
		out, found, err := v.commit(ctx, k, cur, w, r.who())
		if err != nil || out != nil {
			return out, w.remove, err
		}
		if found.ModRevision == 0 {
			return nil, false, apierrors.NewNotFound(k.GroupResource(), ref.Name)
		}
		if cur, err = entryOf(k, found); err != nil {
			return nil, false, err
		}
		fresh = true
	}
	return nil, false, conflict(k.GroupResource(), ref.Name)
}

// plan decides what a deletion does to the present object.
func (v *Verbs) plan(ctx context.Context, r request, cur *view.Entry, d *metav1.DeleteOptions) (wanted, error) {
	k := r.kind
	if err := preconditions(k, cur.Meta, d.Preconditions); err != nil {
		return wanted{}, err
	}
	a := r.attributes(admit.Delete, nil, cur.Object)
	if err := v.chain.Mutate(ctx, a); err != nil {
		return wanted{}, err
	}
	if err := v.chain.Validate(ctx, a); err != nil {
		return wanted{}, err
	}
	w := wanted{obj: cur.Object.DeepCopyObject(), stage: timeline.Deleting}
	m := accessor(w.obj)
	if ns, ok := w.obj.(*v1.Namespace); ok {
		switch v.endNamespace(ns) {
		case starting:
			collect(k.Dependents, m, ofNamespace(d))
			return w, w.finish(k, cur)
		case pending:
			w.same = true
			return w, nil
		case ended:
		}
	}
	graceful, waits := v.graceful(k, w.obj, d)
	if waits {
		w.same = true
		return w, nil
	}
	collect(k.Dependents, m, d)
	if !graceful && held(w.obj) {
		markDeleting(m, v.c.Now())
	}
	w.remove = !held(w.obj) && (!graceful || grace(m) == 0)
	if w.remove {
		if err := v.chain.Remove(ctx, a); err != nil {
			return wanted{}, err
		}
	}
	w.conds, w.ops = a.Conds(), a.Ops()
	return w, w.finish(k, cur)
}

// finish encodes what is to be written, if anything is.
func (w *wanted) finish(k *registry.Kind, cur *view.Entry) error {
	if w.same || w.remove {
		return nil
	}
	return w.encode(k, cur)
}

// preconditions refuses to delete an object other than the one that is meant.
func preconditions(k *registry.Kind, m metav1.Object, p *metav1.Preconditions) error {
	if p == nil {
		return nil
	}
	of := schema.GroupResource{Group: k.GVK.Group, Resource: k.GVK.Kind}
	uid := "the UID in the precondition (%s) does not match the UID in record (%s). The object might have been deleted and then recreated"
	version := "the ResourceVersion in the precondition (%s) does not match the ResourceVersion in record (%s). The object might have been modified"
	if k.GroupResource() == namespaces { // whose errors are worded differently
		of, uid, version = namespaces, otherUIDText, otherVersionText
	}
	if p.UID != nil && *p.UID != m.GetUID() {
		return apierrors.NewConflict(of, m.GetName(), fmt.Errorf(uid, *p.UID, m.GetUID()))
	}
	if p.ResourceVersion != nil && *p.ResourceVersion != m.GetResourceVersion() {
		return apierrors.NewConflict(of, m.GetName(), fmt.Errorf(version, *p.ResourceVersion, m.GetResourceVersion()))
	}
	return nil
}

// graceful marks an object whose kind ends gracefully. waits says that it is ending already, at least as soon as asked.
func (v *Verbs) graceful(k *registry.Kind, obj runtime.Object, d *metav1.DeleteOptions) (graceful, waits bool) {
	if k.Graceful == nil {
		return false, false
	}
	m := accessor(obj)
	asked := d.GracePeriodSeconds
	if asked != nil && *asked < 0 {
		one := int64(1)
		asked = &one
	}
	now := metav1.NewTime(v.c.Now())
	if m.GetDeletionTimestamp() != nil {
		had := m.GetDeletionGracePeriodSeconds()
		if had == nil || *had == 0 {
			return false, false
		}
		if asked == nil || *asked >= *had {
			return false, true
		}
		period := *asked
		at := metav1.NewTime(m.GetDeletionTimestamp().Add(time.Duration(period-*had) * time.Second))
		if at.Before(&now) {
			// Never in the past; and with a grace period, somebody else still has to end the object.
			at = now
			if period != 0 {
				period = 1
			}
		}
		m.SetDeletionTimestamp(&at)
		m.SetDeletionGracePeriodSeconds(&period)
		return true, false
	}
	c := d.DeepCopy()
	c.GracePeriodSeconds = asked
	period := k.Graceful(obj, c)
	at := metav1.NewTime(now.Add(time.Duration(period) * time.Second)).Rfc3339Copy()
	m.SetDeletionTimestamp(&at)
	m.SetDeletionGracePeriodSeconds(&period)
	if m.GetGeneration() > 0 {
		m.SetGeneration(m.GetGeneration() + 1)
	}
	return true, false
}

// markDeleting marks an object that ends without grace but is held by finalizers.
func markDeleting(m metav1.Object, now time.Time) {
	if m.GetDeletionTimestamp() == nil && m.GetGeneration() > 0 {
		m.SetGeneration(m.GetGeneration() + 1)
	}
	if at := m.GetDeletionTimestamp(); at == nil || at.After(now) {
		t := metav1.NewTime(now).Rfc3339Copy()
		m.SetDeletionTimestamp(&t)
	}
	var zero int64
	m.SetDeletionGracePeriodSeconds(&zero)
}

// collect notes in the finalizers what shall become of dependents. The options win over what the object already says, and that
// over its kind's default.
func collect(byDefault registry.Dependents, m metav1.Object, d *metav1.DeleteOptions) {
	if byDefault == registry.NoDependents {
		return
	}
	orphan := slices.Contains(m.GetFinalizers(), metav1.FinalizerOrphanDependents)
	foreground := !orphan && slices.Contains(m.GetFinalizers(), metav1.FinalizerDeleteDependents)
	switch {
	//lint:ignore SA1019 old clients send it
	case d.OrphanDependents != nil:
		//lint:ignore SA1019 as above
		orphan, foreground = *d.OrphanDependents, false
	case d.PropagationPolicy != nil:
		orphan = *d.PropagationPolicy == metav1.DeletePropagationOrphan
		foreground = *d.PropagationPolicy == metav1.DeletePropagationForeground
	case !orphan && !foreground:
		orphan = byDefault == registry.OrphanDependents
	}
	var keep []string
	for _, f := range m.GetFinalizers() {
		if f != metav1.FinalizerOrphanDependents && f != metav1.FinalizerDeleteDependents {
			keep = append(keep, f)
		}
	}
	if orphan {
		keep = append(keep, metav1.FinalizerOrphanDependents)
	}
	if foreground {
		keep = append(keep, metav1.FinalizerDeleteDependents)
	}
	if had := sets.New(m.GetFinalizers()...); !had.Equal(sets.New(keep...)) {
		m.SetFinalizers(keep)
	}
}

// held tells whether finalizers keep the object; a namespace has some of its own.
func held(obj runtime.Object) bool {
	if ns, ok := obj.(*v1.Namespace); ok && len(ns.Spec.Finalizers) > 0 {
		return true
	}
	return len(accessor(obj).GetFinalizers()) > 0
}

func zeroGrace(m metav1.Object) bool { return grace(m) == 0 }

func grace(m metav1.Object) int64 {
	if g := m.GetDeletionGracePeriodSeconds(); g != nil {
		return *g
	}
	return 0
}

// namespaceEnd is where a namespace is on its way out.
type namespaceEnd int

const (
	starting namespaceEnd = iota // this deletion begins it
	pending                      // its content is being removed
	ended                        // at most its own metadata's finalizers hold it
)

// endNamespace begins the end of a namespace: its content goes first, removed by a controller that then clears spec.finalizers. A
// namespace without those is marked all the same, so that nobody creates anything in it, and goes at the next deletion.
func (v *Verbs) endNamespace(ns *v1.Namespace) namespaceEnd {
	if ns.DeletionTimestamp == nil {
		now := metav1.NewTime(v.c.Now()).Rfc3339Copy()
		ns.DeletionTimestamp = &now
		ns.Status.Phase = v1.NamespaceTerminating
		return starting
	}
	if len(ns.Spec.Finalizers) > 0 {
		return pending
	}
	return ended
}

// ofNamespace are the options as a namespace takes them: the old orphanDependents: false means foreground deletion.
func ofNamespace(d *metav1.DeleteOptions) *metav1.DeleteOptions {
	//lint:ignore SA1019 old clients send it
	if orphan := d.OrphanDependents; orphan == nil || *orphan {
		return d
	}
	return &metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationForeground)}
}

// DeleteCollection deletes every object that List returns for the same options, and answers with what was there.
func (v *Verbs) DeleteCollection(ctx context.Context, u user.Info, ref client.Ref, d *metav1.DeleteOptions, l *internalversion.ListOptions, o Options) (*List, error) {
	k, err := v.kind(ref)
	if err != nil {
		return nil, err
	}
	if err := v.authorize(ctx, u, "deletecollection", ref, l.FieldSelector); err != nil {
		return nil, err
	}
	if errs := metavalidation.ValidateDeleteOptions(d); len(errs) > 0 {
		return nil, apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "DeleteOptions"}, "", errs)
	}
	if toUnread(d) {
		return nil, apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "DeleteOptions"}, "", field.ErrorList{
			field.Invalid(unreadField, true, "is not allowed with DELETECOLLECTION, try again after removing the option"),
		})
	}
	o.DryRun = o.DryRun || len(d.DryRun) > 0
	o.warnOfOrphans(k, d)
	list, err := v.list(ctx, k, ref, l)
	if err != nil {
		return nil, err
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(collectionWorkers)
	for _, e := range list.Items {
		g.Go(func() error {
			one := request{u, k, client.Ref{Resource: ref.Resource, Namespace: e.Key.Namespace, Name: e.Key.Name}, o, ""}
			if _, _, err := v.delete(gctx, one, e, d); err != nil && !apierrors.IsNotFound(err) {
				return err
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		if errors.Is(err, context.Canceled) && ctx.Err() != nil {
			return nil, storeError(ctx.Err())
		}
		return nil, err
	}
	return list, nil
}
