package storetest

import (
	"errors"
	"fmt"
	"testing"

	"podo.dev/podo/internal/store"
)

func testPages(t *testing.T, s store.Store) {
	h := hands(t, s)
	for _, k := range []string{"b", "a/x", "a-b/x", "a", "c"} {
		h.put(k, k)
	}
	all := h.list(store.ListOptions{})
	if got, want := h.show(all.KVs), "a=a a-b/x=a-b/x a/x=a/x b=b c=c "; got != want || all.More {
		t.Errorf("all: %s (more %v), want byte order %s", got, all.More, want)
	}
	page := h.list(store.ListOptions{Limit: 2})
	if got, want := h.show(page.KVs), "a=a a-b/x=a-b/x "; got != want || !page.More {
		t.Errorf("first page: %s (more %v)", got, page.More)
	}
	// The second page, at the first one's revision, sees nothing of what happened in between.
	h.put("a/w", "new")
	h.delete("b")
	page = h.list(store.ListOptions{Limit: 2, After: page.KVs[1].Key, Revision: page.Revision})
	if got, want := h.show(page.KVs), "a/x=a/x b=b "; got != want || !page.More {
		t.Errorf("second page: %s (more %v), want %s", got, page.More, want)
	}
	page = h.list(store.ListOptions{Limit: 2, After: page.KVs[1].Key, Revision: page.Revision})
	if got, want := h.show(page.KVs), "c=c "; got != want || page.More {
		t.Errorf("last page: %s (more %v)", got, page.More)
	}
	if page = h.list(store.ListOptions{Limit: 5}); page.More {
		t.Error("a page that just holds everything says that there is more")
	}
}

func testReadsAtRevision(t *testing.T, s store.Store) {
	h := hands(t, s)
	r1 := h.put("k", "1")
	r2 := h.put("k", "2")
	r3 := h.delete("k")
	for rev, want := range map[int64]string{r1: "k=1 ", r2: "k=2 ", r3: ""} {
		res := h.list(store.ListOptions{Revision: rev})
		if got := h.show(res.KVs); got != want || res.Revision != rev {
			t.Errorf("at %d: %q at %d, want %q", rev, got, res.Revision, want)
		}
	}
	now, err := s.Revision(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	h.listErr(store.ListOptions{Revision: now + 1000}, store.ErrFuture)
}

func testCompaction(t *testing.T, s store.Store) {
	h := hands(t, s)
	r1 := h.put("k", "1")
	h.put("gone", "1")
	r2 := h.put("k", "2")
	r3 := h.delete("gone")
	if err := s.Compact(t.Context(), r3); err != nil {
		t.Fatal(err)
	}
	for _, rev := range []int64{r1, r2} {
		h.listErr(store.ListOptions{Revision: rev}, store.ErrCompacted)
		w := h.watch(rev)
		if b := w.next(); !errors.Is(b.Err, store.ErrCompacted) {
			t.Errorf("watch from %d: %+v", rev, b)
		}
		if _, open := <-w.ch; open {
			t.Error("the watch goes on after its error")
		}
	}
	// The boundary itself stays readable: its state, and its write, a deletion too.
	if got := h.show(h.list(store.ListOptions{Revision: r3}).KVs); got != "k=2 " {
		t.Errorf("at the boundary: %s", got)
	}
	if b := h.watch(r3).next(); b.Revision != r3 || len(b.Events) != 1 || !b.Events[0].Deleted {
		t.Errorf("watch from the boundary: %+v", b)
	}
	if err := s.Compact(t.Context(), r1); err != nil {
		t.Errorf("compacting again: %v", err)
	}
	if err := s.Compact(t.Context(), r3+1000); !errors.Is(err, store.ErrFuture) {
		t.Errorf("compacting the future: %v", err)
	}
	if got := h.show(h.list(store.ListOptions{}).KVs); got != "k=2 " {
		t.Errorf("now: %s", got)
	}
}

// testModel runs random writes on a few keys and compares reads at every revision, and watches from some, with a model.
func testModel(t *testing.T, s store.Store) {
	h := hands(t, s)
	rng := newRand(1)
	model := map[string]string{}
	type state struct {
		rev  int64
		text string
		log  string // the events of the write that led here
	}
	first := h.put("start", "0")
	model["start"] = "0"
	states := []state{{first, "start=0 ", "start=0 "}}
	for i := range 100 {
		var ops []store.Op
		log := ""
		for _, k := range rng.Perm(6)[:1+rng.IntN(3)] {
			key, value := fmt.Sprintf("k%d", k), fmt.Sprint(i)
			_, exists := model[key]
			switch {
			case rng.IntN(3) > 0:
				ops = append(ops, store.Op{Key: h.prefix + key, Value: []byte(value)})
				model[key] = value
				log += key + "=" + value + " "
			case exists:
				ops = append(ops, store.Op{Key: h.prefix + key, Delete: true})
				delete(model, key)
				log += key + " deleted "
			}
		}
		if len(ops) == 0 {
			continue
		}
		states = append(states, state{h.txn(ops...), sorted(model), log})
	}
	for _, st := range states {
		if got := h.show(h.list(store.ListOptions{Revision: st.rev}).KVs); got != st.text {
			t.Fatalf("at %d: %s, want %s", st.rev, got, st.text)
		}
	}
	for _, start := range []int{0, len(states) / 2, len(states) - 1} {
		w := h.watch(states[start].rev)
		for _, st := range states[start:] {
			b := w.next()
			if got := h.events(b); b.Revision != st.rev || got != st.log {
				t.Fatalf("watch: at %d %s; want at %d %s", b.Revision, got, st.rev, st.log)
			}
		}
	}
}
