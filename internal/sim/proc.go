package sim

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"podo.dev/podo/internal/component"
)

// proc is a process of the cluster: it runs until it is killed, and again when it ends by itself, as under a supervisor.
type proc struct {
	w      *World
	c      component.Component
	cancel context.CancelFunc
	done   chan struct{}
}

func (w *World) process(c component.Component) *proc {
	p := &proc{w: w, c: c}
	w.procs = append(w.procs, p)
	return p
}

func (p *proc) running() bool { return p.cancel != nil }

// start runs the process in the background.
func (p *proc) start() {
	if p.running() {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel, p.done = cancel, make(chan struct{})
	done := p.done
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			err := p.once(ctx)
			if ctx.Err() != nil {
				return
			}
			p.w.faults.tell(fmt.Sprintf("%s ended: %v", p.c.Name(), err))
			timer := time.NewTimer(500 * time.Millisecond)
			select {
			case <-ctx.Done():
			case <-timer.C:
			}
			timer.Stop()
		}
	}()
}

// once makes a failure of a panic: a simulation never forgives one.
func (p *proc) once(ctx context.Context) (err error) {
	defer func() {
		if r := recover(); r != nil {
			p.w.t.Errorf("seed %d: %s panics: %v\n%s", p.w.opts.Seed, p.c.Name(), r, debug.Stack())
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	return p.c.Run(ctx, func() {})
}

// kill ends the process and waits until nothing of it runs any more.
func (p *proc) kill() {
	if !p.running() {
		return
	}
	p.cancel()
	<-p.done
	p.cancel = nil
}
