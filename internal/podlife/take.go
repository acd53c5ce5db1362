package podlife

import (
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
)

// This file handles the results of effects on sandboxes and containers. A result that does not answer what is in flight is
// dropped: reconcile finds what it left behind.

func (m *mover) takeSandbox(e SandboxCreated) {
	if m.Sandbox != SandboxCreating || e.Attempt != m.SandboxAttempt {
		if e.Fail == nil {
			m.sweepSandbox(e.ID)
		}
		return
	}
	if e.Fail == nil {
		m.Sandbox, m.SandboxID, m.IPs = SandboxUp, e.ID, e.IPs
		m.knownAt, m.sandboxRetry = m.now, retry{}
		return
	}
	// The next one gets another attempt number, since runtimes reserve names, and remains of this one are swept.
	m.Sandbox = SandboxNone
	m.SandboxAttempt++
	m.sandboxRetry.failed(m.cfg, e.Fail, m.now)
	m.unsureSandbox = m.unsureSandbox || e.Fail.Unsure
	m.look()
	if e.Fail.Reason != "" {
		m.tell("", v1.EventTypeWarning, e.Fail.Reason, e.Fail.Message)
		return
	}
	m.tell("", v1.EventTypeWarning, "FailedCreatePodSandBox", "Failed to create pod sandbox: "+e.Fail.Message)
}

func (m *mover) takeSwept(e Swept) {
	for i := range m.sweeps {
		w := &m.sweeps[i]
		if w.id != e.ID {
			continue
		}
		switch {
		case e.Fail != nil:
			m.tellStuck(e.Fail)
			w.retry.failed(m.cfg, e.Fail, m.now)
			w.stage = either(w.stage == sweepStopping, sweepDue, w.stage)
			if w.stage == sweepRemoving {
				w.stage = either(w.sandbox, sweepStopped, sweepDue)
			}
		case w.stage == sweepStopping:
			w.stage, w.retry = sweepStopped, retry{}
		case w.stage == sweepRemoving:
			m.sweeps = append(m.sweeps[:i], m.sweeps[i+1:]...)
		}
		return
	}
}

func (m *mover) takeImage(e ImageReady) {
	c := m.Container(e.Container)
	if c == nil || c.Stage != Pulling {
		return
	}
	if c.stale {
		c.Stage, c.stale = Waiting, false
		return
	}
	if e.Fail == nil {
		// retry stays: a present image does not mean that the container can be created, and every try of that comes through here.
		// What is shown of such a failure, and CrashLoopBackOff, stay too, until the container runs.
		c.Stage, c.ImageRef = Pulled, e.Ref
		if c.mounts != "" {
			return
		}
		c.pull = backoff{}
		switch c.Reason {
		case "ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "ImageInspectError", "RegistryUnavailable":
			c.Reason, c.Message = "", ""
		}
		return
	}
	if m.Stage > Running { // given up, most likely
		c.Stage = Waiting
		return
	}
	if e.Fail.Reason == "" { // it was not tried, for a reason other than the image
		c.Stage = Waiting
		c.retry.failed(m.cfg, e.Fail, m.now)
		return
	}
	m.noImage(c, e.Fail)
}

// noImage handles an image that could not be pulled: a container's own, or one that it mounts.
func (m *mover) noImage(c *Container, f *Failure) {
	c.Reason, c.Message, c.mounts = f.Reason, f.Message, f.Image
	m.tell(c.Name, v1.EventTypeWarning, "Failed", "Error: "+c.Reason)
	switch f.Reason {
	case "ErrImageNeverPull", "InvalidImageName", "ImageInspectError":
		c.Stage = Waiting
		c.retry.failed(m.cfg, f, m.now)
	default:
		c.pull.next(m.cfg, m.cfg.PullMax, m.now, m.now)
		c.Stage, c.until, c.notice = BackOff, m.now.Add(c.pull.Wait), m.now.Add(m.cfg.PullNotice)
	}
}

func (m *mover) takeCreated(e ContainerCreated) {
	c := m.Container(e.Container)
	if c == nil || c.Stage != Creating || e.Attempt != c.Attempt {
		return
	}
	if e.Fail == nil {
		m.adopt(c, e.Instance)
		c.Stage, c.retry = Created, retry{}
		if c.mounts != "" {
			c.mounts, c.pull = "", backoff{}
		}
		m.tell(c.Name, v1.EventTypeNormal, "Created", "Container created")
		return
	}
	if e.Fail.Image != "" && m.Stage <= Running {
		m.noImage(c, e.Fail)
		return
	}
	reason := either(e.Fail.Reason != "", e.Fail.Reason, "CreateContainerError")
	m.tell(c.Name, v1.EventTypeWarning, "Failed", "Error: "+e.Fail.Message)
	c.Reason, c.Message = reason, e.Fail.Message
	c.retry.failed(m.cfg, e.Fail, m.now)
	c.Stage = Waiting
	if e.Fail.Unsure {
		c.Stage = Unsure
		m.look()
	}
}

