package verbs

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/store"
	"podo.dev/podo/internal/timeline"
	"podo.dev/podo/internal/view"
	"podo.dev/podo/internal/view/viewtest"
)

var admin = &user.DefaultInfo{Name: "admin", Groups: []string{user.SystemPrivilegedGroup, user.AllAuthenticated}}

// world is the verbs over a store in memory.
type world struct {
	*Verbs
	t       testing.TB
	ctx     context.Context
	store   store.Store
	view    *view.View
	now     time.Time
	records *recorder
}

type recorder struct{ list chan timeline.Record }

func (r *recorder) append(rec timeline.Record) { r.list <- rec }

func (r *recorder) stages() []timeline.Stage {
	var out []timeline.Stage
	for {
		select {
		case x := <-r.list:
			out = append(out, x.Stage)
		default:
			return out
		}
	}
}

func newWorld(t testing.TB, objs ...runtime.Object) *world {
	t.Helper()
	objs = append(objs,
		&v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default", UID: "ns-1"}, Status: v1.NamespaceStatus{Phase: v1.NamespaceActive}, Spec: v1.NamespaceSpec{Finalizers: []v1.FinalizerName{v1.FinalizerKubernetes}}},
		&v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other", UID: "ns-2"}, Status: v1.NamespaceStatus{Phase: v1.NamespaceActive}, Spec: v1.NamespaceSpec{Finalizers: []v1.FinalizerName{v1.FinalizerKubernetes}}},
	)
	vw, s := viewtest.New(t, append(objs, viewtest.Account("default"), viewtest.Account("other"))...)
	return worldOver(t, vw, s)
}

// worldOver is a world over a view and its store.
func worldOver(t testing.TB, vw *view.View, s store.Store) *world {
	t.Helper()
	w := &world{
		t: t, ctx: t.Context(), store: s, view: vw, now: time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC),
		records: &recorder{make(chan timeline.Record, 10000)},
	}
	var uid atomic.Int64
	verbs, err := New(Config{
		Store: s, View: vw, Kinds: registry.All(), Append: w.records.append,
		Now:    func() time.Time { return w.now },
		NewUID: func() types.UID { return types.UID(fmt.Sprintf("uid-%d", uid.Add(1))) },
	})
	if err != nil {
		t.Fatal(err)
	}
	w.Verbs = verbs
	return w
}

func (w *world) create(obj runtime.Object) runtime.Object {
	w.t.Helper()
	out, err := w.Create(w.ctx, admin, refOf(w.t, obj), obj, Options{})
	if err != nil {
		w.t.Fatal(err)
	}
	return out.DeepCopyObject()
}

func refOf(t testing.TB, obj runtime.Object) client.Ref {
	m := accessor(obj)
	k := viewtest.Kind(t, obj)
	return client.Ref{Resource: k.GroupResource(), Namespace: m.GetNamespace(), Name: m.GetName()}
}

// get reads the object as it is, or nil.
func (w *world) get(ref client.Ref) runtime.Object {
	w.t.Helper()
	ref.Subresource = ""
	e, err := w.Get(w.ctx, admin, ref, "")
	if err != nil {
		return nil
	}
	return e.Object
}

func configMap(name string) *v1.ConfigMap {
	return &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Data: map[string]string{"k": "v"}}
}

func pod(name string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{"app": name}},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "c", Image: "i"}}},
	}
}

func seconds(n int64) *int64 { return &n }
