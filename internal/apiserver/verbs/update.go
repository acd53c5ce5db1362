package verbs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/user"

	"podo.dev/podo/internal/apiserver/admit"
	"podo.dev/podo/internal/apiserver/owners"
	"podo.dev/podo/internal/apiserver/settle"
	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/store"
	"podo.dev/podo/internal/timeline"
	"podo.dev/podo/internal/view"
	"podo.dev/podo/internal/view/codec"
)

// Update replaces an object, or the part of it that ref.Subresource names. obj becomes the verbs' own. created says that the name
// was free and the kind lets a PUT create.
func (v *Verbs) Update(ctx context.Context, u user.Info, ref client.Ref, obj runtime.Object, o Options) (out runtime.Object, created bool, err error) {
	r, err := v.request(ctx, u, "update", ref, o)
	if err != nil {
		return nil, false, err
	}
	k := r.kind
	if part, ok := k.Parts[ref.Subresource]; ok {
		out, err = v.updatePart(ctx, r, part, obj)
		return out, false, err
	}
	rules, err := endpoint(k, ref)
	if err != nil {
		return nil, false, err
	}
	m := accessor(obj)
	if err := r.placeIn(m); err != nil {
		return nil, false, err
	}
	if err := sameName(r.ref, m.GetName(), m.GetNamespace()); err != nil {
		return nil, false, err
	}
	want, misread := revisionOf(m.GetResourceVersion()) // misread matters only if the object exists
	dedupOwners(m, o.warning, false)
	for range writeTries {
		out, err = v.guarded(ctx, r, guard{rules: rules, revision: want, uid: m.GetUID()}, func(cur runtime.Object) (runtime.Object, error) {
			if err := sameUID(k, r.ref, m.GetUID(), accessor(cur).GetUID()); err != nil {
				return nil, err
			}
			if misread != nil {
				return nil, misread
			}
			if want == 0 && !rules.AllowUnconditional {
				return nil, noRevision(k, ref.Name)
			}
			return obj.DeepCopyObject(), nil
		})
		if !rules.AllowCreate || ref.Subresource != "" || !apierrors.IsNotFound(err) {
			return out, false, err
		}
		if err := sameUID(k, r.ref, m.GetUID(), ""); err != nil { // a client that has seen an object there does not create another
			return nil, false, err
		}
		if misread != nil {
			return nil, false, misread
		}
		if err := v.authorize(ctx, u, "create", r.ref, nil); err != nil {
			return nil, false, err
		}
		draft := obj.DeepCopyObject()
		accessor(draft).SetResourceVersion("")
		if out, err = v.create(ctx, r, draft, false); !apierrors.IsAlreadyExists(err) {
			return out, err == nil, err
		}
		// Somebody else has created it meanwhile: that object is replaced.
	}
	return nil, false, conflict(k.GroupResource(), ref.Name)
}

// endpoint finds the rules of the part that ref names.
func endpoint(k *registry.Kind, ref client.Ref) (registry.Update, error) {
	rules, ok := k.Updates[ref.Subresource]
	if !ok {
		return rules, apierrors.NewMethodNotSupported(ref.Resource, "update")
	}
	return rules, nil
}

func sameName(ref client.Ref, name, namespace string) error {
	if name == "" {
		return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s based on URL) was undeterminable: name must be provided", ref.Name))
	}
	if name != ref.Name {
		return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", name, ref.Name))
	}
	if ref.Namespace != "" && namespace != "" && namespace != ref.Namespace {
		return apierrors.NewBadRequest(fmt.Sprintf("the namespace of the object (%s) does not match the namespace on the request (%s)", namespace, ref.Namespace))
	}
	return nil
}

// revisionOf parses the resourceVersion of an object in a request; 0 means none. For an invalid one, upstream's error is just
// this, without a reason.
func revisionOf(rv string) (int64, error) {
	if rv == "" || rv == "0" {
		return 0, nil
	}
	n, err := strconv.ParseUint(rv, 10, 64)
	if err != nil {
		return 0, err
	}
	return int64(min(n, math.MaxInt64)), nil
}

