// Package node owns the Node object: it registers the node, keeps its status true, and renews its lease.
//
// The status goes out at once when it changes and every ReportEvery otherwise; the lease every RenewEvery. An idle node writes
// nothing else.
package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"podo.dev/podo/internal/client"
)

// Runtime is what the node asks of the container runtime.
type Runtime interface {
	Version(ctx context.Context) (*runtimev1.VersionResponse, error)
	Status(ctx context.Context) (*runtimev1.StatusResponse, error)
	ListImages(ctx context.Context) ([]*runtimev1.Image, error)
}

// Config is what a Manager needs.
type Config struct {
	Client  client.Client
	Runtime Runtime
	Log     *slog.Logger

	Name          string // of the Node object
	Hostname      string // label and address; default Name
	IPs           []netip.Addr
	Port          int32  // the kubelet server's
	Version       string // kubelet version, like v1.37.2
	PodCIDR       netip.Prefix
	Labels        map[string]string // beside those every node has
	Annotations   map[string]string // as Labels
	Taints        []v1.Taint        // given at registration
	Unschedulable bool              // given at registration

	Facts                 Facts
	Capacity, Allocatable v1.ResourceList // package cm's, with ephemeral-storage and pods
	MaxImages             int             // listed in the status; negative: all; default 50

	// Pressure and Problems say what other modules know against the node; nil when there are none. Problems are words for the
	// Ready condition, such as "PLEG is not healthy: ...".
	Pressure func() Pressure
	Problems func() []string
	// Turned, when set, is told each time the node's written status turns Ready or no longer is. It must not block.
	Turned func(ready bool)
	// Registered, when set, is told each time the node is new in the API, with when that was first tried. It must not block.
	Registered func(tried time.Time)
	// Event tells users about the node. It must not block. May be nil.
	Event func(eventType, reason, message string)

	CheckEvery    time.Duration // looks at the runtime and its images; default 10 s
	ReportEvery   time.Duration // writes an unchanged status; default 5 min
	LeaseDuration time.Duration // default 40 s; renewed every quarter of it
}

// Validate fills in defaults and says what is wrong.
func (c *Config) Validate() error {
	switch {
	case c.Client == nil || c.Runtime == nil || c.Log == nil:
		return errors.New("node: Client, Runtime and Log must be set")
	case c.Name == "":
		return errors.New("node: Name must be set")
	case !validIPs(c.IPs):
		return fmt.Errorf("node: IPs %v must name this node's address", c.IPs)
	}
	if c.Hostname == "" {
		c.Hostname = c.Name
	}
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	if c.MaxImages == 0 {
		c.MaxImages = 50
	}
	def(&c.CheckEvery, 10*time.Second)
	def(&c.ReportEvery, 5*time.Minute)
	def(&c.LeaseDuration, 40*time.Second)
	return nil
}

// Manager is the one writer of the Node object's registration, status and lease.
type Manager struct {
	cfg    Config
	health health
	poke   chan struct{}

	mu    sync.Mutex
	uid   types.UID // of the registered node
	ready bool      // as last written
	// cordoned is whether pods were kept from the node when it was last looked at.
	cordoned bool
	tried    time.Time // when it was first tried to register the node
}

// New makes a Manager; it does nothing before Run.
func New(cfg Config) (*Manager, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Manager{cfg: cfg, poke: make(chan struct{}, 1)}, nil
}

// Poke makes the Manager look now: the runtime came or went, an image was pulled, pressure turned. It never blocks.
func (m *Manager) Poke() {
	select {
	case m.poke <- struct{}{}:
	default:
	}
}

// UID of the registered node, "" before.
func (m *Manager) UID() types.UID {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.uid
}

// Ready tells whether the node's status, as last written, is Ready.
func (m *Manager) Ready() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ready
}

// NetworkProblem is why pods have no network, by what the runtime said last; "" when they have one, or it has said nothing yet.
func (m *Manager) NetworkProblem() string {
	if s, _ := m.health.get(); s != nil {
		return networkProblem(s)
	}
	return ""
}

// Run registers the node, calls ready, and keeps status and lease until ctx ends.
func (m *Manager) Run(ctx context.Context, ready func()) error {
	if !m.cfg.Facts.SysResource {
		m.cfg.Log.Warn("the capability CAP_SYS_RESOURCE is missing: pods run, but without out-of-memory scores lower than this process's own")
	}
	if m.cfg.Event != nil {
		m.cfg.Event(v1.EventTypeNormal, "Starting", "Starting kubelet.")
	}
	m.mu.Lock()
	m.tried = time.Now()
	m.mu.Unlock()
	if !m.until(ctx, "register the node", 7*time.Second, m.register) {
		return nil
	}
	ready()
	var lease sync.WaitGroup
	defer lease.Wait()
	ctx, end := context.WithCancel(ctx)
	defer end() // before it waits, also when the status's keeper panics
	lease.Go(func() { m.keepLease(ctx) })
	m.keepStatus(ctx)
	return nil
}

// until calls try until it succeeds, waiting 100 ms at first and at most longest between two calls; false when ctx ended.
func (m *Manager) until(ctx context.Context, what string, longest time.Duration, try func(context.Context) error) bool {
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, longest) {
		err := try(ctx)
		if err == nil {
			return true
		}
		if ctx.Err() == nil {
			m.cfg.Log.Warn("could not "+what+", will try again", "node", m.cfg.Name, "after", wait, "err", err)
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(wait):
		}
	}
}

// Own is the node as it would be registered now: all that is known of it while the API server has not answered.
func (m *Manager) Own() *v1.Node {
	n, now := m.cfg.object(), time.Now()
	m.cfg.apply(&n.Status, m.observed(now), now)
	return n
}

// register creates the Node object with its first status, or takes over the one that is there.
func (m *Manager) register(ctx context.Context) error {
	ref := client.Nodes.At("", m.cfg.Name)
	m.observe(ctx)
	n := m.Own()
	obj, err := m.cfg.Client.Create(ctx, ref, n)
	created := err == nil
	if apierrors.IsAlreadyExists(err) {
		obj, err = m.cfg.Client.Mutate(ctx, ref, func(o runtime.Object) (bool, error) {
			have, ok := o.(*v1.Node)
			if !ok {
				return false, fmt.Errorf("node: the client returned a %T", o)
			}
			return m.cfg.adopt(have), nil
		})
	}
	if err != nil {
		return err
	}
	have, ok := obj.(*v1.Node)
	if !ok {
		return fmt.Errorf("node: the client returned a %T", obj)
	}
	m.mu.Lock()
	m.uid = have.UID
	tried := m.tried
	m.mu.Unlock()
	if created && m.cfg.Registered != nil {
		m.cfg.Registered(tried)
	}
	if created {
		m.cfg.tell(&v1.NodeStatus{}, &n.Status)
	}
	return nil
}
