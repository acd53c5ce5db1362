package view_test

import (
	"context"
	"errors"
	"fmt"
	goruntime "runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/store"
	"podo.dev/podo/internal/store/mem"
	"podo.dev/podo/internal/timeline"
	"podo.dev/podo/internal/view"
	"podo.dev/podo/internal/view/codec"
	"podo.dev/podo/internal/view/viewtest"
)

var (
	pods   = schema.GroupResource{Resource: "pods"}
	nodes  = schema.GroupResource{Resource: "nodes"}
	events = schema.GroupResource{Resource: "events"}
)

func pod(namespace, name, node string) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: "uid-1"}, Spec: v1.PodSpec{NodeName: node}}
}

func event(name, reason string) *v1.Event {
	return &v1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Reason: reason}
}

func wait(t *testing.T, v *view.View, rev int64) view.Snapshot {
	t.Helper()
	s, err := v.WaitFor(t.Context(), rev)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func names(seq func(func(*view.Entry) bool)) string {
	var out []string
	for e := range seq {
		out = append(out, e.Key.Namespace+"/"+e.Key.Name)
	}
	return strings.Join(out, " ")
}

// line shows a change: +created, ~changed, -deleted, with the pod's node.
func line(c view.Change) string {
	switch {
	case c.New == nil:
		return "-" + c.Old.Key.Name
	case c.Old == nil:
		return "+" + c.New.Key.Name
	}
	return "~" + c.New.Key.Name
}

// drain reads a watcher until nothing more comes.
func drain(t *testing.T, w *view.Watcher) (lines []string, err error) {
	t.Helper()
	for {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		changes, _, err := w.Next(ctx)
		cancel()
		if errors.Is(err, context.DeadlineExceeded) {
			return lines, nil
		}
		if err != nil {
			return lines, err
		}
		for _, c := range changes {
			lines = append(lines, line(c))
		}
	}
}

func wantLines(t *testing.T, w *view.Watcher, want string) {
	t.Helper()
	lines, err := drain(t, w)
	if got := strings.Join(lines, " "); got != want || err != nil {
		t.Errorf("changes %q, %v; want %q", got, err, want)
	}
}

func watch(t *testing.T, v *view.View, r schema.GroupResource, after int64) *view.Watcher {
	t.Helper()
	w, err := v.Watch(r, after)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return w
}

func TestSnapshots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, s := viewtest.New(t, pod("a", "x", "n1"), pod("a-b", "y", "n2"), &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})
		before := v.Snapshot()
		rev := viewtest.Put(t, s, pod("a", "z", "n1"))
		snap := wait(t, v, rev)
		if got := names(snap.All(pods, "", view.Key{})); got != "a-b/y a/x a/z" {
			t.Errorf("all pods, in the store's order: %s", got)
		}
		if got := names(snap.All(pods, "a", view.Key{})); got != "a/x a/z" {
			t.Errorf("pods of a: %s", got)
		}
		if got := names(snap.All(pods, "", view.Key{Namespace: "a", Name: "m"})); got != "a/x a/z" {
			t.Errorf("behind a/m: %s", got)
		}
		if got := names(snap.All(pods, "", view.Key{Namespace: "a", Name: "x"})); got != "a/z" {
			t.Errorf("behind a/x: %s", got)
		}
		if got := names(snap.By(pods, "spec.nodeName", "n1")); got != "a/x a/z" {
			t.Errorf("pods of n1: %s", got)
		}
		e := snap.Get(pods, "a", "z")
		if e == nil || e.Rev != rev || e.Meta.GetResourceVersion() != fmt.Sprint(rev) || e.Object.(*v1.Pod).Kind != "Pod" {
			t.Fatalf("a/z: %+v", e)
		}
		if snap.Get(pods, "a", "x") != before.Get(pods, "a", "x") {
			t.Error("an object that did not change is another pointer")
		}
		if before.Get(pods, "a", "z") != nil || before.Len(pods) != 2 {
			t.Error("an older snapshot has changed")
		}
		if snap.Get(nodes, "", "n1") == nil || snap.Len(nodes) != 1 {
			t.Error("the node is missing")
		}
		if got := snap.Get(schema.GroupResource{Resource: "nonsense"}, "", "n1"); got != nil {
			t.Errorf("an unknown resource has %v", got)
		}

		// Indexes follow a change and a deletion.
		viewtest.Put(t, s, pod("a", "x", "n2"))
		snap = wait(t, v, viewtest.Delete(t, s, pod("a", "z", "")))
		if got := names(snap.By(pods, "spec.nodeName", "n1")); got != "" {
			t.Errorf("pods of n1: %s", got)
		}
		if got := names(snap.By(pods, "spec.nodeName", "n2")); got != "a-b/y a/x" {
			t.Errorf("pods of n2: %s", got)
		}
	})
}

