package podlife

import (
	"slices"
	"time"
)

// reconcile takes in everything that the runtime has of the pod. The answer does not contradict what became known after the
// question was asked.
func (m *mover) reconcile(o Observed) {
	if !m.observeAfter.IsZero() && !o.At.Before(m.observeAfter) {
		m.settle(o)
	}
	m.reconcileSandboxes(o)
	known := make(map[string]bool, len(o.Containers))
	for i := range m.Containers {
		c := &m.Containers[i]
		m.reconcileContainer(c, o)
		for _, in := range []*Instance{c.Cur, c.Prev} {
			if in != nil {
				known[in.ID] = true
			}
		}
	}
	for i := range o.Containers {
		in := &o.Containers[i]
		if c := m.Container(in.Name); !known[in.ID] && !(c != nil && c.busy() && c.Attempt == in.Attempt) {
			m.sweepContainer(in.ID)
		}
	}
}

// settle ends what look began: the runtime has told what it knows.
func (m *mover) settle(o Observed) {
	m.unsureSandbox, m.observeAfter = false, time.Time{}
	for i := range m.Containers {
		c := &m.Containers[i]
		if c.Stage != Unsure || (c.Cur != nil && c.Cur.Attempt == c.Attempt) {
			continue
		}
		j := slices.IndexFunc(o.Containers, func(in Instance) bool { return in.Name == c.Name && in.Attempt == c.Attempt })
		if j < 0 {
			c.Stage = Waiting // it did not happen
			continue
		}
		in := o.Containers[j]
		m.adopt(c, &in)
		c.retry = retry{} // it was made, after all
	}
}

func (m *mover) reconcileSandboxes(o Observed) {
	for _, sb := range o.Sandboxes {
		if m.Sandbox == SandboxNone && sb.Ready && m.Stage <= Running && !m.isSwept(sb.ID) {
			m.Sandbox, m.SandboxID, m.SandboxAttempt, m.IPs, m.knownAt = SandboxUp, sb.ID, sb.Attempt, sb.IPs, m.now
		}
	}
	seen := false
	for _, sb := range o.Sandboxes {
		switch {
		case sb.ID == m.SandboxID:
			seen = sb.Ready
			if sb.Ready && len(sb.IPs) > 0 {
				m.IPs = sb.IPs
			}
		case m.Sandbox == SandboxCreating && sb.Attempt == m.SandboxAttempt:
		default:
			m.sweepSandbox(sb.ID)
			if m.Sandbox == SandboxNone && sb.Attempt >= m.SandboxAttempt {
				m.SandboxAttempt = sb.Attempt + 1
			}
		}
	}
	if m.Sandbox == SandboxUp && !seen && o.At.After(m.knownAt) && m.Stage <= Running {
		m.Sandbox = SandboxLost
		m.tellLost()
	}
	if o.At.IsZero() {
		return
	}
	m.sweeps = slices.DeleteFunc(m.sweeps, func(w sweep) bool { // somebody else removed it
		return w.sandbox && w.stage == sweepStopped && !slices.ContainsFunc(o.Sandboxes, func(sb SandboxInfo) bool { return sb.ID == w.id })
	})
}

func (m *mover) isSwept(id string) bool {
	return slices.ContainsFunc(m.sweeps, func(w sweep) bool { return w.id == id })
}

func (m *mover) reconcileContainer(c *Container, o Observed) {
	if c.Cur == nil {
		return
	}
	i := slices.IndexFunc(o.Containers, func(in Instance) bool { return in.ID == c.Cur.ID })
	if i >= 0 {
		in := o.Containers[i]
		if c.Stage == Launching {
			c.seen = &in // the start's own result is used first, since it has the reason
			return
		}
		m.apply(c, &in)
		return
	}
	if !o.At.After(c.knownAt) {
		return
	}
	switch c.Stage {
	case Created, Unsure, Hooking, Up, PreStopping, InLine, TermSent:
		m.vanished(c)
	}
}
