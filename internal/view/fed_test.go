package view_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/view"
)

var fedMaps = schema.GroupResource{Resource: "configmaps"}

func fedMap(name, version string) runtime.Object {
	return &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), ResourceVersion: version}}
}

func TestAFedViewTellsWhatItWasTold(t *testing.T) {
	v, feed, err := view.NewFed(view.Config{Kinds: registry.All(), CheckMutation: true, HistoryChanges: 4})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := v.Fresh(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Fresh before the view is complete: %v", err)
	}
	w, err := v.Watch(fedMaps, v.Snapshot().Rev())
	if err != nil {
		t.Fatal(err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(feed.Put(fedMaps, fedMap("a", "7"), fedMap("b", "9")))
	first := v.Snapshot().Get(fedMaps, "ns", "a")
	must(feed.Put(fedMaps, fedMap("a", "7"))) // told again: not a change, and the same pointer
	if v.Snapshot().Get(fedMaps, "ns", "a") != first || first.Meta.GetResourceVersion() != "7" || first.Object.GetObjectKind().GroupVersionKind().Kind != "ConfigMap" {
		t.Errorf("told twice: %+v", first)
	}
	must(feed.Replace(fedMaps, func(k view.Key) bool { return k.Name != "b" }, []runtime.Object{fedMap("c", "11")}))
	must(feed.Delete(fedMaps, view.Key{Namespace: "ns", Name: "b"}))
	feed.Complete()
	snapshot, err := v.Fresh(t.Context())
	must(err)
	var got []string
	for rev := int64(0); rev < snapshot.ResourceRev(fedMaps); {
		changes, at, err := w.Next(t.Context())
		must(err)
		rev = at
		for _, ch := range changes {
			switch {
			case ch.New == nil:
				got = append(got, "-"+ch.Old.Key.Name)
			default:
				got = append(got, "+"+ch.New.Key.Name)
			}
		}
	}
	if want := "[+a +b -a +c -b]"; want != fmt.Sprint(got) {
		t.Errorf("told %v, want %s", got, want)
	}
	// What memory has dropped is gone: there is no store to read it from.
	late, err := v.Watch(fedMaps, 0)
	must(err)
	for i := range 300 {
		must(feed.Put(fedMaps, fedMap("a", string(rune('a'+i%26))+"x")))
	}
	if _, _, err := late.Next(t.Context()); !errors.Is(err, view.ErrGone) {
		t.Errorf("a watcher from long ago: %v", err)
	}
	if err := feed.Put(schema.GroupResource{Resource: "events"}, fedMap("a", "1")); err == nil {
		t.Error("a kind that views do not keep was fed")
	}
	v.CheckAll()
}

// A server that was restored gives out a resourceVersion a second time: the newer form is taken.
func TestAFedViewTakesAnotherFormOfOneVersion(t *testing.T) {
	v, feed, err := view.NewFed(view.Config{Kinds: registry.All(), CheckMutation: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, value := range []string{"one", "two"} {
		m := fedMap("a", "7").(*v1.ConfigMap)
		m.Data = map[string]string{"k": value}
		if err := feed.Replace(fedMaps, func(view.Key) bool { return true }, []runtime.Object{m}); err != nil {
			t.Fatal(err)
		}
		if got := v.Snapshot().Get(fedMaps, "ns", "a").Object.(*v1.ConfigMap).Data["k"]; got != value {
			t.Errorf("%q, want %q", got, value)
		}
	}
}
