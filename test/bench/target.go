package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	"podo.dev/podo/test/bench/figures"
	"podo.dev/podo/test/bench/floor"
	"podo.dev/podo/test/bench/load"
)

// target is a cluster that is measured, whatever it is.
type target struct {
	load.Cluster
	name      string
	runtime   *floor.Runtime // nil: pods are not seen to leave the runtime
	processes *regexp.Regexp // nil: not on this machine
	// suspend stops the scheduler; resume starts it again, and restore what else was stopped. nil: it cannot be stopped.
	suspend func(context.Context) (resume, restore func(context.Context) error, err error)
}

// sleep is what pods run.
var sleep = []string{"sleep", "3600"}

func (b *bench) newTarget(name, kubeconfig string, processes *regexp.Regexp) *target {
	return &target{name: name, Cluster: load.Cluster{Kubeconfig: kubeconfig, Image: b.image, Command: sleep}, processes: processes}
}

// openOther takes a cluster that runs already.
func openOther(ctx context.Context, o options) (*target, error) {
	t := (&bench{options: o}).newTarget(figures.Other, o.kubeconfig, o.processes)
	if o.cri == "" {
		return t, nil
	}
	var err error
	t.runtime, err = floor.Dial(ctx, o.cri)
	return t, err
}

// close takes away what was made in the cluster, unless the whole cluster goes.
func (t *target) close(ctx context.Context) (err error) {
	if t.name == figures.Other {
		err = t.Leave(ctx)
	}
	if t.runtime != nil {
		err = errors.Join(err, t.runtime.Close())
	}
	return err
}

// starter starts pods and takes them away: a cluster, or the floor.
type starter interface {
	who() string
	// start returns when all are running.
	start(ctx context.Context, names ...string) (time.Duration, error)
	// remove returns when nothing is left of them; gone is how long their objects were there, empty how long the runtime had them.
	// What is not seen is 0.
	remove(ctx context.Context, names ...string) (gone, empty time.Duration, err error)
}

// starters are the clusters and the floor.
func (b *bench) starters() []starter {
	var all []starter
	for _, t := range b.targets {
		all = append(all, t)
	}
	if b.floor != nil {
		all = append(all, bare{b.floor})
	}
	return all
}

func (t *target) who() string { return t.name }

func (t *target) start(ctx context.Context, names ...string) (took time.Duration, err error) {
	c, err := t.Dial()
	if err != nil {
		return 0, err
	}
	defer c.Close()
	if took, err = c.Start(ctx, names...); err != nil {
		err = fmt.Errorf("%s: %w", t.name, err)
	}
	return took, err
}

func (t *target) remove(ctx context.Context, names ...string) (gone, empty time.Duration, err error) {
	c, err := t.Dial()
	if err != nil {
		return 0, 0, err
	}
	defer c.Close()
	began := time.Now()
	if gone, err = c.Delete(ctx, names...); err != nil {
		return 0, 0, fmt.Errorf("%s: %w", t.name, err)
	}
	if t.runtime == nil {
		return gone, 0, load.Pause(ctx, time.Second)
	}
	if err := t.runtime.WaitEmpty(ctx); err != nil {
		return 0, 0, fmt.Errorf("%s: %w", t.name, err)
	}
	return gone, time.Since(began), calm(ctx)
}

// bare is the floor.
type bare struct{ *floor.Runtime }

func (bare) who() string { return figures.Floor }

func (f bare) start(ctx context.Context, names ...string) (time.Duration, error) {
	return f.Start(ctx, names...)
}

func (f bare) remove(ctx context.Context, names ...string) (gone, empty time.Duration, err error) {
	if empty, err = f.Stop(ctx, names...); err != nil {
		return 0, 0, err
	}
	return 0, empty, errors.Join(f.WaitEmpty(ctx), calm(ctx))
}

// calm lets the kernel and the shims end their own clean-up.
func calm(ctx context.Context) error { return load.Pause(ctx, 300*time.Millisecond) }
