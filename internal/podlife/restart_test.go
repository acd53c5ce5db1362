package podlife

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What a kubelet gave up and had not removed yet when it ended is removed by the next one, not started: its successor has its number, and
// the end of one with another number would never be heard of.
func TestGivenUpBeforeARestart(t *testing.T) {
	w := newWorld(t, newPod(v1.RestartPolicyAlways, "m"))
	w.delay = func(e Effect) time.Duration {
		switch e.(type) {
		case CreateContainer, RemoveContainer, RemoveSandbox:
			return 5 * time.Second
		}
		return 0
	}
	w.step(Tick{})
	w.until(time.Second)
	w.loseSandbox() // while the container is being created in it
	w.until(6 * time.Second)
	if w.cons["m-0"] == nil || w.state.Container("m").Attempt != 1 {
		t.Fatalf("m-0 was not given up\n%s", w.tail())
	}
	w.restart(func(Effect) bool { return true })
	w.until(time.Minute)
	if got := starts(w, "m"); w.cons["m-0"] != nil || !slices.Equal(got, []string{"+11.000s"}) {
		t.Fatalf("%v\n%s", got, w.tail())
	}
	w.step(SourceRemoved{})
	w.until(2 * time.Minute)
	if w.state.Stage != Gone {
		t.Fatalf("%s\n%s", w.state.Stage, w.tail())
	}
}

// An instance that the runtime forgot, and knows again after a restart, is the container's: its end is heard of.
func TestForgottenBeforeARestart(t *testing.T) {
	w := newWorld(t, newPod(v1.RestartPolicyAlways, "m"))
	w.step(Tick{})
	w.until(time.Second)
	in := w.cons["m-0"]
	delete(w.cons, "m-0")
	w.fail = func(e Effect) *Failure {
		if _, ok := e.(PullImage); ok {
			return &Failure{Reason: "ErrImagePull", Message: "not found"}
		}
		return nil
	}
	w.step(Observation{Observed: w.observe()})
	w.until(2 * time.Second)
	if w.state.Container("m").Attempt != 1 {
		t.Fatalf("m-0 was not given up\n%s", w.tail())
	}
	w.cons["m-0"], w.fail = in, nil
	w.restart(nil)
	w.until(3 * time.Second)
	w.exit("m-0", 1, "")
	w.step(Observation{Observed: w.observe()})
	w.until(time.Minute)
	if st := w.cstatus("m"); st.State.Running == nil || st.RestartCount != 1 {
		t.Fatalf("%+v\n%s", st, w.tail())
	}
}

// The least grace counts from TERM, also of one that was sent when the pod's time was over, and across restarts.
func TestLeastGraceAcrossARestart(t *testing.T) {
	w := newWorld(t, newPod(v1.RestartPolicyAlways, "s", "m"))
	w.run = func(string, uint32) behaviour { return behaviour{deaf: true} }
	w.step(Tick{})
	w.until(time.Second)
	w.step(Desired{Pod: deleting(w.state.Pod, w.now, 20)})
	for _, at := range []time.Duration{21 * time.Second, 22 * time.Second} { // TERM is sent to s at 21 s
		w.until(at)
		w.restart(nil)
	}
	w.until(time.Minute)
	var got []string
	for _, l := range w.trace {
		if strings.Contains(l, " exit ") {
			got = append(got, l)
		}
	}
	if !slices.Equal(got, []string{"+21.000s exit m-0 137", "+23.000s exit s-0 137"}) {
		t.Fatalf("%v\n%s", got, w.tail())
	}
}

