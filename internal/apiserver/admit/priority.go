package admit

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/view"
)

// Priority turns a pod's priority class into its number and preemption policy, protects the system's classes, and allows only one
// default class.
type Priority struct{ View *view.View }

var priorityClasses = schema.GroupResource{Group: schedulingv1.GroupName, Resource: "priorityclasses"}

// Mutate implements Mutator.
func (p *Priority) Mutate(ctx context.Context, a *Attributes) error {
	if a.Ref.Subresource != "" {
		return nil
	}
	if a.Op == Delete && a.Ref.Resource == priorityClasses {
		for _, c := range registry.SystemPriorityClasses() {
			if c.Name == a.Ref.Name {
				return apierrors.NewForbidden(priorityClasses, c.Name, fmt.Errorf("this is a system priority class and cannot be deleted"))
			}
		}
	}
	pod, ok := a.Object.(*v1.Pod)
	switch {
	case !ok:
		return nil
	case a.Op == Create:
		return p.resolve(ctx, a, pod)
	case a.Op == Update:
		// A client that does not know the fields must not remove them.
		old := a.Old.(*v1.Pod)
		if pod.Spec.Priority == nil {
			pod.Spec.Priority = old.Spec.Priority
		}
		if pod.Spec.PreemptionPolicy == nil {
			pod.Spec.PreemptionPolicy = old.Spec.PreemptionPolicy
		}
	}
	return nil
}

func (p *Priority) resolve(ctx context.Context, a *Attributes, pod *v1.Pod) error {
	class, err := p.class(ctx, a, pod.Spec.PriorityClassName)
	if err != nil {
		return err
	}
	if is := pod.Spec.Priority; is != nil && *is != class.Value {
		return forbidden(a, fmt.Sprintf("the integer value of priority (%d) must not be provided in pod spec; priority admission controller computed %d from the given PriorityClass name", *is, class.Value))
	}
	priority := class.Value
	pod.Spec.PriorityClassName, pod.Spec.Priority = class.Name, &priority
	if class.PreemptionPolicy == nil {
		return nil
	}
	policy := *class.PreemptionPolicy
	if is := pod.Spec.PreemptionPolicy; is != nil && *is != policy {
		return forbidden(a, fmt.Sprintf("the string value of PreemptionPolicy (%s) must not be provided in pod spec; priority admission controller computed %s from the given PriorityClass name", *is, policy))
	}
	pod.Spec.PreemptionPolicy = &policy
	return nil
}

// class finds the class of that name or, without a name, the default; if there is none, a class without a name and of priority 0.
func (p *Priority) class(ctx context.Context, a *Attributes, name string) (*schedulingv1.PriorityClass, error) {
	s := p.View.Snapshot()
	if name == "" {
		if c := defaultClass(s); c != nil {
			return c, nil
		}
		policy := v1.PreemptLowerPriority
		return &schedulingv1.PriorityClass{PreemptionPolicy: &policy}, nil
	}
	e := s.Get(priorityClasses, "", name)
	if e == nil { // the view may be behind
		s, err := p.View.Fresh(ctx)
		if err != nil {
			return nil, apierrors.NewInternalError(fmt.Errorf("failed to resolve PriorityClass with name %s: %w", name, err))
		}
		if e = s.Get(priorityClasses, "", name); e == nil {
			return nil, forbidden(a, fmt.Sprintf("no PriorityClass with name %v was found", name))
		}
	}
	return e.Object.(*schedulingv1.PriorityClass), nil
}

// defaultClass is the lowest of the default classes: two may have been made at the same time.
func defaultClass(s view.Snapshot) (lowest *schedulingv1.PriorityClass) {
	for e := range s.All(priorityClasses, "", view.Key{}) {
		if c := e.Object.(*schedulingv1.PriorityClass); c.GlobalDefault && (lowest == nil || c.Value < lowest.Value) {
			lowest = c
		}
	}
	return lowest
}

// Validate implements Validator.
func (p *Priority) Validate(ctx context.Context, a *Attributes) error {
	c, ok := a.Object.(*schedulingv1.PriorityClass)
	if !ok || !c.GlobalDefault || a.Ref.Subresource != "" {
		return nil
	}
	s, err := p.View.Fresh(ctx)
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("failed to get default priority class: %w", err))
	}
	if is := defaultClass(s); is != nil && (a.Op == Create || a.Op == Update && is.Name != c.Name) {
		return forbidden(a, fmt.Sprintf("PriorityClass %v is already marked as default. Only one default can exist", is.Name))
	}
	return nil
}