// noRevision refuses an unconditional write of a kind that does not allow it.
func noRevision(k *registry.Kind, name string) error {
	return apierrors.NewInvalid(schema.GroupKind{Group: k.GVK.Group, Kind: k.Resource}, name, field.ErrorList{
		field.Invalid(field.NewPath("metadata").Child("resourceVersion"), uint64(0), "must be specified for an update"),
	})
}

// own settles the managedFields of obj, which is to replace live.
func (v *Verbs) own(r request, how ownership, live, obj runtime.Object) {
	switch how {
	case changed:
		v.owners.Updated(r.kind, r.ref.Subresource, live, obj, r.Manager)
	case kept:
		accessor(obj).SetManagedFields(accessor(live).GetManagedFields())
	case dropped:
		accessor(obj).SetManagedFields(nil)
	}
}

// current reads the object to change: from the view when it can be there, else from the store.
func (v *Verbs) current(ctx context.Context, k *registry.Kind, ref client.Ref, revision int64) (*view.Entry, bool, error) {
	if !k.NotCached {
		s := v.c.View.Snapshot()
		if e := s.Get(k.Stored().GroupResource(), ref.Namespace, ref.Name); e != nil && e.Rev >= revision {
			return e, e.Rev == revision, nil
		}
	}
	e, err := v.freshly(ctx, k, ref)
	return e, true, err
}

// freshly reads one object from the store itself: cheaper than waiting for the view, and it cannot be stale.
func (v *Verbs) freshly(ctx context.Context, k *registry.Kind, ref client.Ref) (*view.Entry, error) {
	kv, err := v.store.Get(ctx, k.Key(ref.Namespace, ref.Name))
	if isNotFound(err) {
		return nil, apierrors.NewNotFound(k.GroupResource(), ref.Name)
	}
	if err != nil {
		return nil, storeError(err)
	}
	if !k.NotCached {
		if e := v.c.View.Snapshot().Get(k.Stored().GroupResource(), ref.Namespace, ref.Name); e != nil && e.Rev == kv.ModRevision {
			return e, nil
		}
	}
	return entryOf(k, kv)
}

// wanted is what a change comes to.
type wanted struct {
	obj    runtime.Object
	value  []byte
	conds  []store.Cond
	ops    []store.Op // what admission writes along with it
	same   bool       // nothing to write
	remove bool       // the last finalizer is gone, or deletion needs no grace
	stage  timeline.Stage
}

