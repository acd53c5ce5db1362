package policy

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-helpers/auth/rbac/validation"
)

// Complete adds to has what it lacks of want, which is of the same kind, and tells whether anything was added. other says that
// has is a binding to another role, which cannot be changed. Objects whose annotation AutoUpdate is "false" are left alone.
func Complete(has, want runtime.Object) (changed, other bool) {
	switch h := has.(type) {
	case *rbacv1.ClusterRole:
		w := want.(*rbacv1.ClusterRole)
		if h.Annotations[AutoUpdate] == "false" {
			return false, false
		}
		changed = metadata(&h.ObjectMeta, &w.ObjectMeta)
		changed = rules(&h.Rules, w.Rules) || changed
		return selectors(h, w) || changed, false
	case *rbacv1.Role:
		w := want.(*rbacv1.Role)
		if h.Annotations[AutoUpdate] == "false" {
			return false, false
		}
		changed = metadata(&h.ObjectMeta, &w.ObjectMeta)
		return rules(&h.Rules, w.Rules) || changed, false
	case *rbacv1.ClusterRoleBinding:
		w := want.(*rbacv1.ClusterRoleBinding)
		return binding(&h.ObjectMeta, &w.ObjectMeta, h.RoleRef != w.RoleRef, &h.Subjects, w.Subjects)
	case *rbacv1.RoleBinding:
		w := want.(*rbacv1.RoleBinding)
		return binding(&h.ObjectMeta, &w.ObjectMeta, h.RoleRef != w.RoleRef, &h.Subjects, w.Subjects)
	}
	return false, false
}

// metadata adds missing labels and annotations; existing ones stay.
func metadata(has, want *metav1.ObjectMeta) (changed bool) {
	add := func(into *map[string]string, from map[string]string) {
		for k, v := range from {
			if _, ok := (*into)[k]; ok {
				continue
			}
			if *into == nil {
				*into = map[string]string{}
			}
			(*into)[k] = v
			changed = true
		}
	}
	add(&has.Labels, want.Labels)
	add(&has.Annotations, want.Annotations)
	return changed
}

func rules(has *[]rbacv1.PolicyRule, want []rbacv1.PolicyRule) bool {
	covered, missing := validation.Covers(*has, want)
	if !covered {
		*has = append(*has, missing...)
	}
	return !covered
}

// selectors: a role that want does not aggregate stops aggregating.
func selectors(has, want *rbacv1.ClusterRole) (changed bool) {
	if want.AggregationRule == nil {
		changed = has.AggregationRule != nil
		has.AggregationRule = nil
		return changed
	}
	if has.AggregationRule == nil {
		has.AggregationRule = &rbacv1.AggregationRule{}
	}
	list := &has.AggregationRule.ClusterRoleSelectors
	for _, w := range want.AggregationRule.ClusterRoleSelectors {
		if !slices.ContainsFunc(*list, func(h metav1.LabelSelector) bool { return equality.Semantic.DeepEqual(h, w) }) {
			*list = append(*list, w)
			changed = true
		}
	}
	return changed
}

func binding(has, want *metav1.ObjectMeta, other bool, subjects *[]rbacv1.Subject, wanted []rbacv1.Subject) (bool, bool) {
	if has.Annotations[AutoUpdate] == "false" {
		return false, false
	}
	if other {
		return true, true
	}
	changed := metadata(has, want)
	for _, s := range wanted {
		if !slices.Contains(*subjects, s) {
			*subjects = append(*subjects, s)
			changed = true
		}
	}
	return changed, false
}
