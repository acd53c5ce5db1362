package podset

import (
	"errors"
	"slices"
	"sync"
	"testing"
)

// Creation stops at the first batch that fails, and each thing is done once.
func TestSlowly(t *testing.T) {
	var mu sync.Mutex
	var done []int
	do := func(fails int) func(int) error {
		done = nil
		return func(i int) error {
			mu.Lock()
			defer mu.Unlock()
			if done = append(done, i); len(done) >= fails {
				return errors.New("full")
			}
			return nil
		}
	}
	if err := Slowly(100, do(101)); err != nil || len(done) != 100 {
		t.Errorf("%d tries, %v", len(done), err)
	}
	slices.Sort(done)
	if len(slices.Compact(done)) != 100 {
		t.Errorf("done were %v", done)
	}
	if err := Slowly(100, do(3)); err == nil || len(done) > 3 {
		t.Errorf("%d tries, %v", len(done), err)
	}
}