func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, s := viewtest.New(t)
		start := v.Snapshot().Rev()
		w := watch(t, v, pods, start)
		select {
		case <-w.Ready():
			t.Error("ready without changes")
		default:
		}
		ready := w.Ready()
		viewtest.Put(t, s, pod("a", "x", ""))
		synctest.Wait()
		select {
		case <-ready:
		default:
			t.Error("not ready after a change")
		}
		if got := w.Progress(); got != start {
			t.Errorf("progress %d with a change undelivered, want %d", got, start)
		}
		viewtest.Put(t, s, pod("a", "x", "n"))
		rev := viewtest.Delete(t, s, pod("a", "x", ""))
		wantLines(t, w, "+x ~x -x")
		wantLines(t, watch(t, v, pods, rev-1), "-x")
		// A write of another kind moves the progress of an idle watcher.
		rev = wait(t, v, viewtest.Put(t, s, event("e", ""))).Rev()
		if got := w.Progress(); got != rev {
			t.Errorf("progress %d, want %d", got, rev)
		}
	})
}

// TestReplay: what memory has forgotten is read from the store, without a gap or a repetition, until compaction.
func TestReplay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mem.New(mem.Options{})
		viewtest.Put(t, s, pod("a", "old", ""))
		first := viewtest.Put(t, s, pod("a", "old", "n"))
		v := viewtest.Start(t, view.Config{Store: s, HistoryChanges: 1})
		base := v.Snapshot().Rev()
		var want []string
		var revs []int64
		for i := range 300 {
			revs = append(revs, viewtest.Put(t, s, pod("a", fmt.Sprint(i), "")))
			want = append(want, fmt.Sprintf("+%d", i))
		}
		last := wait(t, v, revs[299]).Rev()
		wantLines(t, watch(t, v, pods, base), strings.Join(want, " "))
		wantLines(t, watch(t, v, pods, revs[9]), strings.Join(want[10:], " "))
		wantLines(t, watch(t, v, pods, revs[298]), "+299")
		wantLines(t, watch(t, v, pods, first-1), "~old "+strings.Join(want, " "))

		// A watcher from before the load, of a kind of which nothing happened: it catches up by a progress mark.
		w := watch(t, v, nodes, 1)
		viewtest.Put(t, s, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
		wantLines(t, w, "+n")

		if err := s.Compact(t.Context(), last); err != nil {
			t.Fatal(err)
		}
		w = watch(t, v, pods, base)
		for range 2 {
			if _, err := drain(t, w); !errors.Is(err, view.ErrGone) {
				t.Errorf("after compaction: %v", err)
			}
		}
	})
}

func TestEventsAreNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mem.New(mem.Options{})
		var decoded atomic.Int64
		kinds := registry.All()
		for i := range kinds {
			if kinds[i].GroupResource() == events {
				k := *kinds[i]
				k.NotCached = true
				kinds[i] = &k
			}
		}
		v := viewtest.Start(t, view.Config{Store: s, Kinds: kinds, Decode: counting(&decoded), HistoryAge: time.Hour}) // each watcher waits for a minute
		start := v.Snapshot().Rev()
		viewtest.Put(t, s, event("e", "one"))
		viewtest.Put(t, s, event("e", "two"))
		rev := viewtest.Delete(t, s, event("e", ""))
		snap := wait(t, v, rev)
		if snap.Len(events) != 0 || decoded.Load() != 0 {
			t.Errorf("%d events kept, %d decoded though nobody watches", snap.Len(events), decoded.Load())
		}
		for range 10 {
			wantLines(t, watch(t, v, events, start), "+e ~e -e")
		}
		if n := decoded.Load(); n != 4 { // one, one and two, two
			t.Errorf("decoded %d times for 10 watchers, want 4", n)
		}
		at, err := v.At(t.Context(), events, rev-1)
		if err != nil || names(at.All(events, "ns", view.Key{})) != "ns/e" {
			t.Errorf("at %d: %v", rev-1, err)
		}
	})
}

