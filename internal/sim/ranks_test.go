package sim

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"podo.dev/podo/internal/timeline"
)

// TestRanks simulates pods of several priorities under everything that goes wrong in the control plane: nobody is over-committed, bound twice
// or forgotten, those that keep apart do, and who ranks higher gets the room.
func TestRanks(t *testing.T) {
	for _, s := range seeds() {
		t.Run(fmt.Sprint("seed=", s), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := New(t, Options{Seed: s, Nodes: 4})
				defer w.Stop()
				time.Sleep(time.Minute)
				w.makeClasses()
				all := slices.Concat(ranks, users, fate)
				for i := range *steps {
					w.step(all)
					if i%60 == 59 {
						w.quietPoint()
						w.noneCouldPreempt(w.View.Snapshot())
					}
				}
				w.quietPoint()
				w.noneCouldPreempt(w.View.Snapshot())
				made := 0
				for _, r := range w.Timeline.Records(timeline.Query{}) {
					if r.Stage == timeline.Attempt && r.Get("nominated") != "" {
						made++
					}
				}
				if t.Logf("others made room %d times", made); made == 0 {
					t.Error("nobody had to make room: nothing is shown")
				}
				w.empty()
			})
		})
	}
}
