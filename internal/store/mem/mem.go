// Package mem is the store in memory, for tests and simulation: a copy-on-write B-tree whose snapshot of every revision is
// kept until Compact. Waiting is done on channels and timers only, so that it works inside a testing/synctest bubble.
package mem

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/tidwall/btree"

	"podo.dev/podo/internal/store"
)

// Options of a Store. The zero value is a store without faults that keeps all history.
type Options struct {
	// Faults, when set, is asked before every call. It is called without locks held, from many goroutines.
	Faults func(Call) Fault
	// Keep > 0 compacts by itself to about that many revisions.
	Keep int
}

// Call is one use of the store, for a fault schedule to decide about.
type Call struct {
	Op  string // get, list, txn, watch, progress, revision, compact
	Key string // the key or prefix; of a txn its first op's
}

// Fault is what goes wrong with a call. The zero value is nothing.
type Fault struct {
	// Delay passes before anything else happens.
	Delay time.Duration
	// Err fails the call.
	Err error
	// Applied lets a txn happen although Err is returned: the result that the caller cannot know.
	Applied bool
}

type tree = btree.Map[string, store.KV]

// revision is the state after one write, and that write.
type revision struct {
	rev    int64
	state  *tree // read-only
	events []store.Event
}

// Store implements store.Store.
type Store struct {
	opts Options

	mu      sync.Mutex
	current *tree
	// history is in order without gaps: history[i].rev == history[0].rev + i. The first one is the compaction boundary.
	history  []revision
	expiry   map[string]*time.Timer
	wake     chan struct{} // closed and replaced when watches have something to look at
	progress int           // counts RequestProgress
	broken   int           // counts BreakWatches
	brokenBy error
}

var _ store.Store = (*Store)(nil)

// New makes an empty store at revision 1, as etcd's is.
func New(o Options) *Store {
	s := &Store{opts: o, current: &tree{}, expiry: map[string]*time.Timer{}, wake: make(chan struct{})}
	s.history = []revision{{rev: 1, state: s.current.Copy()}}
	return s
}

// fault applies the fault schedule to a call; applied tells that the call shall happen and then fail with err.
func (s *Store) fault(ctx context.Context, op, key string) (err error, applied bool) {
	if err := ctx.Err(); err != nil {
		return err, false
	}
	if s.opts.Faults == nil {
		return nil, false
	}
	f := s.opts.Faults(Call{op, key})
	if f.Delay > 0 {
		t := time.NewTimer(f.Delay)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
			return ctx.Err(), false
		}
	}
	return f.Err, f.Applied
}

func (s *Store) rev() int64 { return s.history[len(s.history)-1].rev }

// at finds the state at a revision; 0 is the newest.
func (s *Store) at(rev int64) (revision, error) {
	first := s.history[0].rev
	switch {
	case rev == 0:
		return s.history[len(s.history)-1], nil
	case rev < first:
		return revision{}, store.ErrCompacted
	case rev > s.rev():
		return revision{}, store.ErrFuture
	}
	return s.history[rev-first], nil
}

// Get implements store.Store.
func (s *Store) Get(ctx context.Context, key string) (store.KV, error) {
	if err, _ := s.fault(ctx, "get", key); err != nil {
		return store.KV{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	kv, ok := s.current.Get(key)
	if !ok {
		return store.KV{}, store.ErrNotFound
	}
	return kv, nil
}

// List implements store.Store.
func (s *Store) List(ctx context.Context, prefix string, o store.ListOptions) (store.ListResult, error) {
	if err, _ := s.fault(ctx, "list", prefix); err != nil {
		return store.ListResult{}, err
	}
	s.mu.Lock()
	at, err := s.at(o.Revision)
	s.mu.Unlock()
	if err != nil {
		return store.ListResult{}, err
	}
	res := store.ListResult{Revision: at.rev}
	at.state.Ascend(max(prefix, o.After), func(key string, kv store.KV) bool {
		switch {
		case !strings.HasPrefix(key, prefix):
			return false
		case key == o.After:
			return true
		case o.Limit > 0 && len(res.KVs) == o.Limit:
			res.More = true
			return false
		}
		res.KVs = append(res.KVs, kv)
		return true
	})
	return res, nil
}

// Txn implements store.Store.
func (s *Store) Txn(ctx context.Context, conds []store.Cond, ops []store.Op) (store.TxnResult, error) {
	var key string
	if len(ops) > 0 {
		key = ops[0].Key
	}
	err, applied := s.fault(ctx, "txn", key)
	if err != nil && !applied {
		return store.TxnResult{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	res := store.TxnResult{OK: true}
	for _, c := range conds {
		kv, _ := s.current.Get(c.Key) // missing: ModRevision 0
		kv.Key = c.Key
		res.OK = res.OK && kv.ModRevision == c.Revision
		res.Found = append(res.Found, kv)
	}
	if res.OK {
		res.Found = nil
		s.apply(ops)
	}
	res.Revision = s.rev()
	if err != nil {
		return store.TxnResult{}, err
	}
	return res, nil
}

// apply writes ops as one revision, unless they change nothing. s.mu is held.
func (s *Store) apply(ops []store.Op) {
	rev := s.rev() + 1
	var events []store.Event
	for _, op := range ops {
		old, existed := s.current.Get(op.Key)
		ev := store.Event{KV: store.KV{Key: op.Key, ModRevision: rev}, Deleted: op.Delete}
		if existed {
			ev.Prev = &old
		}
		if t := s.expiry[op.Key]; t != nil {
			t.Stop()
			delete(s.expiry, op.Key)
		}
		switch {
		case op.Delete && !existed:
			continue
		case op.Delete:
			s.current.Delete(op.Key)
		default:
			ev.Value, ev.CreateRevision = op.Value, rev
			if existed {
				ev.CreateRevision = old.CreateRevision
			}
			s.current.Set(op.Key, ev.KV)
			if op.TTL > 0 {
				s.expire(op.Key, rev, op.TTL)
			}
		}
		events = append(events, ev)
	}
	if len(events) == 0 {
		return
	}
	s.history = append(s.history, revision{rev, s.current.Copy(), events})
	if k := s.opts.Keep; k > 0 && len(s.history) > 2*k {
		s.history = append([]revision(nil), s.history[len(s.history)-k:]...)
	}
	s.broadcast()
}

// expire deletes the key, if it is still as written at rev, after ttl rounded up to seconds. s.mu is held.
func (s *Store) expire(key string, rev int64, ttl time.Duration) {
	ttl = (ttl + time.Second - 1).Truncate(time.Second)
	s.expiry[key] = time.AfterFunc(ttl, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if kv, ok := s.current.Get(key); ok && kv.ModRevision == rev {
			s.apply([]store.Op{{Key: key, Delete: true}})
		}
	})
}

// Revision implements store.Store.
func (s *Store) Revision(ctx context.Context) (int64, error) {
	if err, _ := s.fault(ctx, "revision", ""); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rev(), nil
}

// Compact implements store.Store.
func (s *Store) Compact(ctx context.Context, rev int64) error {
	if err, _ := s.fault(ctx, "compact", ""); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	first := s.history[0].rev
	switch {
	case rev > s.rev():
		return store.ErrFuture
	case rev > first:
		s.history = append([]revision(nil), s.history[rev-first:]...)
		s.broadcast()
	}
	return nil
}
