package controllers_test

import (
	"log/slog"
	"testing"
	"testing/synctest"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
		w := &world{t: t, view: v, admin: local.Admin(vs), controllers: local.Controllers(vs)}
		for range 2 { // the second time finds nothing to do
			if err := policy.Default().Ensure(t.Context(), w.admin, v.Snapshot(), slog.New(slog.DiscardHandler)); err != nil {
				t.Fatal(err)
			}
			if _, err := v.Fresh(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
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
