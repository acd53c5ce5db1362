package registry

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	unversioned "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"podo.dev/podo/internal/registry/check"
)

func validateRules(rules []rbacv1.PolicyRule, namespaced bool) field.ErrorList {
	var e check.Errors
	for i := range rules {
		validateRule(&e, field.NewPath("rules").Index(i), &rules[i], namespaced)
	}
	return e.List()
}

// requireVerbs comes last, as what upstream reads from marks at the types does.
func requireVerbs(rules []rbacv1.PolicyRule) field.ErrorList {
	var e check.Errors
	for i := range rules {
		if len(rules[i].Verbs) == 0 {
			e.Required(field.NewPath("rules").Index(i).Child("verbs"), "")
		}
	}
	return e.List()
}

func validateRule(e *check.Errors, p *field.Path, r *rbacv1.PolicyRule, namespaced bool) {
	if urls := p.Child("nonResourceURLs"); len(r.NonResourceURLs) > 0 {
		if namespaced {
			e.Invalid(urls, r.NonResourceURLs, "namespaced rules cannot apply to non-resource URLs")
		}
		if len(r.APIGroups) > 0 || len(r.Resources) > 0 || len(r.ResourceNames) > 0 {
			e.Invalid(urls, r.NonResourceURLs, "rules cannot apply to both regular resources and non-resource URLs")
		}
		return
	}
	if len(r.APIGroups) == 0 {
		e.Required(p.Child("apiGroups"), "resource rules must supply at least one api group")
	}
	if len(r.Resources) == 0 {
		e.Required(p.Child("resources"), "resource rules must supply at least one resource")
	}
}

// validateClusterRole: what an old role's selectors were allowed, the new one's are too.
func validateClusterRole(r, old *rbacv1.ClusterRole) field.ErrorList {
	var e check.Errors
	e.Add(validateRules(r.Rules, false))
	if r.AggregationRule != nil {
		aggregated(&e, r, old)
	}
	e.Add(requireVerbs(r.Rules))
	return e.List()
}

func aggregated(e *check.Errors, r, old *rbacv1.ClusterRole) {
	p := field.NewPath("aggregationRule", "clusterRoleSelectors")
	if len(r.AggregationRule.ClusterRoleSelectors) == 0 {
		e.Required(p, "at least one clusterRoleSelector required if aggregationRule is non-nil")
	}
	o := unversioned.LabelSelectorValidationOptions{AllowInvalidLabelValueInSelector: badSelectors(old)}
	for i := range r.AggregationRule.ClusterRoleSelectors {
		s := &r.AggregationRule.ClusterRoleSelectors[i]
		e.Add(unversioned.ValidateLabelSelector(s, o, p.Index(i)))
		if sel, err := metav1.LabelSelectorAsSelector(s); err != nil {
			e.Invalid(p.Index(i), sel, "invalid label selector.")
		}
	}
}

func badSelectors(r *rbacv1.ClusterRole) bool {
	return r != nil && r.AggregationRule != nil && slices.ContainsFunc(r.AggregationRule.ClusterRoleSelectors, func(s metav1.LabelSelector) bool {
		return len(unversioned.ValidateLabelSelector(&s, unversioned.LabelSelectorValidationOptions{}, nil)) > 0
	})
}

// validateBinding: kinds are the roles that it may bind, "Role" among them in a namespace.
func validateBinding(ref rbacv1.RoleRef, list []rbacv1.Subject, kinds ...string) field.ErrorList {
	return append(bindingRules(ref, list, false, kinds), requireNames(ref, list)...)
}

func bindingRules(ref rbacv1.RoleRef, list []rbacv1.Subject, changed bool, kinds []string) field.ErrorList {
	var e check.Errors
	p := field.NewPath("roleRef")
	check.OneOf(&e, p.Child("apiGroup"), ref.APIGroup, rbacv1.GroupName)
	check.OneOf(&e, p.Child("kind"), ref.Kind, kinds...)
	if ref.Name != "" {
		e.Each(p.Child("name"), ref.Name, validRBACName(ref.Name, false))
	} else if changed {
		e.Required(p.Child("name"), "")
	}
	for i := range list {
		validateSubject(&e, field.NewPath("subjects").Index(i), &list[i], slices.Contains(kinds, "Role"))
	}
	return e.List()
}

// requireNames comes last, as what upstream reads from marks at the types does.
func requireNames(ref rbacv1.RoleRef, list []rbacv1.Subject) field.ErrorList {
	var e check.Errors
	for i := range list {
		if list[i].Name == "" {
			e.Required(field.NewPath("subjects").Index(i).Child("name"), "")
		}
	}
	if ref.Name == "" {
		e.Required(field.NewPath("roleRef", "name"), "")
	}
	return e.List()
}

func validateSubject(e *check.Errors, p *field.Path, s *rbacv1.Subject, namespaced bool) {
	switch s.Kind {
	case rbacv1.ServiceAccountKind:
		if s.Name != "" {
			e.Each(p.Child("name"), s.Name, apivalidation.ValidateServiceAccountName(s.Name, false))
		}
		if s.APIGroup != "" {
			check.OneOf(e, p.Child("apiGroup"), s.APIGroup, "")
		}
		if !namespaced && s.Namespace == "" {
			e.Required(p.Child("namespace"), "")
		}
	case rbacv1.UserKind, rbacv1.GroupKind:
		check.OneOf(e, p.Child("apiGroup"), s.APIGroup, rbacv1.GroupName)
	default:
		check.OneOf(e, p.Child("kind"), s.Kind, rbacv1.ServiceAccountKind, rbacv1.UserKind, rbacv1.GroupKind)
	}
}

// validateBindingUpdate: what a binding binds to is fixed, since whoever trusts it has looked at that.
func validateBindingUpdate(ref, old rbacv1.RoleRef, list []rbacv1.Subject, kinds ...string) field.ErrorList {
	var e check.Errors
	e.Add(bindingRules(ref, list, ref != old, kinds))
	if ref != old {
		e.Invalid(field.NewPath("roleRef"), ref, apivalidation.FieldImmutableErrorMsg)
	}
	e.Add(requireNames(ref, list))
	return e.List()
}
