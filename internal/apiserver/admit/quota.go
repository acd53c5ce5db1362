package admit

import (
	"context"
	"errors"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"podo.dev/podo/internal/quota"
	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/store"
	"podo.dev/podo/internal/view"
	"podo.dev/podo/internal/view/codec"
)

// ResourceQuota charges what objects use to the quotas of their namespace, in the object's own transaction:
//
//	read the quotas ─► does it fit? ─► object + usage, if every quota is still as it was read
//	      ▲                                              │ not so
//	      └──────────────────────────────────────────────┘
//
// So usage is exact however many create at once, and nothing is left charged when a creation fails. Creations under the same quotas
// would meet in that condition and all but one would have to try again: they take turns instead (type turns). Without a quota there are no
// turns and no condition.
//
// A quota bounds nothing until the quota controller has counted once. Creations that are on their way meanwhile are not missed: they
// require the quota as they saw it, and those that did not see it at all require their namespace, which a new quota writes anew.
type ResourceQuota struct {
	View *view.View
	// Limited are the resources that may only be used where a quota covers them, from the configuration.
	Limited []quota.Limited
	Now     func() time.Time // default time.Now

	turns turns
}

var (
	resourceQuotas = schema.GroupResource{Resource: "resourcequotas"}
	quotaKind      = registry.Lookup(resourceQuotas)
	namespaceKind  = registry.Lookup(schema.GroupResource{Resource: "namespaces"})
)

// Validate implements Validator; it is the last to judge.
func (r *ResourceQuota) Validate(ctx context.Context, a *Attributes) error {
	if a.Ref.Namespace == "" || a.Kind == namespaceKind || a.Op != Create && a.Op != Update {
		return nil
	}
	s := r.View.Snapshot()
	creates := a.Op == Create && !a.DryRun
	if creates {
		if err := r.announce(s, a); err != nil {
			return err
		}
	}
	quotas, bounding := quotasOf(s, a.Ref.Namespace, a.Ref.Resource)
	if len(quotas) == 0 && len(r.Limited) == 0 {
		return nil
	}
	now := time.Now
	if r.Now != nil {
		now = r.Now
	}
	w := quota.Write{Resource: a.Ref.Resource, Subresource: a.Ref.Subresource, Object: a.Object, Old: a.Old, Now: now()}
	if !w.Concerns() {
		return nil
	}
	changed, err := quota.Charge(objectsOf(quotas), w, r.Limited)
	switch {
	case err != nil:
		return refusal(a, err)
	case !bounding:
		return nil
	case creates:
		a.Through(func(ctx context.Context, txn Txn, conds []store.Cond, ops []store.Op) (store.TxnResult, error) {
			return r.turns.commit(ctx, r, &creation{a: a, write: w, txn: txn, conds: conds, ops: ops})
		})
		return nil
	}
	for _, x := range quotas {
		if quota.Bounds(x.quota, w.Resource) {
			a.Require(quotaKind.Key(x.quota.Namespace, x.quota.Name), x.rev)
		}
	}
	for _, q := range changed {
		op, err := put(quotaKind, q)
		if err != nil {
			return err
		}
		a.Write(op)
	}
	return nil
}

// seen is a quota at a revision.
type seen struct {
	quota *v1.ResourceQuota
	rev   int64
}

// quotasOf are the quotas of the namespace, and whether one of them bounds the resource.
func quotasOf(s view.Snapshot, namespace string, r schema.GroupResource) (quotas []seen, bounding bool) {
	for e := range s.All(resourceQuotas, namespace, view.Key{}) {
		q := e.Object.(*v1.ResourceQuota)
		quotas = append(quotas, seen{q, e.Rev})
		bounding = bounding || quota.Bounds(q, r)
	}
	return quotas, bounding
}

func objectsOf(quotas []seen) []*v1.ResourceQuota {
	out := make([]*v1.ResourceQuota, len(quotas))
	for i := range quotas {
		out[i] = quotas[i].quota
	}
	return out
}

// refusal is the client's error for a write that does not fit.
func refusal(a *Attributes, err error) error {
	var uncovered *quota.Uncovered
	if errors.As(err, &uncovered) {
		return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: 500, Message: err.Error()}}
	}
	return forbidden(a, err.Error())
}

// announce rewrites the namespace when a quota is created, so that creations which have not seen the quota look again.
func (r *ResourceQuota) announce(s view.Snapshot, a *Attributes) error {
	if a.Ref.Resource != resourceQuotas {
		return nil
	}
	e := s.Get(namespaceKind.GroupResource(), "", a.Ref.Namespace)
	if e == nil {
		return apierrors.NewNotFound(namespaceKind.GroupResource(), a.Ref.Namespace)
	}
	op, err := put(namespaceKind, e.Object)
	if err != nil {
		return err
	}
	a.Require(op.Key, e.Rev)
	a.Write(op)
	return nil
}

// put is the write of an object, which has its type, as objects of the view have.
func put(k *registry.Kind, obj runtime.Object) (store.Op, error) {
	value, err := codec.Encode(obj)
	if err != nil {
		return store.Op{}, apierrors.NewInternalError(err)
	}
	m, err := meta.Accessor(obj)
	if err != nil {
		return store.Op{}, apierrors.NewInternalError(err)
	}
	return store.Op{Key: k.Key(m.GetNamespace(), m.GetName()), Value: value}, nil
}
