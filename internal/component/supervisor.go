package component

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"time"
)

// Fatal marks an error of Run that no restart of the component can mend: the process ends cleanly with it.
func Fatal(err error) error {
	if err == nil {
		return nil
	}
	return fatal{err}
}

type fatal struct{ error }

func (f fatal) Unwrap() error { return f.error }

// IsFatal says whether err was marked by Fatal.
func IsFatal(err error) bool {
	var f fatal
	return errors.As(err, &f)
}

// State is where a component is.
//
//	Waiting ─► Starting ─► Ready ─────────────► Stopped    its context ended
//	              ▲ │        │ error or panic
//	              │ ▼        ▼
//	              BackingOff ◄┘ ─────────────► Failed      Fatal; or an error before it was ever ready
type State string

// The states of a component.
const (
	Waiting    State = "waiting" // for those before it
	Starting   State = "starting"
	Ready      State = "ready"
	BackingOff State = "backing off"
	Stopped    State = "stopped"
	Failed     State = "failed"
)

// Health is what is known of a component: for /readyz, metrics and `podo status`.
type Health struct {
	Name     string
	State    State
	Since    time.Time
	Restarts int
	// LastError is why it last ended otherwise than told to; empty if it never did.
	LastError string
}

// Options of a Supervisor; all have defaults.
type Options struct {
	// Logger defaults to one that discards.
	Logger *slog.Logger
	// Restarted is told of each restart to come, with its cause: for events and metrics. It must not block.
	Restarted func(name string, cause error, after time.Duration)
	// The pause before a restart begins with FirstPause (500 ms), doubles up to LastPause (30 s), and begins anew once the
	// component has run for Settled (5 min).
	FirstPause, LastPause, Settled time.Duration
	// StopWithin bounds how long a component may take to stop (30 s). One that takes longer is left behind.
	StopWithin time.Duration
}

// Supervisor starts components in order, each when the one before is ready, restarts those that end, and stops all in
// reverse order. It is used for one Run.
type Supervisor struct {
	o Options

	mu     sync.Mutex
	health []Health
}

// NewSupervisor makes one for the components, in the order of their start.
func NewSupervisor(o Options) *Supervisor {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&o.FirstPause, 500*time.Millisecond)
	def(&o.LastPause, 30*time.Second)
	def(&o.Settled, 5*time.Minute)
	def(&o.StopWithin, 30*time.Second)
	return &Supervisor{o: o}
}

// Health tells of every component, in the order of their start.
func (s *Supervisor) Health() []Health {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.health)
}

// Run runs the components until ctx ends, one of them fails fatally, or one fails before it was ever ready; then it stops those
// that run. allReady, when set, is called once all are. The error names the component to blame, and is nil when ctx ended.
func (s *Supervisor) Run(ctx context.Context, allReady func(), components ...Component) error {
	s.mu.Lock()
	s.health = nil
	for _, c := range components {
		s.health = append(s.health, Health{Name: c.Name(), State: Waiting, Since: time.Now()})
	}
	s.mu.Unlock()

	failed := make(chan error, len(components))
	var running []*supervised
	err := func() error {
		for i, c := range components {
			sv := &supervised{s: s, c: c, pos: i, ready: make(chan struct{}), done: make(chan struct{}), failed: failed}
			// Its own context, which ends only when it is its turn to stop.
			var own context.Context
			own, sv.cancel = context.WithCancel(context.WithoutCancel(ctx))
			running = append(running, sv)
			go sv.run(own)
			select {
			case <-sv.ready:
			case err := <-failed:
				return err
			case <-ctx.Done():
				return nil
			}
		}
		if allReady != nil {
			allReady()
		}
		select {
		case err := <-failed:
			return err
		case <-ctx.Done():
			return nil
		}
	}()
	for _, sv := range slices.Backward(running) {
		s.stop(sv)
	}
	return err
}

func (s *Supervisor) stop(sv *supervised) {
	sv.cancel()
	t := time.NewTimer(s.o.StopWithin)
	defer t.Stop()
	select {
	case <-sv.done:
	case <-t.C:
		s.o.Logger.Error("component does not stop; it is left behind", "component", sv.c.Name(), "waited", s.o.StopWithin)
	}
}

func (s *Supervisor) set(pos int, state State, cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := &s.health[pos]
	h.State, h.Since = state, time.Now()
	if cause != nil {
		h.LastError = cause.Error()
	}
	if state == BackingOff {
		h.Restarts++
	}
}

// supervised is one component under supervision.
type supervised struct {
	s      *Supervisor
	c      Component
	pos    int
	cancel context.CancelFunc
	ready  chan struct{} // closed when it is ready for the first time
	done   chan struct{} // closed when it will not run again
	failed chan<- error  // has room for one error of each
}

func (sv *supervised) run(ctx context.Context) {
	defer close(sv.done)
	s, log := sv.s, sv.s.o.Logger.With("component", sv.c.Name())
	pause := s.o.FirstPause
	wasReady := false
	for {
		s.set(sv.pos, Starting, nil)
		start := time.Now()
		err := sv.once(ctx, func() {
			s.set(sv.pos, Ready, nil)
			if !wasReady {
				wasReady = true
				close(sv.ready)
			}
			log.Debug("component is ready", "took", time.Since(start).Round(time.Millisecond))
		})
		if ctx.Err() != nil && !IsFatal(err) {
			if err != nil {
				log.Warn("component stopped with an error", "err", err)
			}
			s.set(sv.pos, Stopped, err)
			return
		}
		if err == nil {
			err = errors.New("ended without being told to")
		}
		err = fmt.Errorf("%s: %w", sv.c.Name(), err)
		if IsFatal(err) || !wasReady {
			s.set(sv.pos, Failed, err)
			sv.failed <- err
			return
		}
		if time.Since(start) >= s.o.Settled {
			pause = s.o.FirstPause
		}
		log.Error("component ended; it is started again", "err", err, "pause", pause)
		s.set(sv.pos, BackingOff, err)
		if s.o.Restarted != nil {
			s.o.Restarted(sv.c.Name(), err, pause)
		}
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			s.set(sv.pos, Stopped, nil)
			return
		}
		pause = min(2*pause, s.o.LastPause)
	}
}

// once runs the component, and makes a panic of its goroutine an error.
func (sv *supervised) once(ctx context.Context, ready func()) error {
	err := Guard(func() error { return sv.c.Run(ctx, sync.OnceFunc(ready)) })
	var p *Panic
	if errors.As(err, &p) {
		sv.s.o.Logger.Error("component panicked", "component", sv.c.Name(), "panic", p.Value, "stack", p.Stack)
	}
	return err
}

// Panic is a panic as an error.
type Panic struct {
	Value any
	Stack string
}

func (p *Panic) Error() string { return fmt.Sprintf("panic: %v", p.Value) }

// Guard calls f and makes its panic an error, a *Panic. Goroutines that a component starts use it to hand a panic to its
// Run: one that nobody catches would end the process.
func Guard(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &Panic{v, string(debug.Stack())}
		}
	}()
	return f()
}
