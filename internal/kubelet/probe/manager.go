// Package probe owns the results of liveness, readiness and startup probes. It is told which probes of which container run, and
// tells when a probe's verdict turns; what follows from that is podlife's.
//
//	SetProbes(all) ─► startup probe, if there is one ── ok ──► liveness and readiness, each by its own period
//	                        └─ failed: told, and the probe ends (the container will be stopped)
//	SetProbes(readiness only) ─► the other two end; SetProbes(none) ─► all end
package probe

import (
	"context"
	"errors"
	"hash/fnv"
	"log/slog"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"podo.dev/podo/internal/podlife"
	"podo.dev/podo/internal/timeline"
)

// attempts is how often a probe that could not be run is run again at once.
const attempts = 3

// Config is what a Manager needs.
type Config struct {
	Checker Checker
	// Turned is told each verdict that turned. It must not block.
	Turned func(uid types.UID, e podlife.ProbeTurned)
	// Event tells users. It must not block.
	Event  func(pod *v1.Pod, container, eventType, reason, message string)
	Append timeline.Append
	Log    *slog.Logger
}

// Validate says what is missing.
func (c *Config) Validate() error {
	if c.Checker == nil || c.Turned == nil || c.Event == nil || c.Append == nil || c.Log == nil {
		return errors.New("probe: Checker, Turned, Event, Append and Log must be set")
	}
	return nil
}

// Manager runs probes. It implements worker.Probes.
type Manager struct {
	cfg     Config
	ctx     context.Context // the process's
	wg      sync.WaitGroup
	metrics metrics

	mu   sync.Mutex
	live map[string]*instance // by container id
}

// instance is one container whose probes run.
type instance struct {
	target  Target
	since   time.Time     // when the container started
	old     bool          // it ran before this process did
	started chan struct{} // closed once the startup probe has succeeded
	once    sync.Once     // closes started
	stop    map[podlife.Probe]context.CancelFunc
}

// New makes a Manager, whose probes run until ctx ends.
func New(ctx context.Context, cfg Config) (*Manager, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Manager{cfg: cfg, ctx: ctx, metrics: newMetrics(), live: map[string]*instance{}}, nil
}

// Wait returns when no probe runs any more, after ctx ended.
func (m *Manager) Wait() { m.wg.Wait() }

// SetProbes says which probes of a container run from now on. It does not block.
func (m *Manager) SetProbes(pod *v1.Pod, c *v1.Container, containerID, podIP string, set podlife.ProbeSet) {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := m.live[containerID]
	if set == podlife.NoProbes {
		if i != nil {
			for _, stop := range i.stop {
				stop()
			}
			delete(m.live, containerID)
		}
		return
	}
	if i == nil {
		i = m.newInstance(Target{Pod: pod, Container: c, ID: containerID, IP: podIP})
		m.live[containerID] = i
	}
	for kind, p := range map[podlife.Probe]*v1.Probe{
		podlife.Startup: c.StartupProbe, podlife.Liveness: c.LivenessProbe, podlife.Readiness: c.ReadinessProbe,
	} {
		want := p != nil && (set == podlife.AllProbes || kind == podlife.Readiness)
		stop, runs := i.stop[kind]
		switch {
		case want && !runs:
			ctx, cancel := context.WithCancel(m.ctx)
			i.stop[kind] = cancel
			m.wg.Go(func() { m.run(ctx, i, kind, p) })
		case !want && runs:
			stop()
			delete(i.stop, kind)
		}
	}
}

// newInstance reads from the pod's status what is known of this very container since before a restart of the kubelet.
func (m *Manager) newInstance(t Target) *instance {
	i := &instance{target: t, since: time.Now(), started: make(chan struct{}), stop: map[podlife.Probe]context.CancelFunc{}}
	started := t.Container.StartupProbe == nil
	for _, list := range [][]v1.ContainerStatus{t.Pod.Status.ContainerStatuses, t.Pod.Status.InitContainerStatuses} {
		for _, s := range list {
			if s.Name != t.Container.Name || s.State.Running == nil || !sameID(s.ContainerID, t.ID) {
				continue
			}
			i.since, i.old = s.State.Running.StartedAt.Time, true
			started = started || s.Started != nil && *s.Started
		}
	}
	if started {
		i.once.Do(func() { close(i.started) })
	}
	return i
}