// Of a kind of which nothing is heard any more, what there was before is let go of, and its encodings are: whoever is that far behind reads
// the store.
func TestAQuietKindHoldsItsObjectsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, s := viewtest.New(t, pod("a", "x", "n1"))
		start := viewtest.Put(t, s, pod("a", "x", "n2"))
		old := weak.Make(wait(t, v, start).Get(pods, "a", "x"))
		now := wait(t, v, viewtest.Put(t, s, pod("a", "x", "n3")))
		if _, err := now.Get(pods, "a", "x").Encoded("text", func(runtime.Object) ([]byte, error) { return []byte("x"), nil }); err != nil {
			t.Fatal(err)
		}
		behind := watch(t, v, pods, start)
		time.Sleep(time.Minute)
		wait(t, v, viewtest.Put(t, s, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})) // something always happens
		goruntime.GC()
		if old.Value() == nil || v.EncodingBytes() == 0 {
			t.Error("it is forgotten at once")
		}
		time.Sleep(150 * time.Second)
		synctest.Wait()
		goruntime.GC()
		if old.Value() != nil {
			t.Error("three and a half minutes later the version before the last one is held")
		}
		if n := v.EncodingBytes(); n != 0 {
			t.Errorf("%d bytes of encodings are held", n)
		}
		wantLines(t, behind, "~x")
	})
}

func TestDecodedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mem.New(mem.Options{})
		viewtest.Put(t, s, pod("a", "x", ""))
		var decoded atomic.Int64
		v := viewtest.Start(t, view.Config{Store: s, Decode: counting(&decoded)})
		start := v.Snapshot().Rev()
		rev := viewtest.Put(t, s, pod("a", "y", ""))
		wait(t, v, rev)
		for range 10 {
			w := watch(t, v, pods, start)
			changes, _, err := w.Next(t.Context())
			if err != nil || changes[0].New != v.Snapshot().Get(pods, "a", "y") {
				t.Errorf("the watcher sees another pointer than the snapshot: %v", err)
			}
		}
		if decoded.Load() != 2 {
			t.Errorf("decoded %d times, want 2", decoded.Load())
		}
	})
}

func counting(n *atomic.Int64) func(*registry.Kind, []byte, int64, func() runtime.Object) (runtime.Object, error) {
	return func(k *registry.Kind, value []byte, rev int64, empty func() runtime.Object) (runtime.Object, error) {
		n.Add(1)
		return codec.DecodeIn(k, value, rev, empty)
	}
}

func TestAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mem.New(mem.Options{})
		var lists atomic.Int64
		v := viewtest.Start(t, view.Config{Store: listCounter{s, &lists}, Retained: 4})
		var revs []int64
		for i := range 20 {
			revs = append(revs, viewtest.Put(t, s, pod("a", fmt.Sprint(i), "")))
			if i == 10 {
				snap := wait(t, v, revs[i])
				snap.Retain()
			}
			wait(t, v, revs[i])
		}
		lists.Store(0)
		for _, c := range []struct{ i, lists int }{{19, 0}, {17, 0}, {10, 0}, {5, 1}} {
			lists.Store(0)
			at, err := v.At(t.Context(), pods, revs[c.i])
			if err != nil || at.Len(pods) != c.i+1 {
				t.Errorf("at the %dth write: %d pods, %v", c.i, at.Len(pods), err)
			}
			if int(lists.Load()) != c.lists {
				t.Errorf("at the %dth write: %d lists of the store, want %d", c.i, lists.Load(), c.lists)
			}
		}
		if _, err := v.At(t.Context(), pods, revs[19]+1); !errors.Is(err, store.ErrFuture) {
			t.Errorf("the future: %v", err)
		}
		if err := s.Compact(t.Context(), revs[19]); err != nil {
			t.Fatal(err)
		}
		if _, err := v.At(t.Context(), pods, revs[5]); !errors.Is(err, view.ErrGone) {
			t.Errorf("compacted: %v", err)
		}
	})
}

