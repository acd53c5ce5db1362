package view

import (
	"context"
	"errors"
	"time"

	"podo.dev/podo/internal/store"
)

// replay reads one kind's changes from the store: those that memory has forgotten. It is one watch on the store, which
// the Watcher ends when it has caught up with memory.
type replay struct {
	v      *View
	t      *table
	cancel context.CancelFunc
	ch     <-chan store.Batch
	nudge  time.Duration
}

// How soon an idle replay asks the store how far it is, at first, and at most.
const (
	firstNudge = 20 * time.Millisecond
	lastNudge  = time.Second
)

func (v *View) startReplay(t *table, after int64) *replay {
	ctx, cancel := context.WithCancel(context.Background())
	return &replay{v: v, t: t, cancel: cancel, ch: v.c.Store.Watch(ctx, t.kind.Prefix(), after+1), nudge: firstNudge}
}

// stop ends the watch. Its channel closes by itself: nobody needs to read it.
func (r *replay) stop() { r.cancel() }

// next returns the next batch as changes, or no changes and a progress mark. ErrUnavailable comes after a pause.
func (r *replay) next(ctx context.Context) ([]Change, int64, error) {
	timer := time.NewTimer(r.nudge)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil, 0, ctx.Err()
		case b, open := <-r.ch:
			if !open {
				b.Err = store.ErrUnavailable
			}
			switch {
			case errors.Is(b.Err, store.ErrCompacted):
				return nil, 0, ErrGone
			case b.Err != nil:
				return nil, 0, r.pause(ctx)
			}
			return r.changes(b)
		case <-timer.C:
			// There may be nothing of this kind between the cursor and what memory has: only a mark tells.
			if err := r.v.c.Store.RequestProgress(ctx); err != nil && ctx.Err() != nil {
				return nil, 0, ctx.Err()
			}
			r.nudge = min(2*r.nudge, lastNudge)
			timer.Reset(r.nudge)
		}
	}
}

func (r *replay) pause(ctx context.Context) error {
	t := time.NewTimer(lastNudge)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return store.ErrUnavailable
	}
}

func (r *replay) changes(b store.Batch) ([]Change, int64, error) {
	var out []Change
	now := r.v.cur.Load()
	for _, ev := range b.Events {
		t, path := r.v.locate(ev.Key)
		if t != r.t {
			continue
		}
		if ev.Prev == nil && (ev.Deleted || ev.CreateRevision != ev.ModRevision) {
			return nil, 0, ErrGone // compaction took what was there before: nobody can be told what the change was
		}
		ch := Change{Rev: ev.ModRevision}
		// What is still current has been decoded already.
		if e, ok := now.kinds[t.pos].tree.Get(path); ok && e.Rev == ev.ModRevision && !ev.Deleted {
			ch.New = e
		} else if !ev.Deleted {
			ch.New = r.v.decode(t, ev.KV)
		}
		if ev.Prev != nil {
			ch.Old = r.v.decode(t, *ev.Prev)
		}
		if ch.New != nil || ch.Old != nil && ev.Deleted {
			out = append(out, ch)
		}
	}
	return out, b.Revision, nil
}
