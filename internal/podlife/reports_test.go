package podlife

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Further cases of public bug reports, by their numbers in kubernetes/kubernetes.

// #137146: a sidecar that has passed its startup probe has passed it for a kubelet that comes back too: a main container that crashes then is
// restarted.
func TestMainRestartsBesideAStartedSidecar(t *testing.T) {
	p := newPod(v1.RestartPolicyAlways, "s", "m")
	p.Spec.InitContainers[0].StartupProbe = &v1.Probe{}
	w := newWorld(t, p)
	w.step(Tick{})
	w.until(time.Second)
	w.step(ProbeTurned{Container: "s", ID: "s-0", Probe: Startup, OK: true})
	w.until(2 * time.Second)
	for n := int32(1); n <= 2; n++ {
		w.restart(nil)
		w.exit("m-"+string('0'+n-1), 1, "")
		w.step(Observation{Observed: w.observe()})
		w.until(w.now.Add(time.Minute).Sub(epoch))
		if st := w.cstatus("m"); st.RestartCount != n || st.State.Running == nil {
			t.Fatalf("%+v\n%s", st, w.tail())
		}
	}
	if st := w.cstatus("s"); st.RestartCount != 0 || !*st.Started {
		t.Fatalf("%+v", st)
	}
}

// #127793: while a pod is set up again in a new sandbox its phase is Pending.
func TestPhaseWhileInitializedAgain(t *testing.T) {
	w := newWorld(t, newPod(v1.RestartPolicyAlways, "i", "s", "m"))
	w.run = func(n string, _ uint32) behaviour {
		return either(n == "i", behaviour{d: 5 * time.Second}, behaviour{})
	}
	w.step(Tick{})
	w.until(20 * time.Second)
	if w.status().Phase != v1.PodRunning {
		t.Fatal(w.status().Phase)
	}
	w.loseSandbox()
	w.until(22 * time.Second)
	if st := w.status(); st.Phase != v1.PodPending || st.InitContainerStatuses[0].State.Running == nil {
		t.Fatalf("%s %+v", st.Phase, st.InitContainerStatuses[0])
	}
	w.restart(nil)
	if st := w.status(); st.Phase != v1.PodPending {
		t.Fatalf("after a restart: %s", st.Phase)
	}
	w.until(time.Minute)
	if w.status().Phase != v1.PodRunning {
		t.Fatal(w.status().Phase)
	}
}

// #108537: the init containers of a pod that runs are gone from the runtime, and its status from everywhere (a static pod's, without its
// mirror): they have ended well, or it would not run, and they are not run again.
func TestInitContainersThatAreNowhereHaveEndedWell(t *testing.T) {
	w := newWorld(t, newPod(v1.RestartPolicyAlways, "i", "m"))
	w.run = func(n string, _ uint32) behaviour {
		return either(n == "i", behaviour{d: time.Second}, behaviour{})
	}
	w.step(Tick{})
	w.until(10 * time.Second)
	delete(w.cons, "i-0")
	bare := w.state.Pod.DeepCopy()
	bare.Status = v1.PodStatus{}
	w.queue = nil
	w.state = Restore(w.cfg, bare, nil, w.observe(), w.now)
	w.step(Desired{Pod: bare})
	w.until(30 * time.Second)
	st := w.cstatus("i")
	if len(starts(w, "i")) != 1 || st.State.Terminated == nil || st.State.Terminated.ExitCode != 0 || w.status().Phase != v1.PodRunning || ready(w) != v1.ConditionTrue {
		t.Fatalf("%+v %s\n%s", st, w.status().Phase, w.tail())
	}
}

// #126543: an init container that the runtime created and for once could not start is started, whatever the policy.
func TestInitContainerThatCouldNotBeStartedOnce(t *testing.T) {
	for _, policy := range []v1.RestartPolicy{v1.RestartPolicyAlways, v1.RestartPolicyOnFailure} {
		w := newWorld(t, newPod(policy, "i", "m"))
		failed := false
		w.fail = func(e Effect) *Failure {
			if x, ok := e.(StartContainer); ok && x.Container == "i" && !failed {
				failed = true
				return &Failure{Reason: "RunContainerError", Message: "context deadline exceeded", Unsure: true}
			}
			return nil
		}
		w.run = func(n string, _ uint32) behaviour {
			return either(n == "i", behaviour{d: time.Second}, behaviour{})
		}
		w.step(Tick{})
		w.until(time.Minute)
		if w.status().Phase != v1.PodRunning || w.cstatus("m").State.Running == nil {
			t.Fatalf("%s: %s\n%s", policy, w.status().Phase, w.tail())
		}
	}
}

