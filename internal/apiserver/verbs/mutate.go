package verbs

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/user"

	"podo.dev/podo/internal/apiserver/authz"
	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/registry"
)

// Mutate lets change edit a private copy of the object and writes the result, deciding again when someone else wrote in
// between. change returning false writes nothing. It counts as an update to authorization.
func (v *Verbs) Mutate(ctx context.Context, u user.Info, ref client.Ref, change func(runtime.Object) (bool, error), o Options) (runtime.Object, error) {
	k, err := v.kind(ref.Resource)
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
	ref := client.Pods.At(b.Namespace, b.Name)
	k, err := v.kind(ref.Resource)
	if err != nil {
		return err
	}
	if err := authz.Check(ctx, v.c.Authorizer, &authz.Attributes{
		User: u, Verb: "create", Resource: "pods", Subresource: "binding", Namespace: b.Namespace, Name: b.Name,
	}); err != nil {
		return err
	}
	if errs := validateBinding(b); len(errs) > 0 {
		return apierrors.NewInvalid(v1.SchemeGroupVersion.WithKind("Binding").GroupKind(), b.Name, errs)
	}
	ref.Subresource = "binding"
	_, err = v.guarded(ctx, u, k, ref, guard{rules: bindRules, owns: kept, Options: o}, func(cur runtime.Object) (runtime.Object, error) {
		pod := cur.(*v1.Pod)
		if err := bindable(pod, b); err != nil {
			return nil, apierrors.NewConflict(podsBinding, b.Name, err)
		}
		pod = pod.DeepCopy()
		pod.Spec.NodeName = b.Target.Name
		for key, value := range b.Annotations {
			metav1.SetMetaDataAnnotation(&pod.ObjectMeta, key, value)
		}
		for key, value := range b.Labels {
			metav1.SetMetaDataLabel(&pod.ObjectMeta, key, value)
		}
		setScheduled(pod, metav1.NewTime(v.c.Now()).Rfc3339Copy())
		return pod, nil
	})
	return err
}

var podsBinding = client.Resource{Resource: "pods/binding"}.At("", "").Resource

func validateBinding(b *v1.Binding) field.ErrorList {
	var errs field.ErrorList
	if kind := b.Target.Kind; kind != "" && kind != "Node" {
		errs = append(errs, field.NotSupported(field.NewPath("target", "kind"), kind, []string{"Node", "<empty>"}))
	}
	if b.Target.Name == "" {
		errs = append(errs, field.Required(field.NewPath("target", "name"), ""))
	}
	return errs
}

func bindable(pod *v1.Pod, b *v1.Binding) error {
	switch {
	case b.UID != "" && b.UID != pod.UID:
		return otherUID(b.UID, pod.UID)
	case b.ResourceVersion != "" && b.ResourceVersion != pod.ResourceVersion:
		//lint:ignore ST1005 upstream's text
		return fmt.Errorf("Precondition failed: ResourceVersion in precondition: %v, ResourceVersion in object meta: %v", b.ResourceVersion, pod.ResourceVersion)
	case pod.DeletionTimestamp != nil:
		return fmt.Errorf("pod %s is being deleted, cannot be assigned to a host", pod.Name)
	case pod.Spec.NodeName != "":
		return fmt.Errorf("pod %v is already assigned to node %q", pod.Name, pod.Spec.NodeName)
	case len(pod.Spec.SchedulingGates) != 0:
		return fmt.Errorf("pod %v has non-empty .spec.schedulingGates", pod.Name)
	}
	return nil
}

func setScheduled(pod *v1.Pod, now metav1.Time) {
	c := v1.PodCondition{Type: v1.PodScheduled, Status: v1.ConditionTrue, LastTransitionTime: now, ObservedGeneration: pod.Generation}
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == v1.PodScheduled {
			if pod.Status.Conditions[i].Status == v1.ConditionTrue {
				c.LastTransitionTime = pod.Status.Conditions[i].LastTransitionTime
			}
			pod.Status.Conditions[i] = c
			return
		}
	}
	pod.Status.Conditions = append(pod.Status.Conditions, c)
}
