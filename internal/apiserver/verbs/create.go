package verbs

import (
	"context"
	"fmt"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apiserver/pkg/authentication/user"

	"podo.dev/podo/internal/apiserver/admit"
	"podo.dev/podo/internal/apiserver/authn"
	"podo.dev/podo/internal/apiserver/settle"
	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/store"
	"podo.dev/podo/internal/timeline"
)

const (
	// nameTries bounds the random names that are tried for one generateName.
	nameTries = 8
	// writeTries bounds how often a write is decided again because something that it had read changed.
	writeTries = 32

	maxGenerated  = 63 // a generated name is a DNS label
	randomLetters = 5
)

// Create stores a new object. obj becomes the verbs' own and is the answer.
func (v *Verbs) Create(ctx context.Context, u user.Info, ref client.Ref, obj runtime.Object, o Options) (runtime.Object, error) {
	r, err := v.request(ctx, u, "create", ref, o)
	if err != nil {
		return nil, err
	}
	if r.kind.Unstored {
		return v.review(ctx, r, obj)
	}
	m := accessor(obj)
	if err := r.placeIn(m); err != nil {
		return nil, err
	}
	generate := m.GetName() == "" && m.GetGenerateName() != ""
	for try := 1; ; try++ {
		draft := obj
		if generate && try < nameTries {
			draft = obj.DeepCopyObject() // the next try starts from what the client sent
		}
		out, err := v.create(ctx, r, draft, generate)
		if !generate || try == nameTries || !apierrors.IsAlreadyExists(err) {
			return out, err
		}
	}
}