// #122902: a sidecar's readiness is the pod's, whatever the policy.
func TestSidecarsReadinessCounts(t *testing.T) {
	for _, policy := range []v1.RestartPolicy{v1.RestartPolicyAlways, v1.RestartPolicyOnFailure, v1.RestartPolicyNever} {
		p := newPod(policy, "s", "m")
		p.Spec.InitContainers[0].ReadinessProbe = &v1.Probe{}
		w := newWorld(t, p)
		w.step(Tick{})
		w.until(time.Second)
		if w.status().Phase != v1.PodRunning || ready(w) != v1.ConditionFalse {
			t.Fatalf("%s: %s, ready %s", policy, w.status().Phase, ready(w))
		}
		w.step(ProbeTurned{Container: "s", ID: "s-0", Probe: Readiness, OK: true})
		if ready(w) != v1.ConditionTrue {
			t.Fatalf("%s: ready %s", policy, ready(w))
		}
		w.exit("s-0", 1, "")
		w.step(Observation{Observed: w.observe()})
		if ready(w) != v1.ConditionFalse {
			t.Fatalf("%s: ready without its sidecar", policy)
		}
	}
}

// #115817, #117373: a hook that hangs and a process that ignores TERM take the grace together, not each, plus the two seconds that every
// container has from TERM.
func TestHookAndProcessShareTheGrace(t *testing.T) {
	p := newPod(v1.RestartPolicyAlways, "m")
	p.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PreStop: &v1.LifecycleHandler{}}
	w := newWorld(t, p)
	w.run = func(string, uint32) behaviour { return behaviour{deaf: true} }
	w.delay = func(e Effect) time.Duration {
		if x, ok := e.(RunHook); ok {
			return x.Limit // the worker cuts it off
		}
		return 0
	}
	w.step(Tick{})
	w.until(time.Second)
	w.step(Desired{Pod: deleting(p, w.now, 20)})
	w.until(time.Minute)
	i := slices.IndexFunc(w.trace, func(l string) bool { return strings.Contains(l, " exit m-0 137") })
	if i < 0 || !strings.HasPrefix(w.trace[i], "+23.") && !strings.HasPrefix(w.trace[i], "+21.") {
		t.Fatalf("%s", w.tail())
	}
}

// #127339: a deletion by force does not wait for a hook that is running already.
func TestForceCutsAHookShort(t *testing.T) {
	p := newPod(v1.RestartPolicyAlways, "m")
	long := int64(3600)
	p.Spec.TerminationGracePeriodSeconds = &long
	p.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PreStop: &v1.LifecycleHandler{}}
	w := newWorld(t, p)
	w.delay = func(e Effect) time.Duration {
		if _, ok := e.(RunHook); ok {
			return time.Hour
		}
		return 0
	}
	w.step(Tick{})
	w.until(time.Second)
	w.step(Desired{Pod: deleting(p, w.now, 3600)})
	w.until(10 * time.Second)
	w.step(SourceRemoved{})
	w.until(20 * time.Second)
	if w.cons["m-0"] != nil && w.cons["m-0"].State == InstanceRunning {
		t.Fatalf("it still runs\n%s", w.tail())
	}
}

// #78733, #125397, #135795: what is ready stays so while the kubelet restarts, and what is not ready does not become so for a moment.
func TestReadinessOverARestart(t *testing.T) {
	for _, was := range []bool{true, false} {
		p := newPod(v1.RestartPolicyAlways, "s", "m")
		for _, c := range []*v1.Container{&p.Spec.InitContainers[0], &p.Spec.Containers[0]} {
			c.StartupProbe, c.ReadinessProbe = &v1.Probe{}, &v1.Probe{}
		}
		w := newWorld(t, p)
		w.step(Tick{})
		for _, c := range []string{"s", "m"} {
			w.until(w.now.Add(time.Second).Sub(epoch))
			w.step(ProbeTurned{Container: c, ID: c + "-0", Probe: Startup, OK: true})
			w.step(ProbeTurned{Container: c, ID: c + "-0", Probe: Readiness, OK: was})
		}
		w.until(5 * time.Second)
		want := either(was, v1.ConditionTrue, v1.ConditionFalse)
		w.after = func() {
			if ready(w) != want {
				t.Fatalf("ready turned %s\n%s", ready(w), w.tail())
			}
		}
		w.restart(nil)
		w.until(10 * time.Second)
		w.restart(nil)
		w.until(20 * time.Second)
	}
}

// #98718: containers of a pod whose time is over are told as ended, by what they ended with, before its phase says that it has failed.
func TestContainersPastTheDeadlineHaveEnded(t *testing.T) {
	p := newPod(v1.RestartPolicyAlways, "s", "m")
	limit := int64(5)
	p.Spec.ActiveDeadlineSeconds = &limit
	w := newWorld(t, p)
	w.run = func(string, uint32) behaviour { return behaviour{deaf: true} }
	w.after = func() {
		if w.status().Phase == v1.PodFailed && (w.cstatus("m").State.Terminated == nil || w.cstatus("s").State.Terminated == nil) {
			t.Fatalf("it has failed and runs\n%s", w.tail())
		}
	}
	w.step(Tick{})
	w.until(2 * time.Minute)
	st := w.status()
	if st.Phase != v1.PodFailed || st.Reason != "DeadlineExceeded" || w.cstatus("m").State.Terminated.ExitCode != 137 {
		t.Fatalf("%s %s %+v", st.Phase, st.Reason, w.cstatus("m"))
	}
}

