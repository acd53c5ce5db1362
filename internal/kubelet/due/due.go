// Package due reports pods whose time has come, for modules that renew something: one timer serves all pods.
package due

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"
)

const parallel = 8 // pods told of at once

// Timer waits for the earliest time. Make it with New.
type Timer struct{ poke chan struct{} }

// New makes a Timer.
func New() Timer { return Timer{make(chan struct{}, 1)} }

// Ring says that the earliest time may have changed, or that the clock was set: the timer goes on as if it had not been.
func (t Timer) Ring() {
	select {
	case t.poke <- struct{}{}:
	default:
	}
}

// Run asks which pods are due and how long until the next one is, and tells of them, until ctx ends.
func (t Timer) Run(ctx context.Context, due func() (pods []types.UID, next time.Duration), tell func(ctx context.Context, pod types.UID)) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.poke:
		case <-timer.C:
		}
		pods, next := due()
		var g errgroup.Group
		g.SetLimit(parallel)
		for _, pod := range pods {
			g.Go(func() error { tell(ctx, pod); return nil })
		}
		g.Wait() //nolint:errcheck // none of them fails
		timer.Reset(next)
	}
}
