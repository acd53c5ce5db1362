package sim

import (
	"strings"
	"testing"
	"time"
)

// TestFleet simulates fifty nodes in three zones, of which some, a zone, or all are lost for longer than pods may wait, while users
// roll out and drain, clocks jump, and controllers are killed.
func TestFleet(t *testing.T) {
	if testing.Short() {
		t.Skip("fifty nodes take a while")
	}
	n := *steps
	if *seed == 0 {
		n = min(n, 60)
	}
	for _, s := range seeds()[:1] {
		w := play(t, Options{Seed: s, Nodes: 50, Last: showAll}, n, visitors, owners, deployers, keepers, upkeep, fate, outages)
		evictions, worked := w.ledger.shown()
		t.Logf("%d pods of budgets were evicted, %d worked for Jobs, %d of sets were held by lost nodes", evictions, worked, w.held)
		if evictions == 0 || worked == 0 || w.held == 0 {
			t.Error("nothing is shown:\n" + strings.Join(w.log, "\n"))
		}
	}
}

// showAll sees to it that there is something to judge, whatever the seed has brought.
func showAll(w *World) {
	for range 30 {
		if evictions, worked := w.ledger.shown(); evictions > 0 && worked > 0 && w.held > 0 {
			return
		}
		w.createSet()
		w.createJob()
		time.Sleep(time.Minute)
		w.drain()
		w.drains.Wait()
		w.outlast()
		for _, m := range w.machines {
			w.mend(m)
		}
	}
}