// #104107, #122160: a pod that was evicted says what its containers ended with.
func TestEvictedPodsTellTheirEnd(t *testing.T) {
	w := newWorld(t, newPod(v1.RestartPolicyNever, "m"))
	w.run = func(string, uint32) behaviour { return behaviour{deaf: true} }
	w.step(Tick{})
	w.until(time.Second)
	grace := time.Second
	w.step(StopAsked{Why: Evicted, Reason: "Evicted", Message: "The node was low on resource: memory. ", Grace: &grace})
	w.restart(nil) // also when the kubelet ends meanwhile
	w.until(time.Minute)
	st := w.status()
	end := w.cstatus("m").State.Terminated
	if st.Phase != v1.PodFailed || st.Reason != "Evicted" || end == nil || end.Reason == reasonUnknown || end.ExitCode != 137 {
		t.Fatalf("%s %s %+v", st.Phase, st.Reason, end)
	}
	if c := condition(st, v1.DisruptionTarget); c == nil || c.Status != v1.ConditionTrue || c.Reason != v1.PodReasonTerminationByKubelet {
		t.Fatalf("%+v", st.Conditions)
	}
}

// #115331, #125050: a pod that is deleted before it was ever started, for its image is nowhere, goes at once and was not a success.
func TestDeletedWhileItsImageIsMissing(t *testing.T) {
	p := newPod(v1.RestartPolicyAlways, "m")
	w := newWorld(t, p)
	w.fail = func(e Effect) *Failure {
		if _, ok := e.(PullImage); ok {
			return &Failure{Reason: "ErrImagePull", Message: "not found"}
		}
		return nil
	}
	w.step(Tick{})
	w.until(time.Second)
	if c := w.cstatus("m"); c.State.Waiting.Reason != "ErrImagePull" {
		t.Fatalf("%+v", c)
	}
	w.step(Desired{Pod: deleting(p, w.now, 30)})
	w.until(2 * time.Second)
	st := w.status()
	if w.state.Stage != Finished || st.Phase != v1.PodFailed {
		t.Fatalf("%s %s", w.state.Stage, st.Phase)
	}
	for _, kind := range []v1.PodConditionType{v1.PodReady, v1.ContainersReady} { // it is not that it failed which kept it from being ready
		if c := condition(st, kind); c.Reason != "ContainersNotReady" || c.Message != "containers with unready status: [m]" {
			t.Errorf("%+v", c)
		}
	}
	w.restart(nil)
	w.until(3 * time.Second)
	if again := w.status(); !equality.Semantic.DeepEqual(again, st) {
		t.Errorf("after a restart: %+v", again)
	}
}

// What kept a container from its start does so no more once its pod is being deleted.
func TestWhatWaitsWhileItsPodIsDeletedWaitsForNothing(t *testing.T) {
	p := newPod(v1.RestartPolicyAlways, "a", "b")
	w := newWorld(t, p)
	w.run = func(string, uint32) behaviour { return behaviour{deaf: true} }
	w.fail = func(e Effect) *Failure {
		if x, ok := e.(PullImage); ok && x.Container == "a" {
			return &Failure{Reason: "ErrImagePull", Message: "not found"}
		}
		return nil
	}
	w.step(Tick{})
	w.until(time.Second)
	w.step(Desired{Pod: deleting(p, w.now, 30)})
	if c := w.cstatus("a"); w.state.Stage != Stopping || c.State.Waiting == nil || *c.State.Waiting != (v1.ContainerStateWaiting{Reason: "ContainerCreating"}) {
		t.Fatalf("%s %+v", w.state.Stage, c)
	}
}

// #8878: a pod that has ended stays as it is when its sandbox is lost and the kubelet restarts: nothing of it runs again.
func TestEndedPodsAreNotRunAgainAfterAReboot(t *testing.T) {
	for _, policy := range []v1.RestartPolicy{v1.RestartPolicyNever, v1.RestartPolicyOnFailure} {
		w := newWorld(t, newPod(policy, "i", "m"))
		w.run = func(string, uint32) behaviour { return behaviour{d: time.Second} }
		w.step(Tick{})
		w.until(10 * time.Second)
		if w.status().Phase != v1.PodSucceeded {
			t.Fatal(w.status().Phase)
		}
		w.boxes, w.cons, w.saved = nil, map[string]*Instance{}, nil
		w.restart(nil)
		w.until(time.Minute)
		if len(starts(w, "i")) != 1 || len(starts(w, "m")) != 1 || w.status().Phase != v1.PodSucceeded {
			t.Fatalf("%s: %s\n%s", policy, w.status().Phase, w.tail())
		}
	}
}

