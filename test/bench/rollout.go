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
	rolloutNodes    = 100 // with room for more than twice the pods
	restDeployments = 1000
	restPods        = 5 // of each
	settled         = 30 * time.Second
)

// rollout: one large Deployment, from the request until its last pod is bound to a node that nobody runs.
func rollout(ctx context.Context, b *bench) error {
	took := figures.Samples{}
	for range b.rounds {
		for _, t := range b.targets {
			if err := t.Layout(ctx, rolloutNodes, 0, false); err != nil {
				return err
			}
			d, err := t.Rollout(ctx, 1, b.waiting)
			if err != nil {
				return fmt.Errorf("%s: %w", t.name, err)
			}
			took.Time(t.name, d)
			if err := t.undeploy(ctx); err != nil {
				return err
			}
		}
	}
	b.book.Median(fmt.Sprintf("rollout.%d.pods", b.waiting), "ms", took)
	return nil
}

// rest: what many small Deployments cost when nothing happens, beyond what the cluster costs without them.
func rest(ctx context.Context, b *bench) error {
	for _, t := range b.targets {
		if t.processes == nil {
			continue
		}
		if err := t.Layout(ctx, rolloutNodes, 0, false); err != nil {
			return err
		}
		empty, err := t.load(ctx)
		if err != nil {
			return err
		}
		if _, err := t.Rollout(ctx, restDeployments, restPods); err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
		full, err := t.load(ctx)
		if err != nil {
			return err
		}
		b.book.Add(fmt.Sprintf("rest.%d.deployments.cpu.%s", restDeployments, t.name), full-empty, "%core")
		if err := t.undeploy(ctx); err != nil {
			return err
		}
	}
	return nil
}

// load is how much of a processor the cluster takes once it has come to rest.
func (t *target) load(ctx context.Context) (percent float64, err error) {
	if err := load.Pause(ctx, settled); err != nil {
		return 0, err
	}
	before, err := usage.Of(t.processes)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	if err := load.Pause(ctx, idleTime); err != nil {
		return 0, err
	}
	after, err := usage.Of(t.processes)
	if err != nil {
		return 0, err
	}
	return 100 * (usage.Total(after).CPU - usage.Total(before).CPU).Seconds() / time.Since(began).Seconds(), nil
}

// namespace: one with thousands of pods that nobody runs, from the request to delete it until it is gone.
func namespace(ctx context.Context, b *bench) error {
	took := figures.Samples{}
	for range b.rounds {
		for _, t := range b.targets {
			if _, _, err := t.Create(ctx, "vanish", 16, b.objects); err != nil {
				return fmt.Errorf("%s: %w", t.name, err)
			}
			d, err := t.Vanish(ctx)
			if err != nil {
				return fmt.Errorf("%s: %w", t.name, err)
			}
			took.Time(t.name, d)
		}
	}
	b.book.Median(fmt.Sprintf("namespace.of.%d.pods.deleted", b.objects), "ms", took)
	return nil
}

// undeploy takes Deployments, pods and nodes away.
func (t *target) undeploy(ctx context.Context) error {
	if err := t.Undeploy(ctx); err != nil {
		return err
	}
	return t.Unlay(ctx)
}