// prepare turns a change into what is to be written, by the endpoint's rules.
func (v *Verbs) prepare(ctx context.Context, r request, cur *view.Entry, g guard, change func(runtime.Object) (runtime.Object, error)) (wanted, error) {
	obj, err := change(cur.Object)
	if err != nil {
		return wanted{}, err
	}
	if obj == nil {
		return wanted{obj: cur.Object, same: true}, nil
	}
	k, m, old := r.kind, accessor(obj), cur.Meta
	if err := sameName(r.ref, m.GetName(), m.GetNamespace()); err != nil {
		return wanted{}, err
	}
	if err := complete(k, obj); err != nil {
		return wanted{}, err
	}
	v.own(r, g.owns, cur.Object, obj)
	a := r.attributes(admit.Update, obj, cur.Object)
	if err := v.chain.Mutate(ctx, a); err != nil {
		return wanted{}, err
	}
	dedupOwners(m, r.warning, true)
	if err := complete(k, obj); err != nil {
		return wanted{}, err
	}
	m.SetResourceVersion(old.GetResourceVersion())
	m.SetGeneration(old.GetGeneration())
	m.SetSelfLink("")
	if g.rules.Prepare != nil {
		g.rules.Prepare(obj, cur.Object)
	}
	if g.rules.Stamp != nil {
		g.rules.Stamp(obj, cur.Object, v.c.Now())
	}
	if m.GetUID() == "" {
		m.SetUID(old.GetUID())
	}
	m.SetCreationTimestamp(old.GetCreationTimestamp())
	// An update can neither start a deletion nor take it back.
	if old.GetDeletionTimestamp() != nil {
		m.SetDeletionTimestamp(old.GetDeletionTimestamp())
	}
	if m.GetDeletionGracePeriodSeconds() == nil {
		m.SetDeletionGracePeriodSeconds(old.GetDeletionGracePeriodSeconds())
	}
	if errs := k.CheckUpdate(g.rules.At(v.c.Now()), obj, cur.Object); len(errs) > 0 {
		return wanted{}, apierrors.NewInvalid(k.Stored().GVK.GroupKind(), m.GetName(), errs)
	}
	if g.rules.Warnings != nil {
		r.warn(g.rules.Warnings(obj, cur.Object)) // also when the rules that follow refuse it
	}
	if err := v.chain.Validate(ctx, a); err != nil {
		return wanted{}, err
	}
	w := wanted{obj: obj, remove: old.GetDeletionTimestamp() != nil && zeroGrace(old) && !held(obj)}
	if w.remove {
		if err := v.chain.Remove(ctx, a); err != nil {
			return wanted{}, err
		}
	}
	w.conds, w.ops = a.Conds(), a.Ops()
	if err := w.encode(k, cur); err != nil || g.beside == nil {
		return w, err
	}
	conds, ops, err := g.beside(ctx, cur.Object)
	w.conds, w.ops = append(w.conds, conds...), append(w.ops, ops...)
	w.same = w.same && len(ops) == 0
	return w, err
}

// encode makes the stored bytes and notices when they are the present ones.
func (w *wanted) encode(k *registry.Kind, cur *view.Entry) error {
	settle.Object(w.obj)
	m := accessor(w.obj)
	rv := m.GetResourceVersion()
	m.SetResourceVersion("")
	defer func() { m.SetResourceVersion(rv) }()
	var err error
	if w.remove {
		w.value, err = encode(k, w.obj)
		return err
	}
	if w.value, err = encode(k, w.obj); err != nil {
		return err
	}
	// Repeating the last write is no reason to write. Times have a fixed length, so a value of another length than the stored one
	// differs in more than times.
	if cur.Size() > 0 && len(w.value) != cur.Size() {
		return nil
	}
	was, err := encode(k, withRev(cur.Object, ""))
	if err != nil {
		return err
	}
	if entries := m.GetManagedFields(); owners.OnlyTimes(entries, cur.Meta.GetManagedFields()) {
		m.SetManagedFields(cur.Meta.GetManagedFields())
		value, err := encode(k, w.obj)
		if err != nil {
			return err
		}
		if bytes.Equal(value, was) {
			w.value, w.same = value, true
			return nil
		}
		m.SetManagedFields(entries)
	}
	w.same = bytes.Equal(w.value, was)
	return nil
}

func isNotFound(err error) bool { return errors.Is(err, store.ErrNotFound) }

func decode(k *registry.Kind, kv store.KV) (runtime.Object, error) {
	obj, err := codec.Decode(k.Stored(), kv.Value, kv.ModRevision)
	if err != nil {
		return nil, apierrors.NewInternalError(corrupt(strings.TrimPrefix(kv.Key, "/registry"), kv.ModRevision, err))
	}
	return obj, nil
}

// entryOf is a stored value as the view would publish it.
func entryOf(k *registry.Kind, kv store.KV) (*view.Entry, error) {
	obj, err := decode(k, kv)
	if err != nil {
		return nil, err
	}
	m := accessor(obj)
	return &view.Entry{Key: view.Key{Namespace: m.GetNamespace(), Name: m.GetName()}, Rev: kv.ModRevision, Object: obj, Meta: m}, nil
}