// What a restart rule of a container says goes before the pod's policy, both ways, and other codes are the policy's.
func TestRulesGoBeforeThePolicy(t *testing.T) {
	never := v1.ContainerRestartPolicyNever
	p := newPod(v1.RestartPolicyAlways, "m", "n")
	p.Spec.Containers[0].RestartPolicy = &never
	p.Spec.Containers[0].RestartPolicyRules = []v1.ContainerRestartRule{{
		Action:    v1.ContainerRestartRuleActionRestart,
		ExitCodes: &v1.ContainerRestartRuleOnExitCodes{Operator: v1.ContainerRestartRuleOnExitCodesOpNotIn, Values: []int32{0, 7}},
	}}
	w := newWorld(t, p)
	w.run = func(n string, attempt uint32) behaviour {
		if n != "m" {
			return behaviour{}
		}
		return behaviour{d: time.Second, code: []int32{3, 7}[min(attempt, 1)]}
	}
	w.step(Tick{})
	w.until(10 * time.Minute)
	if got := starts(w, "m"); len(got) != 2 {
		t.Fatalf("started at %v", got)
	}
	st := w.status()
	if end := w.cstatus("m").State.Terminated; end == nil || end.ExitCode != 7 || st.Phase != v1.PodRunning {
		t.Fatalf("%+v %s", w.cstatus("m"), st.Phase)
	}
	if i := slices.IndexFunc(st.Conditions, func(c v1.PodCondition) bool { return c.Type == v1.PodReady }); st.Conditions[i].Message != "containers with unready status: [m]" {
		t.Fatalf("%+v", st.Conditions[i])
	}
}

// #118321: the sandbox is lost between a container's creation and its start. It has never run, so that it runs in the next sandbox whatever
// the policy; what init containers did is done again there.
func TestSandboxLostBetweenCreateAndStart(t *testing.T) {
	for _, policy := range []v1.RestartPolicy{v1.RestartPolicyNever, v1.RestartPolicyOnFailure, v1.RestartPolicyAlways} {
		for _, init := range []bool{false, true} {
			p := newPod(policy, either(init, []string{"i", "m"}, []string{"m"})...)
			first := either(init, "i", "m")
			w := newWorld(t, p)
			w.delay = func(e Effect) time.Duration {
				if x, ok := e.(StartContainer); ok && x.Container == first && x.ID == first+"-0" {
					return time.Second
				}
				return 0
			}
			w.run = func(n string, _ uint32) behaviour { return either(n == "i", behaviour{d: time.Second}, behaviour{}) }
			w.step(Tick{})
			w.until(500 * time.Millisecond)
			if c := w.state.Container(first); c.Stage != Launching {
				t.Fatalf("%s is %s", first, c.Stage)
			}
			w.queue = slices.DeleteFunc(w.queue, func(p pending) bool { _, ok := p.effect.(StartContainer); return ok })
			for _, b := range w.boxes {
				b.Ready = false
			}
			w.restart(nil)
			w.until(10 * time.Minute)
			if st := w.status(); st.Phase != v1.PodRunning || w.cstatus("m").State.Running == nil {
				t.Fatalf("%s: %s %+v\n%s", policy, st.Phase, w.cstatus("m"), w.tail())
			}
		}
	}
}

// #51142: a container that ended well and was removed by somebody is not run again beside another one that still runs, also for a kubelet
// that comes back.
func TestEndedContainersThatAreGoneStayEnded(t *testing.T) {
	for _, policy := range []v1.RestartPolicy{v1.RestartPolicyNever, v1.RestartPolicyOnFailure} {
		w := newWorld(t, newPod(policy, "m", "n"))
		w.run = func(n string, _ uint32) behaviour { return either(n == "m", behaviour{d: time.Second}, behaviour{}) }
		w.step(Tick{})
		w.until(10 * time.Second)
		delete(w.cons, "m-0")
		w.step(Observation{Observed: w.observe()})
		w.until(20 * time.Second)
		w.restart(nil)
		w.until(time.Minute)
		if end := w.cstatus("m").State.Terminated; len(starts(w, "m")) != 1 || end == nil || end.ExitCode != 0 {
			t.Fatalf("%s: %v %+v\n%s", policy, starts(w, "m"), w.cstatus("m"), w.tail())
		}
	}
}

