package podlife

import (
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
)

// toldOf is how often an event of that reason was told.
func toldOf(w *world, reason string) (n int) {
	for _, e := range w.events {
		if e.Reason == reason {
			n++
		}
	}
	return n
}

// #31902: a preStop hook that takes too long is told, also when its container does not wait for it any more.
func TestAPreStopHookThatTakesTooLongIsTold(t *testing.T) {
	for _, late := range []time.Duration{0, time.Millisecond, time.Minute} {
		p := newPod(v1.RestartPolicyAlways, "m")
		p.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PreStop: &v1.LifecycleHandler{}}
		w := newWorld(t, p)
		w.delay = func(e Effect) time.Duration {
			if x, ok := e.(RunHook); ok {
				return x.Limit + late
			}
			return 0
		}
		w.fail = func(e Effect) *Failure {
			if _, ok := e.(RunHook); ok {
				return &Failure{Message: "context deadline exceeded", Unsure: true}
			}
			return nil
		}
		w.step(Tick{})
		w.until(time.Second)
		w.step(Desired{Pod: deleting(p, w.now, 20)})
		w.until(2 * time.Minute)
		if n := toldOf(w, "FailedPreStopHook"); n != 1 || w.state.Stage != Finished {
			t.Errorf("%s late: told %d times, %s\n%s", late, n, w.state.Stage, w.tail())
		}
	}
}

// What keeps a pod from its end is told, and stands in its timeline, until it goes on.
func TestAnEndThatDoesNotGetOnIsTold(t *testing.T) {
	for _, c := range []struct {
		effect, record string
	}{
		{"StopContainer", "container m Stopping→kept"},
		{"StopSandbox", "sandbox  stopping→kept"},
		{"UnmountVolumes", "volumes  returning→held"},
		{"RemoveCgroup", ""},
	} {
		p := newPod(v1.RestartPolicyAlways, "m")
		w := newWorld(t, p)
		broken, records := true, ""
		w.fail = func(e Effect) *Failure {
			if broken && Name(e) == c.effect {
				return &Failure{Reason: "FailedKillPod", Message: "no end"}
			}
			return nil
		}
		before := w.state
		w.after = func() {
			for _, r := range Records(before, w.state) {
				if r.Cause == "no end" {
					records += string(r.Stage) + " " + r.Subject + " " + r.From + "→" + r.To + "\n"
				}
			}
			before = w.state
		}
		w.step(Tick{})
		w.until(time.Second)
		w.step(Desired{Pod: deleting(p, w.now, 1)})
		w.until(20 * time.Second)
		if n := toldOf(w, "FailedKillPod"); n < 2 || w.state.Stage >= Finished || !strings.Contains(records, c.record) {
			t.Errorf("%s: told %d times, %s, records:\n%s", c.effect, n, w.state.Stage, records)
		}
		broken = false
		w.until(time.Minute)
		if w.state.Stage != Finished {
			t.Errorf("%s: %s\n%s", c.effect, w.state.Stage, w.tail())
		}
	}
}

// A clock that is set back by an hour while a container waits to run again makes that wait no longer, nor does it over a restart.
func TestAClockThatIsSetBack(t *testing.T) {
	w := newWorld(t, newPod(v1.RestartPolicyAlways, "m"))
	w.run = func(string, uint32) behaviour { return behaviour{d: time.Second, code: 1} }
	w.step(Tick{})
	w.until(1500 * time.Millisecond)
	w.exit("m-1", 1, "")
	const wait = 10 * time.Second
	earlier := w.now.Add(-time.Hour)
	s, _ := Step(w.state, Observation{Observed: w.observe()}, earlier)
	if c := s.Container("m"); c.Stage != BackOff || c.until.Sub(earlier) != wait {
		t.Errorf("%s for %s", c.Stage, c.until.Sub(earlier))
	}
	w.step(Observation{Observed: w.observe()})
	if c := w.state.Container("m"); c.Stage != BackOff || c.until.Sub(w.now) != wait {
		t.Fatalf("without that: %s for %s", c.Stage, c.until.Sub(w.now))
	}
	s = Restore(w.cfg, w.state.Pod, w.saved, w.observe(), earlier)
	if c := s.Container("m"); c.Stage != BackOff || c.until.Sub(earlier) != wait {
		t.Errorf("over a restart: %s for %s", c.Stage, c.until.Sub(earlier))
	}
}