func (m *mover) takeStarted(e ContainerStarted) {
	c := m.Container(e.Container)
	if c == nil || c.Stage != Launching || c.Cur.ID != e.ID {
		return
	}
	seen := c.seen
	c.seen = nil
	defer func() {
		if seen != nil {
			m.apply(c, seen)
		}
	}()
	inst := e.Instance
	if inst == nil {
		inst = c.Cur
	}
	if e.Fail == nil {
		if inst.State == InstanceCreated || inst.State == InstanceUnknown {
			cp := *inst
			cp.State, cp.StartedAt = InstanceRunning, m.now
			inst = &cp
		}
		m.tell(c.Name, v1.EventTypeNormal, "Started", "Container started")
		m.apply(c, inst)
		return
	}
	m.tell(c.Name, v1.EventTypeWarning, "Failed", "Error: "+e.Fail.Message)
	c.retry.failed(m.cfg, e.Fail, m.now)
	switch {
	case inst.State == InstanceExited || inst.State == InstanceRunning:
		m.apply(c, inst)
	case e.Fail.Unsure || inst.State == InstanceUnknown:
		c.Stage = Unsure
		m.look()
	default:
		c.Stage = Created
	}
	if c.Stage != Up && c.Stage != Hooking {
		c.Reason, c.Message = either(e.Fail.Reason != "", e.Fail.Reason, "RunContainerError"), e.Fail.Message
	}
}

func (m *mover) takeStopped(e ContainerStopped) {
	c := m.Container(e.Container)
	if c == nil || c.Cur == nil || c.Cur.ID != e.ID || c.Stage != TermSent {
		return
	}
	switch {
	case e.Instance != nil && e.Instance.State == InstanceExited:
		m.exited(c, e.Instance)
	case e.Instance != nil && e.Instance.State == InstanceUnknown && e.Fail == nil: // it was stopped: that much is known
		m.vanished(c)
	case e.Fail != nil && e.Grace != c.askedGrace: // one with a shorter grace is under way
	case e.Fail != nil: // it is asked again when due, with the grace that is left
		m.tellStuck(e.Fail)
		c.retry.failed(m.cfg, e.Fail, m.now)
		c.asked = time.Time{}
		m.look()
	default:
		m.look()
	}
}

// A container whose postStart hook failed is ended for hookFailed, and waits for reasonHook then.
const (
	hookFailed = "FailedPostStartHook"
	reasonHook = "PostStartHookError"
)

func (m *mover) takeHook(e HookDone) {
	c := m.Container(e.Container)
	if c == nil || c.Cur == nil || c.Cur.ID != e.ID {
		return
	}
	if e.Hook == PreStop && e.Fail != nil { // even if its container no longer waits for it: only this says that it took too long
		m.tell(c.Name, v1.EventTypeWarning, "FailedPreStopHook", "PreStopHook failed")
	}
	switch {
	case e.Hook == PreStop && c.Stage == PreStopping:
		c.Stage = InLine
		m.pressOn(c)
	case e.Hook == PostStart && c.Stage == Hooking && e.Fail == nil:
		c.hooked = e.ID
		m.begun(c)
	case e.Hook == PostStart && c.Stage == Hooking:
		m.tell(c.Name, v1.EventTypeWarning, hookFailed, "PostStartHook failed")
		// Not in the event, which more people may read: the hook's output may contain secrets.
		c.Reason, c.Message = reasonHook, e.Fail.Message
		m.stopOne(c, m.ownGrace(), hookFailed)
	}
}

func (m *mover) takeProbe(e ProbeTurned) {
	c := m.Container(e.Container)
	if c == nil || c.Cur == nil || c.Cur.ID != e.ID {
		return
	}
	v := either(e.OK, ProbeOK, ProbeFailed)
	switch e.Probe {
	case Readiness:
		c.Readiness = v
		return
	case Startup:
		c.Startup = v
	}
	if e.OK || m.Stage > Running || (c.Stage != Up && c.Stage != Hooking) {
		return
	}
	p := either(e.Probe == Startup, c.spec.StartupProbe, c.spec.LivenessProbe)
	grace := m.ownGrace()
	if p != nil {
		grace = graceOf(p.TerminationGracePeriodSeconds, grace)
	}
	c.Again = m.restartable(c)
	m.stopOne(c, grace, anew(c, "failed "+string(e.Probe)+" probe"))
}