// #104454: an init container of which a process was killed for memory has failed, also when its first process ends with 0: what comes after
// it is not started, and it is run again where failures are.
func TestInitContainerThatLostAProcessToMemory(t *testing.T) {
	for _, policy := range []v1.RestartPolicy{v1.RestartPolicyNever, v1.RestartPolicyOnFailure, v1.RestartPolicyAlways} {
		w := newWorld(t, newPod(policy, "i", "m"))
		w.prober = true // the API takes what it is told
		w.run = func(n string, attempt uint32) behaviour {
			return either(n == "i" && attempt > 0, behaviour{d: time.Second}, behaviour{})
		}
		w.step(Tick{})
		w.until(time.Second)
		w.exit("i-0", 0, "OOMKilled")
		clear(w.done) // the model takes 0 for the end of its work
		w.step(Observation{Observed: w.observe()})
		if len(starts(w, "m")) != 0 {
			t.Fatalf("%s: %s", policy, w.tail())
		}
		w.until(time.Minute)
		st := w.status()
		if policy == v1.RestartPolicyNever {
			if st.Phase != v1.PodFailed || w.cstatus("i").State.Terminated.Reason != "OOMKilled" || len(starts(w, "m")) != 0 {
				t.Fatalf("%s %+v\n%s", st.Phase, w.cstatus("i"), w.tail())
			}
			continue
		}
		if st.Phase != v1.PodRunning || w.cstatus("i").RestartCount != 1 || ready(w) != v1.ConditionTrue {
			t.Fatalf("%s: %s %+v\n%s", policy, st.Phase, w.cstatus("i"), w.tail())
		}
	}
}

// #119838: containers that are given other resources while they are in back-off run at once with these, and the waits begin
// anew.
func TestBackOffEndsWithOtherResources(t *testing.T) {
	p := newPod(v1.RestartPolicyAlways, "m")
	p.Spec.Containers[0].Resources = resources("100m", "1Mi")
	w := newWorld(t, p)
	w.run = func(_ string, attempt uint32) behaviour {
		return either(attempt < 5, behaviour{d: time.Second, code: 137}, behaviour{})
	}
	w.step(Tick{})
	w.until(2 * time.Minute)
	before := w.cstatus("m")
	if before.State.Waiting == nil || before.State.Waiting.Reason != "CrashLoopBackOff" || before.RestartCount != 4 {
		t.Fatalf("%+v\n%s", before, w.tail())
	}
	w.full = func(*v1.Pod) string { return "no room" }
	w.step(Desired{Pod: asks(p, 0, resources("100m", "2Mi"))})
	w.until(121 * time.Second)
	if st := w.cstatus("m"); st.State.Waiting == nil {
		t.Fatalf("it runs with what it was not granted: %+v", st)
	}
	w.full = nil
	w.step(w.allocate())
	w.until(122 * time.Second)
	if st := w.cstatus("m"); st.State.Running == nil || st.RestartCount != 5 {
		t.Fatalf("%+v\n%s", st, w.tail())
	}
}

// An init container that ended well and was removed does not run again for a kubelet that comes back while a later one runs, whether the
// API tells how it ended or nobody knows of it.
func TestInitContainersBeforeOneThatRunsHavePassed(t *testing.T) {
	for what, back := range map[string]func(*world){
		"told": func(w *world) { w.restart(nil) },
		"not told": func(w *world) {
			bare := w.state.Pod.DeepCopy()
			bare.Status = v1.PodStatus{}
			w.queue = nil
			w.state = Restore(w.cfg, bare, nil, w.observe(), w.now)
			w.step(Desired{Pod: bare})
		},
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t, newPod(v1.RestartPolicyAlways, "i0", "i1", "m"))
			w.run = func(n string, _ uint32) behaviour {
				return map[string]behaviour{"i0": {d: time.Second}, "i1": {d: 20 * time.Second}}[n]
			}
			w.step(Tick{})
			w.until(10 * time.Second)
			delete(w.cons, "i0-0")
			back(w)
			w.until(time.Minute)
			if len(starts(w, "i0")) != 1 || len(starts(w, "i1")) != 1 || w.status().Phase != v1.PodRunning || ready(w) != v1.ConditionTrue {
				t.Fatalf("i0 at %v, i1 at %v, %s\n%s", starts(w, "i0"), starts(w, "i1"), w.status().Phase, w.tail())
			}
		})
	}
}

// A phase that somebody else made terminal is final: what runs is stopped with its grace and does not run again, before and after a restart
// of the kubelet. (PR #102344)
func TestOthersEndAPod(t *testing.T) {
	for _, phase := range []v1.PodPhase{v1.PodFailed, v1.PodSucceeded} {
		p := newPod(v1.RestartPolicyAlways, "s", "m")
		w := newWorld(t, p)
		w.run = func(n string, _ uint32) behaviour { return behaviour{deaf: n == "m"} }
		w.step(Tick{})
		w.until(time.Second)
		told := p.DeepCopy()
		told.Status = w.status()
		told.Status.Phase, told.Status.Reason = phase, "Mine"
		w.step(Desired{Pod: told})
		w.until(25 * time.Second)
		if st := w.cstatus("m"); st.State.Running == nil {
			t.Fatalf("it had no grace: %+v", st)
		}
		w.until(2 * time.Minute)
		w.restart(nil)
		w.until(3 * time.Minute)
		st := w.status()
		if w.state.Stage != Finished || w.cstatus("m").State.Terminated == nil || w.cstatus("s").State.Terminated == nil ||
			len(starts(w, "m")) != 1 || st.Phase != phase || st.Reason != "Mine" {
			t.Fatalf("%s %s %s\n%s", w.state.Stage, st.Phase, st.Reason, w.tail())
		}
	}
}