// A container that ended for a resize while there was no kubelet, or that has to wait for its turn after it, is still none that crashed.
func TestResizedAcrossARestart(t *testing.T) {
	p := newPod(v1.RestartPolicyAlways, "i", "m")
	p.Spec.Containers[0].Resources = resources("100m", "1Mi")
	p.Spec.Containers[0].ResizePolicy = []v1.ContainerResizePolicy{{ResourceName: v1.ResourceMemory, RestartPolicy: v1.RestartContainer}}
	for _, sandboxToo := range []bool{false, true} {
		w := newWorld(t, p)
		w.run = func(name string, _ uint32) behaviour {
			return either(name == "i", behaviour{d: 60 * time.Second}, behaviour{deaf: true})
		}
		w.step(Tick{})
		w.until(61 * time.Second)
		w.step(Desired{Pod: asks(w.state.Pod, 0, resources("100m", "2Mi"))})
		w.until(62 * time.Second)
		if sandboxToo { // init containers run again, for a minute
			w.loseSandbox()
			w.until(70 * time.Second)
		} else {
			w.exit("m-0", 137, "")
		}
		w.restart(nil)
		w.until(3 * time.Minute)
		if c := w.state.Container("m"); c.Stage != Up || c.Attempt != 1 || c.restart.Wait != 0 {
			t.Errorf("sandbox lost %v: %s, attempt %d, back-off %v\n%s", sandboxToo, c.Stage, c.Attempt, c.restart, w.tail())
		}
	}
}

// A start that is cut off because the kubelet is killed is no failure of the container's, whether the runtime has given it up when the
// kubelet is back or does so then: it is started once more, under Never too, and without a back-off.
func TestAStartThatItsCallerLeft(t *testing.T) {
	for _, policy := range []v1.RestartPolicy{v1.RestartPolicyNever, v1.RestartPolicyOnFailure, v1.RestartPolicyAlways} {
		for _, first := range []string{"i", "m"} {
			for _, late := range []bool{false, true} {
				w := newWorld(t, newPod(policy, slices.Compact([]string{first, "m"})...))
				w.delay = func(e Effect) time.Duration {
					x, ok := e.(StartContainer)
					return either(ok && x.ID == first+"-0", time.Second, 0)
				}
				w.run = func(n string, _ uint32) behaviour { return either(n == "i", behaviour{d: time.Second}, behaviour{}) }
				w.step(Tick{})
				w.until(500 * time.Millisecond)
				if c := w.state.Container(first); c.Stage != Launching {
					t.Fatalf("%s is %s", first, c.Stage)
				}
				w.queue = slices.DeleteFunc(w.queue, func(p pending) bool { _, ok := p.effect.(StartContainer); return ok })
				give := func() {
					w.exit(first+"-0", 128, "StartError")
					cp := *w.cons[first+"-0"]
					cp.Message = "failed to create containerd task: context canceled"
					w.cons[cp.ID] = &cp
				}
				if !late {
					give()
				}
				w.restart(nil)
				if late {
					give()
					w.step(Observation{Observed: w.observe()})
				}
				w.until(5 * time.Second)
				st := w.cstatus("m")
				if w.status().Phase != v1.PodRunning || st.State.Running == nil || st.LastTerminationState.Terminated != nil {
					t.Fatalf("%s, %s, late %v: %s %+v\n%s", policy, first, late, w.status().Phase, st, w.tail())
				}
			}
		}
	}
}

// A sandbox that was lost while no kubelet looked, with the machine for one, is told as any other, once; not of a pod that ends with it.
func TestSandboxLostWhileAway(t *testing.T) {
	for _, c := range []struct {
		policy v1.RestartPolicy
		runs   bool // its container still runs then
		want   int
	}{{v1.RestartPolicyNever, false, 0}, {v1.RestartPolicyNever, true, 0}, {v1.RestartPolicyAlways, false, 1}, {v1.RestartPolicyAlways, true, 1}} {
		w := newWorld(t, newPod(c.policy, "m"))
		w.step(Tick{})
		w.until(time.Second)
		for _, b := range w.boxes {
			b.Ready = false
			if !c.runs {
				w.killIn(b.ID)
			}
		}
		w.restart(nil)
		w.until(time.Minute)
		n := 0
		for _, e := range w.events {
			n += either(e.Reason == "SandboxChanged", 1, 0)
		}
		if n != c.want {
			t.Errorf("%s, runs %t: told %d times, want %d: %s", c.policy, c.runs, n, c.want, w.tail())
		}
	}
}

