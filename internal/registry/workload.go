package registry

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"podo.dev/podo/internal/registry/check"
	"podo.dev/podo/internal/registry/podobject"
)

// What kinds that keep pods have in common.

// warnPodNames warns of a name that pods are named after and that is no label of DNS.
func warnPodNames(name string) []string {
	if msgs := validation.IsDNS1123Label(name); len(msgs) > 0 {
		return []string{fmt.Sprintf("metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended: %v", msgs)}
	}
	return nil
}

// valueOr is what the pointer points to, or the other where there is none.
func valueOr[T any](p *T, other T) T {
	if p == nil {
		return other
	}
	return *p
}

// selectorText is a selector as the part "scale" shows it; none for one that cannot be read.
func selectorText(s *metav1.LabelSelector) string {
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return ""
	}
	return selector.String()
}

// wideColumns are the columns that `kubectl get -o wide` adds for a kind whose objects have a template; selector describes its last.
func wideColumns(selector string) []metav1.TableColumnDefinition {
	return []metav1.TableColumnDefinition{
		{Name: "Containers", Type: "string", Priority: 1, Description: "Names of each container in the template."},
		{Name: "Images", Type: "string", Priority: 1, Description: "Images referenced by each container in the template."},
		{Name: "Selector", Type: "string", Priority: 1, Description: selector},
	}
}

// validateReplicated judges a selector and the template of interchangeable pods that must match it; was is nil on create.
func validateReplicated(e *check.Errors, s *metav1.LabelSelector, t, was *v1.PodTemplateSpec) {
	p := specPath.Child("selector")
	if s == nil {
		e.Required(p, "")
	} else {
		e.Add(metav1validation.ValidateLabelSelector(s, metav1validation.LabelSelectorValidationOptions{}, p))
		if len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
			e.Invalid(p, s, "empty selector is invalid for deployment")
		}
	}
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		e.Invalid(p, s, "invalid label selector")
		return
	}
	p = specPath.Child("template")
	if !selector.Empty() && !selector.Matches(labels.Set(t.Labels)) {
		e.Invalid(p.Child("metadata", "labels"), t.Labels, "`selector` does not match template `labels`")
	}
	e.Add(podobject.ValidateTemplate(t, was, p))
	validateRunsOn(e, t, p, "ReplicaSet")
}

// validateRunsOn judges what a template of pods that are to run for ever may not say; kind is whose template it is.
func validateRunsOn(e *check.Errors, t *v1.PodTemplateSpec, p *field.Path, kind string) {
	if t.Spec.RestartPolicy != v1.RestartPolicyAlways {
		e.Put(field.NotSupported(p.Child("spec", "restartPolicy"), t.Spec.RestartPolicy, []v1.RestartPolicy{v1.RestartPolicyAlways}))
	}
	if t.Spec.ActiveDeadlineSeconds != nil {
		e.Forbidden(p.Child("spec", "activeDeadlineSeconds"), fmt.Sprintf("activeDeadlineSeconds in %s is not Supported", kind))
	}
}

// Texts of atMost.
const (
	noMoreThanAll   = "cannot be greater than status.replicas"
	noMoreThanReady = "cannot be greater than readyReplicas"
)

// atMost judges a number of a status that cannot be more than another one.
func atMost(e *check.Errors, name string, n, limit int32, detail string) {
	if n > limit {
		e.Invalid(statusPath.Child(name), n, detail)
	}
}

// notLess judges a number of a status that only grows.
func notLess(e *check.Errors, name string, n, old *int32) {
	if old != nil && (n == nil || *n < *old) {
		e.Invalid(statusPath.Child(name), valueOr(n, 0), "cannot be decremented")
	}
}
