package view

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"podo.dev/podo/internal/store"
	"podo.dev/podo/internal/timeline"
)

// How many keys a page of the load has, and how many batches are published together when the feed is behind.
const (
	loadPage    = 1000
	maxTogether = 256
)

// Pauses before an unavailable store is asked again.
const (
	firstPause = 50 * time.Millisecond
	lastPause  = 2 * time.Second
)

var podResource = schema.GroupResource{Resource: "pods"}

// Run follows the store until ctx ends; ready is called once the first load is published. It outlasts a store that does not
// answer and history that was compacted under it. It may be called again after it returned, and goes on from where it was.
func (v *View) Run(ctx context.Context, ready func()) error {
	if v.running.Swap(true) {
		return errors.New("view: Run is running already")
	}
	defer v.running.Store(false)
	if v.c.CheckMutation {
		defer v.CheckAll()
	}
	pause := firstPause
	load := v.cur.Load().rev == 0
	for ctx.Err() == nil {
		var err error
		if load {
			err = v.load(ctx)
		}
		if err == nil {
			load = false
			if ready != nil {
				ready()
				ready = nil
			}
			before := v.cur.Load().rev
			err = v.follow(ctx)
			if v.cur.Load().rev != before {
				pause = firstPause
			}
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, store.ErrCompacted):
			// Changes were lost: watchers get ErrGone, and have to list again.
			v.c.Logger.Warn("history was compacted before the view had read it; loading anew", "revision", v.cur.Load().rev)
			load = true
		default:
			v.c.Logger.Warn("the store does not answer; trying again", "pause", pause, "err", err)
		}
		if !sleep(ctx, pause) {
			return nil
		}
		pause = min(2*pause, lastPause)
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// load reads all cached kinds at one revision and publishes them. Unchanged objects keep their pointers.
func (v *View) load(ctx context.Context) error {
	rev, err := v.c.Store.Revision(ctx)
	if err != nil {
		return err
	}
	next := &state{rev: rev}
	fresh := make([]*table, len(v.tables))
	for i, t := range v.tables {
		fresh[i] = newTable(t.kind, t.pos)
		if !t.kind.NotCached {
			if err := v.loadKind(ctx, t, t.tree, fresh[i], rev); err != nil {
				return err
			}
		}
		next.kinds = append(next.kinds, fresh[i].freeze(rev))
	}
	for i, t := range v.tables {
		t.tree.Scan(func(path string, old *Entry) bool {
			if e, _ := fresh[i].tree.Get(path); e != old {
				v.forget(t, old)
			}
			return true
		})
		t.tree, t.indexes = fresh[i].tree, fresh[i].indexes
	}
	v.cur.Store(next)
	v.retained.clear()
	for _, t := range v.tables {
		t.hist.reset(rev)
	}
	v.delivered.Store(rev)
	v.waiters.reached(rev)
	return nil
}

// loadKind reads the objects of t at a revision. Objects that are the same in have keep their pointers.
func (v *View) loadKind(ctx context.Context, t *table, have *tree, into *table, rev int64) error {
	after := ""
	for {
		page, err := v.c.Store.List(ctx, t.kind.Prefix(), store.ListOptions{Revision: rev, After: after, Limit: loadPage})
		if err != nil {
			return fmt.Errorf("load %s: %w", t.kind.Resource, err)
		}
		for _, kv := range page.KVs {
			of, path := v.locate(kv.Key)
			if of != t {
				continue
			}
			e, ok := have.Get(path)
			if !ok || e.Rev != kv.ModRevision {
				e = v.decode(t, kv, e)
			}
			if e != nil {
				into.set(nil, e)
			}
		}
		if !page.More {
			return nil
		}
		after = page.KVs[len(page.KVs)-1].Key
	}
}

// follow applies the store's writes from where the view is, until the watch ends.
func (v *View) follow(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// The version before a write is in the tables, except for kinds that are not cached.
	ch := v.c.Store.Watch(ctx, Root, v.cur.Load().rev+1, func(key string) bool {
		t, _ := v.locate(key)
		return t != nil && t.kind.NotCached
	})
	p := pending{kinds: make([]pendingKind, len(v.tables))}
	for {
		b, open := <-ch
		for n := 1; open && b.Err == nil; n++ {
			v.apply(&p, b)
			if n == maxTogether {
				break
			}
			more := false
			select {
			case b, more = <-ch:
				open = more
			default:
			}
			if !more {
				break
			}
		}
		v.publish(&p)
		switch {
		case b.Err != nil:
			return b.Err
		case !open:
			return store.ErrUnavailable
		}
	}
}

// pending is what has been applied to the feed's tables but not published yet.
type pending struct {
	rev   int64 // 0: nothing
	kinds []pendingKind
	touch []*table
}

type pendingKind struct {
	changes []Change
	raw     []store.Event // of kinds that are not cached
}

func (v *View) apply(p *pending, b store.Batch) {
	if b.Revision > p.rev {
		p.rev = b.Revision
	}
	for _, ev := range b.Events {
		t, path := v.locate(ev.Key)
		if t == nil {
			continue
		}
		k := &p.kinds[t.pos]
		if len(k.changes) == 0 {
			p.touch = append(p.touch, t)
		}
		if t.kind.NotCached {
			k.changes = append(k.changes, Change{Rev: ev.ModRevision})
			k.raw = append(k.raw, ev)
			continue
		}
		if ch, ok := v.applyEvent(t, path, ev); ok {
			k.changes = append(k.changes, ch)
		}
	}
}

// applyEvent brings one write into the table; false when it shows nothing.
func (v *View) applyEvent(t *table, path string, ev store.Event) (Change, bool) {
	old, _ := t.tree.Get(path)
	if ev.Deleted {
		v.broken.remove(ev.Key)
		if old == nil {
			return Change{}, false
		}
		t.delete(old)
		return Change{Rev: ev.ModRevision, Old: old}, true
	}
	e, err := v.newEntry(t, ev.KV, old)
	if err != nil {
		// Only this object is at fault. Its last good version stays: if it looked deleted, somebody might stop a pod.
		v.broken.add(v, t, ev.KV, err)
		return Change{}, false
	}
	v.broken.remove(ev.Key)
	t.set(old, e)
	return Change{Rev: ev.ModRevision, Old: old, New: e}, true
}

// publish makes the pending writes visible: first to snapshots, then to watchers, then to those who wait for a revision. Whoever
// hears of a change therefore finds it in a snapshot.
func (v *View) publish(p *pending) {
	prev := v.cur.Load()
	if p.rev <= prev.rev {
		return
	}
	next := &state{rev: p.rev, kinds: prev.kinds}
	if len(p.touch) > 0 {
		next.kinds = append([]*objects(nil), prev.kinds...)
		for _, t := range p.touch {
			if changes := p.kinds[t.pos].changes; len(changes) > 0 {
				next.kinds[t.pos] = t.freeze(changes[len(changes)-1].Rev)
			}
		}
	}
	v.cur.Store(next)
	if len(p.touch) > 0 {
		v.retained.recent(next)
	}
	now := v.c.Now()
	v.ages.reached(p.rev, now)
	for _, t := range p.touch {
		k := &p.kinds[t.pos]
		if len(k.changes) > 0 {
			t.hist.append(k.changes, k.raw, now)
		}
		if t.kind.GroupResource() == podResource {
			v.tell(k.changes, now)
		}
		clear(k.changes)
		clear(k.raw)
		k.changes, k.raw = k.changes[:0], k.raw[:0]
	}
	if len(p.touch) > 0 {
		v.growOlder()
	}
	v.delivered.Store(p.rev)
	v.waiters.reached(p.rev)
	p.rev, p.touch = 0, p.touch[:0]
}

// tell appends the timeline's record of each new pod.
func (v *View) tell(changes []Change, now time.Time) {
	for _, ch := range changes {
		if ch.Old != nil || ch.New == nil {
			continue
		}
		v.c.Append(timeline.Record{
			At:     now,
			Pod:    timeline.PodRef{Namespace: ch.New.Key.Namespace, Name: ch.New.Key.Name, UID: string(ch.New.Meta.GetUID())},
			Stage:  timeline.Seen,
			Fields: []timeline.Field{{Key: "rev", Value: strconv.FormatInt(ch.Rev, 10)}},
		})
	}
}
