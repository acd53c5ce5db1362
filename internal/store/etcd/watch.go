package etcd

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"strconv"
	"sync"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"

	"podo.dev/podo/internal/store"
)

// watches are those that run: each is a function that asks it for a progress mark.
type watches struct {
	mu   sync.Mutex
	last int
	asks map[int]func() error
}

func (w *watches) add(ask func() error) (remove func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last++
	id := w.last
	if w.asks == nil {
		w.asks = map[int]func() error{}
	}
	w.asks[id] = ask
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.asks, id)
	}
}

func (w *watches) all() []func() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Values(w.asks))
}

// wish is what a Watch was asked for.
type wish struct {
	prefix string
	from   int64
	prev   func(key string) bool
}

// atHand is how many batches may wait for a watch's reader. A burst, such as one commit of many clients' writes, is then taken
// together, without switching goroutines for each.
const atHand = 64

// Watch implements store.Store.
func (s *Client) Watch(ctx context.Context, prefix string, from int64, prev func(key string) bool) <-chan store.Batch {
	out := make(chan store.Batch, atHand)
	c, err := s.connect()
	if err == nil && from == 0 {
		if from, err = s.Revision(ctx); err == nil {
			from++
		}
	}
	var done func()
	if err == nil && c.local != nil {
		done, err = c.local.enter()
	}
	go func() {
		defer close(out)
		switch w := (wish{prefix, from, prev}); {
		case err != nil:
		case c.local != nil:
			err = c.watchMember(ctx, w, out)
			done()
		default:
			err = s.watchCluster(ctx, c, w, out)
		}
		if ctx.Err() == nil {
			send(ctx, out, store.Batch{Err: err})
		}
	}()
	return out
}

// watchCluster relays a watch over the network until it ends, and returns why it did. Each watch has a stream of its own: on a
// shared one etcd sends no progress mark while any watch waits for a revision that has not happened. etcd never splits a revision
// over two responses, and the client joins the fragments of a response.
func (s *Client) watchCluster(ctx context.Context, c *conn, w wish, out chan<- store.Batch) error {
	wctx, cancel := context.WithCancel(ctx)
	defer cancel()
	wctx = clientv3.WithRequireLeader(wctx) // otherwise a member cut off from its cluster would be silent
	wctx = metadata.AppendToOutgoingContext(wctx, "podo-watch", strconv.FormatInt(c.streams.Add(1), 10))
	defer c.watches.add(func() error {
		if err := c.c.RequestProgress(wctx); wctx.Err() == nil {
			return err
		}
		return nil
	})()
	opts := []clientv3.OpOption{clientv3.WithPrefix(), clientv3.WithRev(w.from), clientv3.WithFragment()}
	if w.prev != nil {
		opts = append(opts, clientv3.WithPrevKV())
	}
	for res := range c.c.Watch(wctx, w.prefix, opts...) {
		switch {
		case res.CompactRevision != 0 || errors.Is(res.Err(), rpctypes.ErrCompacted):
			return store.ErrCompacted
		case res.Err() != nil:
			return s.failed(ctx, res.Err())
		case res.IsProgressNotify():
			if !send(ctx, out, store.Batch{Revision: res.Header.Revision}) {
				return ctx.Err()
			}
			continue
		}
		for b := range batches(res.Events, w.prev) {
			if !send(ctx, out, b) {
				return ctx.Err()
			}
		}
	}
	return store.ErrUnavailable
}

// batches groups events by revision; they arrive in that order.
func batches(events []*mvccpb.Event, prev func(key string) bool) iter.Seq[store.Batch] {
	return func(yield func(store.Batch) bool) {
		for len(events) > 0 {
			rev, n := events[0].Kv.ModRevision, 1
			for n < len(events) && events[n].Kv.ModRevision == rev {
				n++
			}
			b := store.Batch{Revision: rev, Events: make([]store.Event, n)}
			for i, e := range events[:n] {
				b.Events[i] = eventOf(e)
				if p := e.PrevKv; p != nil && prev != nil && prev(b.Events[i].Key) {
					kv := kvOf(p)
					b.Events[i].Prev = &kv
				}
			}
			if !yield(b) {
				return
			}
			events = events[n:]
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
	for _, ask := range c.watches.all() {
		if err := ask(); err != nil {
			return s.failed(ctx, err)
		}
	}
	return ctx.Err()
}

func kvOf(kv *mvccpb.KeyValue) store.KV {
	return store.KV{Key: string(kv.Key), Value: kv.Value, CreateRevision: kv.CreateRevision, ModRevision: kv.ModRevision}
}

func eventOf(e *mvccpb.Event) store.Event {
	ev := store.Event{KV: kvOf(e.Kv), Deleted: e.Type == mvccpb.Event_DELETE}
	if ev.Deleted {
		ev.Value = nil
	}
	return ev
}
