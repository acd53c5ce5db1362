package main

import (
	"context"
	"fmt"
	"time"

	"podo.dev/podo/test/bench/figures"
	"podo.dev/podo/test/bench/load"
	"podo.dev/podo/test/bench/usage"
)

const (
	quietPods  = 10
	settleTime = 30 * time.Second // start-up garbage goes, first reports are made
	idleTime   = 2 * time.Minute
	manyPods   = 100
)

// idle: memory without pods and with ten quiet ones; with those, processor time and store writes over two minutes, of all at once.
func idle(ctx context.Context, b *bench) error {
	if err := load.Pause(ctx, settleTime); err != nil {
		return err
	}
	if err := b.memory("idle.pss", b.targets...); err != nil {
		return err
	}
	pods := names("quiet", quietPods)
	for _, t := range b.targets {
		if _, err := t.start(ctx, pods...); err != nil {
			return err
		}
	}
	if err := load.Pause(ctx, settleTime); err != nil {
		return err
	}
	before, err := b.clocks(ctx)
	if err != nil {
		return err
	}
	if err := load.Pause(ctx, idleTime); err != nil {
		return err
	}
	after, err := b.clocks(ctx)
	if err != nil {
		return err
	}
	cpu, writes := figures.Samples{}, figures.Samples{}
	for _, t := range b.targets {
		minutes := after[t].at.Sub(before[t].at).Minutes()
		writes.Add(t.name, float64(after[t].revision-before[t].revision)/minutes)
		if t.processes != nil {
			cpu.Add(t.name, 100*(after[t].cpu-before[t].cpu).Minutes()/minutes)
		}
	}
	b.book.Median(fmt.Sprintf("idle.%d.pods.cpu", quietPods), "%core", cpu)
	b.book.Median(fmt.Sprintf("idle.%d.pods.writes", quietPods), "/min", writes)
	if err := b.memory(fmt.Sprintf("idle.%d.pods.pss", quietPods), b.targets...); err != nil {
		return err
	}
	return b.removeAll(ctx, pods)
}

// footprint: memory with a hundred running pods.
func footprint(ctx context.Context, b *bench) error {
	pods := names("many", manyPods)
	for _, t := range b.targets {
		if _, err := t.start(ctx, pods...); err != nil {
			return err
		}
	}
	if err := load.Pause(ctx, settleTime); err != nil {
		return err
	}
	if err := b.memory(fmt.Sprintf("running.%d.pods.pss", manyPods), b.targets...); err != nil {
		return err
	}
	return b.removeAll(ctx, pods)
}

func (b *bench) removeAll(ctx context.Context, pods []string) error {
	for _, t := range b.targets {
		if _, _, err := t.remove(ctx, pods...); err != nil {
			return err
		}
	}
	return nil
}

// clock is what counts up while a cluster is idle.
type clock struct {
	at       time.Time
	cpu      time.Duration
	revision int64
}

func (b *bench) clocks(ctx context.Context) (map[*target]clock, error) {
	all := map[*target]clock{}
	for _, t := range b.targets {
		var c clock
		var err error
		if t.processes != nil {
			held, err := usage.Of(t.processes)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", t.name, err)
			}
			c.cpu = usage.Total(held).CPU
		}
		c.at = time.Now()
		if c.revision, err = t.Revision(ctx); err != nil {
			return nil, fmt.Errorf("%s: %w", t.name, err)
		}
		all[t] = c
	}
	return all, nil
}

// memory prints what the programs of each of the targets hold, and their sums with ratios.
func (b *bench) memory(name string, of ...*target) error {
	totals := figures.Samples{}
	for _, t := range of {
		if t.processes == nil {
			continue
		}
		held, err := usage.Of(t.processes)
		if err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
		for program, u := range held {
			b.book.Add(name+"."+program+"."+t.name, u.PSS, "MB")
		}
		totals.Add(t.name, usage.Total(held).PSS)
	}
	b.book.Median(name, "MB", totals)
	return nil
}

// names makes n names.
func names(prefix string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("%s-%d", prefix, i)
	}
	return all
}
