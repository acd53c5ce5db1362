package clusterroles

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestGathered(t *testing.T) {
	rule := func(resource string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{resource}}
	}
	role := func(name string, labels map[string]string, rules ...rbacv1.PolicyRule) *rbacv1.ClusterRole {
		return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Rules: rules}
	}
	view := map[string]string{"to-view": "true"}
	gather := role("view", view, rule("mine"))
	gather.AggregationRule = &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: view}, {MatchLabels: map[string]string{"more": "x"}}}}
	all := []*rbacv1.ClusterRole{
		role("c", map[string]string{"more": "x"}, rule("more"), rule("pods")), gather,
		role("b", view, rule("pods"), rule("nodes")), role("a", view, rule("services")), role("other", nil, rule("secrets")),
	}
	rules, same, err := Gathered(gather, all)
	if err != nil || same {
		t.Fatal(same, err)
	}
	var got []string
	for _, r := range rules {
		got = append(got, r.Resources[0])
	}
	if want := []string{"services", "pods", "nodes", "more"}; len(got) != len(want) || got[0] != want[0] || got[1] != want[1] || got[2] != want[2] || got[3] != want[3] {
		t.Errorf("gathered %v, want %v", got, want)
	}
	gather.Rules = rules
	if _, same, _ = Gathered(gather, all); !same {
		t.Error("not the same once written")
	}
	gather.AggregationRule.ClusterRoleSelectors[0].MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "a", Operator: "odd"}}
	if _, _, err = Gathered(gather, all); err == nil {
		t.Error("a selector that cannot be read is read")
	}
}
