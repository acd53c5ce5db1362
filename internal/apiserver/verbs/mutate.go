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
)

// Mutate lets change edit a private copy of the object and writes the result, deciding again when someone else wrote in
// between. change returning false writes nothing. It counts as an update to authorization.
func (v *Verbs) Mutate(ctx context.Context, u user.Info, ref client.Ref, change func(runtime.Object) (bool, error), o Options) (runtime.Object, error) {
	k, err := v.kind(ref)
	if err != nil {
		return nil, err
	}
	if err := v.authorize(ctx, u, "update", ref, nil); err != nil {
		return nil, err
	}
	rules, err := endpoint(k, ref)
	if err != nil {
		return nil, err
	}
	return v.guarded(ctx, u, k, ref, guard{rules: rules, Options: o}, func(cur runtime.Object) (runtime.Object, error) {
		obj := cur.DeepCopyObject()
		changed, err := change(obj)
		if err != nil || !changed {
			return nil, err
		}
		return obj, nil
	})
}

// bindRules let a binding change what an update of a pod may not.
var bindRules = registry.Update{AllowUnconditional: true}

// Bind assigns a pod to a node: spec.nodeName and the condition PodScheduled. It refuses a pod that is bound, gated or on its
// way out.
func (v *Verbs) Bind(ctx context.Context, u user.Info, b *v1.Binding, o Options) error {
	if err := authz.Check(ctx, v.c.Authorizer, &authz.Attributes{
		User: u, Verb: "create", Resource: "pods", Subresource: "binding", Namespace: b.Namespace, Name: b.Name,
	}); err != nil {
		return err
	}
	return v.bind(ctx, u, b, o)
}

// BindByCollection is the same through the collection "bindings", with a right of its own.
func (v *Verbs) BindByCollection(ctx context.Context, u user.Info, b *v1.Binding, o Options) error {
	if err := v.authorize(ctx, u, "create", client.Resource{Resource: "bindings"}.At(b.Namespace, ""), nil); err != nil {
		return err
	}
	return v.bind(ctx, u, b, o)
}

func (v *Verbs) bind(ctx context.Context, u user.Info, b *v1.Binding, o Options) error {
	ref := client.Pods.At(b.Namespace, b.Name)
	k, err := v.kind(ref)
	if err != nil {
		return err
	}
	if errs := podobject.ValidateBinding(b); len(errs) > 0 {
		return errs.ToAggregate() // as upstream, no Invalid
	}
	ref.Subresource = "binding"
	_, err = v.guarded(ctx, u, k, ref, guard{rules: bindRules, owns: kept, Options: o}, func(cur runtime.Object) (runtime.Object, error) {
		pod := cur.(*v1.Pod)
		err := sameObject(pod, b)
		if err == nil {
			pod = pod.DeepCopy()
			err = podobject.Bind(pod, b, metav1.NewTime(v.c.Now()).Rfc3339Copy())
		}
		if err != nil {
			return nil, apierrors.NewConflict(podsBinding, b.Name, err)
		}
		return pod, nil
	})
	return err
}

var podsBinding = client.Resource{Resource: "pods/binding"}.At("", "").Resource

// sameObject tells whether the binding is meant for this pod as it is.
func sameObject(pod *v1.Pod, b *v1.Binding) error {
	switch {
	case b.UID != "" && b.UID != pod.UID:
		return otherUID(b.UID, pod.UID)
	case b.ResourceVersion != "" && b.ResourceVersion != pod.ResourceVersion:
		//lint:ignore ST1005 upstream's text
		return fmt.Errorf("Precondition failed: ResourceVersion in precondition: %v, ResourceVersion in object meta: %v", b.ResourceVersion, pod.ResourceVersion)
	}
	return nil
}