// What a container ended with before is told after a restart of the kubelet too, though its instance is gone from the runtime: the API knows
// it. The next end takes its place.
func TestLastStateOutlivesItsInstance(t *testing.T) {
	w := newWorld(t, newPod(v1.RestartPolicyAlways, "m"))
	w.run = func(_ string, attempt uint32) behaviour {
		return either(attempt == 0, behaviour{d: time.Second, code: 7}, behaviour{})
	}
	w.step(Tick{})
	w.until(10 * time.Second)
	before := w.cstatus("m").LastTerminationState.Terminated
	delete(w.cons, "m-0")
	for range 2 {
		w.restart(nil)
		w.until(w.now.Add(10 * time.Second).Sub(epoch))
		if st := w.cstatus("m"); st.LastTerminationState.Terminated == nil || *st.LastTerminationState.Terminated != *before || before.ExitCode != 7 || st.RestartCount != 1 {
			t.Fatalf("%+v, before %+v", st, before)
		}
	}
	w.exit("m-1", 9, "")
	w.step(Observation{Observed: w.observe()})
	w.until(w.now.Add(time.Minute).Sub(epoch))
	if st := w.cstatus("m"); st.RestartCount != 2 || st.LastTerminationState.Terminated.ExitCode != 9 {
		t.Fatalf("%+v\n%s", st, w.tail())
	}
}

// #60053, #122803: a postStart hook that a restart of the kubelet cut off, or came before, is run; one that has ended well is not run again.
func TestPostStartOverARestart(t *testing.T) {
	for _, took := range []time.Duration{time.Second, time.Minute} {
		p := newPod(v1.RestartPolicyAlways, "m")
		p.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PostStart: &v1.LifecycleHandler{}}
		w := newWorld(t, p)
		hooks := 0
		w.delay = func(e Effect) time.Duration {
			if _, ok := e.(RunHook); ok {
				hooks++
				return took
			}
			return 0
		}
		w.step(Tick{})
		w.until(10 * time.Second)
		w.restart(nil)
		w.until(11 * time.Second)
		if st := w.cstatus("m"); *st.Started != (took == time.Second) || st.Ready != *st.Started {
			t.Errorf("%s: %+v", took, st)
		}
		w.until(2 * time.Minute)
		if st := w.cstatus("m"); hooks != either(took == time.Second, 1, 2) || !st.Ready || len(starts(w, "m")) != 1 {
			t.Errorf("%s: %d hooks, %+v\n%s", took, hooks, st, w.tail())
		}
	}
}

// #81450, and what service meshes count on: a main container starts when the postStart hooks of those before it have ended. One whose image
// is nowhere, or that the runtime does not start, holds up nobody.
func TestPostStartHoldsUpTheContainersAfterIt(t *testing.T) {
	for _, fault := range []string{"", "PullImage", "StartContainer"} {
		p := newPod(v1.RestartPolicyAlways, "m0", "m1", "m2")
		p.Spec.Containers[1].Lifecycle = &v1.Lifecycle{PostStart: &v1.LifecycleHandler{}}
		w := newWorld(t, p)
		w.delay = func(e Effect) time.Duration {
			if _, ok := e.(RunHook); ok {
				return 20 * time.Second
			}
			return 0
		}
		w.fail = func(e Effect) *Failure {
			if Name(e) == fault && strings.Contains(e.Key(), "m1") {
				return &Failure{Reason: either(fault == "PullImage", "ErrImagePull", "RunContainerError"), Message: "no"}
			}
			return nil
		}
		w.step(Tick{})
		w.until(10 * time.Second)
		if st := w.cstatus("m2"); w.cstatus("m0").State.Running == nil || (st.State.Running != nil) != (fault != "") {
			t.Errorf("%s fails: %+v\n%s", fault, st, w.tail())
		}
		w.until(30 * time.Second)
		if st := w.cstatus("m2"); st.State.Running == nil {
			t.Errorf("%s fails: %+v\n%s", fault, st, w.tail())
		}
	}
}

