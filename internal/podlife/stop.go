package podlife

import (
	"math"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
)

// stopOne begins the end of a running instance: first its hook, then, in its turn, TERM, and KILL when grace is over. message is
// the Killing event's.
func (m *mover) stopOne(c *Container, grace time.Duration, message string) {
	hook := c.spec.Lifecycle != nil && c.spec.Lifecycle.PreStop != nil
	m.beginEnd(c, grace, message, either(hook, PreStopping, InLine))
}

// killOne is stopOne without the hook and with the minimum grace.
func (m *mover) killOne(c *Container, message string) { m.beginEnd(c, 0, message, InLine) }

func (m *mover) beginEnd(c *Container, grace time.Duration, message string, first CStage) {
	c.StopWhy, c.deadline, c.asked, c.retry = message, m.now.Add(max(grace, m.cfg.MinGrace)), time.Time{}, retry{}
	c.Stage, c.preStop, c.sent = first, false, time.Time{}
	m.tell(c.Name, v1.EventTypeNormal, "Killing", message)
	m.pressOn(c)
}

// pressOn asks the runtime to stop a container when it is time, and again when there is less time.
func (m *mover) pressOn(c *Container) {
	m.setProbes(c, ReadinessOnly) // here and not earlier: nobody probes containers that an earlier kubelet began to stop
	if m.Stage == Stopping && m.Stop.Deadline.Before(c.deadline) {
		c.deadline = m.Stop.Deadline
	}
	left := c.deadline.Sub(m.now)
	if c.Stage == PreStopping && left <= 0 { // the hook used up the whole grace
		c.Stage = InLine
	}
	if c.Stage == PreStopping && !c.preStop {
		c.preStop = true
		m.do(RunHook{Container: c.Name, ID: c.Cur.ID, Hook: PreStop, Limit: left})
	}
	if c.Stage == InLine && (m.inTurn(c) || left <= 0) {
		c.Stage, c.sent = TermSent, m.now
	}
	if c.Stage != TermSent {
		return
	}
	if least := c.sent.Add(m.cfg.MinGrace); c.deadline.Before(least) {
		c.deadline = least
	}
	left = c.deadline.Sub(m.now)
	switch {
	case c.asked.IsZero() && !c.retry.due(m.now):
		return // the last try has just failed
	case !c.asked.IsZero() && !c.deadline.Before(c.asked):
		return // it was asked already, and no less time is left than then
	}
	whole := time.Duration(math.Ceil(left.Seconds())) * time.Second // runtimes take whole seconds
	c.asked, c.askedGrace = c.deadline, max(whole, time.Second)
	m.do(StopContainer{Container: c.Name, ID: c.Cur.ID, Grace: c.askedGrace})
}

// inTurn tells whether a container that is being stopped may be sent TERM. When a pod stops, a sidecar waits for the main
// containers and for the sidecars after it, which rely on it.
func (m *mover) inTurn(c *Container) bool {
	if m.Stage != Stopping || c.Kind != Sidecar {
		return true
	}
	for i := range slices.Backward(m.Containers) {
		o := &m.Containers[i]
		switch {
		case o.Name == c.Name:
			return true
		case (o.Kind == Main || o.Kind == Sidecar) && (o.Runs() || o.busy()):
			return false
		}
	}
	return true
}

// overdue is when to report that a pod which the node itself ends has not ended: after one and a half times its grace and ten
// seconds at least, as upstream. Zero when that is not reported: for a pod that ends by itself or is deleted, or when it was
// reported.
func (s *State) overdue() time.Time {
	switch s.Stop.Why {
	case Evicted, OverLimit, Preempting, NodeShutdown:
	default:
		return time.Time{}
	}
	if s.Stage != Stopping || s.overdueTold {
		return time.Time{}
	}
	return s.Stop.At.Add(max(3*s.Stop.Deadline.Sub(s.Stop.At)/2, 10*time.Second))
}

// stopAll ends a pod's containers within the pod's one deadline. The hooks of all begin at once; TERM comes in turn.
func (m *mover) stopAll() {
	if m.mayExceed() && m.overDeadline() {
		m.tell("", v1.EventTypeNormal, reasonDeadline, messageDeadline)
		m.Stop.Reason, m.Stop.Message = reasonDeadline, messageDeadline
	}
	quiet := true
	for i := range slices.Backward(m.Containers) { // backwards, so that one that ends here lets those before it go on
		c := &m.Containers[i]
		switch {
		case c.Stage == Created:
			m.neverStart(c)
			c.Attempt-- // no next one follows, so it does not count as a restart
		case c.Stage == Hooking || c.Stage == Up:
			m.stopOne(c, m.Stop.Deadline.Sub(m.now), "Stopping container "+c.Name)
		case c.stopping():
			m.pressOn(c)
		}
		quiet = quiet && !c.Runs() && !c.busy()
	}
	if quiet && m.Sandbox != SandboxCreating && !m.unsureSandbox {
		m.Final = m.finalPhase()
		m.Stage = Releasing
		m.cgroupRetry, m.volumesRetry = retry{}, retry{} // failures to get them do not delay giving them back
		return
	}
	if t := m.overdue(); !t.IsZero() && !m.now.Before(t) {
		m.overdueTold = true
		m.tell("", v1.EventTypeWarning, "ExceededGracePeriod", "Container runtime did not kill the pod within specified grace period.")
	}
}

