// Package viewtest makes views for tests of their readers: over store/mem, with the mutation check on, usable in a
// testing/synctest bubble.
package viewtest

import (
	"context"
	"fmt"
	"reflect"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/store"
	"podo.dev/podo/internal/store/mem"
	"podo.dev/podo/internal/view"
	"podo.dev/podo/internal/view/codec"
)

// New starts a view that holds objs, over a store in memory. Both end with the test, which fails if anyone changed a published
// object.
func New(t testing.TB, objs ...runtime.Object) (*view.View, store.Store) {
	t.Helper()
	s := mem.New(mem.Options{})
	for _, obj := range objs {
		Put(t, s, obj)
	}
	return Start(t, view.Config{Store: s}), s
}

// Start runs a view with the given configuration; Kinds default to the registry's, and the mutation check is on.
func Start(t testing.TB, c view.Config) *view.View {
	t.Helper()
	if c.Kinds == nil {
		c.Kinds = registry.All()
	}
	if c.Mutated == nil {
		c.CheckMutation = true
		c.Mutated = func(k *registry.Kind, e *view.Entry) {
			t.Errorf("someone changed a published object: %s %s/%s at revision %d", k.GVK.Kind, e.Key.Namespace, e.Key.Name, e.Rev)
		}
	}
	v, err := view.New(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- v.Run(ctx, func() { close(ready) }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("view: %v", err)
		}
	})
	<-ready
	return v
}

// Account is the ServiceAccount that pods of a namespace need before they can be created. It mounts no token, so that the pods stay as
// tests wrote them.
func Account(namespace string) *v1.ServiceAccount {
	no := false
	return &v1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "default", UID: types.UID("account-" + namespace)}, AutomountServiceAccountToken: &no,
	}
}

// Kind finds the row of an object by its Go type.
func Kind(t testing.TB, obj runtime.Object) *registry.Kind {
	t.Helper()
	for _, k := range registry.All() {
		if reflect.TypeOf(k.New()) == reflect.TypeOf(obj) {
			return k
		}
	}
	t.Fatalf("the registry has no kind for %T", obj)
	return nil
}

// Put writes obj as the API server would but without its rules, and returns the revision. TypeMeta may be unset.
func Put(t testing.TB, s store.Store, obj runtime.Object) int64 {
	t.Helper()
	k := Kind(t, obj)
	obj = obj.DeepCopyObject()
	obj.GetObjectKind().SetGroupVersionKind(k.StoredGVK())
	value, err := codec.Encode(obj)
	if err != nil {
		t.Fatal(err)
	}
	return write(t, s, store.Op{Key: key(t, k, obj), Value: value})
}

// Delete removes obj by its kind, namespace and name, and returns the revision.
func Delete(t testing.TB, s store.Store, obj runtime.Object) int64 {
	t.Helper()
	return write(t, s, store.Op{Key: key(t, Kind(t, obj), obj), Delete: true})
}

func key(t testing.TB, k *registry.Kind, obj runtime.Object) string {
	t.Helper()
	m, err := meta.Accessor(obj)
	if err != nil {
		t.Fatal(err)
	}
	if (m.GetNamespace() != "") != k.Namespaced || m.GetName() == "" {
		t.Fatalf("%s: namespace %q, name %q", k.GVK.Kind, m.GetNamespace(), m.GetName())
	}
	return k.Key(m.GetNamespace(), m.GetName())
}

func write(t testing.TB, s store.Store, op store.Op) int64 {
	t.Helper()
	res, err := s.Txn(context.Background(), nil, []store.Op{op})
	if err == nil && !res.OK {
		err = fmt.Errorf("refused: %+v", res)
	}
	if err != nil {
		t.Fatal(err)
	}
	return res.Revision
}