// placeIn reconciles the object's namespace with the request's.
func (r *request) placeIn(m metav1.Object) error {
	if !r.kind.Namespaced {
		m.SetNamespace("")
		r.ref.Namespace = ""
		return nil
	}
	if m.GetNamespace() == "" {
		m.SetNamespace(r.ref.Namespace)
	}
	if r.ref.Namespace == "" && r.ref.Name == "" {
		r.ref.Namespace = m.GetNamespace()
	}
	if m.GetNamespace() != r.ref.Namespace {
		return apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
	return nil
}

func (v *Verbs) create(ctx context.Context, r request, obj runtime.Object, generate bool) (runtime.Object, error) {
	m := accessor(obj)
	asNew(m)
	dedupOwners(m, r.warning, false)
	if err := complete(r.kind, obj); err != nil {
		return nil, err
	}
	if generate {
		m.SetName(generateName(m.GetGenerateName()))
	}
	r.ref.Name = m.GetName()
	v.owners.Created(r.kind, obj, r.Manager)
	return v.createOwned(ctx, r, obj, changed)
}

// asNew removes what a client cannot say of an object that it creates.
func asNew(m metav1.Object) {
	m.SetUID("")
	m.SetCreationTimestamp(metav1.Time{})
	m.SetDeletionTimestamp(nil)
	m.SetDeletionGracePeriodSeconds(nil)
	m.SetSelfLink("")
}

// complete fills in what an object leaves out, and refuses one that does not decode as its kind.
func complete(k *registry.Kind, obj runtime.Object) error {
	if k.Unreadable != nil {
		if err := k.Unreadable(obj); err != nil {
			return apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: %v", k.GVK.Kind, k.GVK.Version, k.GVK.Kind, err))
		}
	}
	if k.Default != nil {
		k.Default(obj)
	}
	return nil
}

// createOwned is create after managedFields are in place. An object that is too large with them is stored without, except after
// an apply, which has to know next time what it applied.
func (v *Verbs) createOwned(ctx context.Context, r request, obj runtime.Object, owns ownership) (runtime.Object, error) {
	k, m := r.kind, accessor(obj)
	a := r.attributes(admit.Create, obj, nil)
	if err := v.chain.Mutate(ctx, a); err != nil {
		return nil, err
	}
	dedupOwners(m, r.warning, true)
	m.SetUID(v.c.NewUID())
	m.SetCreationTimestamp(metav1.NewTime(v.c.Now()).Rfc3339Copy())
	if err := complete(k, obj); err != nil {
		return nil, err
	}
	if k.Outdated != nil {
		r.warn(k.Outdated(obj))
	}
	if k.PrepareForCreate != nil {
		k.PrepareForCreate(obj)
	}
	if k.NoteCreator != nil {
		k.NoteCreator(obj, authn.UserInfo(r.user))
	}
	if errs := k.CheckCreate(obj); len(errs) > 0 {
		return nil, apierrors.NewInvalid(k.Stored().GVK.GroupKind(), m.GetName(), errs)
	}
	if k.Warnings != nil {
		r.warn(k.Warnings(obj)) // also when the rules that follow refuse it
	}
	if err := v.chain.Validate(ctx, a); err != nil {
		return nil, err
	}
	settle.Object(obj)
	v.recordNew(obj, r.who())
	out, err := v.storeNew(ctx, a)
	if isTooLarge(err) && owns == changed && m.GetManagedFields() != nil {
		m.SetManagedFields(nil)
		return v.storeNew(ctx, a)
	}
	return out, err
}

// storeNew commits a new object, on the condition that its name is free and that what admission has read still holds.
func (v *Verbs) storeNew(ctx context.Context, a *admit.Attributes) (runtime.Object, error) {
	k, obj := a.Kind, a.Object
	m := accessor(obj)
	key := k.Key(m.GetNamespace(), m.GetName())
	if a.DryRun {
		switch kv, err := v.store.Get(ctx, key); {
		case err == nil:
			return nil, exists(k, m, kv)
		case !isNotFound(err):
			return nil, storeError(err)
		}
		obj.GetObjectKind().SetGroupVersionKind(k.Stored().GVK)
		return obj, nil
	}
	if rv, err := strconv.ParseUint(m.GetResourceVersion(), 10, 64); err == nil && rv != 0 {
		return nil, errVersioned
	}
	m.SetResourceVersion("") // an invalid version counts as none
	op := store.Op{Key: key}
	if k.TTL != nil {
		op.TTL = k.TTL(obj)
	}
	for range writeTries {
		var err error
		if op.Value, err = encode(k, obj); err != nil { // for each try, since rules may have chosen otherwise
			return nil, err
		}
		conds := append([]store.Cond{{Key: key}}, a.Conds()...)
		res, err := a.Commit(ctx, v.store.Txn, conds, append([]store.Op{op}, a.Ops()...))
		if err != nil {
			return nil, storeError(err)
		}
		if res.OK {
			m.SetResourceVersion(formatRev(res.Revision))
			v.record(timeline.Stored, obj, timeline.Field{Key: "rev", Value: m.GetResourceVersion()})
			return obj, nil
		}
		if res.Found[0].ModRevision != 0 {
			return nil, exists(k, m, res.Found[0])
		}
		// What admission read has changed: it looks again.
		if a, err = v.readmit(ctx, a, res); err != nil {
			return nil, err
		}
	}
	return nil, apierrors.NewConflict(k.GroupResource(), m.GetName(), fmt.Errorf("what admission depends on kept changing"))
}

// readmit runs the rules again after their conditions failed. They have already edited the object, and either edit it in the same
// way again or take back what they chose; otherwise only what they now read, require and write matters.
func (v *Verbs) readmit(ctx context.Context, a *admit.Attributes, res store.TxnResult) (*admit.Attributes, error) {
	next := &admit.Attributes{Op: a.Op, User: a.User, Kind: a.Kind, Ref: a.Ref, Object: a.Object, Old: a.Old, DryRun: a.DryRun, Warn: func(string) {}}
	if _, err := v.c.View.WaitFor(ctx, res.Revision); err != nil {
		return next, viewError(err)
	}
	a.TakeBack()
	if err := v.chain.Mutate(ctx, next); err != nil {
		return next, err
	}
	return next, v.chain.Validate(ctx, next)
}

// exists is the error for a taken name. If the name may have been generated, by whomever, the client is told to try again; it
// says so when the name's object is being deleted.
func exists(k *registry.Kind, m metav1.Object, kv store.KV) error {
	e := apierrors.NewAlreadyExists(k.GroupResource(), m.GetName())
	if m.GetGenerateName() != "" {
		e = apierrors.NewGenerateNameConflict(k.GroupResource(), m.GetName(), 1)
	}
	if old, err := decode(k, kv); err == nil && accessor(old).GetDeletionTimestamp() != nil {
		e.ErrStatus.Message = "object is being deleted: " + e.ErrStatus.Message
	}
	return e
}

func generateName(base string) string {
	if len(base) > maxGenerated-randomLetters {
		base = base[:maxGenerated-randomLetters]
	}
	return base + utilrand.String(randomLetters)
}
