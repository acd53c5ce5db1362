package admit

import (
	"context"
	"fmt"
	"maps"

	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"podo.dev/podo/internal/view"
)

// RuntimeClass gives pods what their runtime class says: the overhead of its sandboxes, and the nodes that support it.
type RuntimeClass struct{ View *view.View }

var runtimeClasses = schema.GroupResource{Group: nodev1.GroupName, Resource: "runtimeclasses"}

const wrongOverhead = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"

// class is the pod's class, nil when it has none. pod is nil when the write does not concern the rule.
func (r *RuntimeClass) class(ctx context.Context, a *Attributes) (pod *v1.Pod, class *nodev1.RuntimeClass, err error) {
	pod, ok := a.Object.(*v1.Pod)
	if !ok || a.Op != Create || a.Ref.Subresource != "" {
		return nil, nil, nil
	}
	if pod.Spec.RuntimeClassName == nil {
		return pod, nil, nil
	}
	name := *pod.Spec.RuntimeClassName
	e := r.View.Snapshot().Get(runtimeClasses, "", name)
	if e == nil { // the view may be behind
		s, err := r.View.Fresh(ctx)
		if err != nil {
			return nil, nil, apierrors.NewInternalError(err)
		}
		if e = s.Get(runtimeClasses, "", name); e == nil {
			return nil, nil, forbidden(a, fmt.Sprintf("pod rejected: RuntimeClass %q not found", name))
		}
	}
	return pod, e.Object.(*nodev1.RuntimeClass), nil
}

// Mutate implements Mutator.
func (r *RuntimeClass) Mutate(ctx context.Context, a *Attributes) error {
	pod, class, err := r.class(ctx, a)
	if class == nil || err != nil {
		return err
	}
	if o := class.Overhead; o != nil {
		if len(pod.Spec.Overhead) > 0 && !apiequality.Semantic.DeepEqual(o.PodFixed, pod.Spec.Overhead) {
			return forbidden(a, wrongOverhead)
		}
		pod.Spec.Overhead = o.PodFixed.DeepCopy()
	}
	if s := class.Scheduling; s != nil {
		for _, key := range sortedNames(s.NodeSelector) {
			if is, ok := pod.Spec.NodeSelector[key]; ok && is != s.NodeSelector[key] {
				return forbidden(a, fmt.Sprintf("conflict: runtimeClass.scheduling.nodeSelector[%s] = %s; pod.spec.nodeSelector[%s] = %s", key, s.NodeSelector[key], key, is))
			}
		}
		if pod.Spec.NodeSelector == nil {
			pod.Spec.NodeSelector = maps.Clone(s.NodeSelector)
		} else {
			maps.Copy(pod.Spec.NodeSelector, s.NodeSelector)
		}
		pod.Spec.Tolerations = mergeTolerations(pod.Spec.Tolerations, s.DeepCopy().Tolerations)
	}
	return nil
}

// Validate implements Validator: later rules may not change the overhead.
func (r *RuntimeClass) Validate(ctx context.Context, a *Attributes) error {
	pod, class, err := r.class(ctx, a)
	switch {
	case pod == nil || err != nil:
		return err
	case class != nil && class.Overhead != nil:
		if !apiequality.Semantic.DeepEqual(class.Overhead.PodFixed, pod.Spec.Overhead) {
			return forbidden(a, wrongOverhead)
		}
	case pod.Spec.Overhead != nil:
		return forbidden(a, "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead")
	}
	return nil
}

// mergeTolerations joins two lists without the tolerations that another one covers; of equal ones the first stays.
func mergeTolerations(first, second []v1.Toleration) (out []v1.Toleration) {
	all := append(first[:len(first):len(first)], second...)
next:
	for i := range all {
		for j := range out {
			if covers(&out[j], &all[i]) {
				continue next
			}
		}
		for j := i + 1; j < len(all); j++ {
			if !apiequality.Semantic.DeepEqual(&all[i], &all[j]) && covers(&all[j], &all[i]) {
				continue next
			}
		}
		out = append(out, all[i])
	}
	return out
}

// covers tells whether s tolerates everything that t tolerates.
func covers(s, t *v1.Toleration) bool {
	if apiequality.Semantic.DeepEqual(s, t) {
		return true
	}
	if t.Key != s.Key && (s.Key != "" || s.Operator != v1.TolerationOpExists) || t.Effect != s.Effect && s.Effect != "" {
		return false
	}
	if s.Effect == v1.TaintEffectNoExecute && s.TolerationSeconds != nil &&
		(t.TolerationSeconds == nil || *t.TolerationSeconds > *s.TolerationSeconds) {
		return false
	}
	switch s.Operator {
	case v1.TolerationOpEqual, "":
		return t.Operator == v1.TolerationOpEqual && t.Value == s.Value
	case v1.TolerationOpExists:
		return true
	}
	return false
}
