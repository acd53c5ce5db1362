package controllers_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/controllers/garbage"
	"podo.dev/podo/internal/registry"
)

// collector runs the garbage collector and returns what it tells users.
func (w *world) collector() *record.FakeRecorder {
	w.t.Helper()
	told := record.NewFakeRecorder(100)
	w.run(garbage.New(garbage.Config{View: w.view, Client: w.controllers, Events: told, Kinds: registry.All()}))
	return told
}

// owned makes a ConfigMap with owners, which are ConfigMaps too.
func (w *world) owned(namespace, name string, blocking bool, owners ...*v1.ConfigMap) *v1.ConfigMap {
	w.t.Helper()
	cm := &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	for _, o := range owners {
		cm.OwnerReferences = append(cm.OwnerReferences, metav1.OwnerReference{
			APIVersion: "v1", Kind: "ConfigMap", Name: o.Name, UID: o.UID, BlockOwnerDeletion: &blocking,
		})
	}
	out, err := w.admin.Create(context.Background(), client.ConfigMaps.At(namespace, ""), cm)
	if err != nil {
		w.t.Fatal(err)
	}
	return out.(*v1.ConfigMap)
}

func (w *world) end(cm *v1.ConfigMap, how metav1.DeletionPropagation) {
	w.t.Helper()
	if err := w.admin.Delete(context.Background(), client.ConfigMaps.At(cm.Namespace, cm.Name), metav1.DeleteOptions{PropagationPolicy: &how}); err != nil {
		w.t.Fatal(err)
	}
}

// there names which of the ConfigMaps of a namespace are left.
func (w *world) there(namespace string, names ...string) string {
	w.t.Helper()
	time.Sleep(time.Second) // conflicts come again after a moment
	var out []string
	for _, n := range names {
		if w.get(client.ConfigMaps.At(namespace, n)) != nil {
			out = append(out, n)
		}
	}
	return strings.Join(out, " ")
}

func (w *world) owners(namespace, name string) (n int) {
	w.t.Helper()
	cm, _ := w.get(client.ConfigMaps.At(namespace, name)).(*v1.ConfigMap)
	if cm == nil {
		return -1
	}
	return len(cm.OwnerReferences)
}

// Whoever is deleted in the foreground takes along what does not block it too, at once: while a dependent that blocks it is still there.
func TestForegroundTakesAllAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.namespaces()
		w.collector()
		a, z := w.owned("default", "a", false), w.owned("default", "z", false)
		held := w.owned("default", "held", true, a)
		w.must(w.admin.Mutate(context.Background(), client.ConfigMaps.At("default", "held"), func(o runtime.Object) (bool, error) {
			o.(*v1.ConfigMap).Finalizers = []string{"example.com/hold"}
			return true, nil
		}))
		loose := w.owned("default", "loose", false, a)
		w.owned("default", "deep", false, loose)
		w.owned("default", "shared", false, a, z)
		w.end(a, metav1.DeletePropagationForeground)
		if got := w.there("default", "a", "held", "loose", "deep", "shared"); got != "a held shared" {
			t.Errorf("left: %s", got)
		}
		if n := w.owners("default", "shared"); n != 1 {
			t.Errorf("what others own too has %d owners", n)
		}
		w.must(w.admin.Mutate(context.Background(), client.ConfigMaps.At("default", held.Name), func(o runtime.Object) (bool, error) {
			o.(*v1.ConfigMap).Finalizers = nil
			return true, nil
		}))
		if got := w.there("default", "a", "held", "shared"); got != "shared" {
			t.Errorf("left: %s", got)
		}
	})
}

func TestWhatNobodyOwnsGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.namespaces()
		told := w.collector()

		// In the background, to the last generation; what has another owner stays, and forgets the one that went.
		a, z := w.owned("default", "a", false), w.owned("default", "z", false)
		b := w.owned("default", "b", true, a)
		w.owned("default", "c", true, b)
		w.owned("default", "d", true, a, z)
		w.end(a, metav1.DeletePropagationBackground)
		if got := w.there("default", "a", "b", "c", "d", "z"); got != "d z" {
			t.Errorf("left: %s", got)
		}
		if n := w.owners("default", "d"); n != 1 {
			t.Errorf("d has %d owners", n)
		}

		// An owner that never was, or another of its name.
		w.owned("default", "e", false, &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "z", UID: "other"}})
		if got := w.there("default", "e", "z"); got != "z" {
			t.Errorf("left: %s", got)
		}

		// An owner of this namespace under another name counts as absent too; no namespace is to blame.
		w.owned("default", "e", false, &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "y", UID: z.UID}})
		if got := w.there("default", "e", "z"); got != "z" {
			t.Errorf("left: %s", got)
		}
		select {
		case e := <-told.Events:
			t.Errorf("told %q", e)
		default:
		}

		// Of a kind that nobody serves nothing is known: what it owns stays.
		f := &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "f", OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "example.com/v1", Kind: "Unknown", Name: "x", UID: "x",
		}}}}
		w.must(w.admin.Create(context.Background(), client.ConfigMaps.At("default", ""), f))
		if got := w.there("default", "f"); got != "f" {
			t.Errorf("left: %s", got)
		}

		// C29: an owner in another namespace counts as absent; users are told.
		w.createNamespace("ns2")
		w.owned("ns2", "d", false, z)
		if got := w.there("ns2", "d"); got != "" {
			t.Errorf("left: %s", got)
		}
		want := `Warning OwnerRefInvalidNamespace ownerRef [v1/ConfigMap, namespace: ns2, name: z, uid: ` + string(z.UID) + `] does not exist in namespace "ns2"`
		select {
		case e := <-told.Events:
			if e != want {
				t.Errorf("told %q, want %q", e, want)
			}
		default:
			t.Error("nobody was told")
		}
		if got := w.there("default", "z"); got != "z" {
			t.Error("the owner in the other namespace was touched")
		}

		// What is in no namespace cannot be owned by what is in one: it stays, whatever becomes of that, and users are told.
		class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "c", OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "v1", Kind: "ConfigMap", Name: "z", UID: z.UID,
		}}}}
		at := client.Resource{Group: "scheduling.k8s.io", Resource: "priorityclasses"}
		w.must(w.admin.Create(context.Background(), at.At("", ""), class))
		time.Sleep(time.Second)
		want = `Warning OwnerRefInvalidNamespace ownerRef [v1/ConfigMap, namespace: , name: z, uid: ` + string(z.UID) + `] does not exist in namespace ""`
		select {
		case e := <-told.Events:
			if e != want {
				t.Errorf("told %q, want %q", e, want)
			}
		default:
			t.Error("nobody was told")
		}
		w.end(z, metav1.DeletePropagationBackground)
		if w.get(at.At("", "c")) == nil {
			t.Error("a class went with a ConfigMap")
		}
	})
}

func TestForegroundWaitsForDependents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.namespaces()
		w.collector()
		a := w.owned("default", "a", false)
		b := w.owned("default", "b", true, a)
		w.owned("default", "c", true, b)
		w.owned("default", "free", false, a)
		hold := func(name string, finalizers ...string) {
			w.must(w.admin.Mutate(context.Background(), client.ConfigMaps.At("default", name), func(o runtime.Object) (bool, error) {
				o.(*v1.ConfigMap).Finalizers = finalizers
				return true, nil
			}))
		}
		hold("c", "a.io/x")
		w.end(a, metav1.DeletePropagationForeground)
		if got := w.there("default", "a", "b", "c"); got != "a b c" {
			t.Errorf("left while c is held: %s", got)
		}
		hold("c")
		if got := w.there("default", "a", "b", "c", "free"); got != "" {
			t.Errorf("left: %s", got)
		}
	})
}

func TestOrphansStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.namespaces()
		w.collector()
		a := w.owned("default", "a", false)
		for _, name := range []string{"b", "c"} {
			w.owned("default", name, true, a)
		}
		w.end(a, metav1.DeletePropagationOrphan)
		if got := w.there("default", "a", "b", "c"); got != "b c" {
			t.Errorf("left: %s", got)
		}
		if n := w.owners("default", "b") + w.owners("default", "c"); n != 0 {
			t.Errorf("%d references to the owner that went", n)
		}
	})
}

// A circle of blocking references does not hold itself for ever.
func TestCircleGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.namespaces()
		w.collector()
		a := w.owned("default", "a", false)
		b := w.owned("default", "b", true, a)
		c := w.owned("default", "c", true, b)
		w.must(w.admin.Mutate(context.Background(), client.ConfigMaps.At("default", "a"), func(o runtime.Object) (bool, error) {
			yes := true
			o.(*v1.ConfigMap).OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "c", UID: types.UID(c.UID), BlockOwnerDeletion: &yes}}
			return true, nil
		}))
		w.end(a, metav1.DeletePropagationForeground)
		if got := w.there("default", "a", "b", "c"); got != "" {
			t.Errorf("left: %s", got)
		}
	})
}

// Who has an owner that is gone, and is taken from his other one just as the first is to be forgotten, goes.
func TestWhoLosesHisLastOwnerMeanwhileGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.namespaces()
		m := &meddled{Client: w.controllers}
		m.let(sync.OnceFunc(func() {
			_, err := w.admin.Mutate(context.Background(), client.ConfigMaps.At("default", "d"), func(o runtime.Object) (bool, error) {
				d := o.(*v1.ConfigMap)
				d.OwnerReferences = d.OwnerReferences[:1]
				return true, nil
			})
			if err != nil {
				t.Error(err)
			}
		}))
		w.run(garbage.New(garbage.Config{View: w.view, Client: m, Events: &record.FakeRecorder{}, Kinds: registry.All()}))
		never := &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "never", UID: "never"}}
		w.owned("default", "d", false, never, w.owned("default", "a", false))
		if got := w.there("default", "a", "d"); got != "a" {
			t.Errorf("left: %s", got)
		}
	})
}