func sameID(full, id string) bool {
	return full == id || len(full) > len(id)+3 && full[len(full)-len(id):] == id && full[len(full)-len(id)-3:len(full)-len(id)] == "://"
}

// run is one probe's life.
func (m *Manager) run(ctx context.Context, i *instance, kind podlife.Probe, p *v1.Probe) {
	if kind == podlife.Startup {
		select {
		case <-i.started: // known since before a restart of the kubelet
			return
		default:
		}
	} else {
		select {
		case <-i.started:
		case <-ctx.Done():
			return
		}
	}
	period := time.Duration(max(p.PeriodSeconds, 1)) * time.Second
	timer := time.NewTimer(m.first(i, p, period))
	defer timer.Stop()
	defer m.metrics.forget(i.target, kind)
	var t tally
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		timer.Reset(period)
		if done := m.once(ctx, i, kind, p, &t); done {
			return
		}
	}
}

// first is how long to wait before the first run: until the initial delay after the container's start has passed. Containers that
// have been running for long, after a restart of the kubelet, are spread over a period.
func (m *Manager) first(i *instance, p *v1.Probe, period time.Duration) time.Duration {
	age := time.Since(i.since)
	delay := time.Duration(p.InitialDelaySeconds) * time.Second
	if i.old && age > delay+period {
		h := fnv.New32a()
		_, _ = h.Write([]byte(i.target.ID))
		return time.Duration(h.Sum32()) % period
	}
	return min(max(delay-age, 0), delay) // the clock may have been set back since the start
}

// once runs a probe once, tells what turned, and says whether the probe has done its work.
func (m *Manager) once(ctx context.Context, i *instance, kind podlife.Probe, p *v1.Probe, t *tally) (done bool) {
	var res Result
	var err error
	begin := time.Now()
	for range attempts {
		if res, err = m.cfg.Checker.Check(ctx, p, i.target); err == nil || ctx.Err() != nil {
			break
		}
	}
	if ctx.Err() != nil {
		return true
	}
	name, before := title(kind), t.word()
	t.broken = err != nil
	m.metrics.add(i.target, kind, res, err, time.Since(begin))
	tell := func(reason, message string) {
		m.cfg.Event(i.target.Pod, i.target.Container.Name, v1.EventTypeWarning, reason, message)
	}
	switch {
	case err != nil:
		state := "unknown"
		if res.Began { // it counts as little
			state = "failure"
		}
		tell("Unhealthy", name+" probe errored and resulted in "+state+" state: "+err.Error())
		m.record(i.target, kind, before, t.word(), err.Error())
		return false
	case !res.OK:
		tell("Unhealthy", name+" probe failed: "+res.Output)
	case res.Warn != "":
		tell("ProbeWarning", name+" probe warning: "+res.Warn)
	}
	turned, cause := t.add(res.OK, p), ""
	if !t.ok {
		cause = res.Output
	}
	m.record(i.target, kind, before, t.word(), cause)
	if !turned {
		return false
	}
	m.cfg.Turned(i.target.Pod.UID, podlife.ProbeTurned{Container: i.target.Container.Name, ID: i.target.ID, Probe: kind, OK: res.OK})
	if kind == podlife.Startup && res.OK {
		i.once.Do(func() { close(i.started) })
		return true
	}
	return kind != podlife.Readiness && !res.OK // the container will be stopped
}

// record writes down what turned.
func (m *Manager) record(t Target, kind podlife.Probe, from, to, cause string) {
	if from == to {
		return
	}
	m.cfg.Append(timeline.Record{
		At: time.Now(), Pod: timeline.PodRef{Namespace: t.Pod.Namespace, Name: t.Pod.Name, UID: string(t.Pod.UID)},
		Stage: timeline.Probe, Subject: t.Container.Name + "/" + string(kind), From: from, To: to, Cause: cause,
	})
}