// A crash loop waits on after a restart of the kubelet, though the pod asks for other resources than it was granted.
func TestBackOffOutlivesARestartAmidADeferredResize(t *testing.T) {
	p := newPod(v1.RestartPolicyAlways, "m")
	p.Spec.Containers[0].Resources = resources("100m", "1Mi")
	w := newWorld(t, p)
	w.run = func(string, uint32) behaviour { return behaviour{d: time.Second, code: 1} }
	w.step(Tick{})
	w.until(2 * time.Minute)
	w.full = func(*v1.Pod) string { return "no room" }
	w.step(Desired{Pod: asks(p, 0, resources("100m", "2Mi"))})
	before := len(starts(w, "m"))
	w.restart(nil)
	w.until(130 * time.Second)
	if n := len(starts(w, "m")); n != before || w.cstatus("m").State.Waiting == nil {
		t.Fatalf("started %d times, %d before the restart\n%s", n, before, w.tail())
	}
}

// A container whose every start ends as if its caller had gone has failed: only the first such end is taken for that, and what was counted
// stays so when the kubelet comes back.
func TestStartsThatAreCutOffAgainAndAgain(t *testing.T) {
	for _, policy := range []v1.RestartPolicy{v1.RestartPolicyNever, v1.RestartPolicyAlways} {
		w := newWorld(t, newPod(policy, "m"))
		w.fail = func(e Effect) *Failure {
			x, ok := e.(StartContainer)
			if !ok {
				return nil
			}
			w.exit(x.ID, 128, "StartError")
			cp := *w.cons[x.ID]
			cp.Message = "failed to create containerd task: context canceled"
			w.cons[x.ID] = &cp
			return &Failure{Message: cp.Message, Unsure: true}
		}
		w.step(Tick{})
		w.until(time.Minute)
		for range 2 {
			st, c := w.status(), w.cstatus("m")
			if policy == v1.RestartPolicyNever {
				if st.Phase != v1.PodFailed || c.State.Terminated == nil || c.State.Terminated.Reason != "StartError" {
					t.Fatalf("%s %+v\n%s", st.Phase, c, w.tail())
				}
			} else if c.State.Waiting == nil || c.State.Waiting.Reason != crashLoop || c.RestartCount != 4 {
				t.Fatalf("%+v\n%s", c, w.tail())
			}
			w.restart(nil)
			w.until(time.Minute + time.Second)
		}
	}
}

// The API takes it of a container only that it runs again after it had ended where its policy says so. An init container does in a new
// sandbox, whatever its policy says: until it has ended there, it is told as it ended before, so that all else is told too.
func TestAnInitContainerThatRunsAgainIsToldAsEnded(t *testing.T) {
	for policy, failed := range map[v1.RestartPolicy]bool{v1.RestartPolicyOnFailure: true, v1.RestartPolicyNever: false} {
		w := newWorld(t, newPod(policy, "i", "m"))
		w.prober = true
		w.run = func(n string, attempt uint32) behaviour {
			return either(n == "i", behaviour{d: 5 * time.Second, code: either(failed && attempt == 1, int32(1), 0)}, behaviour{})
		}
		w.delay = func(e Effect) time.Duration {
			if _, ok := e.(PullImage); ok {
				return time.Second
			}
			return 0
		}
		w.step(Tick{})
		w.until(either(failed, 20*time.Second, 6500*time.Millisecond)) // one that restarts never does so only before it had run
		w.loseSandbox()
		w.until(w.now.Sub(epoch) + 3*time.Second)
		st, i := w.status(), w.cstatus("i")
		if st.Phase != v1.PodPending || ready(w) != v1.ConditionFalse || w.state.Container("i").Stage != Up ||
			i.State.Terminated == nil || i.State.Terminated.ExitCode != 0 || i.RestartCount != 0 {
			t.Fatalf("%s: %s %+v\n%s", policy, st.Phase, i, w.tail())
		}
		w.restart(nil)
		w.until(w.now.Sub(epoch) + 4*time.Second)
		if i = w.cstatus("i"); i.State.Terminated == nil || i.State.Terminated.ExitCode == 0 == failed || i.RestartCount != 1 {
			t.Fatalf("%s: %+v\n%s", policy, i, w.tail())
		}
		w.until(w.now.Sub(epoch) + time.Minute)
		if i = w.cstatus("i"); w.status().Phase != v1.PodRunning || i.State.Terminated == nil || i.State.Terminated.ExitCode != 0 {
			t.Fatalf("%s: %s %+v\n%s", policy, w.status().Phase, i, w.tail())
		}
	}
}

