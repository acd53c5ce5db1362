package main

import (
	"context"
	"fmt"

	"podo.dev/podo/test/bench/figures"
)

// warmUp is how many runs are measured and forgotten.
const warmUp = 2

// single: one pod from the request until its status says Running, and from its deletion until it has gone.
func single(ctx context.Context, b *bench) error {
	return b.startAndRemove(ctx, "pod", 1, b.runs)
}

// batch: the same for many pods at once, until the last one.
func batch(ctx context.Context, b *bench) error {
	for _, n := range b.batches {
		if err := b.startAndRemove(ctx, fmt.Sprintf("pods.%d", n), n, b.batchRuns); err != nil {
			return err
		}
	}
	return nil
}

// startAndRemove lets clusters and floor take turns. The next one begins when the runtime has nothing left of the one before.
func (b *bench) startAndRemove(ctx context.Context, name string, n, runs int) error {
	start, gone, empty := figures.Samples{}, figures.Samples{}, figures.Samples{}
	for i := range runs + warmUp {
		pods := names(fmt.Sprintf("run-%d-%d", n, i), n)
		for _, s := range b.starters() {
			running, err := s.start(ctx, pods...)
			if err != nil {
				return err
			}
			objects, runtime, err := s.remove(ctx, pods...)
			if err != nil {
				return err
			}
			if i < warmUp {
				continue
			}
			start.Time(s.who(), running)
			if objects > 0 {
				gone.Time(s.who(), objects)
			}
			if runtime > 0 {
				empty.Time(s.who(), runtime)
			}
		}
	}
	b.book.Spread(name+".start", start)
	b.book.Spread(name+".deleted.object", gone)
	b.book.Spread(name+".deleted.runtime", empty)
	return nil
}
