package verbs

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"

	"podo.dev/podo/internal/apiserver/authz"
	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/registry/podobject"
	"podo.dev/podo/internal/store"
)

// bindRules let a binding change what an update of a pod may not.
var bindRules = registry.Update{AllowUnconditional: true}

// Bind assigns a pod to a node: spec.nodeName and the condition PodScheduled. It refuses a pod that is bound, gated or on its
// way out.
func (v *Verbs) Bind(ctx context.Context, u user.Info, b *v1.Binding, o Options) error {
	if err := v.mayBind(ctx, u, b); err != nil {
		return err
	}
	return v.bind(ctx, u, bindingOf(b), b, o)
}

// BindByCollection is Bind by the collection "bindings", which needs a right of its own.
func (v *Verbs) BindByCollection(ctx context.Context, u user.Info, b *v1.Binding, o Options) error {
	ref := client.Resource{Resource: "bindings"}.At(b.Namespace, "")
	if err := v.authorize(ctx, u, "create", ref, nil); err != nil {
		return err
	}
	ref.Name = b.Name
	return v.bind(ctx, u, ref, b, o)
}

// Asked is one of several bindings, with the context of its own request.
type Asked struct {
	Context context.Context
	Binding *v1.Binding
}

// BindAll is Bind for several bindings. Each is authorized, admitted and guarded by itself, and has a transaction of its own;
// those that are ready are written together. told is called with each answer as it comes, on any goroutine; BindAll returns after
// the last.
func (v *Verbs) BindAll(ctx context.Context, u user.Info, asked []Asked, o Options, told func(i int, err error)) {
	var ready []int
	var writes []*write
	var txns []store.Request
	for i, a := range asked {
		w, txn, err := v.readyToBind(a, u, o)
		if txn == nil {
			told(i, err)
			continue
		}
		ready, writes, txns = append(ready, i), append(writes, w), append(txns, *txn)
	}
	store.Together(ctx, v.store, txns, func(n int, res store.TxnResult, err error) {
		i := ready[n]
		done, err := v.settle(asked[i].Context, writes[n], res, err)
		if !done { // it goes on alone
			err = v.carryOut(asked[i].Context, writes[n])
		}
		told(i, err)
	})
}

// readyToBind is the write of a binding and its transaction; nil when nothing has to be written.
func (v *Verbs) readyToBind(a Asked, u user.Info, o Options) (*write, *store.Request, error) {
	if err := v.mayBind(a.Context, u, a.Binding); err != nil {
		return nil, nil, err
	}
	w, err := v.binding(a.Context, u, bindingOf(a.Binding), a.Binding, o)
	if err != nil {
		return nil, nil, err
	}
	txn, err := v.next(a.Context, w)
	return w, txn, err
}

func (v *Verbs) mayBind(ctx context.Context, u user.Info, b *v1.Binding) error {
	return authz.Check(ctx, v.c.Authorizer, &authz.Attributes{
		User: u, Verb: "create", Resource: "pods", Subresource: "binding", Namespace: b.Namespace, Name: b.Name,
	})
}

// bindingOf is the reference of a pod's binding.
func bindingOf(b *v1.Binding) client.Ref { return client.Pods.At(b.Namespace, b.Name).Sub("binding") }

func (v *Verbs) bind(ctx context.Context, u user.Info, at client.Ref, b *v1.Binding, o Options) error {
	w, err := v.binding(ctx, u, at, b, o)
	if err != nil {
		return err
	}
	return v.carryOut(ctx, w)
}

// binding is the write of a binding, after the rules have admitted its creation at at.
func (v *Verbs) binding(ctx context.Context, u user.Info, at client.Ref, b *v1.Binding, o Options) (*write, error) {
	ref := client.Pods.At(b.Namespace, b.Name)
	k, err := v.kind(ref)
	if err != nil {
		return nil, err
	}
	asked := request{u, k, at, o, at.Name}
	conds, err := v.admitNew(ctx, asked, b)
	if err != nil {
		return nil, err
	}
	admitted := true
	again := func(ctx context.Context, _ runtime.Object) ([]store.Cond, []store.Op, error) {
		if !admitted { // what the rules have read may have changed
			conds, err = v.admitNew(ctx, asked, b)
		}
		admitted = false
		return conds, nil, err
	}
	if errs := podobject.ValidateBinding(b); len(errs) > 0 {
		return nil, errs.ToAggregate() // as upstream, no Invalid
	}
	ref.Subresource = "binding"
	return &write{request: request{u, k, ref, o, ref.Name}, guard: guard{rules: bindRules, owns: kept, beside: again}, change: func(cur runtime.Object) (runtime.Object, error) {
		pod := cur.(*v1.Pod)
		if err := sameObject(pod, b); err != nil {
			return nil, unmet(k, ref, err)
		}
		pod = pod.DeepCopy()
		if err := podobject.Bind(pod, b, metav1.NewTime(v.c.Now()).Rfc3339Copy()); err != nil {
			return nil, apierrors.NewConflict(podsBinding, b.Name, err)
		}
		return pod, nil
	}}, nil
}

var podsBinding = client.Resource{Resource: "pods/binding"}.At("", "").Resource

// sameObject tells whether the binding is meant for this pod as it is.
func sameObject(pod *v1.Pod, b *v1.Binding) error {
	switch {
	case b.UID != "" && b.UID != pod.UID:
		return otherUID(b.UID, pod.UID)
	case b.ResourceVersion != "" && b.ResourceVersion != pod.ResourceVersion:
		//lint:ignore ST1005 upstream's text
		return fmt.Errorf(otherVersionText, b.ResourceVersion, pod.ResourceVersion)
	}
	return nil
}
