package podlife

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
)

// advance moves everything forward that can move, until nothing more can.
func (m *mover) advance() {
	for {
		before := m.Stage
		switch m.Stage {
		case New:
			m.Stage = Admitting
			m.do(Admit{})
		case Admitting:
		case Starting, Running:
			m.keep()
		case Stopping:
			m.stopAll()
		case Releasing:
			m.release()
		case Finished:
			if m.Removed && len(m.sweeps) == 0 {
				m.Stage = Gone
			}
		case Gone:
		}
		if m.Stage == before {
			break
		}
	}
	m.sweepAll()
	if m.Stage == Finished && m.Removed && len(m.sweeps) == 0 {
		m.Stage = Gone
	}
	if !m.observeAfter.IsZero() && !m.observing && m.observeRetry.due(m.now) && m.Stage < Finished {
		m.observing = true
		m.do(Observe{})
	}
}

// look asks for an observation: what is known may be outdated.
func (m *mover) look() { m.observeAfter = m.now }

// keep is the work on a pod that should run.
func (m *mover) keep() {
	if m.overDeadline() {
		m.tell("", v1.EventTypeNormal, reasonDeadline, messageDeadline)
		m.beginStop(Stop{Why: Deadline, Reason: reasonDeadline, Message: messageDeadline}, m.ownGrace())
		return
	}
	if m.restartingAll() {
		m.resetAll()
	} else if m.ended() {
		m.beginStop(Stop{Why: Completed}, m.ownGrace())
		return
	}
	if m.Cgroup.wanted() && m.cgroupRetry.due(m.now) {
		m.Cgroup, m.cgroupAsked = Acquiring, m.Granted
		if m.Progress != nil {
			m.cgroupAsked = nil
		}
		m.do(EnsureCgroup{Keep: m.Progress != nil})
	}
	if m.Volumes.wanted() && m.volumesRetry.due(m.now) {
		m.Volumes = Acquiring
		m.do(MountVolumes{})
	}
	if m.Sandbox == SandboxLost {
		if m.lostUntold {
			m.tellLost()
		}
		m.leaveSandbox()
	}
	if m.Sandbox == SandboxNone && m.held() && m.sandboxRetry.due(m.now) && !m.unsureSandbox && !m.sandboxInTheWay() {
		m.Sandbox = SandboxCreating
		m.do(CreateSandbox{Attempt: m.SandboxAttempt})
	}
	m.resize()
	for i := range m.Containers {
		if c := &m.Containers[i]; !m.RestartAll || c.Kind == Ephemeral {
			m.move(c)
		}
	}
	if m.Progress != nil { // a container that is being recreated needs no resize
		m.resize()
	}
	if m.Stage == Starting && m.allMains(func(c *Container) bool {
		return m.here(c) && (c.Cur.State == InstanceRunning || c.Cur.State == InstanceExited)
	}) {
		m.Stage = Running
	}
}

func (s *State) held() bool { return s.Cgroup == Held && s.Volumes == Held }

// deadline is when activeDeadlineSeconds ends the pod; zero for never.
func (s *State) deadline() time.Time {
	if s.Pod.Spec.ActiveDeadlineSeconds == nil {
		return time.Time{}
	}
	return s.Start.Add(time.Duration(*s.Pod.Spec.ActiveDeadlineSeconds) * time.Second)
}

const (
	reasonDeadline  = "DeadlineExceeded"
	messageDeadline = "Pod was active on the node longer than the specified deadline"
)

func (m *mover) overDeadline() bool {
	d := m.deadline()
	return !d.IsZero() && !m.now.Before(d)
}

func (m *mover) tellLost() {
	m.lostUntold = false
	if !m.outlivesSandbox() {
		return
	}
	m.tell("", v1.EventTypeNormal, "SandboxChanged", "Pod sandbox changed, it will be killed and re-created.")
}

// outlivesSandbox tells whether the pod goes on once all that runs in its sandbox is stopped.
func (s *State) outlivesSandbox() bool {
	return !s.over(func(c *Container) bool {
		return c.Stage == Exited && !s.restarts(c) || c.Runs() && !s.restartable(c)
	})
}

