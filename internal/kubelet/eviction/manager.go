package eviction

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	every = 10 * time.Second
	// grace is what a pod gets that must go at once.
	grace = time.Second
	// patience is how long the next eviction waits for the pod of the last one to be gone.
	patience = 30 * time.Second
)

// Gauge measures (package-level Machine is the real one).
type Gauge interface {
	// Node is what is left of what; a signal that cannot be measured is missing.
	Node(ctx context.Context) map[Signal]Observation
	// Pods is what each of the pods uses; one that cannot be measured is missing.
	Pods(ctx context.Context, pods []*v1.Pod) map[types.UID]Usage
	// Apart tells whether the runtime has images and containers on another file system than the node's.
	Apart(ctx context.Context) bool
}

// Config is what a Manager needs. Changed and Reclaim may be nil.
type Config struct {
	Thresholds []Threshold
	Transition time.Duration // how long a condition stays after it was last seen
	MaxGrace   time.Duration // the most that a soft threshold gives a pod; negative: what the pod itself asks for
	Gauge      Gauge
	// Active are the pods that run or are about to. Ended tells whether nothing of a pod runs any more.
	Active func() []*v1.Pod
	Ended  func(uid types.UID) bool
	// Evict asks a pod's worker to end it. limited says that the pod exceeded a limit of its own and the node lacks nothing.
	Evict func(pod *v1.Pod, limited bool, message string, grace time.Duration)
	// Counted is called with the signal of each eviction; may be nil.
	Counted func(signal Signal)
	// Short is called when a pod has to go, with the signal that caused it and the age of the figures behind it; may be nil.
	Short func(signal Signal, age time.Duration)
	// Event tells users about a pod; the annotations carry the same for programs. NodeEvent is about the node. They must not
	// block.
	Event     func(pod *v1.Pod, annotations map[string]string, eventType, reason, message string)
	NodeEvent func(eventType, reason, message string)
	// Changed is told when the conditions changed.
	Changed func()
	// Reclaim frees what no pod needs of the runtime's disk, before any pod has to go.
	Reclaim func(ctx context.Context)
	Log     *slog.Logger
}

// Validate says what is missing.
func (c *Config) Validate() error {
	if c.Gauge == nil || c.Active == nil || c.Ended == nil || c.Evict == nil || c.Event == nil || c.NodeEvent == nil || c.Log == nil {
		return errors.New("eviction: Gauge, Active, Ended, Evict, Event, NodeEvent and Log must be set")
	}
	return nil
}

// Manager owns the node's pressure conditions.
type Manager struct {
	cfg   Config
	state State
	last  types.UID // the pod evicted last for want of a resource
	since time.Time

	mu         sync.Mutex
	conditions []v1.NodeConditionType
}

// New makes a Manager.
func New(cfg Config) (*Manager, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Manager{cfg: cfg}, nil
}

// Conditions are the pressures that the node is under. The slice is shared and read-only.
func (m *Manager) Conditions() []v1.NodeConditionType {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.conditions
}

// Run looks at the node every ten seconds until ctx ends.
func (m *Manager) Run(ctx context.Context, ready func()) error {
	ready()
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
			m.look(ctx, time.Now())
		}
	}
}

func (m *Manager) look(ctx context.Context, now time.Time) {
	seen := m.cfg.Gauge.Node(ctx)
	state, verdict := Judge(m.state, m.cfg.Thresholds, seen, m.cfg.Transition, now)
	m.state = state
	m.set(verdict.Conditions)
	if m.enforceLimits(ctx) || verdict.Act == nil {
		return
	}
	m.reclaim(ctx, verdict, seen, now)
}

func (m *Manager) set(conditions []v1.NodeConditionType) {
	m.mu.Lock()
	changed := !slices.Equal(m.conditions, conditions)
	m.conditions = conditions
	m.mu.Unlock()
	if !changed {
		return
	}
	m.cfg.Log.Info("the node's pressure changed", "conditions", conditions)
	if m.cfg.Changed != nil {
		m.cfg.Changed()
	}
}

