package view

import (
	"sort"
	"sync"
	"time"

	"podo.dev/podo/internal/store"
)

// chunkChanges is how many changes a chunk takes before the next one begins; a revision is never split over two.
const chunkChanges = 64

// chunk is a run of changes. What is below its length never changes again, so readers take slices of it without copying.
//
// A chunk of a kind that the view does not keep has raw events, index for index with changes, whose Old and New are filled in
// when the first reader comes by; then changes is written under mu too, and read under it.
type chunk struct {
	last    int64 // Rev of the newest change
	at      time.Time
	bytes   int64
	changes []Change

	mu  sync.Mutex
	raw []store.Event
}

// history is the recent changes of one kind, bounded by count, bytes and age. Watchers are cursors in it, by revision: they
// cost nothing here, whether they read or not.
type history struct {
	maxChanges int
	maxBytes   int64
	maxAge     time.Duration
	dropped    func(Change) // called for each change that is forgotten, without the lock

	mu     sync.Mutex
	loaded bool
	floor  int64 // every change with Rev > floor is here
	last   int64 // Rev of the newest change, at least floor
	chunks []*chunk
	count  int
	bytes  int64
	wake   chan struct{} // closed at the next change; nil while nobody waits
}

// reset starts again at a load of revision rev; earlier changes are gone.
func (h *history) reset(rev int64) {
	h.mu.Lock()
	old := h.chunks
	h.loaded, h.floor, h.last = true, rev, rev
	h.chunks, h.count, h.bytes = nil, 0, 0
	h.broadcast()
	h.mu.Unlock()
	h.drop(old)
}

// broadcast wakes all who wait. h.mu is held.
func (h *history) broadcast() {
	if h.wake != nil {
		close(h.wake)
		h.wake = nil
	}
}

// append adds changes in order of revision. raw is nil, or has the event of each change, whose Old and New come later.
func (h *history) append(changes []Change, raw []store.Event, now time.Time) {
	h.mu.Lock()
	for i := range changes {
		rev := changes[i].Rev
		var c *chunk
		if n := len(h.chunks); n > 0 {
			c = h.chunks[n-1]
		}
		if c == nil || len(c.changes) >= chunkChanges && c.last != rev {
			c = &chunk{changes: make([]Change, 0, min(chunkChanges, max(8, len(changes)-i)))}
			h.chunks = append(h.chunks, c)
		}
		size := int64(64)
		size += int64(changes[i].New.bytes() + changes[i].Old.bytes())
		if raw == nil {
			c.changes = append(c.changes, changes[i])
		} else {
			size += int64(len(raw[i].Value))
			if p := raw[i].Prev; p != nil {
				size += int64(len(p.Value))
			}
			c.mu.Lock()
			c.changes, c.raw = append(c.changes, changes[i]), append(c.raw, raw[i])
			c.mu.Unlock()
		}
		c.last, c.at = rev, now
		c.bytes += size
		h.bytes += size
		h.count++
		h.last = rev
	}
	old := h.trim(now)
	h.broadcast()
	h.mu.Unlock()
	h.drop(old)
}

func (e *Entry) bytes() int {
	if e == nil {
		return 0
	}
	return e.size
}

// trim removes the oldest chunks that exceed the bounds, and the newest one only when all of it is too old. h.mu is held.
func (h *history) trim(now time.Time) (old []*chunk) {
	for len(h.chunks) > 0 {
		c := h.chunks[0]
		tooMuch := len(h.chunks) > 1 && (h.count > h.maxChanges || h.bytes > h.maxBytes)
		if !tooMuch && now.Sub(c.at) <= h.maxAge {
			break
		}
		old = append(old, c)
		h.chunks[0] = nil
		h.chunks = h.chunks[1:]
		h.count -= len(c.changes)
		h.bytes -= c.bytes
		h.floor = c.last
	}
	return old
}

// age forgets changes that are too old, and tells whether any are left.
func (h *history) age(now time.Time) (left bool) {
	h.mu.Lock()
	old := h.trim(now)
	left = len(h.chunks) > 0
	h.mu.Unlock()
	h.drop(old)
	return left
}

func (h *history) drop(old []*chunk) {
	for _, c := range old {
		c.mu.Lock()
		changes := c.changes
		c.mu.Unlock()
		for _, ch := range changes {
			h.dropped(ch)
		}
	}
}

// found is what a cursor meets in the history.
type found struct {
	chunk    *chunk
	from, to int             // the changes of the chunk after the cursor
	changes  []Change        // nil where the chunk has raw events
	gone     bool            // the cursor is older than the floor
	wait     <-chan struct{} // no changes yet: closed when there may be some
}

// after finds the changes with Rev > cursor of the chunk in which they begin.
func (h *history) after(cursor int64) found {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.loaded && cursor < h.floor:
		return found{gone: true}
	case !h.loaded || cursor >= h.last:
		if h.wake == nil {
			h.wake = make(chan struct{})
		}
		return found{wait: h.wake}
	}
	// From the newest chunk back, since nearly every reader is there.
	i := len(h.chunks) - 1
	for i > 0 && h.chunks[i-1].last > cursor {
		i--
	}
	c := h.chunks[i]
	from := sort.Search(len(c.changes), func(i int) bool { return c.changes[i].Rev > cursor })
	to := len(c.changes)
	return found{chunk: c, from: from, to: to, changes: c.changes[from:to:to]}
}

// idle says whether there is no change after the cursor.
func (h *history) idle(cursor int64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.loaded && cursor >= h.last
}

// all is everything that is remembered.
func (h *history) all() (out []Change) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.chunks {
		c.mu.Lock()
		out = append(out, c.changes...)
		c.mu.Unlock()
	}
	return out
}