// leaveSandbox ends what still runs in a lost sandbox, and drops the sandbox once nothing does.
func (m *mover) leaveSandbox() {
	m.Stage = Starting
	quiet := true
	for i := range m.Containers {
		c := &m.Containers[i]
		switch {
		case c.Stage == Created:
			m.neverStart(c)
		case c.Stage == Hooking || c.Stage == Up:
			m.stopOne(c, m.ownGrace(), "Stopping container "+c.Name)
		case c.stopping():
			m.pressOn(c)
		}
		quiet = quiet && !c.Runs() && !c.busy()
	}
	if quiet {
		for i := range m.Containers {
			if c := &m.Containers[i]; c.Kind != Ephemeral && m.here(c) && c.Cur.StartedAt.IsZero() && (c.Stage == Exited || c.Stage == BackOff) {
				// It could not start because of the sandbox, so that does not count as a crash. An ephemeral one has no other try.
				c.Stage, c.restart, c.Reason, c.Message = Exited, backoff{}, "", ""
			}
		}
		m.sweepSandbox(m.SandboxID)
		m.Sandbox, m.SandboxID = SandboxNone, ""
		m.SandboxAttempt++
	}
}

// neverStart drops an instance that never ran and never will; the next one needs another name.
func (m *mover) neverStart(c *Container) {
	m.sweepContainer(c.Cur.ID)
	c.Cur, c.Prev, c.Stage = c.Prev, nil, Waiting
	c.Attempt++
}

// sandboxInTheWay tells whether an earlier sandbox still holds what a new one needs, such as host ports.
func (s *State) sandboxInTheWay() bool {
	return slices.ContainsFunc(s.sweeps, func(w sweep) bool { return w.sandbox && w.stage < sweepStopped })
}

// here tells whether the current instance belongs to the current sandbox.
func (s *State) here(c *Container) bool {
	return c.Cur != nil && c.Cur.SandboxID == s.SandboxID && s.SandboxID != ""
}

func (s *State) allMains(f func(*Container) bool) bool {
	for i := range s.Containers {
		if c := &s.Containers[i]; c.Kind == Main && !f(c) {
			return false
		}
	}
	return true
}

// initialized tells whether a main container was created in the current sandbox: from then on no init container runs again.
func (s *State) initialized() bool {
	return slices.ContainsFunc(s.Containers, func(c Container) bool { return c.Kind == Main && s.here(&c) })
}

// passed tells whether an init container or sidecar lets those after it go on.
func (s *State) passed(c *Container) bool {
	if c.Kind == Sidecar {
		return c.started() && s.here(c)
	}
	return c.Stage == Exited && c.Cur.endedWell() && s.here(c)
}

// turn tells whether it is this container's turn.
func (s *State) turn(c *Container) bool {
	if c.Kind == Ephemeral {
		return true
	}
	if s.initialized() {
		return c.Kind != Init
	}
	for i := range s.Containers {
		p := &s.Containers[i]
		forgotten := p.Kind == Init && !s.here(p) && s.begunAfter(i)
		if p.Name == c.Name || (p.Kind != Init && p.Kind != Sidecar) {
			return !forgotten // every init container before it has passed
		}
		if !s.passed(p) && !forgotten {
			return false
		}
	}
	return true
}

// begunAfter tells whether an init container or sidecar after the one at i was created in the current sandbox: then the one at i
// has passed, even if the runtime no longer has it.
func (s *State) begunAfter(i int) bool {
	return slices.ContainsFunc(s.Containers[i+1:], func(c Container) bool { return (c.Kind == Init || c.Kind == Sidecar) && s.here(&c) })
}

// restarts tells whether an ended container is to run again: by its own rules and policy, then by the pod's policy. Under Always,
// an init container restarts only when it failed, and once more in a new sandbox.
func (s *State) restarts(c *Container) bool {
	switch {
	case c.Kind == Ephemeral:
		return false
	case c.Kind == Sidecar || c.Again || c.Cur.Reason == reasonReset:
		return true
	case c.Kind == Init && c.Cur.endedWell():
		return !s.here(c) && !s.initialized()
	}
	return s.byPolicy(c.spec, c.Cur.ExitCode, c.Kind == Init || c.Cur.ExitCode != 0)
}

