package storetest

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"podo.dev/podo/internal/store"
)

func testConditions(t *testing.T, s store.Store) {
	h := hands(t, s)
	ra := h.put("a", "1")
	a, b := h.prefix+"a", h.prefix+"b"
	ops := []store.Op{{Key: b, Value: []byte("x")}}

	res, err := s.Txn(t.Context(), []store.Cond{{Key: b}, {Key: a, Revision: ra - 1}}, ops)
	if err != nil || res.OK {
		t.Fatalf("a failing condition: %+v, %v", res, err)
	}
	if len(res.Found) != 2 || res.Found[0].ModRevision != 0 || res.Found[0].Key != b ||
		res.Found[1].ModRevision != ra || string(res.Found[1].Value) != "1" || res.Found[1].Key != a {
		t.Errorf("found %+v", res.Found)
	}
	if res.Revision < ra {
		t.Errorf("revision %d is older than %d", res.Revision, ra)
	}
	if _, err := s.Get(t.Context(), b); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("refused, yet written: %v", err)
	}

	res, err = s.Txn(t.Context(), []store.Cond{{Key: b}, {Key: a, Revision: ra}}, ops)
	if err != nil || !res.OK || res.Revision <= ra || len(res.Found) != 0 {
		t.Fatalf("conditions that hold: %+v, %v", res, err)
	}
	if kv, err := s.Get(t.Context(), b); err != nil || kv.ModRevision != res.Revision {
		t.Errorf("got %+v, %v", kv, err)
	}
	// A condition that the key does not exist fails when it does.
	if res, err := s.Txn(t.Context(), []store.Cond{{Key: b}}, ops); err != nil || res.OK {
		t.Errorf("created twice: %+v, %v", res, err)
	}
}

func testCreateDelete(t *testing.T, s store.Store) {
	h := hands(t, s)
	if _, err := s.Get(t.Context(), h.prefix+"k"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("missing key: %v", err)
	}
	r1 := h.put("k", "1")
	r2 := h.put("k", "2")
	kv, err := s.Get(t.Context(), h.prefix+"k")
	if err != nil || string(kv.Value) != "2" || kv.CreateRevision != r1 || kv.ModRevision != r2 || kv.Key != h.prefix+"k" {
		t.Errorf("got %+v, %v; created at %d, written at %d", kv, err, r1, r2)
	}
	h.delete("k")
	if _, err := s.Get(t.Context(), h.prefix+"k"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("deleted key: %v", err)
	}
	r4 := h.put("k", "3")
	if kv, err := s.Get(t.Context(), h.prefix+"k"); err != nil || kv.CreateRevision != r4 {
		t.Errorf("made again: %+v, %v; want creation at %d", kv, err, r4)
	}
	// Deleting what is not there is no write and takes no revision.
	before := h.put("other", "")
	if after := h.delete("missing"); after != before {
		t.Errorf("a deletion of nothing took a revision: %d after %d", after, before)
	}
}

func testTxnIsOneRevision(t *testing.T, s store.Store) {
	h := hands(t, s)
	h.put("old", "x")
	w := h.watch(0)
	before, err := s.Revision(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	rev := h.txn(store.Op{Key: h.prefix + "a", Value: []byte("1")}, store.Op{Key: h.prefix + "b", Value: []byte("2")},
		store.Op{Key: h.prefix + "old", Delete: true})
	if rev <= before {
		t.Errorf("revision %d is not after %d", rev, before)
	}
	for _, kv := range h.list(store.ListOptions{}).KVs {
		if kv.ModRevision != rev {
			t.Errorf("%s was written at %d, not %d", kv.Key, kv.ModRevision, rev)
		}
	}
	if b := w.next(); b.Revision != rev || len(b.Events) != 3 {
		t.Errorf("one transaction came as %+v", b)
	}
	if now, err := s.Revision(t.Context()); err != nil || now < rev {
		t.Errorf("revision %d, %v: older than the last write %d", now, err, rev)
	}
}

// testCounter: increments under contention are lost if a condition is not checked in the same step as the write.
func testCounter(t *testing.T, s store.Store) {
	h := hands(t, s)
	h.put("n", "0")
	const workers, each = 4, 15
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for done := 0; done < each; {
				kv, err := s.Get(t.Context(), h.prefix+"n")
				if err != nil {
					t.Error(err)
					return
				}
				n, _ := strconv.Atoi(string(kv.Value))
				res, err := s.Txn(t.Context(), []store.Cond{{Key: kv.Key, Revision: kv.ModRevision}},
					[]store.Op{{Key: kv.Key, Value: []byte(strconv.Itoa(n + 1))}})
				if err != nil {
					t.Error(err)
					return
				}
				if res.OK {
					done++
				}
			}
		})
	}
	wg.Wait()
	if kv, err := s.Get(t.Context(), h.prefix+"n"); err != nil || string(kv.Value) != strconv.Itoa(workers*each) {
		t.Errorf("counted to %s, %v; want %d", kv.Value, err, workers*each)
	}
}

