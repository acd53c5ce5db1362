package main

import (
	"context"
	"errors"
	"fmt"

	"podo.dev/podo/internal/scheduler/shapes"
	"podo.dev/podo/test/bench/figures"
	"podo.dev/podo/test/bench/load"
)

// shaped: pods bound in a second for each load of upstream's scheduler_perf, where the scheduler can be stopped while it is laid out.
func shaped(ctx context.Context, b *bench) error {
	for _, nodes := range b.nodes {
		for _, l := range shapes.All() {
			if b.shape != nil && !b.shape.MatchString(l.Name) {
				continue
			}
			rates := figures.Samples{}
			for range b.rounds {
				for _, t := range b.targets {
					if t.suspend == nil {
						continue
					}
					bound, err := b.bindShape(ctx, t, &l, nodes)
					if err != nil {
						return fmt.Errorf("%s: %s: %w", l.Name, t.name, err)
					}
					rates.Add(t.name, bound.PerSecond)
				}
			}
			b.book.Median(fmt.Sprintf("shapes.%s.%d.nodes", l.Name, nodes), "pods/s", rates)
		}
	}
	return nil
}

func (b *bench) bindShape(ctx context.Context, t *target, l *shapes.Load, nodes int) (bound load.Bound, err error) {
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
	return bound, t.Unlay(ctx)
}