// byPolicy applies rules and policies to a container that ended with a code. failed may be true whatever the code is.
func (s *State) byPolicy(c *v1.Container, code int32, failed bool) bool {
	if own := c.RestartPolicy; own != nil {
		switch actionOn(c, code) {
		case v1.ContainerRestartRuleActionRestart, v1.ContainerRestartRuleActionRestartAllContainers:
			return true
		}
		return *own == v1.ContainerRestartPolicyAlways || (*own == v1.ContainerRestartPolicyOnFailure && failed)
	}
	switch s.Pod.Spec.RestartPolicy {
	case v1.RestartPolicyNever:
		return false
	case v1.RestartPolicyOnFailure:
		return failed
	}
	return true
}

// restartable tells whether a container that is stopped while it runs is to run again; there is no exit code yet to decide by.
func (s *State) restartable(c *Container) bool {
	if own := c.spec.RestartPolicy; own != nil {
		return *own != v1.ContainerRestartPolicyNever
	}
	return s.Pod.Spec.RestartPolicy != v1.RestartPolicyNever
}

// actionOn is the action of a container's rules for an exit code; the first matching rule counts.
func actionOn(c *v1.Container, code int32) v1.ContainerRestartRuleAction {
	for _, r := range c.RestartPolicyRules {
		if ruleMatches(r.ExitCodes, code) {
			return r.Action
		}
	}
	return ""
}

func ruleMatches(r *v1.ContainerRestartRuleOnExitCodes, code int32) bool {
	if r == nil {
		return false
	}
	in := slices.Contains(r.Values, code)
	return in && r.Operator == v1.ContainerRestartRuleOnExitCodesOpIn || !in && r.Operator == v1.ContainerRestartRuleOnExitCodesOpNotIn
}

// ended tells whether the pod has nothing left to do.
func (s *State) ended() bool {
	return s.over(func(c *Container) bool { return c.Stage == Exited && !s.restarts(c) })
}

// over tells whether containers that have ended for good end the pod: an init container that failed, or every main one.
func (s *State) over(forGood func(*Container) bool) bool {
	mains := 0
	for i := range s.Containers {
		c := &s.Containers[i]
		switch c.Kind {
		case Init:
			if forGood(c) && !c.Cur.endedWell() {
				return true
			}
		case Main:
			if !forGood(c) {
				mains++
			}
		}
	}
	return mains == 0
}

// move takes one container as far as it can go.
func (m *mover) move(c *Container) {
	for {
		before := c.Stage
		switch c.Stage {
		case Waiting:
			mayPull := m.held() && (m.Sandbox == SandboxCreating || m.Sandbox == SandboxUp)
			if mayPull && m.turn(c) && c.retry.due(m.now) {
				c.Stage = Pulling
				m.do(PullImage{Container: c.Name})
			}
		case Pulled:
			if m.Sandbox == SandboxUp && m.turn(c) && m.roomy() {
				c.Stage = Creating
				m.InDoubt = without(m.InDoubt, c.Name)
				m.Applied = m.Applied.with(c.Name, Effective(m.Granted.own(), c.spec.Resources))
				m.do(CreateContainer{Container: c.Name, Attempt: c.Attempt, ImageRef: c.ImageRef})
			}
		case Created:
			if m.Sandbox == SandboxUp && c.retry.due(m.now) && !m.hookBefore(c) {
				c.Stage = Launching
				m.do(StartContainer{Container: c.Name, ID: c.Cur.ID})
			}
		case Hooking:
			if !c.postStart {
				c.postStart = true
				m.do(RunHook{Container: c.Name, ID: c.Cur.ID, Hook: PostStart})
			}
			m.watch(c)
		case Up:
			m.watch(c)
		case PreStopping, InLine, TermSent:
			m.pressOn(c)
		case Exited:
			m.again(c)
		case BackOff:
			m.wait(c)
		}
		if c.Stage == before {
			return
		}
	}
}

