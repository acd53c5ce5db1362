package registry

import (
	"slices"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"podo.dev/podo/internal/registry/check"
)

func podDisruptionBudgetKind() *Kind {
	of := func(obj runtime.Object) *policyv1.PodDisruptionBudget { return obj.(*policyv1.PodDisruptionBudget) }
	return &Kind{
		GVK:        policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"),
		Resource:   "poddisruptionbudgets",
		Singular:   "poddisruptionbudget",
		ShortNames: []string{"pdb"},
		Namespaced: true,
		Dir:        "poddisruptionbudgets",
		Verbs:      allVerbs,
		New:        func() runtime.Object { return &policyv1.PodDisruptionBudget{} },
		NewList:    func() runtime.Object { return &policyv1.PodDisruptionBudgetList{} },
		// Of the metadata upstream asks no more than of any object's.
		Default: func(runtime.Object) {},
		PrepareForCreate: func(obj runtime.Object) {
			of(obj).Status = policyv1.PodDisruptionBudgetStatus{}
			of(obj).Generation = 1
			dropOlderMeaning(of(obj).Spec.Selector)
		},
		Validate: func(obj runtime.Object) field.ErrorList { return validateBudget(&of(obj).Spec, false) },
		Updates: map[string]Update{
			"": {
				Prepare: func(obj, old runtime.Object) {
					b, was := of(obj), of(old)
					b.Status = *was.Status.DeepCopy()
					if !equality.Semantic.DeepEqual(b.Spec, was.Spec) {
						b.Generation = was.Generation + 1
					}
					if !equality.Semantic.DeepEqual(b.Spec.Selector, was.Spec.Selector) {
						dropOlderMeaning(b.Spec.Selector)
					}
				},
				Validate: func(obj, old runtime.Object) field.ErrorList {
					return validateBudget(&of(obj).Spec, !validSelector(of(old).Spec.Selector))
				},
				Resets: []string{"status"},
			},
			"status": {
				Prepare:  func(obj, old runtime.Object) { of(obj).Spec = *of(old).Spec.DeepCopy() },
				Validate: func(obj, _ runtime.Object) field.ErrorList { return validateBudgetStatus(&of(obj).Status) },
				Resets:   []string{"spec"},
			},
		},
		Selectable: metaFields,
		Columns: []metav1.TableColumnDefinition{
			nameColumn,
			{Name: "Min Available", Type: "string", Description: "The minimum number of pods that must be available."},
			{Name: "Max Unavailable", Type: "string", Description: "The maximum number of pods that may be unavailable."},
			{Name: "Allowed Disruptions", Type: "integer", Description: "Calculated number of pods that may be disrupted at this time."},
			ageColumn,
		},
		Row: func(obj runtime.Object, now time.Time) []any {
			b := of(obj)
			return []any{
				b.Name, shownBound(b.Spec.MinAvailable), shownBound(b.Spec.MaxUnavailable), int64(b.Status.DisruptionsAllowed), age(b.CreationTimestamp, now),
			}
		},
	}
}

func shownBound(n *intstr.IntOrString) string {
	if n == nil {
		return "N/A"
	}
	return n.String()
}

// olderMeaning is a label that no pod has. In v1beta1 a selector that asked for it, or for its absence, stood for what an empty selector,
// or none, means in v1.
const olderMeaning = "pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match"

// dropOlderMeaning drops what a selector says of that label, unless it says nothing else.
func dropOlderMeaning(s *metav1.LabelSelector) {
	none := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: olderMeaning, Operator: metav1.LabelSelectorOpExists}}}
	if s != nil && !equality.Semantic.DeepEqual(s, none) {
		s.MatchExpressions = slices.DeleteFunc(s.MatchExpressions, func(r metav1.LabelSelectorRequirement) bool { return r.Key == olderMeaning })
	}
}

// validSelector says whether a selector keeps today's rules for values.
func validSelector(s *metav1.LabelSelector) bool {
	return len(metav1validation.ValidateLabelSelector(s, metav1validation.LabelSelectorValidationOptions{}, nil)) == 0
}

// validateBudget judges a budget whole. A selector whose values broke today's rules before may go on doing so.
func validateBudget(spec *policyv1.PodDisruptionBudgetSpec, anyValue bool) field.ErrorList {
	var e check.Errors
	if spec.MinAvailable != nil && spec.MaxUnavailable != nil {
		e.Invalid(specPath, *spec, "minAvailable and maxUnavailable cannot be both set")
	}
	bound := func(name string, n *intstr.IntOrString) {
		if n != nil {
			e.IntOrPercent(specPath.Child(name), *n)
			e.AtMostAll(specPath.Child(name), *n)
		}
	}
	bound("minAvailable", spec.MinAvailable)
	bound("maxUnavailable", spec.MaxUnavailable)
	options := metav1validation.LabelSelectorValidationOptions{AllowInvalidLabelValueInSelector: anyValue}
	e.Add(metav1validation.ValidateLabelSelector(spec.Selector, options, specPath.Child("selector")))
	if policy := spec.UnhealthyPodEvictionPolicy; policy != nil {
		check.OneOf(&e, specPath.Child("unhealthyPodEvictionPolicy"), *policy, policyv1.AlwaysAllow, policyv1.IfHealthyBudget)
	}
	return e.List()
}

func validateBudgetStatus(s *policyv1.PodDisruptionBudgetStatus) field.ErrorList {
	var e check.Errors
	e.Add(metav1validation.ValidateConditions(s.Conditions, statusPath.Child("conditions")))
	e.NonNegative(statusPath.Child("disruptionsAllowed"), int64(s.DisruptionsAllowed))
	e.NonNegative(statusPath.Child("currentHealthy"), int64(s.CurrentHealthy))
	e.NonNegative(statusPath.Child("desiredHealthy"), int64(s.DesiredHealthy))
	e.NonNegative(statusPath.Child("expectedPods"), int64(s.ExpectedPods))
	return e.List()
}
