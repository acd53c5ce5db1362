package sim

import (
	"flag"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

var (
	seed  = flag.Uint64("seed", 0, "the simulation's seed; 0 runs a few of them shortly")
	steps = flag.Int("steps", 150, "how many steps a simulation takes")
)

func seeds() []uint64 {
	if *seed != 0 {
		return []uint64{*seed}
	}
	return []uint64{1, 2, 3, 4}
}

// play runs a world through what may happen to it, with a quiet point now and then, and returns it at its end.
func play(t *testing.T, o Options, steps int, actions ...[]action) (w *World) {
	t.Run(fmt.Sprint("seed=", o.Seed), func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w = New(t, o)
			defer w.Stop()
			time.Sleep(time.Minute)
			all := slices.Concat(actions...)
			for i := range steps {
				w.step(all)
				if i%60 == 59 {
					w.quietPoint()
				}
			}
			if o.Last != nil {
				o.Last(w)
			}
			w.quietPoint()
			w.empty()
		})
	})
	return w
}

// TestControlPlane simulates scheduler and controllers over model kubelets.
func TestControlPlane(t *testing.T) {
	for _, s := range seeds() {
		play(t, Options{Seed: s, Nodes: 4}, *steps, users, owners, deployers, fate)
	}
}

// TestCluster simulates everything: real kubelets on fake runtimes too.
func TestCluster(t *testing.T) {
	for _, s := range seeds() {
		play(t, Options{Seed: s, Nodes: 2, Real: true}, *steps, users, owners, deployers, fate, mishaps)
	}
}

// TestManyNodes is TestCluster on twenty nodes.
func TestManyNodes(t *testing.T) {
	if testing.Short() {
		t.Skip("twenty nodes take a while")
	}
	n := *steps
	if *seed == 0 {
		n = min(n, 60)
	}
	play(t, Options{Seed: seeds()[0], Nodes: 20, Real: true}, n, users, owners, deployers, fate, mishaps)
}