// A machine that goes down may leave what was saved some time before: a back-off that was over by then is not waited for again, and what ran
// after it and ended well does not run once more. That a pod had been initialized the API knows.
func TestWhatWasSavedMayBeOld(t *testing.T) {
	w := newWorld(t, newPod(v1.RestartPolicyOnFailure, "i", "m0", "m1"))
	w.prober = true
	w.run = func(n string, _ uint32) behaviour {
		return either(n == "m1", behaviour{}, behaviour{d: 5 * time.Second})
	}
	w.fail = func(e Effect) *Failure {
		if x, ok := e.(PullImage); ok && x.Container == "m0" && w.now.Before(epoch.Add(10*time.Second)) {
			return &Failure{Reason: "ErrImagePull", Message: "not found"}
		}
		return nil
	}
	w.step(Tick{})
	w.until(8 * time.Second)
	if w.state.Container("m0").Stage != BackOff {
		t.Fatalf("%s\n%s", w.state.Container("m0").Stage, w.tail())
	}
	w.kept = w.saved
	w.until(30 * time.Second)
	w.power(true)
	w.until(2 * time.Minute)
	if n := len(starts(w, "m0")); n != 1 || w.status().Phase != v1.PodRunning || w.cstatus("m1").RestartCount != 1 {
		t.Fatalf("%d starts, %s %+v\n%s", n, w.status().Phase, w.cstatus("m1"), w.tail())
	}

	w = newWorld(t, newPod(v1.RestartPolicyAlways, "i", "m"))
	w.prober = true // see checkTold
	w.run = func(n string, _ uint32) behaviour { return either(n == "i", behaviour{d: time.Second}, behaviour{}) }
	w.fail = func(e Effect) *Failure {
		if x, ok := e.(PullImage); ok && x.Container == "m" {
			return &Failure{Reason: "ErrImagePull", Message: "not found"}
		}
		return nil
	}
	w.step(Tick{})
	w.until(5 * time.Second)
	w.power(true)

	// Saved while its image was pulled once more: it does not wait for that any more, since it has run.
	w = newWorld(t, newPod(v1.RestartPolicyAlways, "m", "e"))
	w.run = func(n string, _ uint32) behaviour { return either(n == "e", behaviour{d: time.Second}, behaviour{}) }
	w.fail = func(e Effect) *Failure {
		if x, ok := e.(PullImage); ok && x.Container == "e" && w.now.Before(epoch.Add(time.Second)) {
			return &Failure{Reason: "ErrImagePull", Message: "not found"}
		}
		return nil
	}
	w.delay = func(e Effect) time.Duration {
		_, pull := e.(PullImage)
		return either(pull, 500*time.Millisecond, 0)
	}
	w.step(Tick{})
	for w.state.Container("e").Stage != Pulling || w.state.Container("e").Reason == "" {
		w.until(w.now.Sub(epoch) + 100*time.Millisecond)
	}
	w.kept = w.saved
	w.until(w.now.Sub(epoch) + 5*time.Second)
	if e := w.cstatus("e"); e.State.Terminated == nil {
		t.Fatalf("%+v\n%s", e, w.tail())
	}
	w.power(true)
	if e := w.cstatus("e"); e.State.Terminated == nil {
		t.Fatalf("%+v\n%s", e, w.tail())
	}
}

