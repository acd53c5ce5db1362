package podlife

import (
	"slices"

	v1 "k8s.io/api/core/v1"
)

// This file is the rule RestartAllContainers: an exit code that says that the pod has to begin anew, in the sandbox that it has.
//
//	                        a container ended, its rule matches
//	RestartAll: false ────────────────────────────────────────► true: every container but ephemeral ones is killed
//	     ▲                                                        │ nothing runs
//	     │ the runtime has none of them any more                  ▼
//	     └──────────────────────────────────────────────── all are removed, and counted as restarted

const (
	reasonReset  = "RestartingAllContainers"
	messageReset = "The container is removed because RestartAllContainers in place"
)

// mayRestartAll tells whether a rule of any container restarts all of them.
func (s *State) mayRestartAll() bool {
	return slices.ContainsFunc(s.Containers, func(c Container) bool {
		return c.Kind != Ephemeral && slices.ContainsFunc(c.spec.RestartPolicyRules, func(r v1.ContainerRestartRule) bool {
			return r.Action == v1.ContainerRestartRuleActionRestartAllContainers
		})
	})
}

// restartingAll tells whether all containers are being restarted, or have to be from now on.
func (m *mover) restartingAll() bool {
	m.RestartAll = m.RestartAll || slices.ContainsFunc(m.Containers, func(c Container) bool {
		return c.Kind != Ephemeral && (c.Stage == Exited || c.Stage == BackOff) && c.Cur != nil &&
			actionOn(c.spec, c.Cur.ExitCode) == v1.ContainerRestartRuleActionRestartAllContainers
	})
	return m.RestartAll
}

// resetAll kills what runs, then removes everything, then lets the pod begin anew.
func (m *mover) resetAll() {
	m.Stage = Starting
	quiet := true
	for i := range m.Containers {
		c := &m.Containers[i]
		switch {
		case c.Kind == Ephemeral:
			continue
		case c.Stage == Created:
			m.neverStart(c)
		case c.Stage == Hooking || c.Stage == Up:
			m.killOne(c, "killing")
		case c.stopping():
			c.deadline = either(c.deadline.Before(m.now.Add(m.cfg.MinGrace)), c.deadline, m.now.Add(m.cfg.MinGrace))
			m.pressOn(c)
		}
		quiet = quiet && !c.Runs() && !c.busy()
	}
	if !quiet {
		return
	}
	for i := range m.Containers {
		if c := &m.Containers[i]; c.Kind != Ephemeral {
			m.reset(c)
		}
	}
	m.RestartAll = slices.ContainsFunc(m.sweeps, func(w sweep) bool { return !w.sandbox })
}

// reset removes what there is of a container and makes it wait for its next instance.
func (m *mover) reset(c *Container) {
	if c.Cur == nil {
		return
	}
	m.sweepContainer(c.Cur.ID)
	if c.Prev != nil {
		m.sweepContainer(c.Prev.ID)
	}
	c.Attempt = max(c.Attempt, c.Cur.Attempt+1) // an instance that never ran is counted too
	c.Cur, c.Prev = nil, resetInstance(c.Name, c.Attempt-1)
	c.Reason, c.Message, c.Again, c.StopWhy = reasonReset, messageReset, false, ""
	c.Stage = either(c.Stage == Pulling, Pulling, Waiting)
}

// resetInstance stands for an instance that was removed because all containers restart; its exit code is no longer shown.
func resetInstance(name string, attempt uint32) *Instance {
	return &Instance{Name: name, Attempt: attempt, State: InstanceExited, ExitCode: 137, Reason: reasonReset, Message: messageReset}
}

// isReset tells whether an instance is such a stand-in.
func (in *Instance) isReset() bool { return in != nil && in.ID == "" && in.Reason == reasonReset }

func (s *State) restartingCondition(phase v1.PodPhase) v1.PodCondition {
	out := v1.PodCondition{Type: v1.AllContainersRestarting, Status: v1.ConditionFalse}
	switch {
	case phase == v1.PodFailed:
		out.Reason = reasonPodFailed
	case phase == v1.PodSucceeded:
		out.Reason = reasonPodCompleted
	case s.RestartAll:
		out.Status, out.Reason, out.Message = v1.ConditionTrue, "RestartAllContainersStarted", "container exited with restart policy rule"
	}
	return out
}
