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
	heldNodes = 1000
	// missed is when all has been written down that follows from the nodes' silence: nobody runs them.
	missed = 90 * time.Second
	// A cluster that writes so little in so long a time does so for itself.
	stillTime   = 30 * time.Second
	stillWrites = 60
	sinceWrite  = 3 * time.Minute
)

// holding: memory of thousands of pods on a thousand nodes, minutes after the last write for them. The pods are one Deployment's and bound, and bear
// it that their nodes are lost.
func holding(ctx context.Context, b *bench) error {
	name := fmt.Sprintf("holding.%d.nodes.%d.pods.pss", heldNodes, b.waiting)
	held := figures.Samples{}
	for _, t := range b.targets {
		if t.processes == nil {
			continue
		}
		if err := t.Layout(ctx, heldNodes, 0, false); err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
		if _, err := t.Rollout(ctx, 1, b.waiting); err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
		if err := load.Pause(ctx, missed); err != nil {
			return err
		}
		if err := t.still(ctx); err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
		if err := load.Pause(ctx, sinceWrite); err != nil {
			return err
		}
		programs, err := t.holds(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
		all := 0.0
		for program, pss := range programs {
			b.book.Add(name+"."+program+"."+t.name, pss, "MB")
			all += pss
		}
		held.Add(t.name, all)
		if err := t.undeploy(ctx); err != nil {
			return err
		}
	}
	b.book.Median(name, "MB", held)
	return nil
}

// still returns when hardly anything is written any more.
func (t *target) still(ctx context.Context) error {
	last, err := t.Revision(ctx)
	for err == nil {
		if err = load.Pause(ctx, stillTime); err != nil {
			return err
		}
		var now int64
		if now, err = t.Revision(ctx); err == nil && now-last < stillWrites {
			return nil
		}
		last = now
	}
	return err
}

// holds is what each of the target's programs holds, in MB: the mean of looks over two minutes, as of a program at rest.
func (t *target) holds(ctx context.Context) (map[string]float64, error) {
	sums, looks := map[string]float64{}, 0
	for began := time.Now(); ; {
		held, err := usage.Of(t.processes)
		if err != nil {
			return nil, err
		}
		for program, u := range held {
			sums[program] += u.PSS
		}
		looks++
		if time.Since(began) >= idleTime {
			break
		}
		if err := load.Pause(ctx, restLook); err != nil {
			return nil, err
		}
	}
	for program := range sums {
		sums[program] /= float64(looks)
	}
	return sums, nil
}