// adopt makes inst the container's current instance. The one before the previous one is swept.
func (m *mover) adopt(c *Container, inst *Instance) {
	if c.Cur != nil && c.Cur.ID != inst.ID {
		if c.Prev != nil {
			m.sweepContainer(c.Prev.ID)
		}
		c.Prev = c.Cur
	}
	c.Cur, c.Attempt, c.knownAt = inst, inst.Attempt, m.now
	c.seen = nil
	c.asked, c.deadline, c.StopWhy = time.Time{}, time.Time{}, ""
	c.Startup, c.Readiness = ProbeUnknown, ProbeUnknown
}

// apply takes in the runtime's word on the current instance. It only ever moves that forward.
func (m *mover) apply(c *Container, inst *Instance) {
	switch inst.State {
	case InstanceRunning:
		switch c.Stage {
		case Created, Launching, Unsure:
			c.Cur, c.retry = inst, retry{}
			if c.hasPostStart() && m.Stage <= Running {
				c.Stage, c.postStart = Hooking, false
			} else {
				m.begun(c)
			}
		case Hooking, Up, PreStopping, InLine, TermSent:
			c.Cur = inst
		}
	case InstanceExited:
		if c.Stage == Exited || c.Stage == BackOff || c.Attempt != inst.Attempt {
			return
		}
		m.exited(c, inst)
	case InstanceCreated:
		if c.Stage == Unsure {
			c.Cur, c.Stage = inst, Created
		}
	case InstanceUnknown:
		if (c.Stage == Unsure || c.Stage == Hooking || c.Stage == Up) && c.Attempt == inst.Attempt {
			m.doubt(c, inst)
		}
	}
}

// begun handles that a container runs: what it waited for is no longer shown.
func (m *mover) begun(c *Container) {
	c.Stage, c.Reason, c.Message, c.Again = Up, "", "", false
}

// doubt handles an instance whose state the runtime does not know, as when it cannot read its own records. The instance may run:
// it is stopped, so that there are never two, and then runs anew whatever the policy.
func (m *mover) doubt(c *Container, inst *Instance) {
	cp := *inst
	cp.State = InstanceRunning
	if cp.StartedAt.IsZero() {
		cp.StartedAt = c.Cur.StartedAt
	}
	c.Cur, c.Stage = &cp, Up
	if m.Stage <= Running {
		c.Again = true
		m.stopOne(c, m.ownGrace(), `Container is in "unknown" state, try killing it before restart`)
	}
}

// abandoned tells whether an instance never ran because its starter went away, as a killed kubelet does. That is no failure of
// the container. Runtimes report it in the words of Go's context; but so may other parts that a start depends on, so it is only
// believed once (forgiven).
func (in *Instance) abandoned() bool {
	return in.State == InstanceExited && in.StartedAt.IsZero() && strings.HasSuffix(in.Message, "context canceled")
}

func (m *mover) exited(c *Container, inst *Instance) {
	if inst.abandoned() && !c.forgiven {
		c.forgiven = true
		m.setProbes(c, NoProbes)
		m.neverStart(c)
		return
	}
	if c.StopWhy != hookFailed {
		c.Reason, c.Message = "", ""
	}
	c.Again = c.Again && c.stopping()
	c.Cur, c.Stage, c.retry = inst, Exited, retry{}
	c.Startup, c.Readiness = ProbeUnknown, ProbeUnknown
	m.setProbes(c, NoProbes)
}

func (m *mover) setProbes(c *Container, want ProbeSet) {
	if c.spec.LivenessProbe == nil && c.spec.StartupProbe == nil && c.spec.ReadinessProbe == nil {
		return
	}
	if want == ReadinessOnly && c.spec.ReadinessProbe == nil {
		want = NoProbes
	}
	if c.probes != want {
		c.probes = want
		m.do(SetProbes{Container: c.Name, ID: c.Cur.ID, Set: want})
	}
}

// vanished is the end of an instance that the runtime no longer knows.
func (m *mover) vanished(c *Container) {
	cp := *c.Cur
	cp.State, cp.ExitCode, cp.Reason = InstanceExited, 137, reasonUnknown
	cp.FinishedAt = m.now
	m.exited(c, &cp)
}
