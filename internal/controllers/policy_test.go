package controllers_test

import (
	"log/slog"
	"testing"
	"testing/synctest"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"podo.dev/podo/internal/apiserver/authz/modes"
	"podo.dev/podo/internal/apiserver/authz/policy"
	"podo.dev/podo/internal/apiserver/verbs"
	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/client/local"
	"podo.dev/podo/internal/controllers/clusterroles"
	"podo.dev/podo/internal/controllers/namespaces"
	"podo.dev/podo/internal/controllers/rootca"
	"podo.dev/podo/internal/controllers/serviceaccounts"
	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/view/viewtest"
)

// mend damages the policy and looks at what ensure makes of it.
func mend(t *testing.T, w *world, ensure func()) {
	t.Helper()
	var (
		roles    = client.Resource{Group: rbacv1.GroupName, Resource: "clusterroles"}
		bindings = client.Resource{Group: rbacv1.GroupName, Resource: "clusterrolebindings"}
	)
	role := func(name string) *rbacv1.ClusterRole {
		obj, err := w.admin.Get(t.Context(), roles.At("", name))
		if err != nil {
			t.Fatal(err)
		}
		return obj.(*rbacv1.ClusterRole)
	}
	damage := func(name string, protect bool) {
		_, err := w.admin.Mutate(t.Context(), roles.At("", name), func(o runtime.Object) (bool, error) {
			r := o.(*rbacv1.ClusterRole)
			r.Rules = r.Rules[:1]
			if protect {
				r.Annotations[policy.AutoUpdate] = "false"
			}
			return true, nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	whole := len(role("system:node").Rules)
	damage("system:node", false)
	damage("system:kube-scheduler", true)
	discovery := bindings.At("", "system:discovery")
	if err := w.admin.Delete(t.Context(), discovery, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	other := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "system:discovery"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"}}
	if _, err := w.admin.Create(t.Context(), bindings.At("", ""), other); err != nil {
		t.Fatal(err)
	}
	if _, err := w.view.Fresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	ensure()
	if got := len(role("system:node").Rules); got <= whole/2 {
		t.Errorf("a damaged role has %d rules of %d", got, whole)
	}
	if got := len(role("system:kube-scheduler").Rules); got != 1 {
		t.Errorf("a protected role has %d rules", got)
	}
	obj, err := w.admin.Get(t.Context(), discovery)
	if err != nil {
		t.Fatal(err)
	}
	if b := obj.(*rbacv1.ClusterRoleBinding); b.RoleRef.Name != "system:discovery" || len(b.Subjects) != 1 {
		t.Errorf("a binding to another role became %+v", b)
	}
}

// TestDefaultPolicy: once the default policy is written, the controllers work by it alone, and a user of the role view, which is gathered,
// may read what that role says.
func TestDefaultPolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, s := viewtest.New(t)
		z := modes.New(v)
		vs, err := verbs.New(verbs.Config{Store: s, View: v, Kinds: registry.All(), Authorizer: z})
		if err != nil {
			t.Fatal(err)
		}
		w := worldOf(t, v, s, vs)
		ensure := func() (rev int64) {
			t.Helper()
			if err := policy.Default().Ensure(t.Context(), w.admin, v.Snapshot(), slog.New(slog.DiscardHandler)); err != nil {
				t.Fatal(err)
			}
			now, err := v.Fresh(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return now.Rev()
		}
		rev := ensure()
		if again := ensure(); again != rev {
			t.Error("what is complete is written again")
		}
		mend(t, w, func() { ensure() })
		z.Ensured()
		defer w.run(clusterroles.New(v, w.controllers, nil))()
		defer w.run(namespaces.New(namespaces.Config{View: v, Client: w.controllers, Kinds: registry.All()}))()
		defer w.run(serviceaccounts.New(v, w.controllers, nil))()
		defer w.run(rootca.New(v, w.controllers, []byte("PEM"), nil))()
		binding := &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "viewers"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
			Subjects: []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: "jane"}},
		}
		if _, err := w.admin.Create(t.Context(), client.Resource{Group: rbacv1.GroupName, Resource: "clusterrolebindings"}.At("", ""), binding); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		jane := local.New(vs, "jane")
		if _, err := jane.Get(t.Context(), client.ConfigMaps.At("default", rootca.Name)); err != nil {
			t.Error("what the role gathers: ", err)
		}
		if _, err := w.admin.Get(t.Context(), client.ServiceAccounts.At("default", "default")); err != nil {
			t.Error("the controllers do not work by the policy: ", err)
		}
		if _, err := jane.Get(t.Context(), client.Secrets.At("default", "x")); err == nil || err.Error() != `secrets "x" is forbidden: User "jane" cannot get resource "secrets" in API group "" in the namespace "default"` {
			t.Errorf("a viewer reads secrets: %v", err)
		}
	})
}