// Somebody removed the newest instance only, and while no kubelet looked: the one before it does not take its place.
func TestTheNewestInstanceIsGone(t *testing.T) {
	for _, runs := range []bool{false, true} {
		w := newWorld(t, newPod(v1.RestartPolicyAlways, "m"))
		w.prober = true
		w.run = func(_ string, attempt uint32) behaviour {
			return either(runs && attempt == 2, behaviour{}, behaviour{d: time.Second, code: int32(attempt) + 1})
		}
		w.step(Tick{})
		w.until(either(runs, 30*time.Second, 14*time.Second))
		delete(w.cons, "m-2")
		delete(w.ends, "m-2")
		w.restart(nil)
		st := w.cstatus("m")
		if end := st.LastTerminationState.Terminated; !runs && (st.RestartCount != 2 || end == nil || end.ExitCode != 3) {
			t.Fatalf("%+v\n%s", st, w.tail())
		}
		w.until(time.Minute)
		if st = w.cstatus("m"); st.RestartCount != 3 {
			t.Fatalf("ran: %v: %+v\n%s", runs, st, w.tail())
		}
	}
}

// What containers wrote last is removed with an ended pod's folder: what users were told of it stays.
func TestLastWordsOutliveTheirFiles(t *testing.T) {
	p := newPod(v1.RestartPolicyOnFailure, "i", "m")
	w := newWorld(t, p)
	w.run = func(_ string, attempt uint32) behaviour { return behaviour{d: time.Second, code: 1 - int32(attempt)} }
	w.step(Tick{})
	w.until(time.Minute)
	if w.state.Stage != Finished {
		t.Fatalf("%s\n%s", w.state.Stage, w.tail())
	}
	p = p.DeepCopy()
	p.Status = w.status()
	i, m := &p.Status.InitContainerStatuses[0], &p.Status.ContainerStatuses[0]
	for _, end := range []*v1.ContainerStateTerminated{
		i.State.Terminated, i.LastTerminationState.Terminated, m.State.Terminated, m.LastTerminationState.Terminated,
	} {
		end.Message = "last words of " + end.ContainerID
	}
	after := Status(Restore(w.cfg, p, w.saved, w.observe(), w.now))
	if !reflect.DeepEqual(after.InitContainerStatuses, p.Status.InitContainerStatuses) || !reflect.DeepEqual(after.ContainerStatuses, p.Status.ContainerStatuses) {
		t.Errorf("told was %+v, now %+v", p.Status, after)
	}
}

// An instance of which nobody saw the end is told alike whether the kubelet was away or not: as a last state it was lost while it ran.
func TestAnEndThatNobodySaw(t *testing.T) {
	for _, away := range []bool{false, true} {
		for _, policy := range []v1.RestartPolicy{v1.RestartPolicyNever, v1.RestartPolicyAlways} {
			w := newWorld(t, newPod(policy, "m"))
			w.step(Tick{})
			w.until(time.Second)
			in := *w.cons["m-0"]
			in.User = &v1.ContainerUser{Linux: &v1.LinuxContainerUser{UID: 5}}
			w.cons["m-0"] = &in
			w.step(Observation{Observed: w.observe()})
			w.until(2 * time.Second)
			delete(w.cons, "m-0")
			if away {
				w.restart(nil)
			} else {
				w.step(Observation{Observed: w.observe()})
			}
			w.until(time.Minute)
			st := w.cstatus("m")
			switch end, last := st.State.Terminated, st.LastTerminationState.Terminated; {
			case policy == v1.RestartPolicyNever && (end == nil || end.Message != messageUnlocated || end.Reason != reasonUnknown || st.User == nil):
				t.Errorf("away: %v: %+v", away, st)
			case policy == v1.RestartPolicyAlways && (last == nil || last.Message != messageLost || last.Reason != reasonUnknown || st.RestartCount != 1):
				t.Errorf("away: %v: %+v", away, st)
			}
		}
	}
}

