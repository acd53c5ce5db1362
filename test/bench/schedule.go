package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"podo.dev/podo/test/bench/figures"
	"podo.dev/podo/test/bench/load"
)

// schedule: pods bound in a second. Nodes and pods are there before the scheduler starts; where it cannot be stopped, the pods have
// scheduling gates, and taking those away is measured too: that figure has a name of its own.
func schedule(ctx context.Context, b *bench) error {
	for _, nodes := range b.nodes {
		rates, counted, gated := figures.Samples{}, figures.Samples{}, figures.Samples{}
		for range b.rounds {
			for _, t := range b.targets {
				bound, err := b.bind(ctx, t, nodes)
				if err != nil {
					return fmt.Errorf("%s: %w", t.name, err)
				}
				if t.suspend == nil {
					gated.Add(t.name, bound.PerSecond)
					continue
				}
				rates.Add(t.name, bound.PerSecond)
				counted.Add(t.name, float64(bound.Counted))
			}
		}
		name := fmt.Sprintf("schedule.%d.nodes", nodes)
		b.book.Median(name+".counted", "pods", counted)
		b.book.Median(name, "pods/s", rates)
		b.book.Median(name+".ungated", "pods/s", gated)
		if err := b.bindOne(ctx, nodes); err != nil {
			return err
		}
	}
	return nil
}

// laidOut is when the work has gone that thousands of new objects make, and nobody yet misses the heartbeats of nodes that nobody runs.
const laidOut = 10 * time.Second

// ones is how many pods are bound one after another, besides those that are forgotten.
const ones = 1000

// bindOne: how long one pod waits for its node where nothing else happens.
func (b *bench) bindOne(ctx context.Context, nodes int) error {
	stored, asked := figures.Samples{}, figures.Samples{}
	for _, t := range b.targets {
		if err := t.Layout(ctx, nodes, 0, false); err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
		if err := load.Pause(ctx, laidOut); err != nil {
			return err
		}
		fromStored, fromAsked, err := t.OneByOne(ctx, warmUp+ones)
		if err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
		stored.Time(t.name, fromStored[warmUp:]...)
		asked.Time(t.name, fromAsked[warmUp:]...)
		if err := t.Unlay(ctx); err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
	}
	name := fmt.Sprintf("schedule.%d.nodes.one", nodes)
	b.book.Spread(name, stored)
	b.book.Spread(name+".created", asked)
	return nil
}

func (b *bench) bind(ctx context.Context, t *target, nodes int) (bound load.Bound, err error) {
	gated := t.suspend == nil
	resume := func(ctx context.Context) error { return t.Ungate(ctx, b.waiting) }
	if !gated {
		var restore func(context.Context) error
		if resume, restore, err = t.suspend(ctx); err != nil {
			return bound, err
		}
		defer func() {
			if ctx.Err() == nil {
				err = errors.Join(err, restore(ctx))
			}
		}()
	}
	if err := t.Layout(ctx, nodes, b.waiting, gated); err != nil {
		return bound, err
	}
	resumed := make(chan error, 1)
	go func() { resumed <- resume(ctx) }()
	bound, err = t.Binding(ctx, "waiting-", b.waiting)
	if err := errors.Join(err, <-resumed); err != nil {
		return bound, err
	}
	return bound, t.Unlay(ctx)
}
