package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"podo.dev/podo/internal/runtime"
	"podo.dev/podo/test/bench/figures"
	"podo.dev/podo/test/bench/load"
	"podo.dev/podo/test/bench/traces"
	"podo.dev/podo/test/bench/usage"
)

const (
	fullNode  = 110 // pods that a node takes by default
	crowdPods = 500
	// forgotten is when nothing is held of what came and went: past versions for 75 seconds and a look a minute later, encodings for up to four
	// minutes, and in the store's index past revisions for five.
	forgotten = 6 * time.Minute
)

// agents are the programs that a cluster's kubelet is part of.
var agents = map[string]string{figures.Podo: "podo", figures.Peer: "kubelet"}

// agent is what the program with the kubelet holds and has used.
func (t *target) agent() (usage.Usage, error) {
	held, err := usage.Of(t.processes)
	if err != nil {
		return usage.Usage{}, err
	}
	u, ok := held[agents[t.name]]
	if !ok {
		return u, fmt.Errorf("%s: no %s among its processes", t.name, agents[t.name])
	}
	return u, nil
}

// pausing is the cluster with pods that do nothing at all: the container of podo's own sandboxes. The others have no such image.
func (b *bench) pausing() *target {
	if b.podo == nil {
		return nil
	}
	t := *b.targets[0]
	t.Image, t.Command = runtime.PauseImage, nil
	return &t
}

// quiet: what each of a node full of quiet pods costs the kubelet's own process, memory at once and processor time while nothing happens.
func quiet(ctx context.Context, b *bench) error {
	t := b.pausing()
	if t == nil {
		return nil
	}
	pods := names("quiet", fullNode)
	// The first time grows what stays: caches, the heap's reserve. It is not the pods'.
	if err := t.comeAndGo(ctx, pods); err != nil {
		return err
	}
	if err := load.Pause(ctx, forgotten); err != nil {
		return err
	}
	empty, _, err := t.atRest(ctx)
	if err != nil {
		return err
	}
	if _, err := t.start(ctx, pods...); err != nil {
		return err
	}
	if err := load.Pause(ctx, forgotten); err != nil {
		return err
	}
	full, cpu, err := t.atRest(ctx)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("quiet.%d.pods", fullNode)
	b.book.Add(name+".agent.cpu."+t.name, cpu, "%core")
	b.book.Add(name+".agent.each."+t.name, 1000*(full.PSS-empty.PSS)/fullNode, "kB")
	b.book.Add(name+".agent.each.anonymous."+t.name, 1000*(full.Anonymous-empty.Anonymous)/fullNode, "kB")
	_, _, err = t.remove(ctx, pods...)
	return err
}

// restLook is how far apart the looks at a program at rest are: podo gives back the pages of its own program every few
// seconds, and each part of the time between counts alike.
const restLook = 3 * time.Second

// atRest watches the program with the kubelet for a while: what it holds on average, and what it takes of a core in percent. It is the mean of
// many looks, since a heap grows by megabytes from one collection to the next, as much as a hundred pods are to take.
func (t *target) atRest(ctx context.Context) (held usage.Usage, cpu float64, err error) {
	first, err := t.agent()
	if err != nil {
		return held, 0, err
	}
	began, last, looks := time.Now(), first, 1.0
	for held = first; time.Since(began) < idleTime; looks++ {
		if err := load.Pause(ctx, restLook); err != nil {
			return held, 0, err
		}
		if last, err = t.agent(); err != nil {
			return held, 0, err
		}
		held.PSS += last.PSS
		held.Anonymous += last.Anonymous
	}
	held.PSS /= looks
	held.Anonymous /= looks
	return held, 100 * (last.CPU - first.CPU).Seconds() / time.Since(began).Seconds(), nil
}

func (t *target) comeAndGo(ctx context.Context, pods []string) error {
	if _, err := t.start(ctx, pods...); err != nil {
		return err
	}
	_, _, err := t.remove(ctx, pods...)
	return err
}

// crowd: many pods on one node, until all run, what they hold, and until the runtime has nothing left of them. What they leave on the
// machine is counted: nothing.
func crowd(ctx context.Context, b *bench) error {
	t := b.pausing()
	if t == nil {
		return nil
	}
	// What is kept from the first pod on, a cgroup for each class of service for one, is not left by these.
	if err := t.comeAndGo(ctx, []string{"first"}); err != nil {
		return err
	}
	clean, err := traces.Count(b.podo.dir)
	if err != nil {
		return err
	}
	pods := names("crowd", crowdPods)
	took, err := t.start(ctx, pods...)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("crowd.%d.pods", crowdPods)
	b.book.Add(name+".start."+t.name, took.Seconds(), "s")
	b.book.Add(name+".rate."+t.name, crowdPods/took.Seconds(), "pods/s")
	if err := b.memory(name+".pss", b.targets...); err != nil {
		return err
	}
	_, empty, err := t.remove(ctx, pods...)
	if err != nil {
		return err
	}
	b.book.Add(name+".deleted.runtime."+t.name, empty.Seconds(), "s")
	left, err := traces.Settled(ctx, b.podo.dir, clean)
	if left != "" {
		err = errors.Join(err, fmt.Errorf("%d pods came and went, and left %s", crowdPods, left))
	}
	return err
}
