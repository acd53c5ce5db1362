package gcroom

import (
	"slices"
	"testing"
	"time"
)

func TestRester(t *testing.T) {
	var freed []int
	at := 0
	r := &rester{free: func() { freed = append(freed, at) }, heap: func() (uint64, uint64) { return 0, 1 }}
	used := time.Duration(0)
	for i, more := range []time.Duration{restUse, restUse - 1, 0, 10 * restUse, 1, restUse} {
		at = i
		used += more
		r.look(used)
	}
	if want := []int{1, 2, 4}; !slices.Equal(freed, want) {
		t.Errorf("gave back at looks %v, want %v", freed, want)
	}
}

// The heap is shrunk at rest, once after each collection, unless it keeps little.
func TestTheHeapShrinksAtRest(t *testing.T) {
	var free, collections, shrunk uint64
	r := &rester{free: func() {}, heap: func() (uint64, uint64) { return free, collections }, shrink: func() {
		free = 0
		collections++
		shrunk++
	}}
	for i, c := range []struct{ used, free, collections, want uint64 }{
		{used: uint64(restUse), free: 2 * keptFree, collections: 5, want: 0}, // busy
		{free: keptFree, want: 0}, // little
		{free: 2 * keptFree, want: 1},
		{free: 2 * keptFree, want: 1}, // nothing has been collected since
		{free: 2 * keptFree, collections: 1, want: 2},
	} {
		free = c.free
		collections += c.collections
		r.look(r.used + time.Duration(c.used))
		if shrunk != c.want {
			t.Errorf("look %d: shrunk %d times, want %d", i, shrunk, c.want)
		}
	}
}

func TestProcessorTime(t *testing.T) {
	before := processorTime()
	for processorTime() == before { // whoever looks at it uses it
	}
}
