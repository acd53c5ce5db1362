package controllers_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/controllers/garbage"
	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/view"
)

// ownership says slowly and obviously what is left when something goes: whoever has owners goes with the last of them, and forgets those
// that have gone before. An owner counts in its own namespace only.
type ownership struct {
	owners map[*v1.ConfigMap][]*v1.ConfigMap
}

func (o *ownership) there(c *v1.ConfigMap) bool {
	_, is := o.owners[c]
	return is
}

func (o *ownership) collect() {
	for changed := true; changed; {
		changed = false
		for c, owners := range o.owners {
			left := slices.DeleteFunc(slices.Clone(owners), func(owner *v1.ConfigMap) bool { return !o.there(owner) || owner.Namespace != c.Namespace })
			switch {
			case len(left) == len(owners):
			case len(left) == 0:
				delete(o.owners, c)
				changed = true
			default:
				o.owners[c] = left
				changed = true
			}
		}
	}
}

// orphan lets c go without those that it owns.
func (o *ownership) orphan(c *v1.ConfigMap) {
	delete(o.owners, c)
	for of, owners := range o.owners {
		o.owners[of] = slices.DeleteFunc(slices.Clone(owners), func(owner *v1.ConfigMap) bool { return owner == c })
	}
}

func line(c *v1.ConfigMap, owners []string) string {
	slices.Sort(owners)
	return fmt.Sprintf("%s/%s of %s", c.Namespace, c.Name, strings.Join(owners, ","))
}

func (o *ownership) text() string {
	var out []string
	for c, owners := range o.owners {
		var names []string
		for _, owner := range owners {
			names = append(names, owner.Name)
		}
		out = append(out, line(c, names))
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

// owning is what the API says of the same.
func (w *world) owning() string {
	w.t.Helper()
	var out []string
	for _, namespace := range []string{"one", "two"} {
		for e := range w.view.Snapshot().All(client.ConfigMaps.At("", "").Resource, namespace, view.Key{}) {
			c := e.Object.(*v1.ConfigMap)
			var names []string
			for _, ref := range c.OwnerReferences {
				names = append(names, ref.Name)
			}
			out = append(out, line(c, names))
		}
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

// Whatever owns whatever, also in circles, in other namespaces and several at once, and however it is deleted: what is left is what a
// slow look at all of it says, and nothing is written any more.
func TestWhatIsLeftIsWhatIsOwned(t *testing.T) {
	for seed := range uint64(16) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { ownAtRandom(t, rand.New(rand.NewPCG(seed, 8))) })
		})
	}
}

func ownAtRandom(t *testing.T, r *rand.Rand) {
	w := newWorld(t)
	w.namespaces()
	w.createNamespace("one")
	w.createNamespace("two")
	m := &meddled{Client: w.controllers}
	w.run(garbage.New(garbage.Config{View: w.view, Client: m, Events: &record.FakeRecorder{}, Kinds: registry.All()}))
	model := &ownership{map[*v1.ConfigMap][]*v1.ConfigMap{}}
	var history []string
	agree := func() {
		time.Sleep(10 * time.Second) // conflicts come again
		synctest.Wait()
		if got, want := w.owning(), model.text(); got != want {
			t.Fatalf("%s\nleft are\n%s\nwant\n%s", strings.Join(history, "\n"), got, want)
		}
	}
	all := func() []*v1.ConfigMap {
		return slices.SortedFunc(maps.Keys(model.owners), func(a, b *v1.ConfigMap) int { return strings.Compare(a.Name, b.Name) })
	}
	some := func() (out []*v1.ConfigMap) {
		for range r.IntN(4) {
			if there := all(); len(there) > 0 {
				if c := there[r.IntN(len(there))]; !slices.Contains(out, c) {
					out = append(out, c)
				}
			}
		}
		return out
	}
	refs := func(owners []*v1.ConfigMap) (out []metav1.OwnerReference) {
		for _, o := range owners {
			out = append(out, metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: o.Name, UID: o.UID, BlockOwnerDeletion: new(r.IntN(2) == 0)})
		}
		return out
	}
	for i := range 60 {
		there := all()
		what := r.IntN(10)
		if len(there) == 0 {
			what = 0
		}
		switch {
		case what < 5: // a new one
			owners := some()
			c := &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: []string{"one", "one", "two"}[r.IntN(3)], Name: fmt.Sprintf("c%02d", i), OwnerReferences: refs(owners)}}
			history = append(history, fmt.Sprint("create ", c.Name, " ", c.OwnerReferences))
			made, err := w.admin.Create(context.Background(), client.ConfigMaps.At(c.Namespace, ""), c)
			if err != nil {
				t.Fatal(err)
			}
			model.owners[made.(*v1.ConfigMap)] = owners
		case what < 7: // other owners
			c, owners := there[r.IntN(len(there))], some()
			history = append(history, fmt.Sprint("give ", c.Name, " to ", refs(owners)))
			given := refs(owners)
			w.must(w.admin.Mutate(context.Background(), client.ConfigMaps.At(c.Namespace, c.Name), func(o runtime.Object) (bool, error) {
				o.(*v1.ConfigMap).OwnerReferences = given
				return true, nil
			}))
			model.owners[c] = owners
		default:
			c := there[r.IntN(len(there))]
			how := []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan}[r.IntN(3)]
			if how == metav1.DeletePropagationOrphan {
				agree() // what an earlier deletion leaves to do would race with it
			}
			history = append(history, fmt.Sprint("delete ", c.Name, " ", how))
			w.end(c, how)
			if how == metav1.DeletePropagationOrphan {
				model.orphan(c)
				agree()
			} else {
				delete(model.owners, c)
			}
		}
		model.collect()
		if r.IntN(3) == 0 {
			agree()
		}
	}
	agree()
	if n := m.tried(time.Hour); n > 0 {
		t.Errorf("%d writes in an hour at rest", n)
	}
}
