// Package clusterroles gives each cluster role with an aggregation rule the rules of the roles that it selects.
package clusterroles

import (
	"cmp"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Gathered are the rules that role gathers from all roles: in the order of its selectors, for each in the order of the roles' names, each
// rule once. same says that it has just these. A selector that cannot be read is an error.
func Gathered(role *rbacv1.ClusterRole, all []*rbacv1.ClusterRole) (rules []rbacv1.PolicyRule, same bool, err error) {
	all = slices.SortedFunc(slices.Values(all), func(a, b *rbacv1.ClusterRole) int { return cmp.Compare(a.Name, b.Name) })
	rules = []rbacv1.PolicyRule{}
	for i := range role.AggregationRule.ClusterRoleSelectors {
		selector, err := metav1.LabelSelectorAsSelector(&role.AggregationRule.ClusterRoleSelectors[i])
		if err != nil {
			return nil, false, err
		}
		for _, from := range all {
			if from.Name == role.Name || !selector.Matches(labels.Set(from.Labels)) {
				continue
			}
			for _, r := range from.Rules {
				if !slices.ContainsFunc(rules, func(x rbacv1.PolicyRule) bool { return equality.Semantic.DeepEqual(x, r) }) {
					rules = append(rules, r)
				}
			}
		}
	}
	return rules, equality.Semantic.DeepEqual(rules, role.Rules), nil
}
