package podlife

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
)

// Step takes an event in and decides what follows from it. s is not changed. The effects are to be begun in their order; a
// Save that is Durable must be on disk before the ones after it begin.
func Step(s State, ev Event, now time.Time) (State, []Effect) {
	before := s.Saved()
	s.Containers = slices.Clone(s.Containers)
	s.sweeps = slices.Clone(s.sweeps)
	m := &mover{State: s, now: now}
	m.take(ev)
	m.advance()
	m.Initialized = m.Initialized || m.Stage > Admitting && m.Reject == nil && len(m.incomplete()) == 0
	m.wakeUp()
	if after := m.Saved(); !after.equal(before) {
		m.fx = append([]Effect{Save{Saved: after, Durable: durable(&before, &after)}}, m.fx...)
	}
	return m.State, m.fx
}

// durable tells whether a change must survive the machine: the reason for stopping a pod, its final phase, and a grant that
// differs from the one at admission.
func durable(before, after *Saved) bool {
	return !after.Stop.same(before.Stop) || after.Final != before.Final || before.Granted != nil && after.Granted != before.Granted
}

// mover is a State in the middle of a step.
type mover struct {
	State
	now time.Time
	fx  []Effect
}

func (m *mover) do(e Effect) { m.fx = append(m.fx, e) }

func (m *mover) tell(container, kind, reason, message string) {
	m.do(Tell{Container: container, Type: kind, Reason: reason, Message: message})
}

// take takes an event in. It decides nothing that depends on more than the event's own subject.
func (m *mover) take(ev Event) {
	switch e := ev.(type) {
	case Desired:
		m.takePod(e.Pod)
		switch {
		case e.Pod.DeletionTimestamp != nil:
			m.beginStop(Stop{Why: Deleted}, graceOf(e.Pod.DeletionGracePeriodSeconds, m.ownGrace()))
		case !Static(e.Pod) && (e.Pod.Status.Phase == v1.PodFailed || e.Pod.Status.Phase == v1.PodSucceeded):
			// Somebody else says so, and that is final.
			m.beginStop(Stop{Why: Ended}, m.ownGrace())
		}
	case SourceRemoved:
		m.Removed = true
		grace := m.ownGrace()
		if !Static(m.Pod) {
			grace = m.cfg.MinGrace // it was deleted by force: nobody waits for it any more
		}
		m.beginStop(Stop{Why: SourceGone}, grace)
	case StopAsked:
		grace := m.ownGrace()
		if e.Grace != nil {
			grace = *e.Grace
		}
		m.beginStop(Stop{Why: e.Why, Reason: e.Reason, Message: e.Message}, grace)
	case Admitted:
		m.takeVerdict(e)
	case CgroupDone:
		if e.Fail == nil && m.Cgroup == Acquiring {
			m.CgroupParent = e.Parent
			if m.cgroupAsked != nil {
				m.cgroupSet(m.cgroupAsked)
			}
		}
		m.takeHold(&m.Cgroup, &m.cgroupRetry, e.Fail, "FailedCreatePodContainer", "unable to ensure pod container exists: ")
	case VolumesDone:
		m.takeHold(&m.Volumes, &m.volumesRetry, e.Fail, "FailedMount", "")
	case SandboxCreated:
		m.takeSandbox(e)
	case Swept:
		m.takeSwept(e)
	case ImageReady:
		m.takeImage(e)
	case ContainerCreated:
		m.takeCreated(e)
	case ContainerStarted:
		m.takeStarted(e)
	case ContainerStopped:
		m.takeStopped(e)
	case HookDone:
		m.takeHook(e)
	case ProbeTurned:
		m.takeProbe(e)
	case Observation:
		m.observing = m.observing && !e.Asked
		if e.Fail != nil {
			m.observeRetry.failed(m.cfg, e.Fail, m.now)
			m.tellStuck(e.Fail)
			return
		}
		m.observeRetry = retry{}
		m.reconcile(e.Observed)
	case Allocated:
		m.takeAllocated(e)
	case Resized:
		m.takeResized(e)
	case VolumesChanged:
		m.volumesRetry.at = time.Time{}
	case Tick:
	}
}

func (m *mover) takeVerdict(e Admitted) {
	switch {
	case m.Stage != Admitting:
	case e.Reject == nil:
		m.Stage = Starting
		m.grant(m.Pod)
	default:
		m.Reject, m.Final, m.Stage = e.Reject, v1.PodFailed, Releasing
		m.tell("", v1.EventTypeWarning, e.Reject.Reason, e.Reject.Message)
	}
}

func (m *mover) takeHold(h *Hold, r *retry, f *Failure, reason, prefix string) {
	switch {
	case *h == Acquiring && f == nil:
		*h, *r = Held, retry{}
	case *h == Acquiring:
		*h = Doubtful // it may be there in part
		if m.Stage < Releasing {
			r.failed(m.cfg, f, m.now)
		}
		if m.Stage <= Running {
			m.tell("", v1.EventTypeWarning, either(f.Reason != "", f.Reason, reason), prefix+f.Message)
		}
	case *h == Returning && f == nil:
		*h, *r = Returned, retry{}
	case *h == Returning:
		*h = Held
		r.failed(m.cfg, f, m.now)
		m.tellStuck(f)
	}
}

// tellStuck reports what keeps a pod or a container from its end, or the node from knowing its state.
func (m *mover) tellStuck(f *Failure) {
	if f.Reason != "" {
		m.tell("", v1.EventTypeWarning, f.Reason, f.Message)
	}
}

// beginStop makes the pod end. The first cause is kept; the deadline only ever moves to an earlier time.
func (m *mover) beginStop(why Stop, grace time.Duration) {
	deadline := m.now.Add(max(grace, m.cfg.MinGrace))
	switch {
	case m.Stage > Stopping:
	case m.Stage == Stopping:
		if deadline.Before(m.Stop.Deadline) {
			m.Stop.Deadline = deadline
		}
	default:
		why.At, why.Deadline = m.now, deadline
		m.Stop, m.Stage = why, Stopping
	}
}

func (s *State) ownGrace() time.Duration {
	return graceOf(s.Pod.Spec.TerminationGracePeriodSeconds, 30*time.Second)
}

func graceOf(seconds *int64, otherwise time.Duration) time.Duration {
	if seconds == nil {
		return otherwise
	}
	return time.Duration(*seconds) * time.Second
}

func either[T any](cond bool, a, b T) T {
	if cond {
		return a
	}
	return b
}
