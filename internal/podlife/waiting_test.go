package podlife

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
)

// #30042, #85966, and the documentation of hooks: until its postStart hook has ended a container is not told as running. It waits as before,
// for what it waited for, also when the hook failed and the container is on its way to its end; the hook's own words are told at once.
func TestAContainerWaitsForItsPostStartHook(t *testing.T) {
	for _, c := range []struct {
		name, is string // how the last restart's hook ends, and what is told then
		fails    bool
	}{{"ends well", "running", false}, {"fails", "PostStartHookError", true}} {
		p := newPod(v1.RestartPolicyAlways, "m")
		p.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PostStart: &v1.LifecycleHandler{}}
		w := newWorld(t, p)
		w.run = func(_ string, attempt uint32) behaviour {
			return either(attempt < 2, behaviour{d: 10 * time.Second, code: 3}, behaviour{deaf: true})
		}
		w.delay = func(e Effect) time.Duration {
			if _, ok := e.(RunHook); ok {
				return 4 * time.Second
			}
			return 0
		}
		w.fail = func(e Effect) *Failure {
			if h, ok := e.(RunHook); ok && c.fails && h.ID == "m-2" {
				return &Failure{Message: "no"}
			}
			return nil
		}
		what := func() string {
			st := w.cstatus("m")
			switch {
			case st.State.Running != nil:
				return "running"
			case st.State.Waiting != nil:
				return st.State.Waiting.Reason
			}
			return "terminated"
		}
		w.step(Tick{})
		for _, s := range []struct {
			at       time.Duration
			is       string
			restarts int32
			phase    v1.PodPhase
		}{
			{2 * time.Second, "ContainerCreating", 0, v1.PodPending},
			{5 * time.Second, "running", 0, v1.PodRunning},
			{12 * time.Second, "terminated", 0, v1.PodRunning}, // the first restart comes at once: nothing else was told yet
			{15 * time.Second, "running", 1, v1.PodRunning},
			{25 * time.Second, "CrashLoopBackOff", 1, v1.PodRunning},
			{32 * time.Second, "CrashLoopBackOff", 1, v1.PodRunning}, // its hook runs
			{35 * time.Second, c.is, either(c.fails, int32(1), 2), v1.PodRunning},
		} {
			w.until(s.at)
			if st := w.cstatus("m"); what() != s.is || st.RestartCount != s.restarts || w.status().Phase != s.phase || st.Ready != (s.is == "running") {
				t.Errorf("%s, %s: %s %+v, want %+v\n%s", c.name, s.at, w.status().Phase, st, s, w.tail())
			}
		}
	}
}

// What a container waited for when the node ended its pod is told on, and at the end that nobody knows what became of it, its last end beside
// that; as upstream has it. Of a pod that was deleted the last end is told.
func TestAContainerThatWaitedAtItsPodsEnd(t *testing.T) {
	for _, why := range []Why{Deadline, Evicted, Deleted} {
		for _, back := range []bool{false, true} {
			p := newPod(v1.RestartPolicyAlways, "m", "n")
			grace := 10 * time.Second
			w := newWorld(t, p)
			w.run = func(name string, _ uint32) behaviour {
				return either(name == "m", behaviour{d: time.Second, code: 3}, behaviour{deaf: true})
			}
			w.step(Tick{})
			w.until(5 * time.Second)
			if why == Deleted {
				w.step(Desired{Pod: deleting(p, w.now, 10)})
			} else {
				w.step(StopAsked{Why: why, Reason: string(why), Grace: &grace})
			}
			w.until(7 * time.Second)
			if back {
				w.restart(nil)
			}
			st := w.cstatus("m")
			if waits := st.State.Waiting; (waits != nil && waits.Reason == "CrashLoopBackOff") != (why != Deleted) || st.RestartCount != 1 {
				t.Errorf("%s: %+v", why, st)
			}
			w.until(time.Minute)
			st = w.cstatus("m")
			end, last := st.State.Terminated, st.LastTerminationState.Terminated
			if why == Deleted && end.ExitCode != 3 || why != Deleted && (end.Reason != "ContainerStatusUnknown" || end.ExitCode != 137 || last.ExitCode != 3) {
				t.Errorf("%s: %+v", why, st)
			}
			if n := w.cstatus("n"); n.State.Terminated == nil || n.State.Terminated.Reason != "Error" || n.RestartCount != 0 {
				t.Errorf("%s: %+v", why, n)
			}
		}
	}
}

