package view

import (
	goruntime "runtime"
	"testing"
	"time"
	"weak"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"pgregory.net/rapid"
)

// TestHistory: whatever is appended, the history stays within its bounds but for the newest chunk, and a cursor gets every
// change after it, once, with no revision split, or is told that it is too far behind.
func TestHistory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dropped := 0
		h := &history{
			maxChanges: rapid.IntRange(1, 400).Draw(t, "changes"), maxBytes: int64(rapid.IntRange(1, 50_000).Draw(t, "bytes")),
			maxAge: time.Minute, dropped: func(Change) { dropped++ },
		}
		if f := h.after(0); f.wait == nil {
			t.Fatal("before the load there is something to read")
		}
		h.reset(10)
		now, rev, total := time.Unix(0, 0), int64(10), 0
		var revs []int64 // of every change
		for range rapid.IntRange(1, 30).Draw(t, "batches") {
			now = now.Add(time.Duration(rapid.IntRange(0, 40).Draw(t, "seconds")) * time.Second)
			var changes []Change
			for range rapid.IntRange(1, 20).Draw(t, "revisions") {
				rev += int64(rapid.IntRange(1, 3).Draw(t, "step"))
				for range rapid.IntRange(1, 9).Draw(t, "changes of a revision") {
					changes = append(changes, Change{Rev: rev, New: &Entry{size: 100}})
					revs = append(revs, rev)
				}
			}
			total += len(changes)
			h.append(changes, nil, now)

			if len(h.chunks) > 1 && (h.count > h.maxChanges || h.bytes > h.maxBytes || now.Sub(h.chunks[0].at) > h.maxAge) {
				t.Fatalf("%d changes, %d bytes kept", h.count, h.bytes)
			}
			if h.count+dropped != total {
				t.Fatalf("%d kept and %d dropped of %d", h.count, dropped, total)
			}
		}
		cursor := int64(rapid.IntRange(5, int(rev)+2).Draw(t, "cursor"))
		want := 0
		for _, r := range revs {
			if r > cursor {
				want++
			}
		}
		f := h.after(cursor)
		if f.gone != (cursor < h.floor) {
			t.Fatalf("cursor %d, floor %d: gone is %v", cursor, h.floor, f.gone)
		}
		got := 0
		for ; f.wait == nil && !f.gone; f = h.after(cursor) {
			if f.changes[0].Rev <= cursor {
				t.Fatalf("a change of %d behind the cursor %d", f.changes[0].Rev, cursor)
			}
			got += len(f.changes)
			cursor = f.changes[len(f.changes)-1].Rev
		}
		if !f.gone && got != want {
			t.Fatalf("got %d changes, want %d", got, want)
		}
		if f.wait != nil && !h.idle(cursor) {
			t.Fatal("nothing to read, and not idle")
		}
		if h.age(now.Add(h.maxAge+1)) || h.count+dropped != total || h.bytes != 0 {
			t.Fatalf("%d changes and %d bytes are kept for ever", h.count, h.bytes)
		}
		if f := h.after(rev); f.wait == nil || !h.after(rev-1).gone {
			t.Fatalf("behind what was forgotten: %+v", f)
		}
	})
}

// An object does not remember what it was encoded into once.
func TestWhatIsEvictedIsForgotten(t *testing.T) {
	q := &encodingCache{max: 1 << 20}
	e := &Entry{}
	e.enc.cache = q
	for _, form := range []Form{"a", "b", "b"} { // b is used again
		if _, err := e.Encoded(form, func(runtime.Object) ([]byte, error) { return []byte("x"), nil }); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []int{1, 0} {
		q.age()
		if got := len(e.enc.slots); got != want || int64(got)*cost(1) != q.bytes {
			t.Errorf("%d encodings of %d bytes are remembered, want %d", got, q.bytes, want)
		}
	}
}

// The cache does not hold an object that is let go of, whose encodings still have their places in it.
func TestTheCacheHoldsNoObject(t *testing.T) {
	q := &encodingCache{max: 1 << 20}
	e := &Entry{Object: &v1.Pod{}}
	e.enc.cache = q
	if _, err := e.Encoded("a", func(runtime.Object) ([]byte, error) { return []byte("x"), nil }); err != nil {
		t.Fatal(err)
	}
	e.enc.release()
	held := weak.Make(e)
	goruntime.GC()
	if held.Value() != nil || len(q.queue) != 1 {
		t.Errorf("it is held by one of %d places", len(q.queue))
	}
}