// However few states there have been, what is more than HistoryChanges ago is not held for At: it is read from the store.
func TestAtHoldsNoMoreThanTheHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mem.New(mem.Options{})
		var lists atomic.Int64
		v := viewtest.Start(t, view.Config{Store: listCounter{s, &lists}, Retained: 64, HistoryChanges: 10})
		var revs []int64
		for i := range 20 {
			revs = append(revs, viewtest.Put(t, s, pod("a", fmt.Sprint(i), "")))
			wait(t, v, revs[i])
		}
		for i, want := range map[int]int{19: 0, 9: 0, 8: 1} {
			lists.Store(0)
			if at, err := v.At(t.Context(), pods, revs[i]); err != nil || at.Len(pods) != i+1 || int(lists.Load()) != want {
				t.Errorf("at the %dth write: %d pods, %v; %d lists of the store, want %d", i, at.Len(pods), err, lists.Load(), want)
			}
		}
	})
}

// What is past is soon read from the store, but for those who go through its pages.
func TestPagesAreKeptForLongest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mem.New(mem.Options{})
		var lists atomic.Int64
		v := viewtest.Start(t, view.Config{Store: listCounter{s, &lists}, HistoryAge: time.Minute, PastAge: 10 * time.Minute})
		var revs []int64
		for i := range 3 {
			revs = append(revs, viewtest.Put(t, s, pod("a", fmt.Sprint(i), "")))
			if snap := wait(t, v, revs[i]); i == 1 {
				snap.Retain()
			}
		}
		read := func(i int) int64 {
			t.Helper()
			lists.Store(0)
			if at, err := v.At(t.Context(), pods, revs[i]); err != nil || at.Len(pods) != i+1 {
				t.Errorf("at write %d: %d pods, %v", i, at.Len(pods), err)
			}
			return lists.Load()
		}
		if read(0) != 0 || read(1) != 0 {
			t.Error("what is just past is read from the store")
		}
		for i := range 4 {
			time.Sleep(time.Minute)
			wait(t, v, viewtest.Put(t, s, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Annotations: map[string]string{"i": fmt.Sprint(i)}}}))
		}
		if one, kept := read(0), read(1); one != 1 || kept != 0 {
			t.Errorf("four minutes later the store is read %d times for one, and %d times for one whose pages somebody reads", one, kept)
		}
	})
}

// Of what is past, the objects that are still as they were are everybody's, whatever is written meanwhile.
func TestThePastIsReadWhileOthersWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mem.New(mem.Options{})
		lists := &interrupted{Store: s}
		v := viewtest.Start(t, view.Config{Store: lists, Retained: 1})
		past := viewtest.Put(t, s, pod("a", "x", ""))
		x := wait(t, v, past).Get(pods, "a", "x")
		for i := range 2 {
			wait(t, v, viewtest.Put(t, s, pod("a", fmt.Sprint(i), "")))
		}
		lists.by = func() { wait(t, v, viewtest.Put(t, s, pod("a", "x", "n"))) }
		at, err := v.At(t.Context(), pods, past)
		if err != nil || lists.by != nil {
			t.Fatalf("the store is not asked: %v", err)
		}
		if at.Len(pods) != 1 || at.Get(pods, "a", "x") != x {
			t.Errorf("%d pods, the one that was there at %p, want %p", at.Len(pods), at.Get(pods, "a", "x"), x)
		}
	})
}

// interrupted is a store of which a list is asked for while something else happens, once.
type interrupted struct {
	store.Store
	by func()
}

func (s *interrupted) List(ctx context.Context, prefix string, o store.ListOptions) (store.ListResult, error) {
	if by := s.by; by != nil {
		s.by = nil
		by()
	}
	return s.Store.List(ctx, prefix, o)
}