// One that could not be started is told to have started when the runtime says so, which is in 1970, as upstream tells it. A kubelet that comes back
// knows from that that it never ran.
func TestWhenAContainerStartedThatCouldNot(t *testing.T) {
	for _, forgotten := range []bool{false, true} {
		p := newPod(v1.RestartPolicyNever, "m")
		w := newWorld(t, p)
		w.run = func(string, uint32) behaviour { return behaviour{noStart: true} }
		w.step(Tick{})
		w.until(10 * time.Second)
		if forgotten {
			w.vanish()
			w.restart(nil)
			w.until(20 * time.Second)
		}
		end := w.cstatus("m").State.Terminated
		if end == nil || end.StartedAt.Unix() != 0 || end.FinishedAt.IsZero() || w.status().Phase != v1.PodFailed {
			t.Errorf("%+v", w.cstatus("m"))
		}
		if c := w.state.Container("m"); !c.Cur.StartedAt.IsZero() {
			t.Errorf("%+v", c.Cur)
		}
	}
}

// A container that was made, and is not started since its pod ends, has not restarted.
func TestAContainerThatIsNotStartedHasNotRestarted(t *testing.T) {
	p := newPod(v1.RestartPolicyAlways, "m")
	w := newWorld(t, p)
	w.delay = func(e Effect) time.Duration {
		if _, ok := e.(CreateContainer); ok {
			return 5 * time.Second
		}
		return 0
	}
	w.step(Tick{})
	w.until(2 * time.Second)
	w.step(Desired{Pod: deleting(p, w.now, 10)})
	w.until(time.Minute)
	if st := w.cstatus("m"); w.state.Stage != Finished || st.RestartCount != 0 || len(starts(w, "m")) != 0 {
		t.Errorf("%s %+v\n%s", w.state.Stage, st, w.tail())
	}
}

// One that is being started anew with another image while the node ends its pod is not told as ended meanwhile: it may be found to run, and under
// Never the API does not take that of one that had ended.
func TestAContainerThatIsStartedAnewAtItsPodsEnd(t *testing.T) {
	p := newPod(v1.RestartPolicyNever, "m")
	w := newWorld(t, p)
	w.run = func(string, uint32) behaviour { return behaviour{d: time.Hour} }
	w.delay = func(e Effect) time.Duration {
		if s, ok := e.(StartContainer); ok && s.ID == "m-1" {
			return 10 * time.Second
		}
		return 0
	}
	w.step(Tick{})
	w.until(time.Second)
	p = p.DeepCopy()
	p.Spec.Containers[0].Image = "other"
	w.step(Desired{Pod: p})
	w.until(5 * time.Second)
	grace := 10 * time.Second
	w.step(StopAsked{Why: Evicted, Reason: "Evicted", Grace: &grace})
	w.until(8 * time.Second)
	if st := w.cstatus("m").State; st.Waiting == nil {
		t.Fatalf("while its start is under way: %+v\n%s", st, w.tail())
	}
	w.until(time.Minute)
	if st := w.cstatus("m"); st.State.Terminated == nil || w.status().Phase != v1.PodFailed {
		t.Fatalf("%+v\n%s", st, w.tail())
	}
}

