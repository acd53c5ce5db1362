// Package runtime runs the node's own container runtime: containerd, with its shim, runc and the CNI plug-ins, all carried in the
// payload and kept in the data directory, so that it meets no other containerd on the machine.
//
// Two lives, two contexts. containerd and the containers live until someone asks for their end (Shutdown, Cleanup); this process may
// come and go meanwhile. So containerd runs in a session of its own, and Run's end leaves it alone; the next Run, in the next
// process, takes it over, or replaces it when it runs another configuration or does not answer. There is never a second one: a lock
// says who supervises, and the process table says what runs.
package runtime

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"path/filepath"
	"sync"
	"time"

	"github.com/containernetworking/cni/libcni"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"podo.dev/podo/internal/runtime/payload"
)

// Client is the CRI client that the runtime needs to know that containerd works, to give it the sandbox image, and to find out
// what it has forgotten.
type Client interface {
	Version(ctx context.Context) (*runtimev1.VersionResponse, error)
	ImageStatus(ctx context.Context, image *runtimev1.ImageSpec) (*runtimev1.Image, error)
	Import(ctx context.Context, archive io.Reader) (names []string, err error)
	ListPodSandbox(ctx context.Context, filter *runtimev1.PodSandboxFilter) ([]*runtimev1.PodSandbox, error)
	ListContainers(ctx context.Context, filter *runtimev1.ContainerFilter) ([]*runtimev1.Container, error)
	Close() error
}

// EventKind says what happened to containerd.
type EventKind string

// The kinds of events, in the order of a life.
const (
	Starting  EventKind = "Starting"  // a new process was started
	TakenOver EventKind = "TakenOver" // one left by an earlier podo works and is kept
	Replaced  EventKind = "Replaced"  // one left by an earlier podo was ended: Err says why
	Ready     EventKind = "Ready"     // it serves
	Died      EventKind = "Died"      // it ended unasked: Err says how
)

// Event is one of these facts.
type Event struct {
	Kind EventKind
	PID  int
	Err  error
}

// Config is what a Runtime is made of.
type Config struct {
	DataDir string // absolute, without symbolic links
	// PodCIDRs are this node's pods: one range for each address family. With none there is no pod network before SetNetwork.
	PodCIDRs []netip.Prefix
	// ClusterCIDRs are all nodes' pods, whose traffic keeps its addresses; PodCIDRs when empty.
	ClusterCIDRs []netip.Prefix
	// Redirects are addresses of services that the node serves itself.
	Redirects     []Redirect
	SystemdCgroup bool   // cgroup driver systemd; UseSystemd tells whether it should be
	LogLevel      string // containerd's: warn when empty
	Payload       *payload.Payload
	Connect       func(socket string) (Client, error)
	OnEvent       func(Event) // may be nil; called in order and must not block
	Log           *slog.Logger
}

// Validate says what is missing.
func (c Config) Validate() error {
	switch {
	case !filepath.IsAbs(c.DataDir):
		return fmt.Errorf("runtime: data directory %q is not absolute", c.DataDir)
	case c.Payload == nil:
		return payload.ErrMissing
	case c.Connect == nil || c.Log == nil:
		return errors.New("runtime: Connect and Log are needed")
	}
	return nil
}

// Runtime supervises containerd. It is a component.Component.
type Runtime struct {
	cfg    Config
	layout Layout

	mu   sync.Mutex
	down bool // Shutdown was called: its end is wanted

	// forgotten may be attached to the network although containerd does not know them (detachForgotten); owned by Run.
	forgotten []*libcni.NetworkAttachment
}

// New makes a Runtime; nothing happens before Run.
func New(cfg Config) (*Runtime, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.LogLevel == "" {
		cfg.LogLevel = "warn"
	}
	if cfg.OnEvent == nil {
		cfg.OnEvent = func(Event) {}
	}
	return &Runtime{cfg: cfg, layout: LayoutFor(cfg.DataDir)}, nil
}

// Name is the component's name.
func (r *Runtime) Name() string { return "containerd" }

// Layout tells where things are.
func (r *Runtime) Layout() Layout { return r.layout }