// What one reader has of the past, from the store, is encoded for him alone.
func TestThePastIsNotKeptEncoded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mem.New(mem.Options{})
		v := viewtest.Start(t, view.Config{Store: s, Retained: 1, HistoryChanges: 1})
		start := wait(t, v, viewtest.Put(t, s, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})).Rev()
		var revs []int64
		for i := range 3 * 64 { // more than a chunk of the history
			revs = append(revs, viewtest.Put(t, s, pod("a", "x", fmt.Sprint(i))))
			wait(t, v, revs[i])
		}
		at, err := v.At(t.Context(), pods, revs[0])
		if err != nil {
			t.Fatal(err)
		}
		changes, _, err := watch(t, v, pods, start).Next(t.Context())
		if err != nil || len(changes) < 2 {
			t.Fatalf("%d changes, %v", len(changes), err)
		}
		made := 0
		for range 2 {
			for _, e := range []*view.Entry{at.Get(pods, "a", "x"), changes[1].Old, changes[1].New} {
				if _, err := e.Encoded("text", func(runtime.Object) ([]byte, error) { made++; return []byte("x"), nil }); err != nil {
					t.Fatal(err)
				}
			}
		}
		if n := v.EncodingBytes(); n != 0 || made != 6 {
			t.Errorf("%d bytes of encodings are held, %d were made", n, made)
		}
	})
}

// A past revision can be read for a while and then not any more, whatever memory holds and whether or not its kind has changed.
func TestPastExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mem.New(mem.Options{})
		v := viewtest.Start(t, view.Config{Store: s, PastAge: 5 * time.Minute})
		past := viewtest.Put(t, s, pod("a", "1", ""))
		wait(t, v, past)
		at := func() error {
			_, err := v.At(t.Context(), pods, past)
			return err
		}
		time.Sleep(time.Hour)
		if err := at(); err != nil {
			t.Errorf("the newest revision: %v", err)
		}
		for i := range 12 { // half a minute each: the node's lease, say
			rev := viewtest.Put(t, s, &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "cm", Annotations: map[string]string{"i": fmt.Sprint(i)}}})
			wait(t, v, rev)
			if err := at(); (err != nil) != (i >= 10) || err != nil && !errors.Is(err, view.ErrGone) {
				t.Errorf("%d half minutes past: %v", i, err)
			}
			time.Sleep(30 * time.Second)
		}
	})
}

type listCounter struct {
	store.Store
	n *atomic.Int64
}

func (l listCounter) List(ctx context.Context, prefix string, o store.ListOptions) (store.ListResult, error) {
	l.n.Add(1)
	return l.Store.List(ctx, prefix, o)
}

func TestWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, s := viewtest.New(t)
		// A write that is none of Kubernetes' moves the store's revision, but shows nothing in the watch.
		res, err := s.Txn(t.Context(), nil, []store.Op{{Key: "/other", Value: []byte("x")}})
		if err != nil {
			t.Fatal(err)
		}
		snap, err := v.Fresh(t.Context())
		if err != nil || snap.Rev() < res.Revision {
			t.Errorf("fresh: at %d, %v; want %d", snap.Rev(), err, res.Revision)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if _, err := v.WaitFor(ctx, res.Revision+1); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("waiting for what never happens: %v", err)
		}
	})
}

func TestSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mem.New(mem.Options{})
		var got []timeline.Record
		v := viewtest.Start(t, view.Config{Store: s, Append: func(r timeline.Record) { got = append(got, r) }})
		rev := viewtest.Put(t, s, pod("a", "x", ""))
		viewtest.Put(t, s, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
		wait(t, v, viewtest.Put(t, s, pod("a", "x", "n")))
		want := timeline.PodRef{Namespace: "a", Name: "x", UID: "uid-1"}
		if len(got) != 1 || got[0].Stage != timeline.Seen || got[0].Pod != want || got[0].Fields[0].Value != fmt.Sprint(rev) {
			t.Errorf("records: %+v", got)
		}
	})
}