// PR #99748: a static pod, of which nobody else remembers anything, counts on when the runtime has lost its data: its logs say how often its
// containers have run, and are not written on.
func TestRestartsAreCountedByLogs(t *testing.T) {
	p := newPod(v1.RestartPolicyAlways, "i", "m")
	p.Annotations = map[string]string{"kubernetes.io/config.source": "file"}
	w := newWorld(t, p)
	w.run = func(name string, attempt uint32) behaviour {
		return behaviour{d: either(name == "i", time.Second, 0)}
	}
	w.step(Tick{})
	w.until(10 * time.Second)
	w.state = Restore(w.cfg, p, w.saved, Observed{At: w.now, Logged: map[string]uint32{"i": 0, "m": 4}}, w.now)
	w.boxes, w.cons, w.queue = nil, map[string]*Instance{}, nil
	w.step(Desired{Pod: p})
	w.until(time.Minute)
	if i, m := w.cstatus("i"), w.cstatus("m"); i.RestartCount != 1 || m.RestartCount != 5 || m.State.Running == nil {
		t.Errorf("%+v\n%+v\n%s", i, m, w.tail())
	}
}

// #69060: what the runtime does not know the state of may run. It is stopped, once, before it runs anew, whatever the policy, and a pod that is
// deleted goes; also when the kubelet comes back to it, and when the runtime does not know any better afterwards.
func TestAContainerOfUnknownState(t *testing.T) {
	for _, policy := range []v1.RestartPolicy{v1.RestartPolicyNever, v1.RestartPolicyAlways} {
		for _, back := range []bool{false, true} {
			for _, end := range []string{"", "deleted", "still unknown"} {
				w, deleted := newWorld(t, newPod(policy, "m")), end == "deleted"
				w.unsure = end == "still unknown"
				w.step(Tick{})
				w.until(10 * time.Second)
				in := *w.cons["m-0"]
				in.State, in.StartedAt, in.ExitCode, in.Reason = InstanceUnknown, time.Time{}, 255, "Unknown"
				w.cons["m-0"] = &in
				if back {
					w.restart(nil)
				} else {
					w.step(Observation{Observed: w.observe()})
				}
				if deleted {
					w.step(Desired{Pod: deleting(w.state.Pod, w.now, 30)})
				}
				w.until(2 * time.Minute)
				st := w.cstatus("m")
				what := fmt.Sprintf("%s, restarted %v, %s", policy, back, end)
				stops := 0
				for _, l := range w.trace {
					if strings.Contains(l, "do stop/m-0") {
						stops++
					}
				}
				switch {
				case stops != 1:
					t.Errorf("%s: stopped %d times\n%s", what, stops, w.tail())
				case deleted && w.state.Stage != Finished:
					t.Errorf("%s: %s\n%s", what, w.state.Stage, w.tail())
				case !deleted && (st.State.Running == nil || st.RestartCount != 1 || toldOf(w, "Killing") != 1):
					t.Errorf("%s: %+v\n%s", what, st, w.tail())
				}
			}
		}
	}
}

// Nor does a pod that has ended become another one by that.
func TestAnEndOfWhichTheRuntimeForgetsHow(t *testing.T) {
	w := newWorld(t, newPod(v1.RestartPolicyNever, "i", "m"))
	w.run = func(name string, _ uint32) behaviour {
		return behaviour{d: time.Second, code: either(name == "m", int32(3), 0)}
	}
	w.step(Tick{})
	w.until(10 * time.Second)
	before := w.status()
	for _, id := range []string{"i-0", "m-0"} {
		in := *w.cons[id]
		in.State, in.StartedAt, in.FinishedAt, in.ExitCode, in.Reason = InstanceUnknown, time.Time{}, time.Time{}, 255, "Unknown"
		w.cons[id] = &in
	}
	w.restart(nil)
	w.until(time.Minute)
	if st := w.status(); w.state.Stage != Finished || st.Phase != v1.PodFailed || !equality.Semantic.DeepEqual(st, before) {
		t.Errorf("%+v\nbefore %+v\n%s", st, before, w.tail())
	}
}

// Nor is there anything to be said of one that was to run again with all others, and of which the runtime has nothing.
func TestAnEndBeforeAllRanAgain(t *testing.T) {
	p := newPod(v1.RestartPolicyNever, "m")
	p.Status.ContainerStatuses = []v1.ContainerStatus{{
		Name: "m", RestartCount: 1, State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "PodInitializing"}},
		LastTerminationState: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: 137, Reason: reasonReset, Message: messageReset}},
	}}
	w := newWorld(t, p)
	saved := &Saved{
		Namespace: p.Namespace, Name: p.Name, UID: p.UID, Admitted: true, Final: v1.PodFailed, Released: true, Stop: Stop{Why: Evicted, Reason: "Evicted", At: epoch},
		Containers: []SavedContainer{{Name: "m", Attempt: 1, Reset: true}},
	}
	w.state = Restore(w.state.cfg, p, saved, Observed{At: epoch}, epoch)
	w.step(Tick{})
	if st := w.cstatus("m"); w.state.Stage != Finished || st.RestartCount != 1 || st.State.Running != nil {
		t.Errorf("%s: %+v\n%s", w.state.Stage, st, w.tail())
	}
}