// hookBefore tells whether a main container waits for the postStart hook of an earlier one: people use such a hook to hold the
// others back until that container can serve them. One whose creation or start failed, and is tried again, holds nobody back.
func (s *State) hookBefore(c *Container) bool {
	for i := range s.Containers {
		switch o := &s.Containers[i]; {
		case c.Kind != Main || o.Name == c.Name:
			return false
		case o.Kind == Main && o.hasPostStart() && Pulling <= o.Stage && o.Stage <= Hooking && o.retry.wait == 0:
			return true
		}
	}
	return false
}

// watch looks after a running container: its probes, and whether it still is what the spec asks for.
func (m *mover) watch(c *Container) {
	if c.Stage == Up {
		m.setProbes(c, AllProbes)
	}
	if c.Cur.Hash != "" && c.Cur.Hash != SpecHash(c.spec) && (c.Kind == Main || c.Kind == Sidecar) {
		c.Again = true
		m.stopOne(c, m.ownGrace(), anew(c, "definition changed"))
	}
}

// anew is the event's text for a container that is stopped while its pod goes on.
func anew(c *Container, why string) string {
	if c.Kind == Sidecar { // for these, upstream does not announce the restart
		return "Init container " + c.Name + " " + why
	}
	return "Container " + c.Name + " " + why + either(c.Again, ", will be restarted", "")
}

const crashLoop = "CrashLoopBackOff"

// again decides when an ended container runs again.
func (m *mover) again(c *Container) {
	if !m.restarts(c) || m.Sandbox == SandboxLost || !m.turn(c) {
		return
	}
	if c.StopWhy == resized(c) { // it did not fail: no back-off, and no crash is counted
		c.Stage, c.Attempt, c.retry = Waiting, c.Cur.Attempt+1, retry{}
		return
	}
	until := c.restart.until(m.cfg, c.failedAt())
	if !m.now.Before(until) {
		m.restart(c)
		return
	}
	// Counted from now, since the runtime's time of the end may be from before the clock was set.
	c.Stage, c.until, c.notice = BackOff, m.now.Add(min(until.Sub(m.now), c.restart.Wait)), time.Time{}
	c.Reason, c.Message = crashLoop, "back-off "+c.restart.Wait.String()+" restarting failed container="+c.Name+
		" pod="+m.Pod.Name+"_"+m.Pod.Namespace+"("+string(m.Pod.UID)+")"
	m.tell(c.Name, v1.EventTypeWarning, "BackOff", "Back-off restarting failed container "+c.Name+" in pod "+
		m.Pod.Name+"_"+m.Pod.Namespace+"("+string(m.Pod.UID)+")")
}

func (m *mover) restart(c *Container) {
	c.restart.next(m.cfg, m.cfg.BackoffMax, c.failedAt(), m.now)
	c.Stage, c.Attempt, c.retry = Waiting, c.Cur.Attempt+1, retry{}
}

func (c *Container) failedAt() time.Time {
	return either(c.Cur.FinishedAt.IsZero(), c.knownAt, c.Cur.FinishedAt)
}

// wait looks after a container in back-off.
func (m *mover) wait(c *Container) {
	if !m.now.Before(c.until) {
		if c.Reason == crashLoop {
			m.restart(c)
		} else {
			c.Stage = Waiting
		}
		return
	}
	if !c.notice.IsZero() && !m.now.Before(c.notice) {
		c.notice = time.Time{}
		back := `Back-off pulling image "` + either(c.mounts != "", c.mounts, c.spec.Image) + `"`
		m.tell(either(c.mounts != "", "", c.Name), v1.EventTypeNormal, "BackOff", back) // a mounted image is the pod's
		m.tell(c.Name, v1.EventTypeWarning, "Failed", "Error: ImagePullBackOff")
		c.Message = back + ": " + c.Reason + ": " + c.Message
		c.Reason = "ImagePullBackOff"
	}
}
