// Package policy compares the roles and bindings that a new cluster gets with upstream's, and writes them:
//
//	cd test/conformance && go test -mod=mod ./policy -write
package policy

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"

	"podo.dev/podo/internal/apiserver/authz/policy"
)

var write = flag.Bool("write", false, "write the table anew")

const file = "../../../internal/apiserver/authz/policy/upstream.txt"

// TestPolicy: the table holds what upstream's API server writes at its start, in its order.
func TestPolicy(t *testing.T) {
	want := upstream()
	if *write {
		if err := os.WriteFile(file, table(t, want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	got, err := policy.Parse(string(raw))
	if err != nil {
		t.Fatal(err)
	}
	same(t, "ClusterRole", got.ClusterRoles, want.ClusterRoles)
	same(t, "ClusterRoleBinding", got.ClusterRoleBindings, want.ClusterRoleBindings)
	same(t, "Role", got.Roles, want.Roles)
	same(t, "RoleBinding", got.RoleBindings, want.RoleBindings)
}

func same[T any](t *testing.T, what string, got, want []*T) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%d of %s, upstream has %d", len(got), what, len(want))
		return
	}
	for i := range got {
		if !equality.Semantic.DeepEqual(got[i], want[i]) {
			t.Errorf("%s %d:\n%+v\nupstream:\n%+v", what, i, got[i], want[i])
		}
	}
}

func upstream() *policy.Policy {
	p := &policy.Policy{}
	for _, r := range append(bootstrappolicy.ClusterRoles(), bootstrappolicy.ControllerRoles()...) {
		p.ClusterRoles = append(p.ClusterRoles, &r)
	}
	for _, b := range append(bootstrappolicy.ClusterRoleBindings(), bootstrappolicy.ControllerRoleBindings()...) {
		p.ClusterRoleBindings = append(p.ClusterRoleBindings, &b)
	}
	roles, bindings := bootstrappolicy.NamespaceRoles(), bootstrappolicy.NamespaceRoleBindings()
	for _, ns := range slices.Sorted(maps.Keys(roles)) {
		for _, r := range roles[ns] {
			p.Roles = append(p.Roles, &r)
		}
	}
	for _, ns := range slices.Sorted(maps.Keys(bindings)) {
		for _, b := range bindings[ns] {
			p.RoleBindings = append(p.RoleBindings, &b)
		}
	}
	return p
}

// writer writes the form that policy.Parse reads.
type writer struct {
	bytes.Buffer
	t *testing.T
}

func table(t *testing.T, p *policy.Policy) []byte {
	w := &writer{t: t}
	w.WriteString("# Upstream's roles and bindings of a new cluster. Written by test/conformance/policy; its form is told at policy.Parse.\n")
	for _, r := range p.ClusterRoles {
		w.head("ClusterRole", &r.ObjectMeta)
		if r.AggregationRule != nil {
			for _, s := range r.AggregationRule.ClusterRoleSelectors {
				if len(s.MatchExpressions) > 0 || len(s.MatchLabels) != 1 {
					t.Fatalf("%s: no form for %v", r.Name, s)
				}
				for k, v := range s.MatchLabels {
					fmt.Fprintf(w, "\taggregates %s=%s\n", k, v)
				}
			}
		}
		w.rules(r.Rules)
	}
	for _, b := range p.ClusterRoleBindings {
		w.head("ClusterRoleBinding", &b.ObjectMeta)
		w.binding(b.RoleRef, b.Subjects)
	}
	for _, r := range p.Roles {
		w.head("Role", &r.ObjectMeta)
		w.rules(r.Rules)
	}
	for _, b := range p.RoleBindings {
		w.head("RoleBinding", &b.ObjectMeta)
		w.binding(b.RoleRef, b.Subjects)
	}
	return w.Bytes()
}

func (w *writer) head(kind string, m *metav1.ObjectMeta) {
	name := m.Name
	if m.Namespace != "" {
		name = m.Namespace + "/" + name
	}
	fmt.Fprintf(w, "\n%s %s\n", kind, name)
	if !maps.Equal(m.Annotations, map[string]string{policy.AutoUpdate: "true"}) || m.Labels["kubernetes.io/bootstrapping"] != "rbac-defaults" {
		w.t.Fatalf("%s: no form for the metadata %v, %v", name, m.Annotations, m.Labels)
	}
	for _, k := range slices.Sorted(maps.Keys(m.Labels)) {
		if k != "kubernetes.io/bootstrapping" {
			fmt.Fprintf(w, "\tlabel %s=%s\n", k, m.Labels[k])
		}
	}
}

func (w *writer) rules(rules []rbacv1.PolicyRule) {
	for _, r := range rules {
		if len(r.NonResourceURLs) > 0 {
			fmt.Fprintf(w, "\tmay %s path %s\n", list(r.Verbs), list(r.NonResourceURLs))
			continue
		}
		fmt.Fprintf(w, "\tmay %s %s %s", list(r.Verbs), list(r.APIGroups), list(r.Resources))
		if len(r.ResourceNames) > 0 {
			fmt.Fprintf(w, " %s", list(r.ResourceNames))
		}
		w.WriteString("\n")
	}
}

func (w *writer) binding(ref rbacv1.RoleRef, subjects []rbacv1.Subject) {
	fmt.Fprintf(w, "\tof %s %s\n", ref.Kind, ref.Name)
	for _, s := range subjects {
		if s.Namespace != "" {
			s.Name = s.Namespace + "/" + s.Name
		}
		fmt.Fprintf(w, "\tto %s %s\n", s.Kind, s.Name)
	}
}

func list(words []string) string {
	out := slices.Clone(words)
	for i := range out {
		if out[i] == "" {
			out[i] = "core"
		}
	}
	return strings.Join(out, ",")
}
