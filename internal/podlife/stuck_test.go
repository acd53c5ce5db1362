package podlife

import (
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
