package etcd

import (
	"context"
	"errors"
	"strconv"
	"sync"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"

	"podo.dev/podo/internal/store"
)

// watches are the contexts of those that run, for RequestProgress. Each is a stream of its own: on a shared one, etcd
// sends no progress mark as long as any watch waits for a revision that has not happened.
type watches struct {
	mu   sync.Mutex
	last int
	ctxs map[int]context.Context
}

func (w *watches) add(ctx context.Context) (context.Context, int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last++
	ctx = metadata.AppendToOutgoingContext(ctx, "podo-watch", strconv.Itoa(w.last))
	if w.ctxs == nil {
		w.ctxs = map[int]context.Context{}
	}
	w.ctxs[w.last] = ctx
	return ctx, w.last
}

func (w *watches) remove(id int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.ctxs, id)
}

func (w *watches) all() []context.Context {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := make([]context.Context, 0, len(w.ctxs))
	for _, ctx := range w.ctxs {
		out = append(out, ctx)
	}
	return out
}

// Watch implements store.Store.
func (s *Client) Watch(ctx context.Context, prefix string, from int64) <-chan store.Batch {
	out := make(chan store.Batch)
	c, err := s.connect()
	if err == nil && from == 0 {
		if from, err = s.Revision(ctx); err == nil {
			from++
		}
	}
	go func() {
		defer close(out)
		if err == nil {
			wctx, cancel := context.WithCancel(ctx)
			defer cancel()
			if !c.local {
				wctx = clientv3.WithRequireLeader(wctx) // a member cut off from its cluster would keep silent
			}
			wctx, id := c.watches.add(wctx)
			defer c.watches.remove(id)
			err = s.relay(ctx, c, c.c.Watch(wctx, prefix, clientv3.WithPrefix(), clientv3.WithRev(from), clientv3.WithPrevKV(),
				clientv3.WithFragment()), out)
		}
		if ctx.Err() == nil {
			send(ctx, out, store.Batch{Err: err})
		}
	}()
	return out
}

// relay turns responses into batches until the watch ends, and says why it did. etcd never splits a revision over two
// responses, and the client puts the fragments of a response together.
func (s *Client) relay(ctx context.Context, c *conn, in clientv3.WatchChan, out chan<- store.Batch) error {
	for res := range in {
		switch {
		case res.CompactRevision != 0 || errors.Is(res.Err(), rpctypes.ErrCompacted):
			return store.ErrCompacted
		case res.Err() != nil:
			return s.failed(ctx, res.Err())
		case res.IsProgressNotify():
			c.saw(res.Header.Revision)
			if !send(ctx, out, store.Batch{Revision: res.Header.Revision}) {
				return ctx.Err()
			}
			continue
		}
		for events := res.Events; len(events) > 0; {
			rev, n := events[0].Kv.ModRevision, 1
			for n < len(events) && events[n].Kv.ModRevision == rev {
				n++
			}
			c.saw(rev)
			b := store.Batch{Revision: rev, Events: make([]store.Event, 0, n)}
			for _, e := range events[:n] {
				b.Events = append(b.Events, eventOf(e))
			}
			if !send(ctx, out, b) {
				return ctx.Err()
			}
			events = events[n:]
		}
	}
	return store.ErrUnavailable
}

// saw notes that a watch is being told of rev.
func (c *conn) saw(rev int64) {
	for {
		old := c.seen.Load()
		if rev <= old || c.seen.CompareAndSwap(old, rev) {
			return
		}
	}
}

func send(ctx context.Context, out chan<- store.Batch, b store.Batch) bool {
	select {
	case out <- b:
		return true
	case <-ctx.Done():
		return false
	}
}

// RequestProgress implements store.Store.
func (s *Client) RequestProgress(ctx context.Context) error {
	c, err := s.connect()
	if err != nil {
		return err
	}
	for _, wctx := range c.watches.all() {
		if err := c.c.RequestProgress(wctx); err != nil && wctx.Err() == nil {
			return s.failed(ctx, err)
		}
	}
	return ctx.Err()
}

func kvOf(kv *mvccpb.KeyValue) store.KV {
	return store.KV{Key: string(kv.Key), Value: kv.Value, CreateRevision: kv.CreateRevision, ModRevision: kv.ModRevision}
}

func eventOf(e *clientv3.Event) store.Event {
	ev := store.Event{KV: kvOf(e.Kv), Deleted: e.Type == clientv3.EventTypeDelete}
	if ev.Deleted {
		ev.Value = nil
	}
	if e.PrevKv != nil {
		prev := kvOf(e.PrevKv)
		ev.Prev = &prev
	}
	return ev
}
