package gcroom

import (
	"slices"
	"testing"
	"time"
)

func TestRester(t *testing.T) {
	var freed []int
	at := 0
	r := &rester{free: func() { freed = append(freed, at) }}
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

func TestProcessorTime(t *testing.T) {
	before := processorTime()
	for processorTime() == before { // whoever looks at it uses it
	}
}
