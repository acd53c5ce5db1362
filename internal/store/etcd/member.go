package etcd

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/storage/mvcc"

	"podo.dev/podo/internal/gcroom"
	"podo.dev/podo/internal/store"
)

// member is the database of a member that is alone in its cluster and in this process. It has applied every acknowledged write,
// so it is up to date. But it tells watches of a write a moment before reads see it.
type member struct {
	db mvcc.WatchableKV
	// defragment rewrites the database without its free pages; nothing is answered meanwhile.
	defragment func() error
	// flush writes the buffered changes to the database's file, which also happens every few seconds.
	flush func()
	// seen is the newest revision that a watch has delivered: no read may be older.
	seen atomic.Int64

	mu      sync.Mutex
	ended   bool
	gone    chan struct{} // closed when the member ends
	running sync.WaitGroup
}

func newMember(s *etcdserver.EtcdServer) *member {
	return &member{
		db: s.KV(), gone: make(chan struct{}), flush: s.Backend().ForceCommit,
		defragment: func() error { return gcroom.Unmapping(s.Backend().Defrag) }, // the client's way needs a gRPC server
	}
}

// forget releases the database's buffers. They are as long as the most that was ever written between two flushes, and hold their
// old content until as much is written again; but a flush drops a buffer that was not used since the flush before. A reader keeps
// a copy until the next reader after a write.
func (m *member) forget(ctx context.Context) {
	_, _ = m.db.Range(ctx, []byte{0}, nil, mvcc.RangeOptions{}) // nobody's key
	m.flush()
	m.flush()
}

// enter lets a watch read the database until done is called.
func (m *member) enter() (done func(), err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended {
		return nil, fmt.Errorf("%w: etcd is not running", store.ErrUnavailable)
	}
	m.running.Add(1)
	return m.running.Done, nil
}

// end ends all watches.
func (m *member) end() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ended = true
	close(m.gone)
}

// revision is the newest one, linearizably.
func (m *member) revision() int64 { return max(m.db.Rev(), m.seen.Load()) }

// saw notes that a watch is being told of rev.
func (m *member) saw(rev int64) {
	for {
		old := m.seen.Load()
		if rev <= old || m.seen.CompareAndSwap(old, rev) {
			return
		}
	}
}

// watchMember follows the database itself: no messages are made, and only this goroutine stands between the write and its reader.
// The database does not wait for a slow watch but serves it less and less, so everything is taken at once and kept until the
// reader comes for it.
func (c *conn) watchMember(ctx context.Context, w wish, out chan<- store.Batch) error {
	m := c.local
	stream := m.db.NewWatchStream()
	defer func() { go leave(stream) }()
	from, to := span(w.prefix)
	if _, err := stream.Watch(ctx, clientv3.AutoWatchID, from, to, w.from); err != nil {
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	asked := make(chan struct{}, 1)
	defer c.watches.add(func() error {
		select {
		case asked <- struct{}{}:
		default: // a request is there already, and has not been answered
		}
		return nil
	})()
	var waiting []store.Batch
	for {
		var next store.Batch
		var reader chan<- store.Batch
		if len(waiting) > 0 {
			next, reader = waiting[0], out
		}
		select {
		case res := <-stream.Chan():
			mvcc.ReportEventReceived(len(res.Events))
			if res.CompactRevision != 0 {
				return store.ErrCompacted
			}
			if len(res.Events) == 0 { // a progress mark
				m.saw(res.Revision)
				waiting = append(waiting, store.Batch{Revision: res.Revision})
			}
			for b := range batches(res.Events, nil) {
				m.saw(b.Revision)
				if w.prev != nil {
					m.previous(ctx, b.Events, w.prev)
				}
				waiting = append(waiting, b)
			}
		case reader <- next:
			waiting[0] = store.Batch{}
			waiting = waiting[1:]
		case <-asked:
			stream.RequestProgressAll()
		case <-m.gone:
			return store.ErrUnavailable
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// previous fills in the version before each event.
func (m *member) previous(ctx context.Context, events []store.Event, wanted func(key string) bool) {
	for i := range events {
		e := &events[i]
		if e.CreateRevision == e.ModRevision || !wanted(e.Key) {
			continue
		}
		// The version may have been compacted.
		if r, err := m.db.Range(ctx, []byte(e.Key), nil, mvcc.RangeOptions{Rev: e.ModRevision - 1}); err == nil && len(r.KVs) > 0 {
			kv := kvOf(r.KVs[0])
			e.Prev = &kv
		}
	}
}

// leave closes a stream without making its user wait, since a member that has died may hold its locks for ever.
func leave(stream mvcc.WatchStream) {
	stream.Close()
	for res := range stream.Chan() {
		mvcc.ReportEventReceived(len(res.Events))
	}
}

// span is the key range of a prefix.
func span(prefix string) (from, to []byte) {
	if prefix == "" {
		return []byte{0}, []byte{} // no end
	}
	return []byte(prefix), []byte(clientv3.GetPrefixRangeEnd(prefix))
}