// Endpoint is the CRI endpoint, a URL.
func (r *Runtime) Endpoint() string { return "unix://" + r.layout.Socket }

const (
	startLimit  = 5 * time.Minute        // from start to ready; recovering many containers on a slow disk, or beside shims that hang, takes long
	forgetLimit = time.Minute            // for detaching what containerd has forgotten
	stopGrace   = 10 * time.Second       // from SIGTERM to SIGKILL of containerd; containers do not notice either
	orphanGrace = 2 * time.Second        // the same for one that will be replaced: pods wait, and its database survives a kill
	killGrace   = 10 * time.Second       // from SIGKILL to the end
	backoffMin  = 100 * time.Millisecond // before a restart, doubling while it keeps dying soon after its start
	backoffMax  = 10 * time.Second
	healthyLife = 10 * time.Second // a process that lived this long dies of something else

	firstLook       = 2 * time.Second  // at one that may be ready already, before its word is waited for
	questionEvery   = 30 * time.Second // between one answer and the next question
	answerLimit     = 10 * time.Second // for a containerd that was ready to say that it is there
	silentQuestions = 3                // without an answer, and it hangs
)

// Run keeps containerd running until ctx ends, and then leaves it as it is. It calls ready when containerd serves and has the
// sandbox image. A containerd that dies is started again, after a back-off if it died soon after its start. One that hangs is
// replaced within little more than a minute. If one does not become ready, Run returns the reason.
func (r *Runtime) Run(ctx context.Context, ready func()) error {
	unlock, err := r.lock()
	if err != nil {
		return err
	}
	defer unlock()
	config, err := r.prepare(ctx)
	if err != nil {
		return err
	}
	for backoff := time.Duration(0); ; {
		if !pause(ctx, backoff) || r.isDown() {
			<-ctx.Done()
			return nil
		}
		p, err := r.ensure(ctx, config)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		if err := r.sawReady(p); err != nil {
			r.cfg.Log.Warn("the next podo will not know that containerd was ready", "err", err)
		}
		r.event(Event{Kind: Ready, PID: p.pid})
		if ready != nil {
			ready()
			ready = nil
		}
		born := time.Now()
		err = r.watch(ctx, p)
		p.release()
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return nil
		}
		backoff = nextBackoff(backoff, time.Since(born))
	}
}

// watch waits until the process or ctx ends. Meanwhile it keeps the log bounded and retries what failed before. It ends a process
// that hangs; only that may fail.
func (r *Runtime) watch(ctx context.Context, p *process) error {
	tick := time.NewTicker(10 * time.Minute)
	defer tick.Stop()
	asking, cancel := context.WithCancel(ctx)
	defer cancel()
	hangs := make(chan error, 1)
	go func() { hangs <- r.silence(asking) }()
	for {
		select {
		case <-p.done:
			if !r.isDown() {
				r.event(Event{Kind: Died, PID: p.pid, Err: p.err})
			}
			return nil
		case <-ctx.Done():
			return nil
		case why := <-hangs:
			if why == nil || r.isDown() {
				hangs = nil
				continue
			}
			return r.replace(ctx, p, why)
		case <-tick.C:
			if err := rotate(r.layout.Log); err != nil {
				r.cfg.Log.Warn("containerd's log was not rotated", "err", err)
			}
			r.detachForgotten(ctx)
		}
	}
}

// nextBackoff is the wait before the next start, after a life of this length.
func nextBackoff(last, life time.Duration) time.Duration {
	if life >= healthyLife {
		return 0
	}
	return min(max(2*last, backoffMin), backoffMax)
}

// pause waits; false when ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	if d == 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (r *Runtime) isDown() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.down
}

func (r *Runtime) event(e Event) {
	level := slog.LevelInfo
	if e.Kind == Died || e.Kind == Replaced {
		level = slog.LevelWarn
	}
	attrs := []slog.Attr{slog.String("kind", string(e.Kind)), slog.Int("pid", e.PID)}
	if e.Err != nil {
		attrs = append(attrs, slog.String("err", e.Err.Error()))
	}
	r.cfg.Log.LogAttrs(context.Background(), level, "containerd", attrs...)
	r.cfg.OnEvent(e)
}
