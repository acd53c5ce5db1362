package policy

import (
	"reflect"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"podo.dev/podo/internal/registry"
)

// The tables parse, and everything in them is valid, bound to roles that there are, and complete as it is.
func TestDefault(t *testing.T) {
	p := Default()
	roles := map[string]bool{}
	var all []runtime.Object
	for _, r := range p.ClusterRoles {
		roles["ClusterRole "+r.Name] = true
		all = append(all, r)
	}
	for _, r := range p.Roles {
		roles["Role "+r.Namespace+"/"+r.Name] = true
		all = append(all, r)
	}
	bound := func(ref rbacv1.RoleRef, namespace string) {
		name := ref.Kind + " " + ref.Name
		if ref.Kind == "Role" {
			name = ref.Kind + " " + namespace + "/" + ref.Name
		}
		if !roles[name] {
			t.Errorf("%s is bound and does not exist", name)
		}
	}
	for _, b := range p.ClusterRoleBindings {
		bound(b.RoleRef, "")
		all = append(all, b)
	}
	for _, b := range p.RoleBindings {
		bound(b.RoleRef, b.Namespace)
		all = append(all, b)
	}
	seen := map[string]bool{}
	for _, obj := range all {
		kind := reflect.TypeOf(obj).Elem().Name()
		k := registry.ByGVK(rbacv1.SchemeGroupVersion.WithKind(kind))
		again := obj.DeepCopyObject()
		k.Default(again)
		if !reflect.DeepEqual(again, obj) {
			t.Errorf("%s is filled in further", nameOf(obj))
		}
		if errs := k.Validate(obj); len(errs) > 0 {
			t.Errorf("%s: %v", nameOf(obj), errs)
		}
		if changed, other := Complete(again, obj); changed || other {
			t.Errorf("%s is not complete", nameOf(obj))
		}
		if seen[nameOf(obj)] {
			t.Errorf("%s is there twice", nameOf(obj))
		}
		seen[nameOf(obj)] = true
	}
}

const story = `
ClusterRole a
	label x=y
	may get,list core pods,services
	aggregates z=true
ClusterRoleBinding b
	of ClusterRole a
	to Group g
	to ServiceAccount ns/sa
`

func TestComplete(t *testing.T) {
	parse := func() (*rbacv1.ClusterRole, *rbacv1.ClusterRoleBinding) {
		p, err := Parse(story)
		if err != nil {
			t.Fatal(err)
		}
		return p.ClusterRoles[0], p.ClusterRoleBindings[0]
	}
	role, binding := parse()

	has, _ := parse()
	has.Labels = map[string]string{"x": "mine"}
	has.Rules = []rbacv1.PolicyRule{{Verbs: []string{"*"}, APIGroups: []string{""}, Resources: []string{"pods"}}}
	has.AggregationRule.ClusterRoleSelectors[0].MatchLabels = map[string]string{"more": "true"}
	if changed, _ := Complete(has, role); !changed {
		t.Error("a role that lacks rules is complete")
	}
	if has.Labels["x"] != "mine" || has.Labels["kubernetes.io/bootstrapping"] == "" {
		t.Errorf("labels %v", has.Labels)
	}
	if len(has.Rules) != 3 || has.Rules[1].Resources[0] != "services" || len(has.AggregationRule.ClusterRoleSelectors) != 2 {
		t.Errorf("completed to %+v", has)
	}
	if changed, _ := Complete(has, role); changed {
		t.Error("completed twice")
	}
	mine, _ := parse()
	mine.Annotations[AutoUpdate], mine.Rules = "false", nil
	if changed, _ := Complete(mine, role); changed {
		t.Error("a protected role was changed")
	}

	_, b := parse()
	b.Subjects = []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: "jane"}, b.Subjects[0]}
	if changed, other := Complete(b, binding); !changed || other || len(b.Subjects) != 3 {
		t.Errorf("subjects %v", b.Subjects)
	}
	b.RoleRef.Name = "c"
	if _, other := Complete(b, binding); !other {
		t.Error("a binding to another role can be completed")
	}
}

func TestParseRefuses(t *testing.T) {
	for _, text := range []string{"Thing a", "ClusterRole", "\tmay get core pods", "ClusterRole a\n\tto User x", "ClusterRole a\n\tmay get", "RoleBinding a/b\n\tlabel x=y z"} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), "line") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