// A pod may have an ephemeral container added after it has ended. It is never made: the last status stays, which upstream's kubelet does not
// touch any more either. Somebody who waited for the container would wait for ever otherwise, and see why nowhere.
func TestWhatIsAddedToAPodThatHasEnded(t *testing.T) {
	p := newPod(v1.RestartPolicyNever, "m")
	w := newWorld(t, p)
	w.run = func(string, uint32) behaviour { return behaviour{d: time.Second} }
	w.step(Tick{})
	w.until(time.Minute)
	before := w.status()
	p = p.DeepCopy()
	p.Generation++
	p.Spec.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "e", Image: "img"}}}
	w.step(Desired{Pod: p})
	w.until(2 * time.Minute)
	if st := w.status(); st.Phase != v1.PodSucceeded || w.state.Stage != Finished || !equality.Semantic.DeepEqual(st, before) {
		t.Fatalf("%s %+v", w.state.Stage, st)
	}
}

// The deadline of a pod may pass while it is being deleted, or while its sidecars end. Then it has failed for that, as upstream tells it
// (Jobs look at such a pod, which their finalizer keeps). A cause that the status names is not replaced.
func TestADeadlineThatPassesDuringTheEnd(t *testing.T) {
	for name, tc := range map[string]struct {
		end    func(w *world, p *v1.Pod)
		reason string
	}{
		"deleted": {func(w *world, p *v1.Pod) {
			p = p.DeepCopy()
			p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{Time: w.now}, new(int64(30))
			w.step(Desired{Pod: p})
		}, "DeadlineExceeded"},
		"completed": {func(w *world, _ *v1.Pod) { w.exit("m-0", 0, "Completed"); w.step(Observation{Observed: w.observe()}) }, "DeadlineExceeded"},
		"evicted": {func(w *world, _ *v1.Pod) {
			w.step(StopAsked{Why: Evicted, Reason: "Evicted", Message: "no room"})
		}, "Evicted"},
		"ended by somebody else": {func(w *world, p *v1.Pod) {
			p = p.DeepCopy()
			p.Status.Phase, p.Status.Reason = v1.PodFailed, "Others"
			w.step(Desired{Pod: p})
		}, "Others"},
	} {
		p := newPod(v1.RestartPolicyNever, "s", "m")
		p.Spec.ActiveDeadlineSeconds = new(int64(60))
		w := newWorld(t, p)
		w.run = func(string, uint32) behaviour { return behaviour{deaf: true} }
		w.step(Tick{})
		w.until(50 * time.Second)
		tc.end(w, p)
		w.until(55 * time.Second)
		failed := tc.reason == "Others"
		if c := condition(w.status(), v1.PodReady); w.state.Stage != Stopping || (c.Reason == "PodFailed") != failed {
			t.Fatalf("%s: %s %+v", name, w.state.Stage, c)
		}
		w.until(61 * time.Second)
		failed = failed || tc.reason == "DeadlineExceeded"
		if c := condition(w.status(), v1.PodReady); w.state.Stage != Stopping || (c.Reason == "PodFailed") != failed {
			t.Errorf("%s: when it has passed: %+v", name, c)
		}
		w.until(3 * time.Minute)
		told := 0
		for _, e := range w.events {
			if e.Reason == "DeadlineExceeded" {
				told++
			}
		}
		if st := w.status(); st.Phase != v1.PodFailed || st.Reason != tc.reason || (told == 1) != (tc.reason == "DeadlineExceeded") || told > 1 {
			t.Errorf("%s: %s %q, told %d times", name, st.Phase, st.Reason, told)
		}
	}
}

// An ephemeral container never runs again (#124176), also not on a node that has lost all of its pod when nothing else of it had run: that it ran
// is known by its status.
func TestAnEphemeralContainerAloneHasRun(t *testing.T) {
	p := newPod(v1.RestartPolicyAlways, "m", "e")
	ended := v1.ContainerStatus{Name: "e", ContainerID: "containerd://e-0"}
	ended.State.Terminated = &v1.ContainerStateTerminated{ExitCode: 3, Reason: "Error", ContainerID: ended.ContainerID}
	if Ran(p) {
		t.Error("a new pod has run")
	}
	p.Status.EphemeralContainerStatuses = []v1.ContainerStatus{ended}
	if !Ran(p) {
		t.Error("its ephemeral container is not known to have run")
	}
	s := Restore(Defaults(), p, nil, Observed{At: epoch}, epoch)
	if c := s.Container("e"); c.Stage != Exited || c.Cur == nil || c.Cur.ExitCode != 3 {
		t.Errorf("restored as %v %+v", c.Stage, c.Cur)
	}
}
