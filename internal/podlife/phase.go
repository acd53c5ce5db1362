package podlife

import v1 "k8s.io/api/core/v1"

// phase is the pod's phase by upstream's rules. Failed and Succeeded appear only once nothing runs, and then stay.
func (s *State) phase() v1.PodPhase {
	if s.Final != "" {
		return s.Final
	}
	if p := s.Pod.Status.Phase; p == v1.PodFailed || p == v1.PodSucceeded {
		return p
	}
	p := s.count(false)
	if p == v1.PodFailed || p == v1.PodSucceeded { // the pod is on its way there: sidecars and volumes remain
		return either(s.everRan(), v1.PodRunning, v1.PodPending)
	}
	return p
}

func (s *State) everRan() bool {
	for i := range s.Containers {
		c := &s.Containers[i]
		if in, last := c.shown(); c.Kind == Main && (in != nil || last != nil) {
			return true
		}
	}
	return false
}

// finalPhase is the phase that a pod keeps once nothing of it runs any more.
func (s *State) finalPhase() v1.PodPhase {
	if p := s.Pod.Status.Phase; p == v1.PodFailed || p == v1.PodSucceeded {
		return p
	}
	switch s.Stop.Why {
	case Deadline, Evicted, OverLimit, Preempting, NodeShutdown:
		return v1.PodFailed
	}
	if s.Stop.Reason == "" && s.count(true) == v1.PodSucceeded {
		return v1.PodSucceeded
	}
	return v1.PodFailed
}

// judged is the phase that conditions are based on. A pod that was deleted before it had begun gets the phase Failed for want of
// a better one; its conditions still say what was not ready.
func (s *State) judged() v1.PodPhase {
	if s.Final == v1.PodFailed && s.Stop.Why == Deleted {
		return s.count(true)
	}
	return s.phase()
}

// count derives the phase from the containers. ending says that nothing restarts any more.
func (s *State) count(ending bool) v1.PodPhase {
	var initWaits, sidecarWaits, waits, runs, stopped, forGood, succeeded int
	for i := range s.Containers {
		c := &s.Containers[i]
		in, last := c.shown()
		running := in != nil && in.State == InstanceRunning
		ended := either(in != nil, in, last)
		never := ended == nil
		switch c.Kind {
		case Init:
			switch {
			case running, never && !s.initialized():
				initWaits++
			case !never && !ended.endedWell() && !s.restarts(&Container{Kind: Init, Cur: ended, spec: c.spec}):
				return v1.PodFailed
			}
		case Sidecar:
			switch {
			case running:
				runs++
				if !c.started() {
					sidecarWaits++
				}
			case never:
				sidecarWaits++
				waits++
			}
		case Main:
			switch {
			case running:
				runs++
			case never:
				waits++
			default:
				stopped++
				if !s.restarts(&Container{Kind: Main, Cur: ended, spec: c.spec, Again: c.Again}) {
					forGood++
				}
				if ended.ExitCode == 0 {
					succeeded++
				}
			}
		}
	}
	switch {
	case initWaits > 0 || (sidecarWaits > 0 && !s.initialized()) || waits > 0:
		return v1.PodPending
	case runs > 0:
		return v1.PodRunning
	case stopped > 0 && !ending && stopped != forGood:
		return v1.PodRunning
	case stopped > 0 && stopped == succeeded:
		return v1.PodSucceeded
	case stopped > 0:
		return v1.PodFailed
	}
	return v1.PodPending
}
