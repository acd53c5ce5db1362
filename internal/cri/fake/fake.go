// Package fake is a container runtime in memory. Its containers are programs that are interpreted, not run: a small part of
// the shell is understood (see program.go), so that the same pod spec behaves here as it does in a real container. Time is
// timers only, which makes it at home in a testing/synctest bubble. It outlives the kubelet that uses it, as a real one does.
//
// Tests script faults: latencies, failures, hangs, a sandbox killed, a container that vanishes, an event stream that breaks.
package fake

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"podo.dev/podo/internal/cri"
)

var _ cri.Runtime = (*Runtime)(nil)

// Op names a call of the port, by the port's method name.
type Op string

// Runtime is the fake. Its methods besides the port's are for tests.
type Runtime struct {
	mu         sync.Mutex
	sandboxes  map[string]*sandbox
	containers map[string]*container
	images     map[string]*image // by full name
	remote     map[string]*image // what a pull finds
	latency    map[Op]time.Duration
	mounting   map[string]int // by sandbox, how many of its containers are given image volumes
	faults     []*Fault
	hung       chan struct{} // not nil while the runtime hangs; closed when it goes on
	subs       map[chan *runtimev1.ContainerEventResponse]chan error
	held       []*runtimev1.ContainerEventResponse // while there are no subs
	seq        int
	calls      map[Op]int
	reserved   map[string]bool // names of what is being made late
}

// Fault makes calls of one Op fail. Match nil is every subject (an image, a container name or an ID, what the call is about).
// Times 0 is for ever. After says that the call happens all the same and only its answer is lost; Late, of calls that make something, that
// it happens so much later than its answer is lost.
type Fault struct {
	Op    Op
	Match func(subject string) bool
	Err   error
	Times int
	After bool
	Late  time.Duration
	used  int
	ended bool
}

// late is the error of a call that happens so much later all the same.
type late struct {
	error
	by time.Duration
}

func (l *late) Unwrap() error { return l.error }

type image struct {
	name   string
	size   uint64
	id     string
	cmd    []string
	pull   time.Duration
	pinned bool
}

// New returns an empty runtime.
func New() *Runtime {
	return &Runtime{
		sandboxes: map[string]*sandbox{}, containers: map[string]*container{}, images: map[string]*image{}, remote: map[string]*image{},
		latency: map[Op]time.Duration{}, mounting: map[string]int{}, subs: map[chan *runtimev1.ContainerEventResponse]chan error{}, calls: map[Op]int{},
		reserved: map[string]bool{},
	}
}

// Latency makes every call of op take d.
func (r *Runtime) Latency(op Op, d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.latency[op] = d
}

// Fail adds a fault; the function returned ends it.
func (r *Runtime) Fail(f Fault) (end func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := &f
	r.faults = append(r.faults, p)
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		p.ended = true
	}
}

// Hang makes every call and the event stream stand still until the function returned is called.
func (r *Runtime) Hang() (resume func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ch := make(chan struct{})
	r.hung = ch
	return sync.OnceFunc(func() {
		r.mu.Lock()
		r.hung = nil
		r.mu.Unlock()
		close(ch)
	})
}

// Calls is how often op was called.
func (r *Runtime) Calls(op Op) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.calls[op]
}

// enter is the beginning of every call: hang, latency, faults. after is to be called with the call's own error.
func (r *Runtime) enter(ctx context.Context, op Op, subject string) (after func(error) error, err error) {
	r.mu.Lock()
	r.calls[op]++
	hung, d := r.hung, r.latency[op]
	r.mu.Unlock()
	for hung != nil {
		select {
		case <-hung:
		case <-ctx.Done():
			return nil, status.FromContextError(ctx.Err()).Err()
		}
		r.mu.Lock()
		hung = r.hung
		r.mu.Unlock()
	}
	if err := sleep(ctx, d); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, status.FromContextError(err).Err()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range r.faults {
		if f.Op != op || f.ended || (f.Times > 0 && f.used >= f.Times) || (f.Match != nil && !f.Match(subject)) {
			continue
		}
		f.used++
		if f.Late > 0 {
			return nil, &late{f.Err, f.Late}
		}
		if !f.After {
			return nil, f.Err
		}
		return func(error) error { return f.Err }, nil
	}
	return func(err error) error { return err }, nil
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
}

// later does what a call would have done after so long, and keeps its name until then. err is the call's: a call that is on time is not done
// here, and taken is false.
func (r *Runtime) later(err error, name string, do func()) (taken bool) {
	by := (*late)(nil)
	if !errors.As(err, &by) {
		return false
	}
	r.mu.Lock()
	r.reserved[name] = true
	r.mu.Unlock()
	go func() {
		time.Sleep(by.by)
		r.mu.Lock()
		delete(r.reserved, name)
		r.mu.Unlock()
		do()
	}()
	return true
}

// isReserved is what containerd says of a name that is another one's.
func isReserved(kind, name, holder string) error {
	return status.Errorf(codes.FailedPrecondition, "failed to reserve %s name %q: name %q is reserved for %q", kind, name, name, holder)
}

func notFound(what, id string) error {
	return status.Errorf(codes.NotFound, "an error occurred when try to find %s %q: not found", what, id)
}

func (r *Runtime) id(kind string) string {
	r.seq++
	return fmt.Sprintf("%s%060d", kind, r.seq)
}

// Version names the runtime.
func (r *Runtime) Version(ctx context.Context) (*runtimev1.VersionResponse, error) {
	after, err := r.enter(ctx, "Version", "")
	if err != nil {
		return nil, err
	}
	return &runtimev1.VersionResponse{Version: "0.1.0", RuntimeName: "fake", RuntimeVersion: "1", RuntimeApiVersion: "v1"}, after(nil)
}

// Status says that runtime and network are ready.
func (r *Runtime) Status(ctx context.Context) (*runtimev1.StatusResponse, error) {
	after, err := r.enter(ctx, "Status", "")
	if err != nil {
		return nil, err
	}
	return &runtimev1.StatusResponse{Status: &runtimev1.RuntimeStatus{Conditions: []*runtimev1.RuntimeCondition{
		{Type: "RuntimeReady", Status: true}, {Type: "NetworkReady", Status: true},
	}}}, after(nil)
}

// UpdateRuntimeConfig does nothing.
func (r *Runtime) UpdateRuntimeConfig(ctx context.Context, _ string) error {
	after, err := r.enter(ctx, "UpdateRuntimeConfig", "")
	if err != nil {
		return err
	}
	return after(nil)
}
