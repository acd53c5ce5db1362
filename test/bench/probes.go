package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"podo.dev/podo/test/bench/figures"
	"podo.dev/podo/test/bench/load"
	"podo.dev/podo/test/bench/usage"
)

const (
	probedPods  = 50
	probeRounds = 3
	probeTime   = 20 * time.Second
)

// probed runs in the container.
var probed = []string{"true"}

// probes: the processor time that all programs use for exec probes of many pods, once a second each, beside the same commands asked of the
// runtime directly at the same rate. The two take turns: the same pods stand, and only who asks is another.
func probes(ctx context.Context, b *bench) error {
	if b.podo == nil {
		return nil
	}
	t := b.targets[0]
	plain, asked := names("plain", probedPods), names("probed", probedPods)
	cpu := figures.Samples{}
	for range probeRounds {
		if _, err := b.floor.Start(ctx, plain...); err != nil {
			return err
		}
		err := b.busy(ctx, t, cpu, figures.Floor, func(ctx context.Context) error { return b.execs(ctx, plain) })
		if _, failed := b.floor.Stop(ctx, plain...); err != nil || failed != nil {
			return errors.Join(err, failed)
		}
		if err := calm(ctx); err != nil {
			return err
		}
		run := *t
		run.Probe = &v1.Probe{
			ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: probed}}, PeriodSeconds: 1, TimeoutSeconds: 5,
		}
		if _, err := run.start(ctx, asked...); err != nil {
			return err
		}
		if err := b.busy(ctx, t, cpu, t.name, func(ctx context.Context) error { return load.Pause(ctx, probeTime) }); err != nil {
			return err
		}
		if _, _, err := run.remove(ctx, asked...); err != nil {
			return err
		}
	}
	b.book.Median(fmt.Sprintf("probes.%d.pods.cpu", probedPods), "%core", cpu)
	return nil
}

// busy adds the processor time, as a share of one core, of everything that belongs to the cluster and its runtime.
func (b *bench) busy(ctx context.Context, t *target, into figures.Samples, who string, do func(context.Context) error) error {
	used := func() (time.Duration, error) {
		held, err := usage.Of(t.processes)
		u := usage.Total(held)
		return u.CPU + u.Reaped, err
	}
	if err := load.Pause(ctx, 3*time.Second); err != nil { // the start's own work ends
		return err
	}
	before, err := used()
	if err != nil {
		return err
	}
	began := time.Now()
	if err := do(ctx); err != nil {
		return err
	}
	took := time.Since(began)
	after, err := used()
	if err != nil {
		return err
	}
	into.Add(who, 100*(after-before).Seconds()/took.Seconds())
	return nil
}

// execs asks the runtime for the command in each pod once a second, spread over it as pods' starts are.
func (b *bench) execs(ctx context.Context, pods []string) error {
	var group sync.WaitGroup
	errs := make([]error, len(pods))
	for i, name := range pods {
		group.Go(func() {
			if errs[i] = load.Pause(ctx, time.Second*time.Duration(i)/time.Duration(len(pods))); errs[i] != nil {
				return
			}
			tick := time.NewTicker(time.Second)
			defer tick.Stop()
			for range int(probeTime / time.Second) {
				if errs[i] = b.floor.Exec(ctx, name, probed); errs[i] != nil {
					return
				}
				<-tick.C
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}
