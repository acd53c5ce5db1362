package view_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"podo.dev/podo/internal/store"
	"podo.dev/podo/internal/store/mem"
	"podo.dev/podo/internal/view"
	"podo.dev/podo/internal/view/viewtest"
)

func textLog(w *strings.Builder) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }

// run starts v and returns how to stop it.
func run(t *testing.T, v *view.View) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ready, done := make(chan struct{}), make(chan error)
	go func() { done <- v.Run(ctx, func() { close(ready) }) }()
	<-ready
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// model is the pods by path at one revision: name -> node.
type model map[string]string

func (m model) String() string {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(m)) {
		fmt.Fprintf(&b, "%s:%s ", k, m[k])
	}
	return b.String()
}

func ofSnapshot(s view.Snapshot) string {
	m := model{}
	for e := range s.All(pods, "", view.Key{}) {
		m[e.Key.Namespace+"/"+e.Key.Name] = e.Object.(*v1.Pod).Spec.NodeName
	}
	return m.String()
}

// TestAgainstModel: whatever is written, at whatever moment the store breaks off, a snapshot of any revision shows that
// revision, indexes agree with objects, and a watcher that applies its changes to the state where it began arrives at the state
// where it is.
func TestAgainstModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		synctest.Test(t, func(t *testing.T) {
			s := mem.New(mem.Options{})
			v := viewtest.Start(t, view.Config{
				Store: s, HistoryChanges: rapid.SampledFrom([]int{1, 100, 0}).Draw(rt, "history"), Retained: 3,
			})
			now := model{}
			states := map[int64]model{v.Snapshot().Rev(): {}}
			type cursor struct {
				w     *view.Watcher
				state model
				rev   int64
			}
			var cursors []*cursor
			var held []view.Snapshot
			for range rapid.IntRange(1, 60).Draw(rt, "steps") {
				name := rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(rt, "name")
				switch rapid.IntRange(0, 8).Draw(rt, "step") {
				case 0, 1, 2, 3:
					now = maps.Clone(now)
					now["ns/"+name] = rapid.SampledFrom([]string{"", "n1", "n2"}).Draw(rt, "node")
					states[viewtest.Put(t, s, pod("ns", name, now["ns/"+name]))] = now
				case 4, 5:
					if _, ok := now["ns/"+name]; ok {
						now = maps.Clone(now)
						delete(now, "ns/"+name)
						states[viewtest.Delete(t, s, pod("ns", name, ""))] = now
					}
				case 6:
					revs := slices.Sorted(maps.Keys(states))
					from := rapid.SampledFrom(revs).Draw(rt, "from")
					cursors = append(cursors, &cursor{watch(t, v, pods, from), maps.Clone(states[from]), from})
				case 7:
					s.BreakWatches(store.ErrUnavailable)
				case 8:
					synctest.Wait()
					held = append(held, v.Snapshot())
				}
			}
			last := slices.Max(slices.Collect(maps.Keys(states)))
			snap := wait(t, v, last)
			if got := ofSnapshot(snap); got != now.String() {
				rt.Fatalf("now %s, want %s", got, now)
			}
			for _, node := range []string{"", "n1", "n2"} {
				want := ""
				for _, k := range slices.Sorted(maps.Keys(now)) {
					if now[k] == node {
						want += k + " "
					}
				}
				if got := names(snap.By(pods, "spec.nodeName", node)); got != strings.TrimSpace(want) {
					rt.Fatalf("index %q: %s, want %s", node, got, want)
				}
			}
			for _, h := range held {
				if m, ok := states[h.Rev()]; ok && ofSnapshot(h) != m.String() {
					rt.Fatalf("a snapshot of revision %d now shows %s, want %s", h.Rev(), ofSnapshot(h), m)
				}
			}
			for rev, m := range states {
				at, err := v.At(t.Context(), pods, rev)
				if err != nil || ofSnapshot(at) != m.String() {
					rt.Fatalf("at %d: %v %s, want %s", rev, err, ofSnapshot(at), m)
				}
			}
			for _, c := range cursors {
				for c.rev < last {
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					changes, rev, err := c.w.Next(ctx)
					cancel()
					if err != nil {
						rt.Fatalf("watcher at %d of %d: %v", c.rev, last, err)
					}
					for _, ch := range changes {
						if ch.Rev <= c.rev {
							rt.Fatalf("a change of %d after %d", ch.Rev, c.rev)
						}
						if c.rev = ch.Rev; ch.New == nil {
							delete(c.state, "ns/"+ch.Old.Key.Name)
						} else {
							c.state["ns/"+ch.New.Key.Name] = ch.New.Object.(*v1.Pod).Spec.NodeName
						}
						if want, ok := states[ch.Rev]; !ok || want.String() != c.state.String() {
							rt.Fatalf("watcher at %d: %s, want %s", ch.Rev, c.state, want)
						}
					}
					c.rev = max(c.rev, rev)
				}
				if c.state.String() != now.String() {
					rt.Fatalf("watcher ends at %s, want %s", c.state, now)
				}
			}
		})
	})
}