// enforceLimits evicts every pod that wrote more than its own limits allow, and tells whether there was any.
func (m *Manager) enforceLimits(ctx context.Context) bool {
	limited := slices.DeleteFunc(m.cfg.Active(), func(p *v1.Pod) bool { return Critical(p) || !Limited(p) })
	if len(limited) == 0 {
		return false
	}
	usage, apart := m.cfg.Gauge.Pods(ctx, limited), m.cfg.Gauge.Apart(ctx)
	any := false
	for _, p := range limited {
		u, ok := usage[p.UID]
		if !ok {
			continue
		}
		if signal, why := Exceeded(p, u, apart); why != "" {
			m.evict(p, signal, true, why, nil, grace)
			any = true
		}
	}
	return any
}

// reclaim acts on a crossed threshold: first what no pod needs is freed, then one pod is evicted, and the next look shows the
// effect.
func (m *Manager) reclaim(ctx context.Context, v Verdict, seen map[Signal]Observation, now time.Time) {
	if m.last != "" && now.Sub(m.since) < patience && !m.cfg.Ended(m.last) {
		return
	}
	m.last = ""
	m.cfg.NodeEvent(v1.EventTypeWarning, "EvictionThresholdMet", "Attempting to reclaim "+string(v.Resource))
	frees := part(v.Act.Signal, m.cfg.Gauge.Apart(ctx))
	disk := v.Resource == v1.ResourceEphemeralStorage || v.Resource == inodes
	if disk && frees != LogsAndVolumes && m.cfg.Reclaim != nil {
		m.cfg.Reclaim(ctx)
		again := m.cfg.Gauge.Node(ctx)
		if _, after := Judge(m.state, []Threshold{*v.Act}, again, m.cfg.Transition, now); after.Act == nil {
			m.cfg.Log.Info("the shortage ended without evicting a pod", "resource", v.Resource)
			return
		}
	}
	pods := slices.DeleteFunc(m.cfg.Active(), Critical)
	usage := m.cfg.Gauge.Pods(ctx, pods)
	ranked := Rank(pods, func(p *v1.Pod) Usage { return usage[p.UID] }, v.Resource, frees)
	if len(ranked) == 0 {
		m.cfg.Log.Warn("resources run short and there is no pod to evict", "resource", v.Resource, "signal", v.Act.Signal)
		return
	}
	p := ranked[0]
	m.last, m.since = p.UID, now
	if m.cfg.Short != nil {
		m.cfg.Short(v.Act.Signal, time.Since(now))
	}
	u, measured := usage[p.UID]
	why, annotations := message(p, u, measured, v.Resource, *v.Act, seen[v.Act.Signal])
	m.evict(p, v.Act.Signal, false, why, annotations, m.graceOf(p, v.Act))
}

// graceOf: hard thresholds leave no time, soft ones leave the pod its own, up to the configured most.
func (m *Manager) graceOf(p *v1.Pod, t *Threshold) time.Duration {
	if !t.Soft {
		return grace
	}
	own := time.Duration(v1.DefaultTerminationGracePeriodSeconds) * time.Second
	if s := p.Spec.TerminationGracePeriodSeconds; s != nil {
		own = time.Duration(*s) * time.Second
	}
	if m.cfg.MaxGrace < 0 {
		return own
	}
	return min(own, m.cfg.MaxGrace)
}

func (m *Manager) evict(p *v1.Pod, signal Signal, limited bool, why string, annotations map[string]string, grace time.Duration) {
	m.cfg.Log.Info("a pod is evicted", "pod", p.Namespace+"/"+p.Name, "uid", p.UID, "why", why)
	m.cfg.Event(p, annotations, v1.EventTypeWarning, "Evicted", why)
	if m.cfg.Counted != nil {
		m.cfg.Counted(signal)
	}
	m.cfg.Evict(p, limited, why, grace)
}