func testTTL(t *testing.T, s store.Store) {
	h := hands(t, s)
	w := h.watch(0)
	start := time.Now()
	for _, k := range []string{"gone", "kept"} {
		h.txn(store.Op{Key: h.prefix + k, Value: []byte("1"), TTL: 1500 * time.Millisecond})
	}
	h.put("kept", "2") // a write without TTL lasts
	for range 3 {
		w.next()
	}
	b := w.next()
	if len(b.Events) != 1 || !b.Events[0].Deleted || b.Events[0].Key != h.prefix+"gone" {
		t.Fatalf("after the time to live came %+v", b)
	}
	if took := time.Since(start); took < 1500*time.Millisecond {
		t.Errorf("gone after %v already", took)
	}
	if got := h.show(h.list(store.ListOptions{}).KVs); got != "kept=2 " {
		t.Errorf("left: %s", got)
	}
}

func testCancelled(t *testing.T, s store.Store) {
	h := hands(t, s)
	h.put("k", "1")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Get(ctx, h.prefix+"k"); !errors.Is(err, context.Canceled) {
		t.Errorf("get: %v", err)
	}
	if _, err := s.List(ctx, h.prefix, store.ListOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("list: %v", err)
	}
	if _, err := s.Txn(ctx, nil, []store.Op{{Key: h.prefix + "k"}}); !errors.Is(err, context.Canceled) {
		t.Errorf("txn: %v", err)
	}
}

// Transactions that are asked for together are each by itself: each has a revision and an outcome of its own.
func testTogether(t *testing.T, s store.Store) {
	h := hands(t, s)
	taken := h.put("taken", "x")
	var requests []store.Request
	for i := range 20 {
		key := h.prefix + strconv.Itoa(i)
		requests = append(requests, store.Request{Conds: []store.Cond{{Key: key}}, Ops: []store.Op{{Key: key, Value: []byte("v")}}})
	}
	requests[7] = store.Request{Conds: []store.Cond{{Key: h.prefix + "taken", Revision: taken - 1}}, Ops: []store.Op{{Key: h.prefix + "taken", Value: []byte("v")}}}
	revisions := map[int64]string{}
	var last int64
	answers := make([]store.TxnResult, len(requests))
	store.Together(t.Context(), s, requests, func(i int, res store.TxnResult, err error) {
		if answers[i] = res; err != nil {
			t.Error(err)
		}
	})
	for i, a := range answers {
		if a.OK != (i != 7) {
			t.Fatalf("%d: %+v", i, a)
		}
		if i == 7 {
			if len(a.Found) != 1 || a.Found[0].ModRevision != taken {
				t.Errorf("found %+v", a.Found)
			}
			continue
		}
		if other := revisions[a.Revision]; other != "" {
			t.Errorf("%d shares revision %d with %s", i, a.Revision, other)
		}
		revisions[a.Revision], last = strconv.Itoa(i), max(last, a.Revision)
	}
	// A watch that ends behind any of them resumes with the next, so that none is missed.
	for told, seen := 0, taken; seen < last; told++ {
		b := h.watch(seen + 1).next()
		if b.Revision <= seen || len(b.Events) != 1 || b.Events[0].Key != h.prefix+revisions[b.Revision] {
			t.Fatalf("after %d: %+v", seen, b)
		}
		if seen = b.Revision; seen == last && told+1 != len(revisions) {
			t.Errorf("told of %d, want %d", told+1, len(revisions))
		}
	}
	store.Together(t.Context(), s, nil, func(int, store.TxnResult, error) { t.Error("an answer to nothing") })
}
