package view

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"podo.dev/podo/internal/store"
)

// Feed is the one writer of a view that follows no store: the view of a node that is sent a part of the cluster by API watches.
// Its readers notice only this: revisions are the view's own count of changes, while objects keep the API's resourceVersion;
// Fresh returns what has arrived so far, and before Complete waits for that; and changes that memory has dropped are gone.
//
// Objects handed in belong to the view from then on. Methods are safe for concurrent use.
type Feed struct {
	v        *View
	mu       sync.Mutex
	pending  pending
	complete chan struct{}
	once     sync.Once
}

// NewFed makes a view without a store, and its feed. Its Run must not be called.
func NewFed(c Config) (*View, *Feed, error) {
	f := &Feed{complete: make(chan struct{})}
	c.Store = told{f}
	v, err := New(c)
	if err != nil {
		return nil, nil, err
	}
	f.v, f.pending.kinds = v, make([]pendingKind, len(v.tables))
	for _, t := range v.tables {
		t.hist.reset(0)
	}
	return v, f, nil
}

// Complete says that the feed has delivered the initial state.
func (f *Feed) Complete() { f.once.Do(func() { close(f.complete) }) }

// Put tells that objects were written.
func (f *Feed) Put(r schema.GroupResource, objs ...runtime.Object) error {
	return f.write(r, func(t *table, rev int64) error { return f.put(t, rev, objs) })
}

// Delete reports that an object was deleted, or no longer concerns this node.
func (f *Feed) Delete(r schema.GroupResource, key Key) error {
	return f.write(r, func(t *table, rev int64) error {
		f.delete(t, rev, pathOf(t.kind, key))
		return nil
	})
}

// Replace says that objs are all the objects for whose keys within is true.
func (f *Feed) Replace(r schema.GroupResource, within func(Key) bool, objs []runtime.Object) error {
	return f.write(r, func(t *table, rev int64) error {
		gone := map[string]bool{}
		t.tree.Scan(func(path string, e *Entry) bool {
			gone[path] = within(e.Key)
			return true
		})
		for _, obj := range objs {
			if m, err := meta.Accessor(obj); err == nil {
				gone[pathOf(t.kind, Key{m.GetNamespace(), m.GetName()})] = false
			}
		}
		for path, yes := range gone {
			if yes {
				f.delete(t, rev, path)
			}
		}
		return f.put(t, rev, objs)
	})
}

// write publishes the effect of change as one revision.
func (f *Feed) write(r schema.GroupResource, change func(t *table, rev int64) error) error {
	t := f.v.byResource[r]
	if t == nil || t.kind.NotCached {
		return fmt.Errorf("view: %s cannot be fed", r)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pending.rev = f.v.cur.Load().rev + 1
	f.pending.touch = append(f.pending.touch, t)
	err := change(t, f.pending.rev)
	f.v.publish(&f.pending)
	return err
}

// put brings objects into the table. An object that is unchanged keeps its pointer and is no change. The resourceVersion alone
// does not tell: an API server restored from an older snapshot gives some of them out again.
func (f *Feed) put(t *table, rev int64, objs []runtime.Object) error {
	for _, obj := range objs {
		m, err := meta.Accessor(obj)
		if err != nil {
			return err
		}
		path := pathOf(t.kind, Key{m.GetNamespace(), m.GetName()})
		old, _ := t.tree.Get(path)
		obj.GetObjectKind().SetGroupVersionKind(t.kind.GVK)
		if old != nil && old.Meta.GetUID() == m.GetUID() && old.Meta.GetResourceVersion() == m.GetResourceVersion() &&
			equality.Semantic.DeepEqual(old.Object, obj) {
			continue
		}
		e := &Entry{path: path, Key: keyOf(t.kind, path), Rev: rev, Object: obj, Meta: m}
		if sized, ok := obj.(interface{ Size() int }); ok {
			e.size = sized.Size()
		}
		e.enc.cache = f.v.encCache
		if f.v.c.CheckMutation {
			e.sum = checksum(obj)
		}
		t.set(old, e)
		f.note(t, Change{Rev: rev, Old: old, New: e})
	}
	return nil
}

func (f *Feed) delete(t *table, rev int64, path string) {
	if old, ok := t.tree.Get(path); ok {
		t.delete(old)
		f.note(t, Change{Rev: rev, Old: old})
	}
}

func (f *Feed) note(t *table, ch Change) {
	k := &f.pending.kinds[t.pos]
	k.changes = append(k.changes, ch)
}

// told takes the place of the store: what the view was told is all there is.
type told struct{ f *Feed }

// Revision is the newest one, as soon as the initial state is complete.
func (s told) Revision(ctx context.Context) (int64, error) {
	select {
	case <-s.f.complete:
		return s.f.v.cur.Load().rev, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

func (told) Get(context.Context, string) (store.KV, error) {
	return store.KV{}, store.ErrUnavailable
}

func (told) List(context.Context, string, store.ListOptions) (store.ListResult, error) {
	return store.ListResult{}, store.ErrCompacted
}

func (told) Txn(context.Context, []store.Cond, []store.Op) (store.TxnResult, error) {
	return store.TxnResult{}, store.ErrUnavailable
}

// Watch is only asked for the past, and there is none.
func (told) Watch(context.Context, string, int64, func(string) bool) <-chan store.Batch {
	ch := make(chan store.Batch, 1)
	ch <- store.Batch{Err: store.ErrCompacted}
	close(ch)
	return ch
}

func (told) RequestProgress(context.Context) error { return nil }

func (told) Compact(context.Context, int64) error { return nil }
