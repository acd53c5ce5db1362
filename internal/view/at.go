package view

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"podo.dev/podo/internal/store"
)

// At returns a snapshot in which the objects of r are exactly those of revision rev, retained or read from the store. Only r may
// be read from it. It returns ErrGone when rev has been past for longer than Config.PastAge or was compacted, and store.ErrFuture
// when rev has not happened yet. Kinds that are not cached are always read from the store.
func (v *View) At(ctx context.Context, r schema.GroupResource, rev int64) (Snapshot, error) {
	t := v.byResource[r]
	if t == nil {
		return Snapshot{}, fmt.Errorf("view: no such resource: %s", r)
	}
	if v.ages.expired(rev, v.c.Now(), v.c.PastAge) {
		return Snapshot{}, ErrGone
	}
	if !t.kind.NotCached {
		if rev > v.cur.Load().rev {
			if _, err := v.Fresh(ctx); err != nil {
				return Snapshot{}, err
			}
			if rev > v.cur.Load().rev {
				return Snapshot{}, store.ErrFuture
			}
		}
		if st := v.retained.find(v.cur.Load(), t.pos, rev); st != nil {
			return Snapshot{v, st}, nil
		}
	}
	kinds := slices.Clone(v.cur.Load().kinds)
	have, into := kinds[t.pos].tree, newTable(t.kind, t.pos) // t's own tree belongs to the feed
	if err := v.loadKind(ctx, t, have, into, rev); err != nil {
		if errors.Is(err, store.ErrCompacted) {
			err = ErrGone
		}
		return Snapshot{}, err
	}
	into.tree.Scan(func(path string, e *Entry) bool {
		if known, _ := have.Get(path); known != e {
			unkept(e)
		}
		return true
	})
	kinds[t.pos] = into.freeze(rev)
	return Snapshot{v, &state{rev: rev, kinds: kinds}}, nil
}

// Retain keeps the snapshot available to At for longer, for a caller that hands out a continue token. Config.Retained of them are
// kept.
func (s Snapshot) Retain() { s.v.retained.keep(s.st) }

// retained are past states, both lists in order of revision. Each holds all objects of its time: under load, 64 states can be
// tens of thousands of changes apart and hold as many objects that nobody asks for, hence span.
type retained struct {
	max  int   // of each list
	span int64 // of revisions, between the newest and the oldest that has just been published

	mu     sync.Mutex
	newest []*state // the last ones published
	kept   []*state // by Retain
}

func (r *retained) recent(st *state) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.newest = r.bound(append(r.newest, st))
	for st.rev-r.newest[0].rev > r.span {
		r.newest[0] = nil
		r.newest = r.newest[1:]
	}
}

func (r *retained) keep(st *state) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i, found := search(r.kept, st.rev)
	if !found {
		r.kept = r.bound(slices.Insert(r.kept, i, st))
	}
}

func (r *retained) bound(l []*state) []*state {
	if len(l) > r.max {
		l[0] = nil
		l = l[1:]
	}
	return l
}

// expire drops the states that are too old, and tells whether any is left.
func (r *retained) expire(newest, kept func(rev int64) bool) (left bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.newest, r.kept = younger(r.newest, newest), younger(r.kept, kept)
	return len(r.newest)+len(r.kept) > 0
}

func younger(l []*state, old func(rev int64) bool) []*state {
	for len(l) > 0 && old(l[0].rev) {
		l[0] = nil
		l = l[1:]
	}
	return l
}

func (r *retained) clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.newest, r.kept = nil, nil
}

func search(l []*state, rev int64) (int, bool) {
	return slices.BinarySearchFunc(l, rev, func(st *state, rev int64) int { return int(min(max(st.rev-rev, -1), 1)) })
}

// find returns a state in which the objects of the kind are those of revision rev, or nil: the oldest state not older than rev,
// if the kind did not change in between.
func (r *retained) find(cur *state, pos int, rev int64) *state {
	fits := func(st *state) bool { return st.rev >= rev && st.kinds[pos].rev <= rev }
	if fits(cur) {
		return cur
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range [][]*state{r.newest, r.kept} {
		if i, _ := search(l, rev); i < len(l) && fits(l[i]) {
			return l[i]
		}
	}
	return nil
}
