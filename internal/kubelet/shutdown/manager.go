// Package shutdown ends the node's pods before the machine goes off: logind is asked to wait, pods end group by group in the order of their
// priority, the lowest first, and the node turns new ones away meanwhile.
//
//	watching (logind waits for us) ─PrepareForShutdown(true)─► ending groups ─► over (logind need not wait)
//	       ▲                                                                        │
//	       └────────────────────── PrepareForShutdown(false): called off ◄──────────┘
package shutdown

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"podo.dev/podo/internal/podlife"
)

// What users read, in upstream's words.
const (
	Reason         = "Terminated"
	Message        = "Pod was terminated in response to imminent node shutdown."
	RejectReason   = "NodeShutdown"
	RejectMessage  = "Pod was rejected as the node is shutting down."
	Problem        = "node is shutting down"
	eventReason    = "Shutdown"
	eventDetected  = "Shutdown manager detected shutdown event"
	eventCancelled = "Shutdown manager detected shutdown cancellation"
)

// Logind is the machine's login manager, which delays a shutdown for those who asked it to.
type Logind interface {
	// Delay is the longest that it waits for anybody.
	Delay() (time.Duration, error)
	// Raise has it wait for longer.
	Raise(d time.Duration) error
	// Inhibit has it wait for us until the lock is closed.
	Inhibit() (lock io.Closer, err error)
	// Shutdowns tells of each that begins (true) or is called off; it is closed when the connection is lost.
	Shutdowns() (<-chan bool, error)
	io.Closer
}

// Config is what a Manager needs. Without Groups it does nothing.
type Config struct {
	Groups  []Group
	Connect func() (Logind, error)
	Pods    func() []*v1.Pod // that run or are about to
	Signal  func(uid types.UID, ev podlife.Event)
	// AwaitEnds returns when none of the pods runs any more and the API has been told so, or ctx ends. What the API does not hear
	// before the machine is off, it hears only when that is back.
	AwaitEnds func(ctx context.Context, uids []types.UID)
	Changed   func() // Down has changed, and the node's status should say so; must not block
	NodeEvent func(eventType, reason, message string)
	// Began and Ended are called when a shutdown begins to wait for the pods and when it no longer has to; they may be nil.
	Began, Ended func(at time.Time)
	Log          *slog.Logger
}

// Validate says what is missing.
func (c *Config) Validate() error {
	if c.Connect == nil || c.Pods == nil || c.Signal == nil || c.AwaitEnds == nil || c.Changed == nil || c.NodeEvent == nil || c.Log == nil {
		return errors.New("shutdown: Connect, Pods, Signal, AwaitEnds, Changed, NodeEvent and Log must be set")
	}
	return nil
}

// Manager watches for the machine's shutdown.
type Manager struct {
	c    Config
	down atomic.Bool
}

// New makes a Manager.
func New(c Config) (*Manager, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return &Manager{c: c}, nil
}

// Down tells whether the machine is about to go off.
func (m *Manager) Down() bool { return m.down.Load() }

// again is how long after a lost connection it is tried anew.
const again = 30 * time.Second

// Run works until ctx ends. Without logind it says so and does nothing: the machine then ends pods as it ends every process.
func (m *Manager) Run(ctx context.Context, ready func()) error {
	ready()
	if whole(m.c.Groups) == 0 {
		<-ctx.Done()
		return nil
	}
	for first := true; ctx.Err() == nil; first = false {
		err := m.session(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if first {
			m.c.Log.Warn("shutdownGracePeriod has no effect while systemd-logind cannot be asked to wait: drain the node before the machine stops", "err", err)
		} else {
			m.c.Log.Debug("systemd-logind cannot be asked to wait", "err", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(again):
		}
	}
	return nil
}

// session is one connection to logind, until it is lost or ctx ends.
func (m *Manager) session(ctx context.Context) error {
	bus, err := m.c.Connect()
	if err != nil {
		return err
	}
	defer bus.Close() //nolint:errcheck // it is over
	if err := m.raise(bus); err != nil {
		return err
	}
	shutdowns, err := bus.Shutdowns()
	if err != nil {
		return err
	}
	lock, err := bus.Inhibit()
	if err != nil {
		return err
	}
	release := func() {
		if lock != nil {
			lock.Close() //nolint:errcheck // logind sees that it is gone either way
			lock = nil
		}
	}
	defer func() { release() }()
	m.c.Log.Info("a shutdown of the machine waits for the pods", "atMost", whole(m.c.Groups))
	if m.Down() { // it was called off while we were not connected
		m.turn(false, eventCancelled)
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case down, ok := <-shutdowns:
			switch {
			case !ok:
				return errors.New("the connection was lost")
			case down:
				m.turn(true, eventDetected)
				m.end(ctx)
				release()
			default:
				m.turn(false, eventCancelled)
				if lock != nil {
					continue
				}
				if lock, err = bus.Inhibit(); err != nil {
					return err
				}
			}
		}
	}
}

// raise sees to it that logind waits long enough.
func (m *Manager) raise(bus Logind) error {
	want := whole(m.c.Groups)
	have, err := bus.Delay()
	if err != nil || have >= want {
		return err
	}
	if err := bus.Raise(want); err != nil {
		return err
	}
	if have, err = bus.Delay(); err == nil && have < want {
		m.c.Log.Warn("logind waits for less than shutdownGracePeriod asks for: raise InhibitDelayMaxSec in its configuration", "waits", have, "asked", want)
	}
	return err
}

func (m *Manager) turn(down bool, message string) {
	m.c.Log.Info("the machine's shutdown", "begins", down)
	m.c.NodeEvent(v1.EventTypeNormal, eventReason, message)
	m.down.Store(down)
	m.c.Changed()
}

// end ends all pods, one group after the other. A group without pods takes no time.
func (m *Manager) end(ctx context.Context) {
	tell := func(f func(time.Time)) {
		if f != nil {
			f(time.Now())
		}
	}
	tell(m.c.Began)
	defer tell(m.c.Ended)
	for i, pods := range turns(m.c.Groups, m.c.Pods()) {
		if len(pods) == 0 {
			continue
		}
		g := m.c.Groups[i]
		var uids []types.UID
		for _, p := range pods {
			d := grace(p, g)
			m.c.Signal(p.UID, podlife.StopAsked{Why: podlife.NodeShutdown, Reason: Reason, Message: Message, Grace: &d})
			uids = append(uids, p.UID)
		}
		bounded, cancel := context.WithTimeout(ctx, g.Period)
		m.c.AwaitEnds(bounded, uids)
		if bounded.Err() != nil {
			m.c.Log.Warn("pods did not end in the time that a shutdown has for them", "priority", g.Priority, "time", g.Period)
		}
		cancel()
	}
}
