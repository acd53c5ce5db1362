package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"podo.dev/podo/internal/store"
)

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

func sorted(m map[string]string) string {
	out := ""
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out += k + "=" + m[k] + " "
	}
	return out
}

// events is a batch in one line, in the order of the batch.
func (h *h) events(b store.Batch) string {
	out := ""
	for _, e := range b.Events {
		if key := e.Key[len(h.prefix):]; e.Deleted {
			out += key + " deleted "
		} else {
			out += key + "=" + string(e.Value) + " "
		}
	}
	return out
}

// testWatchReplaysAndFollows starts watches in the middle of a storm of writes, from its first revision on: the step from
// the past to the present may neither lose nor repeat anything.
func testWatchReplaysAndFollows(t *testing.T, s store.Store) {
	h := hands(t, s)
	first := h.put("start", "")
	const writers, each = 4, 30
	var mu sync.Mutex
	want := map[int64]string{}
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			for j := range each {
				key := fmt.Sprintf("w%d-%d", i, j%5)
				rev := h.put(key, fmt.Sprint(j))
				mu.Lock()
				want[rev] = fmt.Sprintf("%s=%d ", key, j)
				mu.Unlock()
			}
		})
	}
	var watches []*watch
	for range 3 {
		watches = append(watches, h.watch(first+1))
		h.put("between", "")
	}
	wg.Wait()
	end := h.put("end", "")
	for _, w := range watches {
		last, seen := first, 0
		for {
			b := w.next()
			if b.Err != nil || b.Revision <= last {
				t.Fatalf("after revision %d came %+v", last, b)
			}
			last = b.Revision
			if b.Revision == end {
				break
			}
			if text, ok := want[b.Revision]; ok {
				seen++
				if got := h.events(b); got != text {
					t.Errorf("at %d: %s, want %s", b.Revision, got, text)
				}
			}
		}
		if seen != writers*each {
			t.Errorf("saw %d writes of %d", seen, writers*each)
		}
	}
}

func testWatchFromNow(t *testing.T, s store.Store) {
	h := hands(t, s)
	h.put("before", "")
	w := h.watch(0)
	// "Now" is no later than the next write that is begun after Watch has returned.
	h.put("after", "1")
	if b := w.next(); h.events(b) != "after=1 " {
		t.Errorf("got %s", h.events(b))
	}
}

func testWatchDeletion(t *testing.T, s store.Store) {
	h := hands(t, s)
	r1 := h.put("k", "1")
	r2 := h.put("k", "2")
	r3 := h.delete("k")
	w := h.watch(r1)
	if e := w.next().Events[0]; e.Prev != nil || e.CreateRevision != r1 || e.ModRevision != r1 {
		t.Errorf("creation: %+v", e)
	}
	if e := w.next().Events[0]; e.Prev == nil || string(e.Prev.Value) != "1" || e.Prev.ModRevision != r1 || e.CreateRevision != r1 {
		t.Errorf("change: %+v, previous %+v", e, e.Prev)
	}
	e := w.next().Events[0]
	if !e.Deleted || e.ModRevision != r3 || e.Prev == nil || e.Prev.ModRevision != r2 || string(e.Prev.Value) != "2" {
		t.Errorf("deletion: %+v, previous %+v", e, e.Prev)
	}
	w = h.watch(h.put("d/without", "1"))
	h.put("d/without", "2")
	h.delete("d/without")
	for i := range 3 {
		if e := w.next().Events[0]; e.Prev != nil {
			t.Errorf("event %d has a previous value that was not asked for: %+v", i, e.Prev)
		}
	}
}

// testWatchBigBatch writes transactions that no message of etcd's default size holds together with the previous values.
func testWatchBigBatch(t *testing.T, s store.Store) {
	h := hands(t, s)
	big := bytes.Repeat([]byte("x"), 250<<10)
	var revs []int64
	for range 2 {
		var ops []store.Op
		for i := range 5 {
			ops = append(ops, store.Op{Key: fmt.Sprint(h.prefix, i), Value: big})
		}
		revs = append(revs, h.txn(ops...))
	}
	w := h.watch(revs[0])
	for _, rev := range revs {
		if b := w.next(); b.Revision != rev || len(b.Events) != 5 {
			t.Errorf("at %d came %d events, want 5 at %d", b.Revision, len(b.Events), rev)
		}
	}
}

// testWatchUnread: a watch that nobody reads holds up nobody, and has lost nothing when it is read at last.
func testWatchUnread(t *testing.T, s store.Store) {
	h := hands(t, s)
	slow, quick := h.watch(0), h.watch(0)
	const n = 200
	for i := range n {
		h.put("k", fmt.Sprint(i))
	}
	for _, w := range []*watch{quick, slow} {
		for i := range n {
			if b := w.next(); string(b.Events[0].Value) != fmt.Sprint(i) {
				t.Fatalf("event %d is %s", i, h.events(b))
			}
		}
	}
}

func testProgress(t *testing.T, s store.Store) {
	h := hands(t, s)
	w := h.watch(0)
	h.put("k", "1")
	w.next()
	// A write elsewhere moves the revision, but shows nothing under the prefix.
	rev := hands(t, s).put("elsewhere", "")
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for {
		if err := s.RequestProgress(t.Context()); err != nil {
			t.Fatal(err)
		}
		select {
		case b := <-w.ch:
			if b.Err != nil || len(b.Events) > 0 {
				t.Fatalf("an idle watch got %+v", b)
			}
			if b.Revision >= rev {
				return
			}
		case <-again.C:
		case <-timeout.C:
			t.Fatal("no progress mark came")
		}
	}
}

func testWatchEnds(t *testing.T, s store.Store) {
	h := hands(t, s)
	w := h.watch(0)
	h.put("k", "1")
	w.next()
	w.cancel()
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for {
		select {
		case b, open := <-w.ch:
			if !open {
				return
			}
			if b.Err != nil {
				t.Errorf("a watch that was told to end says %v", b.Err)
			}
		case <-timeout.C:
			t.Fatal("the channel did not close")
		}
	}
}

// testReadsAfterWatch reads, after each event of a watch, what the event was about: a read may not be older than the event.
func testReadsAfterWatch(t *testing.T, s store.Store) {
	h := hands(t, s)
	ctx := t.Context()
	w := s.Watch(ctx, h.prefix, h.put("start", "")+1, nil)
	const writes = 100
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range writes {
			if i%2 == 0 {
				h.put("k", fmt.Sprint(i))
			} else {
				h.delete("k")
			}
		}
	}()
	defer func() { <-done }()
	for range writes {
		b, ok := <-w
		if !ok || b.Err != nil {
			t.Fatalf("the watch ended: %v", b.Err)
		}
		if len(b.Events) == 0 {
			continue
		}
		switch kv, err := s.Get(ctx, h.prefix+"k"); {
		case errors.Is(err, store.ErrNotFound):
		case err != nil:
			t.Fatal(err)
		case kv.ModRevision < b.Revision:
			t.Fatalf("after the event of revision %d a read gives revision %d", b.Revision, kv.ModRevision)
		}
		if rev, err := s.Revision(ctx); err != nil || rev < b.Revision {
			t.Fatalf("after the event of revision %d the store is at %d, %v", b.Revision, rev, err)
		}
		if list, err := s.List(ctx, h.prefix, store.ListOptions{Revision: b.Revision}); err != nil {
			t.Fatalf("the state at the revision of an event: %v, %d keys", err, len(list.KVs))
		}
	}
}
