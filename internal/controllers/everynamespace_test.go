package controllers_test

import (
	"context"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/controllers/namespaces"
	"podo.dev/podo/internal/controllers/rootca"
	"podo.dev/podo/internal/controllers/serviceaccounts"
)

// everyNamespace runs what fills namespaces, beside what empties them.
func (w *world) everyNamespace() {
	w.t.Helper()
	w.run(serviceaccounts.New(w.view, w.controllers, nil))
	w.run(rootca.New(w.view, w.controllers, []byte("PEM"), nil))
	w.namespaces()
}

func (w *world) createNamespace(name string) {
	w.t.Helper()
	w.must(w.admin.Create(context.Background(), client.Namespaces.At("", ""), &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))
}

func (w *world) delete(ref client.Ref) {
	w.t.Helper()
	if err := w.admin.Delete(context.Background(), ref, metav1.DeleteOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// rootCA is what pods of a namespace find.
func (w *world) rootCA(namespace string) map[string]string {
	w.t.Helper()
	obj := w.get(client.ConfigMaps.At(namespace, rootca.Name))
	if obj == nil {
		return nil
	}
	return obj.(*v1.ConfigMap).Data
}

func TestEveryNamespaceHasAnAccountAndTheAuthority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.everyNamespace()
		w.createNamespace("work")
		for _, ns := range append([]string{"work"}, namespaces.System...) {
			if w.get(client.ServiceAccounts.At(ns, "default")) == nil {
				t.Errorf("%s has no account", ns)
			}
			if got := w.rootCA(ns); !maps.Equal(got, map[string]string{"ca.crt": "PEM"}) {
				t.Errorf("%s has %v", ns, got)
			}
			const words = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters."
			if got := w.get(client.ConfigMaps.At(ns, rootca.Name)).(*v1.ConfigMap).Annotations["kubernetes.io/description"]; got != words {
				t.Errorf("described as %q", got)
			}
		}
	})
}

func TestNamespacesOfBeforeAreFilledToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.createNamespace("work")
		w.must(w.admin.Create(context.Background(), client.ConfigMaps.At("work", ""), &v1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "work", Name: rootca.Name}, Data: map[string]string{"ca.crt": "of another life"},
		}))
		synctest.Wait()
		w.everyNamespace()
		if w.get(client.ServiceAccounts.At("work", "default")) == nil {
			t.Error("no account")
		}
		if got := w.rootCA("work")["ca.crt"]; got != "PEM" {
			t.Errorf("the authority is %q", got)
		}
	})
}

func TestWhatIsDeletedOrChangedComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.everyNamespace()
		w.createNamespace("work")
		ref := client.ServiceAccounts.At("work", "default")
		first := w.get(ref).(*v1.ServiceAccount).UID
		w.delete(ref)
		if again := w.get(ref); again == nil || again.(*v1.ServiceAccount).UID == first {
			t.Errorf("the account was not replaced: %v", again)
		}
		// What its owner changed of an account stays.
		w.must(w.admin.Mutate(context.Background(), ref, func(o runtime.Object) (bool, error) {
			o.(*v1.ServiceAccount).ImagePullSecrets = []v1.LocalObjectReference{{Name: "pull"}}
			return true, nil
		}))
		if got := w.get(ref).(*v1.ServiceAccount).ImagePullSecrets; len(got) != 1 {
			t.Errorf("the account was changed back: %v", got)
		}
		ca := client.ConfigMaps.At("work", rootca.Name)
		w.get(ca)
		w.delete(ca)
		if got := w.rootCA("work"); got["ca.crt"] != "PEM" {
			t.Errorf("after a deletion: %v", got)
		}
		w.must(w.admin.Mutate(context.Background(), ca, func(o runtime.Object) (bool, error) {
			o.(*v1.ConfigMap).Data = map[string]string{"ca.crt": "mine", "more": "x"}
			return true, nil
		}))
		if got := w.rootCA("work"); !maps.Equal(got, map[string]string{"ca.crt": "PEM"}) {
			t.Errorf("after a change: %v", got)
		}
		if n, timed := w.metric("root_ca_cert_publisher_sync_total", "200"), w.metric("root_ca_cert_publisher_sync_duration_seconds", "200"); n < 3 || timed != n {
			t.Errorf("%v looks by the metrics, %v of them timed", n, timed)
		}
		// An account that nobody asked for is nobody's to replace.
		w.must(w.admin.Create(context.Background(), client.ServiceAccounts.At("work", ""), &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "work", Name: "other"}}))
		w.get(client.ServiceAccounts.At("work", "other"))
		w.delete(client.ServiceAccounts.At("work", "other"))
		if w.get(client.ServiceAccounts.At("work", "other")) != nil {
			t.Error("another account came back")
		}
	})
}

// Nothing is put back into a namespace that is being emptied, and one of the same name is filled anew.
func TestADeletedNamespaceStaysEmpty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.everyNamespace()
		w.createNamespace("work")
		held := pod("held", "node-a")
		held.Namespace = "work"
		w.must(w.admin.Create(context.Background(), client.Pods.At("work", ""), held))
		synctest.Wait()
		w.delete(client.Namespaces.At("", "work"))
		w.get(client.Pods.At("work", "held")) // which holds the namespace up
		w.delete(client.ServiceAccounts.At("work", "default"))
		w.delete(client.ConfigMaps.At("work", rootca.Name))
		time.Sleep(time.Minute)
		if w.get(client.ServiceAccounts.At("work", "default")) != nil || w.rootCA("work") != nil {
			t.Error("a namespace that is going was filled")
		}
		zero := int64(0)
		if err := w.admin.Delete(context.Background(), client.Pods.At("work", "held"), metav1.DeleteOptions{GracePeriodSeconds: &zero}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if w.get(client.Namespaces.At("", "work")) != nil {
			t.Fatal("the namespace is still there")
		}
		w.createNamespace("work")
		if w.get(client.ServiceAccounts.At("work", "default")) == nil || w.rootCA("work") == nil {
			t.Error("the second namespace of that name was not filled")
		}
	})
}
