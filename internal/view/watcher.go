package view

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"podo.dev/podo/internal/component"
	"podo.dev/podo/internal/store"
)

// Watcher is a cursor in the changes of one resource. It has no buffer and no goroutine: a watcher that is never read costs
// nothing. One goroutine at a time may use it.
//
//	          behind what memory holds               caught up with the floor
//	memory ───────────────────────────► replay ─────────────────────────────► memory
//	                                      └─ compacted: ErrGone, for good
type Watcher struct {
	v      *View
	t      *table
	cursor int64
	gone   bool
}

// Watch starts at the changes of r with Rev > after. It does not block and costs nothing until Next.
func (v *View) Watch(r schema.GroupResource, after int64) (*Watcher, error) {
	t := v.byResource[r]
	if t == nil {
		return nil, fmt.Errorf("view: no such resource: %s", r)
	}
	return &Watcher{v: v, t: t, cursor: after}, nil
}

// closed is ready at once.
var closed = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// Next blocks until there are changes after the cursor and returns them; rev is where the cursor then is. All changes of one
// revision come together. No changes with a nil error is a progress mark: everything up to rev has been delivered.
// The slice is shared and read-only. Errors: ErrGone, or ctx's.
func (w *Watcher) Next(ctx context.Context) (changes []Change, rev int64, err error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, w.cursor, err
		}
		if w.gone {
			return nil, w.cursor, ErrGone
		}
		f := w.t.hist.after(w.cursor)
		switch {
		case f.gone:
			if changes, err = w.replay(ctx); err != nil || len(changes) > 0 {
				return changes, w.cursor, err
			}
		case f.wait != nil:
			select {
			case <-f.wait:
			case <-ctx.Done():
			}
		default:
			changes = f.changes
			w.cursor = f.changes[len(f.changes)-1].Rev
			if w.t.kind.NotCached {
				changes = w.v.decodeRaw(w.t, f)
			}
			if len(changes) > 0 {
				return changes, w.cursor, nil
			}
		}
	}
}

// Ready is closed when Next has something to return; call it again after each Next. While changes have to be read from the store
// it is closed, too, and Next may block for as long as the store takes.
func (w *Watcher) Ready() <-chan struct{} {
	if w.gone {
		return closed
	}
	if f := w.t.hist.after(w.cursor); f.wait != nil {
		return f.wait
	}
	return closed
}

// Progress is the newest revision up to which Next has delivered everything, as a bookmark needs it. It never blocks.
func (w *Watcher) Progress() int64 {
	// The order matters: a change that arrives after this line may be missed below, but it is newer than delivered.
	delivered := w.v.delivered.Load()
	if !w.gone && w.t.hist.idle(w.cursor) {
		w.cursor = max(w.cursor, delivered)
	}
	return w.cursor
}

// Close ends the watcher: Next then returns ErrGone. A watcher holds no resources, so forgetting to close one costs nothing.
func (w *Watcher) Close() { w.gone = true }

// decodeRaw decodes the changes that were found, once for all readers, and leaves out what cannot be decoded.
func (v *View) decodeRaw(t *table, f found) []Change {
	c := f.chunk
	c.mu.Lock()
	defer c.mu.Unlock()
	bad := false
	for i := f.from; i < f.to; i++ {
		if ev := c.raw[i]; ev.Key != "" {
			c.changes[i] = v.change(t, ev)
			c.raw[i] = store.Event{} // decoded
		}
		bad = bad || c.changes[i].New == nil && c.changes[i].Old == nil
	}
	changes := c.changes[f.from:f.to:f.to]
	if bad {
		changes = slices.Clone(changes)
		changes = slices.DeleteFunc(changes, func(c Change) bool { return c.New == nil && c.Old == nil })
	}
	return changes
}

// change decodes both sides of an event. An undecodable object counts as absent.
func (v *View) change(t *table, ev store.Event) Change {
	ch := Change{Rev: ev.ModRevision}
	if ev.Prev != nil {
		ch.Old = v.decode(t, *ev.Prev, nil)
	}
	if !ev.Deleted {
		ch.New = v.decode(t, ev.KV, ch.Old)
	}
	return ch
}

// decode makes an entry of the store's value under a key of t's; nil when it cannot be decoded.
func (v *View) decode(t *table, kv store.KV, old *Entry) *Entry {
	e, err := v.newEntry(t, kv, old)
	if err != nil {
		v.broken.add(v, t, kv, err)
		return nil
	}
	return e
}

// newEntry decodes a value; old is the version before it, if known.
func (v *View) newEntry(t *table, kv store.KV, old *Entry) (*Entry, error) {
	e, empty := t.place()
	var obj runtime.Object
	// Guarded, since a value that makes a decoder panic would do so again after every restart of the view.
	err := component.Guard(func() (err error) {
		obj, err = v.c.Decode(t.kind, kv.Value, kv.ModRevision, empty)
		return err
	})
	if err != nil {
		return nil, err
	}
	m, err := meta.Accessor(obj)
	if err != nil {
		return nil, err
	}
	// The key is the truth about the name: otherwise an object could be served under a name that is not its own.
	path := kv.Key[len(t.kind.Prefix()):]
	key := keyOf(t.kind, path)
	if got := (Key{m.GetNamespace(), m.GetName()}); got != key {
		return nil, errors.New("the object calls itself " + strconv.Quote(got.Namespace+"/"+got.Name))
	}
	e.path, e.Key, e.Rev, e.Object, e.Meta, e.size = path, key, kv.ModRevision, obj, m, len(kv.Value)
	v.alike.share(t, e, old)
	e.enc.cache = v.encCache
	if v.c.CheckMutation {
		e.sum = checksum(obj)
	}
	return e, nil
}
