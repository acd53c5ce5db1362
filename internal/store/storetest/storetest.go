// Package storetest is the suite that every store.Store passes. Cases assume nothing about what the store held before: each
// works under a prefix of its own, so one server can serve them all, one after another.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"podo.dev/podo/internal/store"
)

// Case is one promise of the port.
type Case struct {
	Name string
	Test func(t *testing.T, s store.Store)
}

// Cases is the suite.
var Cases = []Case{
	{"conditions", testConditions},
	{"create and delete", testCreateDelete},
	{"one revision a transaction", testTxnIsOneRevision},
	{"counter", testCounter},
	{"together", testTogether},
	{"pages", testPages},
	{"reads at a revision", testReadsAtRevision},
	{"compaction", testCompaction},
	{"watch replays and follows", testWatchReplaysAndFollows},
	{"watch from now", testWatchFromNow},
	{"reads have what a watch told", testReadsAfterWatch},
	{"watch deletion", testWatchDeletion},
	{"watch keeps big batches whole", testWatchBigBatch},
	{"watch that nobody reads", testWatchUnread},
	{"progress", testProgress},
	{"end of a watch", testWatchEnds},
	{"time to live", testTTL},
	{"cancelled context", testCancelled},
	{"model", testModel},
}

// Run runs the suite on stores that open makes.
func Run(t *testing.T, open func(t *testing.T) store.Store) {
	for _, c := range Cases {
		t.Run(c.Name, func(t *testing.T) { c.Test(t, open(t)) })
	}
}

var prefixes atomic.Int64

// h is a case's hands: a store, and a prefix that is its alone.
type h struct {
	*testing.T
	s      store.Store
	prefix string
}

func hands(t *testing.T, s store.Store) *h {
	return &h{t, s, fmt.Sprintf("/registry/test%d-%d/", time.Now().UnixNano(), prefixes.Add(1))}
}

func (h *h) put(key, value string) int64 {
	h.Helper()
	return h.txn(store.Op{Key: h.prefix + key, Value: []byte(value)})
}

func (h *h) delete(key string) int64 {
	h.Helper()
	return h.txn(store.Op{Key: h.prefix + key, Delete: true})
}

func (h *h) txn(ops ...store.Op) int64 {
	h.Helper()
	res, err := h.s.Txn(h.Context(), nil, ops)
	if err != nil || !res.OK {
		h.Fatalf("txn: %+v, %v", res, err)
	}
	return res.Revision
}

func (h *h) list(o store.ListOptions) store.ListResult {
	h.Helper()
	res, err := h.s.List(h.Context(), h.prefix, o)
	if err != nil {
		h.Fatalf("list %+v: %v", o, err)
	}
	return res
}

func (h *h) listErr(o store.ListOptions, want error) {
	h.Helper()
	if _, err := h.s.List(h.Context(), h.prefix, o); !errors.Is(err, want) {
		h.Errorf("list %+v: error %v, want %v", o, err, want)
	}
}

// show is a list in one line: key=value@mod, without the prefix.
func (h *h) show(kvs []store.KV) string {
	out := ""
	for _, kv := range kvs {
		out += fmt.Sprintf("%s=%s ", kv.Key[len(h.prefix):], kv.Value)
	}
	return out
}

func (h *h) watch(from int64) *watch {
	ctx, cancel := context.WithCancel(h.Context())
	h.Cleanup(cancel)
	return &watch{h, h.s.Watch(ctx, h.prefix, from, func(key string) bool { return !strings.HasSuffix(key, "/without") }), cancel}
}

// watch reads one watch; nothing may take longer than patience.
type watch struct {
	h      *h
	ch     <-chan store.Batch
	cancel func()
}

const patience = 20 * time.Second

// next is the next batch that has events or an error.
func (w *watch) next() store.Batch {
	w.h.Helper()
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for {
		select {
		case b, open := <-w.ch:
			if !open {
				w.h.Fatal("the watch has ended")
			}
			if len(b.Events) > 0 || b.Err != nil {
				return b
			}
		case <-timeout.C:
			w.h.Fatal("nothing came from the watch")
		}
	}
}