// mayExceed tells whether the pod's deadline can still pass before its end: it ends for a reason that its status does not name, so that the
// status will name this one, as upstream's does.
func (s *State) mayExceed() bool {
	return s.Stage == Stopping && (s.Stop.Why == Deleted || s.Stop.Why == Completed) && s.Stop.Reason == ""
}

// release gives back what the pod holds: network and volumes at once, the cgroup when nothing is in it any more.
func (m *mover) release() {
	if m.SandboxID != "" {
		m.sweepSandbox(m.SandboxID)
	}
	switch {
	case m.Volumes == Absent:
		m.Volumes = Returned
	case m.Volumes.owed() && m.volumesRetry.due(m.now):
		m.Volumes = Returning
		m.do(UnmountVolumes{})
	}
	if m.Volumes != Returned || m.sandboxInTheWay() {
		return
	}
	switch {
	case m.Cgroup == Absent:
		m.Cgroup = Returned
	case m.Cgroup.owed() && m.cgroupRetry.due(m.now):
		m.Cgroup = Returning
		m.do(RemoveCgroup{})
	}
	if m.Cgroup == Returned {
		m.Stage = Finished
	}
}

func (m *mover) sweepSandbox(id string) { m.sweep(id, true) }

func (m *mover) sweepContainer(id string) { m.sweep(id, false) }

func (m *mover) sweep(id string, sandbox bool) {
	if id != "" && !slices.ContainsFunc(m.sweeps, func(w sweep) bool { return w.id == id }) {
		m.sweeps = append(m.sweeps, sweep{id: id, sandbox: sandbox})
	}
}

// sweepAll stops sandboxes that are not wanted and removes what nobody needs. A stopped sandbox stays while it has an instance
// that the status or `logs --previous` shows; a finished pod's sandbox stays as long as the pod exists.
func (m *mover) sweepAll() {
	for i := range m.sweeps {
		w := &m.sweeps[i]
		if !w.retry.due(m.now) {
			continue
		}
		switch {
		case w.stage == sweepDue && w.sandbox:
			w.stage = sweepStopping
			m.do(StopSandbox{ID: w.id})
		case w.stage == sweepDue:
			w.stage = sweepRemoving
			m.do(RemoveContainer{ID: w.id})
		case w.stage == sweepStopped && m.removable(w.id):
			w.stage = sweepRemoving
			m.do(RemoveSandbox{ID: w.id})
		}
	}
}

func (m *mover) removable(sandbox string) bool {
	if m.Stage >= Stopping {
		return m.Stage >= Finished && m.Removed
	}
	return sandbox != m.SandboxID && !slices.ContainsFunc(m.Containers, func(c Container) bool {
		return (c.Cur != nil && c.Cur.SandboxID == sandbox) || (c.Prev != nil && c.Prev.SandboxID == sandbox)
	})
}

// wakeUp asks for a Tick at the next due time.
func (m *mover) wakeUp() {
	var next time.Time
	at := func(cond bool, t time.Time) {
		if cond && t.After(m.now) && t.Before(never) && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	keeping := m.Stage == Starting || m.Stage == Running
	releasing := m.Stage == Releasing
	at(keeping || m.mayExceed(), m.deadline())
	at(m.Stage == Stopping, m.overdue())
	at(keeping && m.Cgroup.wanted() || releasing && m.Cgroup.owed(), m.cgroupRetry.at)
	at(keeping && m.Volumes.wanted() || releasing && m.Volumes.owed(), m.volumesRetry.at)
	at(keeping && m.Sandbox == SandboxNone, m.sandboxRetry.at)
	at(!m.observeAfter.IsZero() && !m.observing && m.Stage < Finished, m.observeRetry.at)
	at(keeping && m.Cgroup == Held && !m.resizing, m.resizeRetry.at)
	for i := range m.Containers {
		c := &m.Containers[i]
		at(keeping && (c.Stage == Waiting || c.Stage == Created), c.retry.at)
		at(m.Stage <= Stopping && c.Stage == TermSent && c.asked.IsZero(), c.retry.at)
		at(keeping && c.Stage == BackOff, c.until)
		at(keeping && c.Stage == BackOff, c.notice)
		at(m.Stage <= Stopping && (c.Stage == PreStopping || c.Stage == InLine), c.deadline)
	}
	for i := range m.sweeps {
		at(m.sweeps[i].stage != sweepRemoving && m.sweeps[i].stage != sweepStopping, m.sweeps[i].retry.at)
	}
	if !next.Equal(m.wake) {
		m.wake = next
		m.do(WakeAt{At: next})
	}
}