// An ephemeral container that cannot be started never runs again. It is told to wait all the same where its pod's policy would have others run
// again, with what kept it from its start and that end beside it, also once its sandbox is lost, until the pod is deleted; and as ended under
// Never. As upstream has it.
func TestAnEphemeralContainerThatCannotStart(t *testing.T) {
	for _, policy := range []v1.RestartPolicy{v1.RestartPolicyAlways, v1.RestartPolicyOnFailure, v1.RestartPolicyNever} {
		p := newPod(policy, "m", "e")
		w := newWorld(t, p)
		w.run = func(name string, _ uint32) behaviour { return behaviour{noStart: name == "e"} }
		w.step(Tick{})
		check := func(waits bool) {
			t.Helper()
			st := w.cstatus("e")
			end, is := st.State.Terminated, st.State.Waiting
			if waits {
				end = st.LastTerminationState.Terminated
			}
			if waits != (is != nil && is.Reason == "RunContainerError") || end == nil || end.Reason != "StartError" || st.RestartCount != 0 || st.ContainerID == "" {
				t.Errorf("%s, %s: %+v, want it to wait: %v", policy, w.rel(), st, waits)
			}
		}
		w.until(time.Minute)
		waits := policy != v1.RestartPolicyNever
		check(waits)
		w.restart(nil)
		check(waits)
		if waits {
			w.loseSandbox()
			w.until(80 * time.Second)
			check(waits)
			w.restart(nil)
			check(waits)
		}
		grace := time.Second
		w.step(StopAsked{Why: Evicted, Reason: "Evicted", Grace: &grace})
		w.until(110 * time.Second)
		check(waits)
		w.step(Desired{Pod: deleting(p, w.now, 10)})
		w.until(2 * time.Minute)
		check(false)
	}
}

// A sidecar that ended well and waited for its next run when its pod ended by itself is told as it ended; one that failed as any container that
// waited then.
func TestASidecarThatWaitedAtItsPodsEnd(t *testing.T) {
	for code, reason := range map[int32]string{0: "Completed", 3: "ContainerStatusUnknown"} {
		w := newWorld(t, newPod(v1.RestartPolicyNever, "s", "m"))
		w.run = func(name string, _ uint32) behaviour {
			return either(name == "s", behaviour{d: time.Second, code: code}, behaviour{d: 20 * time.Second})
		}
		w.step(Tick{})
		w.until(15 * time.Second)
		if st := w.cstatus("s"); st.State.Waiting == nil || st.State.Waiting.Reason != "CrashLoopBackOff" {
			t.Errorf("%d: %+v", code, st.State)
		}
		w.until(time.Minute)
		if st := w.cstatus("s"); w.status().Phase != v1.PodSucceeded || st.State.Terminated == nil || st.State.Terminated.Reason != reason {
			t.Errorf("%d: %s %+v", code, w.status().Phase, st.State)
		}
	}
}

// A pod whose last init container is a sidecar is initialized once that has started, also for what is told at its end: its main containers,
// which had not begun, could have. Without a sidecar that has started they could not.
func TestMainContainersBesideASidecarAtTheEnd(t *testing.T) {
	for _, started := range []bool{true, false} {
		p := newPod(v1.RestartPolicyNever, "s", "m")
		p.Spec.ActiveDeadlineSeconds = new(int64(60))
		if !started {
			p.Spec.InitContainers[0].StartupProbe = &v1.Probe{}
		}
		w := newWorld(t, p)
		w.fail = func(e Effect) *Failure {
			if x, ok := e.(PullImage); ok && x.Container == "m" {
				return &Failure{Reason: "ErrImagePull", Message: "not found"}
			}
			return nil
		}
		w.step(Tick{})
		w.until(2 * time.Minute)
		st, side := w.cstatus("m").State, w.cstatus("s").State
		if w.state.Stage != Finished || side.Terminated == nil || (st.Terminated != nil) != started || (st.Waiting != nil) == started {
			t.Errorf("started %v: %s, the sidecar is %+v, the main container %+v", started, w.state.Stage, side, st)
		}
		if started && st.Terminated != nil && st.Terminated.Reason != "ContainerStatusUnknown" {
			t.Errorf("%+v", st.Terminated)
		}
	}
}
