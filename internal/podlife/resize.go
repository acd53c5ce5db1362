package podlife

import (
	"encoding/json"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
)

// A pod's resources are three things, and a resize moves the later ones after the first:
//
//	asked    what the pod's spec says          State.Pod
//	granted  what the node has made room for   State.Granted; whatever is made for the pod is made of it (State.Given)
//	applied  what runs with                    State.Applied, as container by container was created or changed
//
//	asked ≠ granted ─ Allocate ─► no room: pending (Deferred, Infeasible), judged again when there may be room
//	                     │
//	                     ▼ granted: in progress
//	granted ≠ applied ─ Resize, or stop and create anew where the container's policy says so ─► Error: again, later
//	                     │
//	                     ▼ applied: completed
//
// A grant is on disk before anything is changed for it, so that a kubelet that was killed goes on where it was.

// Resize is one of the two conditions of a resize.
type Resize struct {
	Reason     string    `json:"reason,omitempty"`
	Message    string    `json:"message,omitempty"`
	Generation int64     `json:"generation,omitempty"` // of the pod that asked for it
	Since      time.Time `json:"since"`                // of this reason
}

// Change is what a running container was last given, and what it shall have.
type Change struct {
	Container, ID string
	From, To      v1.ResourceRequirements // with the limits that apply, see Effective
}

// Given is the pod with its granted resources, from which everything on the node is made. It is shared, not to be changed.
func (s *State) Given() *v1.Pod { return s.given }

// takePod takes the pod as it is wanted now.
func (s *State) takePod(p *v1.Pod) {
	s.Pod = p
	if s.Stage >= Finished { // its last status was told: nothing of what is added now will be made
		return
	}
	if s.given = s.Granted.Over(p); s.given == p || p.DeletionTimestamp != nil { // nobody judges any more what a pod that ends asks for
		s.observed = p.Generation
	}
	s.syncContainers()
}

// grant gives the pod what p asks for.
func (s *State) grant(p *v1.Pod) {
	s.Granted = GrantOf(p)
	s.takePod(s.Pod)
}

// takeAllocated takes the node's verdict on the form of the pod that was judged.
func (m *mover) takeAllocated(e Allocated) {
	if m.Stage > Running {
		return
	}
	m.observed = e.Pod.Generation
	if e.Reason == "" {
		m.grant(e.Pod)
		m.Pending, m.resizeRetry = nil, retry{}
		m.Progress = &Resize{Generation: e.Pod.Generation, Since: m.now}
		m.tell("", v1.EventTypeNormal, "ResizeStarted", "Pod resize started"+summary(e.Pod, e.Pod.Generation, ""))
		return
	}
	old := m.Pending
	m.Pending = &Resize{Reason: e.Reason, Message: e.Message, Generation: e.Pod.Generation, Since: m.now}
	if old != nil && old.Reason == e.Reason {
		m.Pending.Since = old.Since
		if old.Generation == e.Pod.Generation {
			return
		}
	}
	m.tell("", v1.EventTypeWarning, either(e.Reason == v1.PodReasonInfeasible, "ResizeInfeasible", "ResizeDeferred"),
		"Pod resize "+either(e.Word != "", e.Word, e.Reason)+summary(e.Pod, e.Pod.Generation, e.Message))
}

// takeResized takes the result of a ResizePod, which may have been done in part.
func (m *mover) takeResized(e Resized) {
	m.resizing = false
	for _, ch := range e.Done {
		if c := m.Container(ch.Container); c != nil && c.Cur != nil && c.Cur.ID == ch.ID {
			m.Applied = m.Applied.with(ch.Container, ch.To)
		}
	}
	for _, in := range e.Instances {
		if c := m.Container(in.Name); c != nil && c.Cur != nil && c.Cur.ID == in.ID {
			m.apply(c, in)
		}
	}
	if e.Fail == nil {
		m.resizeRetry, m.InDoubt = retry{}, nil
		m.cgroupSet(e.Granted)
		return
	}
	m.resizeRetry.failed(m.cfg, e.Fail, m.now)
	if m.Progress == nil || m.Progress.Reason == v1.PodReasonError && m.Progress.Message == e.Fail.Message {
		return
	}
	next := *m.Progress
	if next.Reason != v1.PodReasonError {
		next.Since = m.now
	}
	next.Reason, next.Message = v1.PodReasonError, e.Fail.Message
	m.Progress = &next
	m.tell("", v1.EventTypeWarning, "ResizeError", "Pod resize error"+summary(m.given, next.Generation, e.Fail.Message))
}