// Where an older instance is in the pod's sandbox, the newest was there too, though somebody removed it: what had been initialized is not
// initialized once more.
func TestTheNewestInstanceIsGoneAmongInitContainers(t *testing.T) {
	w := newWorld(t, newPod(v1.RestartPolicyAlways, "i", "m"))
	w.prober = true
	w.run = func(n string, attempt uint32) behaviour {
		return either(n == "m" && attempt > 0, behaviour{}, behaviour{d: time.Second})
	}
	w.step(Tick{})
	w.until(20 * time.Second)
	for _, id := range []string{"i-0", "m-1"} {
		delete(w.cons, id)
	}
	w.restart(nil)
	w.until(time.Minute)
	if n := len(starts(w, "i")); n != 1 || w.cstatus("m").State.Running == nil || w.cstatus("m").RestartCount != 2 {
		t.Fatalf("%d starts, %+v\n%s", n, w.cstatus("m"), w.tail())
	}
}

// What runs is the newest, whatever is told of a higher one: that is of another life of a static pod.
func TestWhatRunsIsTheNewest(t *testing.T) {
	w := newWorld(t, newPod(v1.RestartPolicyAlways, "m"))
	w.step(Tick{})
	w.until(time.Second)
	st := w.status()
	st.ContainerStatuses[0].RestartCount = 5
	st.ContainerStatuses[0].ContainerID = "containerd://m-5"
	pod := w.state.Pod.DeepCopy()
	pod.Status = st
	w.state = Restore(w.cfg, pod, w.saved, w.observe(), w.now)
	w.step(Desired{Pod: pod})
	w.until(time.Minute)
	if c := w.cstatus("m"); c.State.Running == nil || c.RestartCount != 0 || len(starts(w, "m")) != 1 {
		t.Fatalf("%+v\n%s", c, w.tail())
	}
}

// Init containers that somebody removed run again, and what they are told to have ended with stays until they have, see checkTold.
func TestRemovedInitContainersRunAgain(t *testing.T) {
	w := newWorld(t, newPod(v1.RestartPolicyNever, "i0", "i1", "m"))
	w.prober = true
	w.run = func(n string, _ uint32) behaviour {
		return either(n == "m", behaviour{}, behaviour{d: 5 * time.Second})
	}
	w.fail = func(e Effect) *Failure {
		if x, ok := e.(PullImage); ok && x.Container == "m" && w.now.Before(epoch.Add(40*time.Second)) {
			return &Failure{Reason: "ErrImagePull", Message: "not found"}
		}
		return nil
	}
	w.step(Tick{})
	w.until(12 * time.Second)
	for _, id := range []string{"i0-0", "i1-0"} {
		delete(w.cons, id)
	}
	w.restart(nil)
	w.until(14 * time.Second)
	if w.state.Container("i0").Stage != Up {
		t.Fatal(w.tail())
	}
	w.restart(nil)
	w.until(20 * time.Second)
	w.restart(nil)
	w.until(2 * time.Minute)
	if c := w.cstatus("i0"); w.status().Phase != v1.PodRunning || c.RestartCount != 1 || c.State.Terminated == nil {
		t.Fatalf("%+v\n%s", c, w.tail())
	}
}

// A container that was given up before it ran is counted, also when it is lost what was saved of that.
func TestWhatNeverRanStaysCounted(t *testing.T) {
	for _, there := range []bool{false, true} { // what was given up is removed, or still to be
		w := newWorld(t, newPod(v1.RestartPolicyAlways, "m0", "m1"))
		w.fail = func(e Effect) *Failure {
			pull, ok := e.(PullImage)
			start, starts := e.(StartContainer)
			if ok && pull.Container == "m0" && w.now.After(epoch) || starts && start.Container == "m0" {
				return &Failure{Reason: "X", Message: "no"}
			}
			return nil
		}
		w.step(Tick{})
		w.until(time.Second)
		pod := w.state.Pod.DeepCopy()
		pod.Status = w.status()
		pod.Status.ContainerStatuses[0].RestartCount = 1
		if !there {
			delete(w.cons, "m0-0")
		}
		w.state = Restore(w.cfg, pod, nil, w.observe(), w.now)
		w.step(Desired{Pod: pod})
		w.until(10 * time.Second)
		if c := w.cstatus("m0"); c.RestartCount != 1 || w.cons["m0-0"] != nil {
			t.Fatalf("%+v\n%s", c, w.tail())
		}
	}
}