// Nor is what ends given more time than it had, its pod or it alone.
func TestAnEndOverAClockThatIsSetBack(t *testing.T) {
	for _, alone := range []bool{false, true} {
		p := newPod(v1.RestartPolicyAlways, "m")
		p.Spec.TerminationGracePeriodSeconds = new(int64(20))
		p.Spec.Containers[0].LivenessProbe = &v1.Probe{FailureThreshold: 1, TerminationGracePeriodSeconds: new(int64(20))}
		w := newWorld(t, p)
		w.run = func(string, uint32) behaviour { return behaviour{deaf: true} }
		w.step(Tick{})
		w.until(1500 * time.Millisecond)
		if alone {
			w.step(ProbeTurned{Container: "m", ID: "m-0", Probe: Liveness, OK: false})
		} else {
			w.step(Desired{Pod: deleting(p, w.now, 20)})
		}
		w.until(5 * time.Second)
		for _, back := range []time.Duration{0, time.Hour} {
			now := w.now.Add(-back)
			s := Restore(w.cfg, w.state.Pod, w.saved, w.observe(), now)
			s, do := Step(s, Observation{Observed: w.observe()}, now)
			i := slices.IndexFunc(do, func(e Effect) bool { _, ok := e.(StopContainer); return ok })
			if i < 0 || do[i].(StopContainer).Grace > 20*time.Second {
				t.Errorf("alone %v, set back by %s: %s, %v", alone, back, s.Container("m").Stage, do)
			}
		}
	}
}

// A preStop hook runs in a container of which the postStart hook failed, or had not ended when its pod was deleted.
func TestPreStopAfterPostStart(t *testing.T) {
	for _, fails := range []bool{false, true} {
		p := newPod(v1.RestartPolicyNever, "m")
		p.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PostStart: &v1.LifecycleHandler{}, PreStop: &v1.LifecycleHandler{}}
		w := newWorld(t, p)
		w.delay = func(e Effect) time.Duration {
			if x, ok := e.(RunHook); ok && x.Hook == PostStart && !fails {
				return time.Hour
			}
			return 0
		}
		w.fail = func(e Effect) *Failure {
			if x, ok := e.(RunHook); ok && x.Hook == PostStart {
				return &Failure{Message: "no"}
			}
			return nil
		}
		w.step(Tick{})
		w.until(time.Second)
		if !fails {
			w.step(Desired{Pod: deleting(p, w.now, 20)})
		}
		w.until(time.Minute)
		hook := slices.IndexFunc(w.trace, func(l string) bool { return strings.Contains(l, "do hook/m-0/PreStop") })
		stop := slices.IndexFunc(w.trace, func(l string) bool { return strings.Contains(l, " exit m-0") })
		if hook < 0 || stop < hook {
			t.Errorf("postStart fails %v:\n%s", fails, w.tail())
		}
	}
}

// A pod that the node itself ends, and that has not ended in half as long again as it was given, is told of once; one that is deleted is not.
func TestAPodThatDoesNotEndInTimeIsTold(t *testing.T) {
	for _, c := range []struct {
		why          Why
		grace, after time.Duration // zero: nobody is told
	}{
		{Evicted, time.Second, 10 * time.Second},
		{OverLimit, 0, 10 * time.Second},
		{Preempting, 20 * time.Second, 30 * time.Second},
		{NodeShutdown, 40 * time.Second, time.Minute},
		{Deleted, 20 * time.Second, 0},
	} {
		w := newWorld(t, newPod(v1.RestartPolicyAlways, "m"))
		stuck := true
		w.fail = func(e Effect) *Failure {
			if _, ok := e.(StopContainer); ok && stuck {
				return &Failure{Message: "no end"}
			}
			return nil
		}
		w.step(Tick{})
		w.until(time.Second)
		w.step(StopAsked{Why: c.why, Grace: &c.grace})
		if c.after > 0 {
			w.until(c.after - time.Second)
			if n := toldOf(w, "ExceededGracePeriod"); n != 0 {
				t.Errorf("%s: told too early", c.why)
			}
		}
		w.until(5 * time.Minute)
		if n := toldOf(w, "ExceededGracePeriod"); n != either(c.after > 0, 1, 0) {
			t.Errorf("%s: told %d times\n%s", c.why, n, w.tail())
		}
		stuck = false
		w.until(20 * time.Minute)
		if w.state.Stage != Finished {
			t.Errorf("%s: %s", c.why, w.state.Stage)
		}
	}
}

// A sandbox that fails for a reason of its own is told under that, and a pod that cannot be looked at under its own.
func TestReasonsOfTheirOwn(t *testing.T) {
	w := newWorld(t, newPod(v1.RestartPolicyAlways, "m"))
	w.fail = func(e Effect) *Failure {
		switch e.(type) {
		case CreateSandbox:
			return &Failure{Reason: "NetworkNotReady", Message: "network is not ready: it is not"}
		case Observe:
			return &Failure{Reason: "FailedSync", Message: "error determining status: no"}
		}
		return nil
	}
	w.step(Tick{})
	w.until(5 * time.Second)
	if toldOf(w, "NetworkNotReady") == 0 || toldOf(w, "FailedSync") == 0 || toldOf(w, "FailedCreatePodSandBox") != 0 {
		t.Errorf("%+v", w.events)
	}
	for _, e := range w.events {
		if strings.Contains(e.Message, "Failed to create pod sandbox") {
			t.Errorf("%+v", e)
		}
	}
}
