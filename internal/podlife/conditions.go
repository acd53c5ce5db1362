package podlife

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// Condition reasons.
const (
	reasonNotReady       = "ContainersNotReady"
	reasonNotInitialized = "ContainersNotInitialized"
	reasonPodCompleted   = "PodCompleted"
	reasonPodFailed      = "PodFailed"
	reasonGates          = "ReadinessGatesNotReady"
	reasonNoSandbox      = "PodSandboxNotReady"
)

var own = []v1.PodConditionType{
	v1.PodReadyToStartContainers, v1.PodInitialized, v1.PodReady, v1.ContainersReady, v1.PodScheduled, v1.AllContainersRestarting,
	v1.PodResizePending, v1.PodResizeInProgress,
}

// foreign are the conditions that others own.
func (s *State) foreign() []v1.PodCondition {
	var out []v1.PodCondition
	for _, c := range s.Pod.Status.Conditions {
		if !slices.Contains(own, c.Type) {
			out = append(out, c)
		}
	}
	return out
}

func (s *State) conditions() []v1.PodCondition {
	const always = 5
	phase := s.judged()
	out := slices.Grow(s.foreign(), always)
	out = append(out, s.resizeConditions()...)
	add := func(c v1.PodCondition) {
		c.ObservedGeneration = s.observed
		out = append(out, c)
	}
	switch s.Stop.Why {
	case Evicted, Preempting, NodeShutdown:
		if !slices.ContainsFunc(out, func(c v1.PodCondition) bool { return c.Type == v1.DisruptionTarget }) {
			message := s.Stop.Message
			if s.Stop.Why == Preempting {
				message = "Pod was preempted by Kubelet to accommodate a critical pod."
			}
			add(v1.PodCondition{Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: "TerminationByKubelet", Message: message})
		}
	}
	add(s.sandboxCondition())
	add(s.initializedCondition(phase))
	ready := s.containersReady(phase)
	add(s.readyCondition(ready, out))
	add(ready)
	add(v1.PodCondition{Type: v1.PodScheduled, Status: v1.ConditionTrue})
	if s.mayRestartAll() {
		out = append(out, s.restartingCondition(phase)) // upstream's has no observed generation
	}
	return out
}

// sandboxCondition tells whether containers can be started. While a new sandbox replaces an old one, it describes the old one.
func (s *State) sandboxCondition() v1.PodCondition {
	out := v1.PodCondition{Type: v1.PodReadyToStartContainers, Status: v1.ConditionTrue}
	if s.Sandbox == SandboxUp && s.Stage < Releasing {
		return out
	}
	out.Status, out.Reason, out.Message = v1.ConditionFalse, reasonNoSandbox, "no pod sandbox exists"
	if !s.knownAt.IsZero() { // attempts that failed left none
		out.Message = "pod sandbox is not ready"
	}
	return out
}

func (s *State) initializedCondition(phase v1.PodPhase) v1.PodCondition {
	out := v1.PodCondition{Type: v1.PodInitialized, Status: v1.ConditionTrue}
	if phase == v1.PodSucceeded {
		out.Reason = reasonPodCompleted
		return out
	}
	if incomplete := s.incomplete(); len(incomplete) > 0 && !s.Initialized {
		out.Status, out.Reason = v1.ConditionFalse, reasonNotInitialized
		out.Message = fmt.Sprintf("containers with incomplete status: %s", incomplete)
	}
	return out
}

// incomplete names the init containers and sidecars that the pod's initialization waits for.
func (s *State) incomplete() []string {
	var out []string
	for i := range s.Containers {
		c := &s.Containers[i]
		in, last := c.shown()
		switch c.Kind {
		case Init:
			// One that the runtime has forgotten counts as ended well once the pod is initialized.
			if forgotten := in == nil && last == nil && s.initialized(); !c.ready() && !forgotten {
				out = append(out, c.Name)
			}
		case Sidecar:
			if !c.started() {
				out = append(out, c.Name)
			}
		case Main:
			if in != nil || last != nil {
				return nil // a main container has started, and a sidecar's restart does not undo that
			}
		}
	}
	return out
}

func (s *State) containersReady(phase v1.PodPhase) v1.PodCondition {
	out := v1.PodCondition{Type: v1.ContainersReady, Status: v1.ConditionFalse}
	switch {
	case phase == v1.PodFailed, s.Stop.Reason == reasonDeadline: // whatever its containers report while they end
		out.Reason = reasonPodFailed
		return out
	case phase == v1.PodSucceeded:
		out.Reason = reasonPodCompleted
		return out
	}
	var unready []string
	for i := range s.Containers {
		c := &s.Containers[i]
		if (c.Kind == Main || c.Kind == Sidecar) && !c.ready() {
			unready = append(unready, c.Name)
		}
	}
	if len(unready) > 0 {
		out.Reason, out.Message = reasonNotReady, fmt.Sprintf("containers with unready status: %s", unready)
		return out
	}
	out.Status = v1.ConditionTrue
	return out
}

func (s *State) readyCondition(ready v1.PodCondition, known []v1.PodCondition) v1.PodCondition {
	ready.Type = v1.PodReady
	if ready.Status != v1.ConditionTrue {
		return ready
	}
	var missing []string
	for _, g := range s.Pod.Spec.ReadinessGates {
		i := slices.IndexFunc(known, func(c v1.PodCondition) bool { return c.Type == g.ConditionType })
		switch {
		case i < 0:
			missing = append(missing, fmt.Sprintf("corresponding condition of pod readiness gate %q does not exist.", g.ConditionType))
		case known[i].Status != v1.ConditionTrue:
			missing = append(missing, fmt.Sprintf("the status of pod readiness gate %q is not \"True\", but %v", g.ConditionType, known[i].Status))
		}
	}
	if len(missing) > 0 {
		ready.Status, ready.Reason, ready.Message = v1.ConditionFalse, reasonGates, strings.Join(missing, ", ")
	}
	return ready
}
