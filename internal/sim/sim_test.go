package sim

import (
	"flag"
	"fmt"
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

// TestControlPlane simulates scheduler and controllers over model kubelets.
func TestControlPlane(t *testing.T) {
	for _, s := range seeds() {
		t.Run(fmt.Sprint("seed=", s), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := New(t, Options{Seed: s, Nodes: 4})
				defer w.Stop()
				time.Sleep(time.Minute)
				actions := append(append([]action{}, users...), fate...)
				for i := range *steps {
					w.step(actions)
					if i%60 == 59 {
						w.quietPoint()
					}
				}
				w.quietPoint()
				w.empty()
			})
		})
	}
}

// TestCluster simulates everything: real kubelets on fake runtimes too.
func TestCluster(t *testing.T) {
	for _, s := range seeds() {
		t.Run(fmt.Sprint("seed=", s), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := New(t, Options{Seed: s, Nodes: 2, Real: true})
				defer w.Stop()
				time.Sleep(time.Minute)
				actions := append(append(append([]action{}, users...), fate...), mishaps...)
				for i := range *steps {
					w.step(actions)
					if i%60 == 59 {
						w.quietPoint()
					}
				}
				w.quietPoint()
				w.empty()
			})
		})
	}
}
