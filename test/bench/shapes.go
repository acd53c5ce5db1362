package main

import (
	"context"
	"errors"
	"fmt"

	"podo.dev/podo/internal/scheduler/shapes"
	"podo.dev/podo/test/bench/figures"
	"podo.dev/podo/test/bench/load"
)

// shaped: pods bound in a second for each load of upstream's scheduler_perf, where the scheduler can be stopped while it is laid out, and the
// memory that is held once they are bound.
func shaped(ctx context.Context, b *bench) error {
	for _, nodes := range b.nodes {
		for _, l := range shapes.All() {
			if b.shape != nil && !b.shape.MatchString(l.Name) {
				continue
			}
			rates := figures.Samples{}
			name := fmt.Sprintf("shapes.%s.%d.nodes", l.Name, nodes)
			for round := range b.rounds {
				for _, t := range b.targets {
					if t.suspend == nil {
						continue
					}
					measured := name
					if round > 0 {
						measured = "" // once is enough for what takes a pause
					}
					bound, err := b.bindShape(ctx, t, &l, nodes, measured)
					if err != nil {
						return fmt.Errorf("%s: %s: %w", l.Name, t.name, err)
					}
					rates.Add(t.name, bound.PerSecond)
				}
			}
			b.book.Median(name, "pods/s", rates)
		}
	}
	return nil
}

// bindShape also prints the memory that the target holds of it, if that has a name.
func (b *bench) bindShape(ctx context.Context, t *target, l *shapes.Load, nodes int, memory string) (bound load.Bound, err error) {
	pods := b.waiting
	if l.Most != nil {
		pods = min(pods, l.Most(nodes))
	}
	resume, restore, err := t.suspend(ctx)
	if err != nil {
		return bound, err
	}
	defer func() {
		if ctx.Err() == nil {
			err = errors.Join(err, restore(ctx))
		}
	}()
	if err := t.Lay(ctx, l, nodes, pods); err != nil {
		return bound, err
	}
	churning, stop := context.WithCancel(ctx)
	defer stop()
	churned, resumed := make(chan error, 1), make(chan error, 1)
	go func() { resumed <- resume(ctx) }()
	go func() {
		if !l.Churn {
			churned <- nil
			return
		}
		churned <- t.Churn(churning)
	}()
	bound, err = t.Binding(ctx, "p-", pods)
	stop()
	if err := errors.Join(err, <-resumed, <-churned); err != nil {
		return bound, err
	}
	if memory != "" {
		if err := load.Pause(ctx, laidOut); err != nil {
			return bound, err
		}
		if err := b.memory(fmt.Sprintf("%s.%d.pods.pss", memory, pods), t); err != nil {
			return bound, err
		}
	}
	return bound, t.Unlay(ctx)
}
