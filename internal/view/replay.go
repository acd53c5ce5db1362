package view

import (
	"context"
	"errors"
	"time"

	"podo.dev/podo/internal/store"
)

// How soon an idle replay asks the store for its progress, at first and at most, and how many changes it returns at once.
const (
	firstNudge    = 20 * time.Millisecond
	lastNudge     = time.Second
	replayChanges = 512
)

// replay reads changes after the cursor that memory has dropped, through a watch of its own on the store, and moves the cursor
// behind them. The watch lasts only for this call: between calls nothing is buffered for a slow reader. It may return no changes,
// when there are none up to what memory has, or when the store did not answer for a while.
func (w *Watcher) replay(ctx context.Context) ([]Change, error) {
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	ch := w.v.c.Store.Watch(watching, w.t.kind.Prefix(), w.cursor+1, func(string) bool { return true })
	nudge := firstNudge
	timer := time.NewTimer(nudge)
	defer timer.Stop()
	var out []Change
	rev := w.cursor
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-timer.C:
			// There may be no change of this kind between the cursor and what memory has: only a progress mark tells.
			_ = w.v.c.Store.RequestProgress(ctx) // if the store does not answer, the watch says so
			nudge = min(2*nudge, lastNudge)
			timer.Reset(nudge)
			continue
		case b, open := <-ch:
			changes, err := w.v.changesOf(w.t, b)
			switch {
			case ctx.Err() != nil:
				return nil, ctx.Err()
			case !open || b.Err != nil || err != nil:
				if len(out) > 0 {
					break // return these first; the error will come again
				}
				if err != nil || errors.Is(b.Err, store.ErrCompacted) {
					w.gone = true
					return nil, ErrGone
				}
				sleep(ctx, lastNudge)
				return nil, ctx.Err()
			default:
				out, rev = append(out, changes...), b.Revision
				if len(out) < replayChanges && w.t.hist.after(rev).gone {
					continue
				}
			}
		}
		w.cursor = max(w.cursor, rev)
		return out, nil
	}
}

// changesOf decodes a batch's changes of the kind. ErrGone says that the previous version of one of them has been compacted.
func (v *View) changesOf(t *table, b store.Batch) ([]Change, error) {
	var out []Change
	now := v.cur.Load()
	for _, ev := range b.Events {
		got, path := v.locate(ev.Key)
		if got != t {
			continue
		}
		if ev.Prev == nil && (ev.Deleted || ev.CreateRevision != ev.ModRevision) {
			return nil, ErrGone
		}
		ch := Change{Rev: ev.ModRevision}
		// The current version has been decoded already.
		if e, ok := now.kinds[t.pos].tree.Get(path); ok && e.Rev == ev.ModRevision && !ev.Deleted {
			ch.New = e
		} else if !ev.Deleted {
			ch.New = unkept(v.decode(t, ev.KV, nil))
		}
		if ev.Prev != nil {
			ch.Old = unkept(v.decode(t, *ev.Prev, nil))
		}
		if ch.New != nil || ch.Old != nil && ev.Deleted {
			out = append(out, ch)
		}
	}
	return out, nil
}