// cgroupSet records that the pod's cgroup is as g wants it.
func (s *State) cgroupSet(g *Grant) {
	applied := s.Applied.with("", v1.ResourceRequirements{})
	applied.Pod = g.own()
	s.cgroupOf, s.Applied = g, applied
}

// resize applies what was granted to what runs, and asks for what was not granted.
func (m *mover) resize() {
	if m.Granted == nil {
		return
	}
	if m.given == m.Pod {
		m.Pending = nil
	} else if m.asked != m.Pod.Generation {
		m.asked = m.Pod.Generation
		m.do(Allocate{m.asked})
	}
	if m.Cgroup != Held {
		return
	}
	changes, restarting := m.changes()
	switch {
	case m.resizing:
	case restarting, len(changes) > 0, m.cgroupOf != m.Granted:
		if m.Progress == nil {
			m.Progress = &Resize{Generation: m.Pod.Generation, Since: m.now}
		}
		// Containers that are recreated end first: their part of the pod's limits may go to others.
		if !restarting && m.resizeRetry.due(m.now) {
			m.resizing, m.InDoubt = true, nil
			for _, c := range changes {
				m.InDoubt = append(m.InDoubt, c.Container)
			}
			m.do(ResizePod{Changes: changes, Granted: m.Granted})
		}
	case m.Progress != nil:
		m.tell("", v1.EventTypeNormal, "ResizeCompleted", "Pod resize completed"+summary(m.given, m.Progress.Generation, ""))
		m.Progress = nil
	}
}

// changes are the running containers whose resources differ from their grant. Those whose policy is to restart are stopped
// instead; restarting says that one of them still runs.
func (m *mover) changes() (out []Change, restarting bool) {
	for i := range m.Containers {
		c := &m.Containers[i]
		if c.Kind == Ephemeral || c.Cur == nil || c.Cur.State != InstanceRunning {
			continue
		}
		from, to := m.Applied.of(c.Name), Effective(m.Granted.Pod, c.spec.Resources)
		a, b := amountsOf(from), amountsOf(to)
		switch {
		case c.StopWhy == resized(c):
			restarting = true
		case c.Stage != Up && c.Stage != Hooking:
		case a == b && !slices.Contains(m.InDoubt, c.Name):
		case a != b && policyRestarts(c.spec, a, b):
			m.stopOne(c, m.ownGrace(), resized(c))
			c.Again = true
			restarting = true
		default:
			out = append(out, Change{Container: c.Name, ID: c.Cur.ID, From: from, To: to})
		}
	}
	return out, restarting
}

// without is a list without a name, another list.
func without(list []string, name string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return s == name })
}

func resized(c *Container) string { return "Container " + c.Name + " resize requires restart" }

func policyRestarts(c *v1.Container, a, b amounts) bool {
	for _, p := range c.ResizePolicy {
		if p.RestartPolicy != v1.RestartContainer {
			continue
		}
		if p.ResourceName == v1.ResourceCPU && (a.cpuRequest != b.cpuRequest || a.cpuLimit != b.cpuLimit) ||
			p.ResourceName == v1.ResourceMemory && (a.memoryRequest != b.memoryRequest || a.memoryLimit != b.memoryLimit) {
			return true
		}
	}
	return false
}

// roomy tells whether the pod's cgroup is as granted, so that its containers fit. A cgroup that cannot be set does not keep
// containers from being tried.
func (s *State) roomy() bool {
	return s.cgroupOf == s.Granted || !s.resizing && s.resizeRetry.fail != nil
}

// summary is the machine-readable part of upstream's resize events.
func summary(p *v1.Pod, generation int64, fault string) string {
	type container struct {
		Name      string                  `json:"name"`
		Resources v1.ResourceRequirements `json:"resources"`
	}
	all := func(list []v1.Container) (out []container) {
		for i := range list {
			out = append(out, container{list[i].Name, list[i].Resources})
		}
		return out
	}
	b, err := json.Marshal(struct {
		InitContainers []container `json:"initContainers,omitempty"`
		Containers     []container `json:"containers,omitempty"`
		Generation     int64       `json:"generation"`
		Error          string      `json:"error,omitempty"`
	}{all(p.Spec.InitContainers), all(p.Spec.Containers), generation, fault})
	if err != nil {
		return ""
	}
	return ": " + string(b)
}