// restartsAll is a pod whose containers all restart when its first one exits with 1.
func restartsAll() *v1.Pod {
	p := newPod(v1.RestartPolicyAlways, "m0", "m1")
	always := v1.ContainerRestartPolicyAlways
	p.Spec.Containers[0].RestartPolicy = &always
	p.Spec.Containers[0].RestartPolicyRules = []v1.ContainerRestartRule{{
		Action:    v1.ContainerRestartRuleActionRestartAllContainers,
		ExitCodes: &v1.ContainerRestartRuleOnExitCodes{Operator: v1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{1}},
	}}
	return p
}

// When all containers restart again before one of them has run again, that one too is counted once more.
func TestRestartAllAmidARestartOfAll(t *testing.T) {
	p := restartsAll()
	w := newWorld(t, p)
	w.prober = true
	w.run = func(n string, attempt uint32) behaviour {
		return either(n == "m0" && attempt < 3, behaviour{d: 10 * time.Second, code: 1}, behaviour{})
	}
	w.fail = func(e Effect) *Failure {
		x, ok := e.(StartContainer)
		return either(ok && x.Container == "m1" && w.now.Before(epoch.Add(50*time.Second)) && w.now.After(epoch), &Failure{Reason: "X", Message: "no"}, nil)
	}
	w.step(Tick{})
	w.until(2 * time.Minute)
	if a, b := w.cstatus("m0"), w.cstatus("m1"); a.RestartCount != 3 || b.RestartCount != 3 || b.State.Running == nil {
		t.Fatalf("%+v\n%+v\n%s", a, b, w.tail())
	}
}

// What has been reset and could not be removed is there when the kubelet begins anew amid the pod's end: it stays counted as it was told.
func TestResetButNotRemoved(t *testing.T) {
	p := restartsAll()
	w := newWorld(t, p)
	w.run = func(n string, attempt uint32) behaviour {
		return either(n == "m0", behaviour{d: 10 * time.Second, code: 1}, behaviour{})
	}
	w.fail = func(e Effect) *Failure {
		x, ok := e.(RemoveContainer)
		return either(ok && x.ID == "m1-0", &Failure{Reason: "X", Message: "no"}, nil)
	}
	w.step(Tick{})
	w.until(10500 * time.Millisecond)
	if c := w.cstatus("m1"); c.RestartCount != 1 || w.cons["m1-0"] == nil {
		t.Fatalf("%+v\n%s", c, w.tail())
	}
	gone := p.DeepCopy()
	gone.DeletionTimestamp, gone.DeletionGracePeriodSeconds = &metav1.Time{Time: w.now}, new(int64(5))
	gone.Status = w.status()
	w.step(Desired{Pod: gone})
	w.restart(nil)
	if c := w.cstatus("m1"); c.RestartCount != 1 {
		t.Fatalf("%+v\n%s", c, w.tail())
	}
}

// After containers were reset no status names one. When nothing is left of the pod and nothing was saved, they stay counted as they were told.
func TestResetAndNothingLeft(t *testing.T) {
	for _, left := range []bool{false, true} {
		p := restartsAll()
		w := newWorld(t, p)
		w.run = func(n string, attempt uint32) behaviour {
			return either(n == "m0", behaviour{d: 10 * time.Second, code: 1}, behaviour{})
		}
		w.fail = func(e Effect) *Failure {
			x, ok := e.(RemoveContainer)
			return either(ok && left && x.ID == "m1-0", &Failure{Reason: "X", Message: "no"}, nil)
		}
		w.delay = func(e Effect) time.Duration {
			x, ok := e.(CreateContainer)
			return either(ok && x.Attempt > 0, time.Minute, 0)
		}
		w.step(Tick{})
		w.until(10500 * time.Millisecond)
		told := p.DeepCopy()
		told.Status = w.status()
		w.state = Restore(w.cfg, told, nil, either(left, w.observe(), Observed{}), w.now)
		for _, name := range []string{"m0", "m1"} {
			if c := w.cstatus(name); c.RestartCount != 1 {
				t.Errorf("left %v: %+v\n%s", left, c, w.tail())
			}
		}
	}
}

// A container that was made and never heard of is given up with its sandbox. If it cannot be removed, and the next one is made and not heard of
// either, two are left that never ran: the older one is nobody's last instance.
func TestTwoThatNeverRan(t *testing.T) {
	p := newPod(v1.RestartPolicyAlways, "m")
	p.Status.ContainerStatuses = []v1.ContainerStatus{{
		Name: "m", RestartCount: 1, State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "CreateContainerError"}},
	}}
	made := func(attempt uint32) Instance {
		return Instance{ID: fmt.Sprint("m-", attempt), Name: "m", Attempt: attempt, SandboxID: "sb1", State: InstanceCreated}
	}
	s := Restore(Defaults(), p, nil, Observed{
		At: epoch, Sandboxes: []SandboxInfo{{ID: "sb1", Attempt: 1, Ready: true}}, Containers: []Instance{made(0), made(1)},
	}, epoch)
	if c := Status(s).ContainerStatuses[0]; c.RestartCount != 1 {
		t.Errorf("%+v", c)
	}
	if c := s.Container("m"); c.Cur == nil || c.Cur.ID != "m-1" || c.Prev != nil {
		t.Errorf("%+v", c)
	}
	if !slices.ContainsFunc(s.sweeps, func(x sweep) bool { return x.id == "m-0" }) {
		t.Errorf("what is swept: %+v", s.sweeps)
	}
}

// What is saved may be older than what ran: that a container was to run anew holds for the instance it was about. The one that did, and ended, does
// not run again under the policy Never.
func TestWhatWasToRunAnewHas(t *testing.T) {
	p := newPod(v1.RestartPolicyNever, "m")
	p.Status.StartTime = &metav1.Time{Time: epoch}
	p.Status.ContainerStatuses = []v1.ContainerStatus{{
		Name: "m", RestartCount: 1, ContainerID: "containerd://m-1",
		State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: 128, Reason: "StartError", ContainerID: "containerd://m-1"}},
	}}
	ended := func(attempt uint32) Instance {
		return Instance{ID: fmt.Sprint("m-", attempt), Name: "m", Attempt: attempt, SandboxID: "sb0", State: InstanceExited, ExitCode: 128, Reason: "StartError"}
	}
	seen := Observed{At: epoch, Sandboxes: []SandboxInfo{{ID: "sb0", Ready: true}}, Containers: []Instance{ended(0), ended(1)}}
	for _, c := range []struct {
		saved SavedContainer
		again bool
	}{
		{SavedContainer{Name: "m", Attempt: 0, Again: true, Stopping: "m-0"}, false},
		{SavedContainer{Name: "m", Attempt: 1, Again: true}, false},
		{SavedContainer{Name: "m", Attempt: 1, Again: true, Stopping: "m-1"}, true},
		{SavedContainer{Name: "m", Attempt: 2, Again: true}, true},
	} {
		other := SavedContainer{Name: "other", Hooked: "other-0"}
		s := Restore(Defaults(), p, &Saved{Admitted: true, Start: epoch, Containers: []SavedContainer{c.saved, other}}, seen, epoch)
		if ended := Status(s).ContainerStatuses[0].State.Terminated != nil; ended == c.again || s.Container("m").Again != c.again {
			t.Errorf("%+v: %+v", c.saved, Status(s).ContainerStatuses[0])
		}
	}
}
