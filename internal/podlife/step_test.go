package podlife

import (
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func starts(w *world, name string) (out []string) {
	for _, l := range w.trace {
		if at, what, _ := strings.Cut(l, " "); strings.HasPrefix(what, "run "+name+"-") {
			out = append(out, at)
		}
	}
	return out
}

// The first restart is at once, the second after 10 s, then doubling to 5 minutes; 10 minutes of running start over.
func TestCrashLoopTimes(t *testing.T) {
	w := newWorld(t, newPod(v1.RestartPolicyAlways, "m"))
	w.run = func(_ string, attempt uint32) behaviour {
		if attempt == 8 {
			return behaviour{d: 11 * time.Minute, code: 1}
		}
		return behaviour{d: time.Second, code: 1}
	}
	w.step(Tick{})
	w.until(15 * time.Second)
	st := w.cstatus("m")
	if st.State.Running == nil || st.RestartCount != 2 || st.LastTerminationState.Terminated == nil {
		w.until(13 * time.Second)
	}
	w.until(16 * time.Second)
	st = w.cstatus("m")
	want := "back-off 20s restarting failed container=m pod=p_ns(u1)"
	if st.State.Waiting == nil || st.State.Waiting.Reason != "CrashLoopBackOff" || st.State.Waiting.Message != want || st.RestartCount != 2 {
		t.Fatalf("at 16 s: %+v", st)
	}
	w.until(time.Hour)
	got := starts(w, "m")[:11]
	// attempt:      0         1         2          3          4          5           6           7           8            9 (reset: at once) 10
	wantAt := []string{"+0.000s", "+1.000s", "+12.000s", "+33.000s", "+74.000s", "+155.000s", "+316.000s", "+617.000s", "+918.000s", "+1578.000s", "+1589.000s"}
	if !slices.Equal(got, wantAt) {
		t.Fatalf("starts\n got %v\nwant %v", got, wantAt)
	}
}

// C03: a lost sandbox brings a new one, in which the init containers run again before the others.
func TestSandboxLost(t *testing.T) {
	w := newWorld(t, newPod(v1.RestartPolicyAlways, "i", "m"))
	w.run = func(n string, _ uint32) behaviour {
		if n == "i" {
			return behaviour{d: 2 * time.Second}
		}
		return behaviour{}
	}
	w.step(Tick{})
	w.until(10 * time.Second)
	if p := w.status().Phase; p != v1.PodRunning {
		t.Fatal(p)
	}
	w.loseSandbox()
	w.until(30 * time.Second)
	if got := starts(w, "i"); !slices.Equal(got, []string{"+0.000s", "+10.000s"}) {
		t.Fatalf("init ran at %v", got)
	}
	if got := starts(w, "m"); !slices.Equal(got, []string{"+2.000s", "+12.000s"}) {
		t.Fatalf("main ran at %v", got)
	}
	if st := w.cstatus("m"); st.RestartCount != 1 || st.LastTerminationState.Terminated == nil {
		t.Fatalf("%+v", st)
	}
	if !told(w, "SandboxChanged", "Pod sandbox changed, it will be killed and re-created.") {
		t.Fatal("no event")
	}
}

func told(w *world, reason, message string) bool {
	return slices.ContainsFunc(w.events, func(e Tell) bool { return e.Reason == reason && e.Message == message })
}

// C13: a command that cannot start fails a Never pod without a restart, and is backed off under OnFailure.
func TestCommandCannotStart(t *testing.T) {
	w := newWorld(t, newPod(v1.RestartPolicyNever, "m"))
	w.run = func(string, uint32) behaviour { return behaviour{noStart: true} }
	w.step(Tick{})
	w.until(time.Minute)
	st := w.cstatus("m")
	if w.status().Phase != v1.PodFailed || st.RestartCount != 0 || st.State.Terminated == nil || st.State.Terminated.ExitCode != 128 ||
		st.State.Terminated.Reason != "StartError" {
		t.Fatalf("%s %+v", w.status().Phase, st)
	}

	w = newWorld(t, newPod(v1.RestartPolicyOnFailure, "m"))
	w.run = func(string, uint32) behaviour { return behaviour{noStart: true} }
	w.step(Tick{})
	w.until(5 * time.Second)
	st = w.cstatus("m")
	if w.status().Phase != v1.PodRunning || st.State.Waiting == nil || st.State.Waiting.Reason != "CrashLoopBackOff" || st.RestartCount != 1 {
		t.Fatalf("%s %+v", w.status().Phase, st)
	}
}

// C05: sidecars stop after the main containers, the last first, all within one deadline.
func TestSidecarsStopInReverse(t *testing.T) {
	w := newWorld(t, newPod(v1.RestartPolicyNever, "s1", "s2", "m"))
	w.run = func(n string, _ uint32) behaviour {
		if n == "m" {
			return behaviour{d: 5 * time.Second}
		}
		return behaviour{}
	}
	w.delay = func(e Effect) time.Duration {
		if _, ok := e.(StopContainer); ok {
			return 2 * time.Second
		}
		return 0
	}
	w.step(Tick{})
	w.until(time.Minute)
	var got []string
	for _, l := range w.trace {
		if strings.Contains(l, " exit ") {
			got = append(got, l)
		}
	}
	if want := []string{"+5.000s exit m-0 0", "+7.000s exit s2-0 143", "+9.000s exit s1-0 143"}; !slices.Equal(got, want) {
		t.Fatalf("got %v", got)
	}
	if w.status().Phase != v1.PodSucceeded {
		t.Fatalf("sidecars' exit codes do not count: %s", w.status().Phase)
	}
}

// C07: a sidecar that fails its startup probe under Never is restarted, and the pod stays Pending.
func TestSidecarStartupProbe(t *testing.T) {
	p := newPod(v1.RestartPolicyNever, "s", "m")
	p.Spec.InitContainers[0].StartupProbe = &v1.Probe{}
	w := newWorld(t, p)
	w.step(Tick{})
	w.until(time.Second)
	w.step(ProbeTurned{Container: "s", ID: "s-0", Probe: Startup})
	w.until(3 * time.Second)
	w.step(ProbeTurned{Container: "s", ID: "s-1", Probe: Startup})
	w.until(5 * time.Second)
	if st := w.cstatus("s"); st.RestartCount != 1 || st.State.Waiting == nil || st.State.Waiting.Reason != "CrashLoopBackOff" {
		t.Fatalf("%+v", st)
	}
	if w.status().Phase != v1.PodPending {
		t.Fatal(w.status().Phase)
	}
	if !told(w, "Killing", "Init container s failed startup probe") {
		t.Fatal("no event")
	}
	w.until(20 * time.Second)
	w.step(ProbeTurned{Container: "s", ID: "s-2", Probe: Startup, OK: true})
	w.until(21 * time.Second)
	if w.status().Phase != v1.PodRunning {
		t.Fatal(w.status().Phase)
	}
}

// C09: while the pod terminates readiness still counts and liveness does not.
func TestProbesDuringTermination(t *testing.T) {
	p := newPod(v1.RestartPolicyAlways, "m")
	p.Spec.Containers[0].ReadinessProbe, p.Spec.Containers[0].LivenessProbe = &v1.Probe{}, &v1.Probe{}
	w := newWorld(t, p)
	w.run = func(string, uint32) behaviour { return behaviour{deaf: true} }
	w.step(Tick{})
	w.until(time.Second)
	if ready(w) != v1.ConditionFalse {
		t.Fatal("ready before the first probe")
	}
	w.step(ProbeTurned{Container: "m", ID: "m-0", Probe: Readiness, OK: true})
	if ready(w) != v1.ConditionTrue {
		t.Fatal("not ready")
	}
	w.step(Desired{Pod: deleting(p, w.now, 40)})
	w.restart(nil) // whoever comes back goes on asking, see checkProbes
	w.until(3 * time.Second)
	w.step(ProbeTurned{Container: "m", ID: "m-0", Probe: Readiness})
	w.step(ProbeTurned{Container: "m", ID: "m-0", Probe: Liveness})
	if ready(w) != v1.ConditionFalse {
		t.Fatal("still ready")
	}
	w.until(45 * time.Second)
	if len(starts(w, "m")) != 1 || w.state.Stage != Finished {
		t.Fatalf("%v %s", starts(w, "m"), w.state.Stage)
	}
}

func ready(w *world) v1.ConditionStatus {
	for _, c := range w.status().Conditions {
		if c.Type == v1.PodReady {
			return c.Status
		}
	}
	return ""
}

func deleting(p *v1.Pod, now time.Time, grace int64) *v1.Pod {
	p = p.DeepCopy()
	t := metav1.NewTime(now)
	p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &t, &grace
	return p
}

// A grace can be cut short, never drawn out; TERM is sent again only when there is less time.
func TestGraceOnlyShrinks(t *testing.T) {
	p := newPod(v1.RestartPolicyAlways, "m")
	w := newWorld(t, p)
	w.run = func(string, uint32) behaviour { return behaviour{deaf: true} }
	w.step(Tick{})
	w.until(time.Second)
	w.step(Desired{Pod: deleting(p, w.now, 100)})
	w.until(5 * time.Second)
	w.step(Desired{Pod: deleting(p, w.now, 500)})
	w.step(Desired{Pod: deleting(p, w.now, 10)})
	w.until(20 * time.Second)
	var stops []string
	for _, l := range w.trace {
		if strings.Contains(l, "do stop/") || strings.Contains(l, " exit ") {
			stops = append(stops, l)
		}
	}
	want := []string{
		"+1.000s do stop/m-0/1m40s {Container:m ID:m-0 Grace:1m40s}", "+5.000s do stop/m-0/10s {Container:m ID:m-0 Grace:10s}", "+15.000s exit m-0 137",
	}
	if !slices.Equal(stops, want) {
		t.Fatalf("got %v", stops)
	}
	if st := w.cstatus("m"); st.State.Terminated == nil || st.State.Terminated.ExitCode != 137 || w.status().Phase != v1.PodFailed {
		t.Fatalf("%+v", st)
	}
}

// ErrImagePull turns into ImagePullBackOff, 10 s doubling; once it succeeds nothing of it is left.
func TestImagePullBackOff(t *testing.T) {
	w := newWorld(t, newPod(v1.RestartPolicyAlways, "m"))
	bad := true
	w.fail = func(e Effect) *Failure {
		if _, ok := e.(PullImage); ok && bad {
			return &Failure{Reason: "ErrImagePull", Message: "not found"}
		}
		return nil
	}
	w.step(Tick{})
	if got := w.cstatus("m").State.Waiting; got.Reason != "ContainerCreating" {
		t.Fatal(got)
	}
	w.until(time.Second)
	if got := w.cstatus("m").State.Waiting; got.Reason != "ErrImagePull" || got.Message != "not found" {
		t.Fatal(got)
	}
	w.until(5 * time.Second)
	if got := w.cstatus("m").State.Waiting; got.Reason != "ImagePullBackOff" || got.Message != `Back-off pulling image "img": ErrImagePull: not found` {
		t.Fatal(got)
	}
	w.until(40 * time.Second)
	bad = false
	w.until(71 * time.Second)
	var pulls []string
	for _, l := range w.trace {
		if strings.HasSuffix(l, "do container/m {Container:m}") {
			pulls = append(pulls, strings.Fields(l)[0])
		}
	}
	if !slices.Equal(pulls, []string{"+0.000s", "+10.000s", "+30.000s", "+70.000s"}) {
		t.Fatal(pulls)
	}
	if w.cstatus("m").State.Running == nil {
		t.Fatal(w.cstatus("m"))
	}
}

// So does the image of a volume: its waits are its own, and those of a container whose image is there.
func TestBackOffOfAMountedImage(t *testing.T) {
	w := newWorld(t, newPod(v1.RestartPolicyAlways, "m"))
	bad := true
	w.fail = func(e Effect) *Failure {
		if _, ok := e.(CreateContainer); ok && bad {
			return &Failure{Reason: "ErrImagePull", Message: "not found", Image: "files"}
		}
		return nil
	}
	w.step(Tick{})
	w.until(time.Second)
	is := func(reason, message string) {
		t.Helper()
		if got := w.cstatus("m").State.Waiting; got == nil || got.Reason != reason || got.Message != message {
			t.Fatalf("%s: %+v\n%s", w.rel(), got, w.tail())
		}
	}
	is("ErrImagePull", "not found")
	w.until(5 * time.Second)
	const waits = `Back-off pulling image "files": ErrImagePull: not found`
	is("ImagePullBackOff", waits)
	w.restart(nil)
	is("ImagePullBackOff", waits)
	if !told(w, "BackOff", `Back-off pulling image "files"`) {
		t.Error("no event")
	}
	for _, e := range w.events { // the volume is the pod's, what it prevents the container's
		if (e.Container == "") != (e.Reason == "BackOff") {
			t.Errorf("told of the wrong one: %+v", e)
		}
	}
	w.until(40 * time.Second)
	bad = false
	w.until(71 * time.Second)
	var tries []string
	for _, l := range w.trace {
		if strings.Contains(l, "Attempt:0 ImageRef") {
			tries = append(tries, strings.Fields(l)[0])
		}
	}
	if !slices.Equal(tries, []string{"+0.000s", "+10.000s", "+30.000s", "+70.000s"}) || w.cstatus("m").State.Running == nil {
		t.Fatal(tries, w.cstatus("m"))
	}
	if c := w.state.Container("m"); c.mounts != "" || c.pull != (backoff{}) {
		t.Errorf("%q, %v are left of it", c.mounts, c.pull)
	}
	w.exit("m-0", 1, "")
	w.step(Observation{Observed: w.observe()})
	w.until(80 * time.Second)
	if st := w.cstatus("m"); st.State.Running == nil || st.RestartCount != 1 {
		t.Errorf("its next start waits for an image that is there: %+v", st)
	}
}

// Conditions and their words on the way of a pod with an init container.
func TestConditions(t *testing.T) {
	w := newWorld(t, newPod(v1.RestartPolicyNever, "i", "m"))
	w.run = func(n string, _ uint32) behaviour { return behaviour{d: 5 * time.Second} }
	show := func() string {
		var out []string
		for _, c := range w.status().Conditions {
			out = append(out, strings.TrimSpace(string(c.Type)+"="+string(c.Status)+" "+c.Reason+" "+c.Message))
		}
		return string(w.status().Phase) + "\n" + strings.Join(out, "\n")
	}
	w.delay = func(Effect) time.Duration { return 10 * time.Millisecond }
	w.step(Tick{})
	for _, x := range []struct {
		at   time.Duration
		want string
	}{
		{0, "Pending\nPodReadyToStartContainers=False PodSandboxNotReady no pod sandbox exists\nInitialized=False ContainersNotInitialized containers with incomplete status: [i]\n" +
			"Ready=False ContainersNotReady containers with unready status: [m]\nContainersReady=False ContainersNotReady containers with unready status: [m]\nPodScheduled=True"},
		{time.Second, "Pending\nPodReadyToStartContainers=True\nInitialized=False ContainersNotInitialized containers with incomplete status: [i]\n" +
			"Ready=False ContainersNotReady containers with unready status: [m]\nContainersReady=False ContainersNotReady containers with unready status: [m]\nPodScheduled=True"},
		{7 * time.Second, "Running\nPodReadyToStartContainers=True\nInitialized=True\nReady=True\nContainersReady=True\nPodScheduled=True"},
		{20 * time.Second, "Succeeded\nPodReadyToStartContainers=False PodSandboxNotReady pod sandbox is not ready\nInitialized=True PodCompleted\nReady=False PodCompleted\nContainersReady=False PodCompleted\nPodScheduled=True"},
	} {
		w.until(x.at)
		if got := show(); got != x.want {
			t.Fatalf("at %s\ngot\n%s\nwant\n%s", x.at, got, x.want)
		}
	}
}

func TestRejected(t *testing.T) {
	w := newWorld(t, newPod(v1.RestartPolicyAlways, "m"))
	s, fx := Step(w.state, Tick{}, epoch)
	if len(fx) != 1 || fx[0] != (Admit{}) {
		t.Fatalf("%+v", fx)
	}
	s, fx = Step(s, Admitted{Reject: &Rejection{Reason: "OutOfcpu", Message: "no cpu"}}, epoch)
	st := Status(s)
	if s.Stage != Finished || st.Phase != v1.PodFailed || st.Reason != "OutOfcpu" || st.Message != "Pod was rejected: no cpu" || len(st.ContainerStatuses) != 0 {
		t.Fatalf("%s %+v", s.Stage, st)
	}
	if len(fx) != 2 { // save and tell
		t.Fatalf("%+v", fx)
	}
}

// A container that cannot be created is tried with growing waits, although its image is there each time, and shows why throughout.
func TestCreateFailuresBackOff(t *testing.T) {
	w := newWorld(t, newPod(v1.RestartPolicyAlways, "m"))
	tries, broken := 0, true
	w.fail = func(e Effect) *Failure {
		if _, ok := e.(CreateContainer); !ok || !broken {
			return nil
		}
		tries++
		return &Failure{Reason: "CreateContainerConfigError", Message: "configmap \"cfg\" not found"}
	}
	w.step(Tick{})
	w.until(time.Minute)
	if tries < 6 || tries > 9 { // after 0.5, 1, 2, 4, 8, 15, 15, 15 s
		t.Errorf("%d tries in a minute", tries)
	}
	told := 0
	for _, e := range w.events {
		if e.Reason == "Failed" {
			told++
		}
	}
	if got := w.cstatus("m").State.Waiting; got == nil || got.Reason != "CreateContainerConfigError" || told != tries {
		t.Errorf("%+v, told %d times of %d", got, told, tries)
	}
	broken = false
	w.until(2 * time.Minute)
	if w.cstatus("m").State.Running == nil {
		t.Errorf("%+v", w.cstatus("m"))
	}
}

func TestActiveDeadline(t *testing.T) {
	p := newPod(v1.RestartPolicyAlways, "m")
	d := int64(60)
	p.Spec.ActiveDeadlineSeconds = &d
	w := newWorld(t, p)
	w.run = func(string, uint32) behaviour { return behaviour{deaf: true} }
	w.step(Tick{})
	w.until(59 * time.Second)
	if ready(w) != v1.ConditionTrue {
		t.Fatal("not ready")
	}
	w.until(62 * time.Second) // it ends, and is sent nothing any more
	if c := condition(w.status(), v1.PodReady); w.status().Phase != v1.PodRunning || c.Status != v1.ConditionFalse || c.Reason != "PodFailed" {
		t.Fatalf("%s %+v", w.status().Phase, c)
	}
	w.until(2 * time.Minute)
	st := w.status()
	if st.Phase != v1.PodFailed || st.Reason != "DeadlineExceeded" || st.Message != "Pod was active on the node longer than the specified deadline" ||
		w.state.Stage != Finished {
		t.Fatalf("%s %+v", w.state.Stage, st)
	}
}

// C17: an ephemeral container runs once, whatever happens to what is left of it.
func TestEphemeralNeverRestarts(t *testing.T) {
	p := newPod(v1.RestartPolicyAlways, "m")
	w := newWorld(t, p)
	w.run = func(n string, _ uint32) behaviour {
		if n == "d" {
			return behaviour{d: time.Second}
		}
		return behaviour{}
	}
	w.step(Tick{})
	w.until(time.Second)
	p = p.DeepCopy()
	p.Spec.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "d", Image: "img"}}}
	w.step(Desired{Pod: p})
	w.until(5 * time.Second)
	delete(w.cons, "d-0")
	w.step(Observation{Observed: w.observe()})
	w.restart(nil)
	w.until(time.Minute)
	if st := w.cstatus("d"); len(starts(w, "d")) != 1 || st.State.Terminated == nil || st.State.Terminated.ExitCode != 0 || st.Started != nil {
		t.Fatalf("%v %+v", starts(w, "d"), st)
	}
}

// An image change restarts the container with the new image, whatever the policy.
func TestImageChanged(t *testing.T) {
	p := newPod(v1.RestartPolicyNever, "m")
	w := newWorld(t, p)
	w.step(Tick{})
	w.until(time.Second)
	p = p.DeepCopy()
	p.Spec.Containers[0].Image = "other"
	w.step(Desired{Pod: p})
	w.until(5 * time.Second)
	if got := starts(w, "m"); len(got) != 2 || w.status().Phase != v1.PodRunning {
		t.Fatalf("%v %s", got, w.status().Phase)
	}
	if !told(w, "Killing", "Container m definition changed, will be restarted") {
		t.Fatal("no event")
	}
}

// Hooks: postStart holds back Ready; preStop runs before TERM and within the grace.
func TestHooks(t *testing.T) {
	p := newPod(v1.RestartPolicyAlways, "m")
	p.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PostStart: &v1.LifecycleHandler{}, PreStop: &v1.LifecycleHandler{}}
	w := newWorld(t, p)
	w.delay = func(e Effect) time.Duration {
		if h, ok := e.(RunHook); ok {
			return map[Hook]time.Duration{PostStart: 3 * time.Second, PreStop: time.Minute}[h.Hook]
		}
		return 0
	}
	w.step(Tick{})
	w.until(time.Second)
	if st := w.cstatus("m"); st.State.Running != nil || *st.Started || st.Ready {
		t.Fatalf("%+v", st)
	}
	w.until(4 * time.Second)
	if !w.cstatus("m").Ready {
		t.Fatal("not ready after the hook")
	}
	w.step(Desired{Pod: deleting(p, w.now, 10)})
	w.until(13 * time.Second)
	if w.cstatus("m").State.Running == nil {
		t.Fatal("stopped before its preStop hook had its time")
	}
	w.until(16 * time.Second)
	if w.cstatus("m").State.Terminated == nil {
		t.Fatalf("%+v", w.cstatus("m"))
	}
}

// A container that could not start because its sandbox was dying is not made to wait for that.
func TestStartInDyingSandbox(t *testing.T) {
	w := newWorld(t, newPod(v1.RestartPolicyAlways, "m"))
	w.step(Tick{})
	w.until(time.Second)
	w.exit("m-0", 137, "") // the container dies first, the sandbox a moment later
	w.box("sb0").Ready = false
	o := w.observe()
	o.Sandboxes[0].Ready = true
	w.step(Observation{Observed: o})
	w.until(2 * time.Second)
	if st := w.cstatus("m"); st.State.Waiting == nil || st.State.Waiting.Reason != "CrashLoopBackOff" {
		t.Fatalf("%+v", st)
	}
	w.step(Observation{Observed: w.observe()})
	w.until(3 * time.Second)
	if st := w.cstatus("m"); st.State.Running == nil || st.RestartCount != 2 {
		t.Fatalf("%+v", st)
	}
}

// An exit code may restart the whole pod in the sandbox it has: all containers are killed without their hooks, removed and counted as
// restarted, and init containers run again. What users were told of initialization stays.
func TestRestartAllContainers(t *testing.T) {
	for _, lose := range []bool{false, true} { // a kubelet that restarts in the middle of it
		p := newPod(v1.RestartPolicyNever, "i", "s", "m1", "m2")
		never := v1.ContainerRestartPolicyNever
		m1 := &p.Spec.Containers[0]
		m1.RestartPolicy, m1.RestartPolicyRules = &never, []v1.ContainerRestartRule{{
			Action:    v1.ContainerRestartRuleActionRestartAllContainers,
			ExitCodes: &v1.ContainerRestartRuleOnExitCodes{Operator: v1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{42}},
		}}
		p.Spec.Containers[1].Lifecycle = &v1.Lifecycle{PreStop: &v1.LifecycleHandler{}}
		w := newWorld(t, p)
		w.run = func(n string, attempt uint32) behaviour {
			switch {
			case n == "i":
				return behaviour{d: time.Second}
			case n == "m1" && attempt == 0:
				return behaviour{d: 5 * time.Second, code: 42}
			case n == "m2":
				return behaviour{deaf: true}
			}
			return behaviour{}
		}
		w.step(Tick{})
		w.until(7 * time.Second)
		cond := func(k v1.PodConditionType) v1.PodCondition {
			st := w.status()
			return st.Conditions[slices.IndexFunc(st.Conditions, func(c v1.PodCondition) bool { return c.Type == k })]
		}
		if c := cond(v1.AllContainersRestarting); c.Status != v1.ConditionTrue || c.Reason != "RestartAllContainersStarted" {
			t.Fatalf("%+v", c)
		}
		if w.status().Phase != v1.PodRunning {
			t.Fatal(w.status().Phase)
		}
		if lose {
			w.restart(nil)
		}
		w.until(8500 * time.Millisecond)
		if st := w.cstatus("m2"); st.State.Waiting == nil || st.RestartCount != 1 || st.LastTerminationState.Terminated.Reason != "RestartingAllContainers" {
			t.Fatalf("%+v", st)
		}
		if w.status().Phase != v1.PodPending || cond(v1.PodInitialized).Status != v1.ConditionTrue || cond(v1.AllContainersRestarting).Status != v1.ConditionFalse {
			t.Fatal(w.status().Phase, w.status().Conditions)
		}
		if lose {
			w.restart(nil)
		}
		w.until(time.Minute)
		for n, want := range map[string]int{"i": 2, "s": 2, "m1": 2, "m2": 2} {
			if st := w.cstatus(n); len(starts(w, n)) != want || st.RestartCount != 1 || n != "i" && st.State.Running == nil {
				t.Fatalf("%s started at %v: %+v\n%s", n, starts(w, n), st, w.tail())
			}
		}
		if len(w.boxes) != 1 || len(w.cons) != 4 || w.status().Phase != v1.PodRunning {
			t.Fatalf("%d sandboxes, %d containers, %s", len(w.boxes), len(w.cons), w.status().Phase)
		}
		if slices.ContainsFunc(w.trace, func(l string) bool { return strings.Contains(l, "do hook") }) {
			t.Fatal("a hook ran")
		}
	}
}

// Another image is tried at once, whatever the back-off of the one before it; one that was asked for before it came is not run.
func TestAnotherImageIsTriedAtOnce(t *testing.T) {
	for _, what := range []string{"pull", "crash", "slow"} {
		p := newPod(v1.RestartPolicyAlways, "m")
		w := newWorld(t, p)
		image := func() string { return w.state.Container("m").spec.Image }
		w.fail = func(e Effect) *Failure {
			if _, ok := e.(PullImage); ok && what == "pull" && image() == "img" {
				return &Failure{Reason: "ErrImagePull", Message: "not found"}
			}
			return nil
		}
		w.delay = func(e Effect) time.Duration {
			if _, ok := e.(PullImage); ok && what == "slow" {
				return 101 * time.Second
			}
			return 0
		}
		w.run = func(string, uint32) behaviour {
			if what == "crash" && image() == "img" {
				return behaviour{d: time.Millisecond, code: 1}
			}
			return behaviour{}
		}
		w.step(Tick{})
		w.until(100 * time.Second)
		p = p.DeepCopy()
		p.Spec.Containers[0].Image = "other"
		w.step(Desired{Pod: p})
		w.until(either(what == "slow", 203*time.Second, 101*time.Second))
		if st := w.cstatus("m"); st.State.Running == nil || w.cons[bareID(st.ContainerID)].Hash != SpecHash(&p.Spec.Containers[0]) {
			t.Fatalf("%s: %+v\n%s", what, st, w.tail())
		}
		if what == "slow" && len(starts(w, "m")) != 1 {
			t.Fatal(starts(w, "m"))
		}
	}
}

// A container that is killed by its liveness probe runs again unless the policy is Never, whatever it exits with, and users are told so.
func TestLivenessRestarts(t *testing.T) {
	for policy, want := range map[v1.RestartPolicy]struct {
		phase   v1.PodPhase
		starts  int
		message string
	}{
		v1.RestartPolicyAlways:    {v1.PodRunning, 2, "Container m failed liveness probe, will be restarted"},
		v1.RestartPolicyOnFailure: {v1.PodRunning, 2, "Container m failed liveness probe, will be restarted"},
		v1.RestartPolicyNever:     {v1.PodFailed, 1, "Container m failed liveness probe"},
	} {
		p := newPod(policy, "m")
		p.Spec.Containers[0].LivenessProbe = &v1.Probe{}
		w := newWorld(t, p)
		w.term0 = policy != v1.RestartPolicyNever
		w.step(Tick{})
		w.until(time.Second)
		w.after = func() {
			if st := w.cstatus("m"); st.State.Terminated != nil && policy == v1.RestartPolicyOnFailure {
				t.Fatalf("told as ended, after which the API does not take that it runs: %+v", st)
			}
		}
		w.step(ProbeTurned{Container: "m", ID: "m-0", Probe: Liveness})
		w.until(30 * time.Second)
		if got := w.status().Phase; got != want.phase || len(starts(w, "m")) != want.starts || !told(w, "Killing", want.message) {
			t.Fatalf("%s: %s, started at %v, %v", policy, got, starts(w, "m"), w.events)
		}
	}
}

// preStop hooks of all containers begin when the pod's end does, sidecars' too; TERM reaches a sidecar in its turn.
func TestSidecarsHooksBeginAtOnce(t *testing.T) {
	p := newPod(v1.RestartPolicyAlways, "s", "m")
	p.Spec.InitContainers[0].Lifecycle = &v1.Lifecycle{PreStop: &v1.LifecycleHandler{}}
	w := newWorld(t, p)
	w.delay = func(e Effect) time.Duration {
		if _, ok := e.(StopContainer); ok {
			return 4 * time.Second
		}
		return 0
	}
	w.step(Tick{})
	w.until(10 * time.Second)
	w.step(Desired{Pod: deleting(p, w.now, 30)})
	w.until(11 * time.Second)
	w.restart(nil) // the sidecar's turn has not come, and its hook does not run again
	w.until(40 * time.Second)
	var got []string
	for _, l := range w.trace {
		if strings.Contains(l, " exit ") || strings.Contains(l, "do hook") {
			got = append(got, l)
		}
	}
	want := []string{"+10.000s do hook/s-0/PreStop {Container:s ID:s-0 Hook:PreStop Limit:30s}", "+15.000s exit m-0 143", "+19.000s exit s-0 143"}
	if !slices.Equal(got, want) {
		t.Fatalf("got %v\n%s", got, w.tail())
	}
}

// A preStop hook that a restart of the kubelet cut short runs again, with what is left of the grace.
func TestPreStopAgainAfterRestart(t *testing.T) {
	p := newPod(v1.RestartPolicyAlways, "m")
	p.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PreStop: &v1.LifecycleHandler{}}
	w := newWorld(t, p)
	w.delay = func(e Effect) time.Duration { return either(e.Key() == "hook/m-0/PreStop", 5*time.Second, 0) }
	w.step(Tick{})
	w.until(0)
	w.step(Desired{Pod: deleting(p, w.now, 30)})
	w.until(2 * time.Second)
	w.restart(func(Effect) bool { return true })
	w.until(time.Minute)
	var got []string
	for _, l := range w.trace {
		if strings.Contains(l, " exit ") || strings.Contains(l, "do hook") {
			got = append(got, strings.Fields(l)[0])
		}
	}
	if !slices.Equal(got, []string{"+0.000s", "+2.000s", "+7.000s"}) {
		t.Fatalf("%v\n%s", got, w.tail())
	}
}

// What was created and never started when the pod stops is removed with it, and containers that never ran are told as upstream tells them.
func TestStopBetweenCreateAndStart(t *testing.T) {
	w := newWorld(t, newPod(v1.RestartPolicyAlways, "m"))
	w.delay = func(e Effect) time.Duration {
		_, ok := e.(CreateContainer)
		return either(ok, 5*time.Second, 0)
	}
	w.step(Tick{})
	w.until(time.Second)
	w.step(Desired{Pod: deleting(w.state.Pod, w.now, 30)})
	w.until(time.Minute)
	st := w.cstatus("m")
	if len(w.cons) != 0 || w.state.Stage != Finished || st.State.Terminated == nil || st.State.Terminated.Reason != "ContainerStatusUnknown" {
		t.Fatalf("%s, %d containers, %+v", w.state.Stage, len(w.cons), st)
	}
}

// The ceiling of restarts may be below the first wait; that of pulls is another.
func TestBackoffCeiling(t *testing.T) {
	w := newWorld(t, newPod(v1.RestartPolicyAlways, "m1", "m2"))
	w.cfg.BackoffMax = 4 * time.Second
	w.run = func(string, uint32) behaviour { return behaviour{d: time.Second, code: 1} }
	w.fail = func(e Effect) *Failure {
		if p, ok := e.(PullImage); ok && p.Container == "m2" {
			return &Failure{Reason: "ErrImagePull", Message: "not found"}
		}
		return nil
	}
	w.step(Tick{})
	w.until(20 * time.Second)
	if got := starts(w, "m1"); !slices.Equal(got, []string{"+0.000s", "+1.000s", "+6.000s", "+11.000s", "+16.000s"}) {
		t.Fatal(got)
	}
	if c := w.state.Container("m2"); c.pull.Wait != 20*time.Second {
		t.Fatal(c.pull)
	}
	// One that is lower when the kubelet comes back holds at once.
	w = newWorld(t, newPod(v1.RestartPolicyAlways, "m"))
	w.run = func(string, uint32) behaviour { return behaviour{d: time.Second, code: 1} }
	w.step(Tick{})
	w.until(200 * time.Second)
	before := len(starts(w, "m"))
	w.cfg.BackoffMax = 4 * time.Second
	w.restart(nil)
	if w.until(205 * time.Second); len(starts(w, "m")) != before+1 {
		t.Fatalf("%v, %d before\n%s", starts(w, "m"), before, w.tail())
	}
}

// A pod whose sandbox cannot even be described says so of the sandbox, not of its images.
func TestSandboxThatCannotBeDescribed(t *testing.T) {
	w := newWorld(t, newPod(v1.RestartPolicyAlways, "m"))
	w.fail = func(e Effect) *Failure {
		switch e.(type) {
		case CreateSandbox, PullImage:
			return &Failure{Message: "FQDN is too long"}
		}
		return nil
	}
	w.step(Tick{})
	w.until(time.Minute)
	if st := w.cstatus("m"); st.State.Waiting == nil || st.State.Waiting.Reason != "ContainerCreating" {
		t.Fatalf("%+v", st)
	}
	if !told(w, "FailedCreatePodSandBox", "Failed to create pod sandbox: FQDN is too long") || told(w, "Failed", "Error: ") {
		t.Fatalf("%+v", w.events)
	}
	if got := w.state.sandboxCondition().Message; got != "no pod sandbox exists" {
		t.Fatalf("attempts that failed left none, and it is told that %s", got)
	}
}

// A kubelet that comes back to a runtime that has nothing of a container in back-off any more, not even what the API was told, begins
// with it anew.
func TestNothingLeftToWaitFor(t *testing.T) {
	p := newPod(v1.RestartPolicyAlways, "m")
	m := &p.Spec.Containers[0]
	always := v1.ContainerRestartPolicyAlways
	m.RestartPolicy, m.RestartPolicyRules = &always, []v1.ContainerRestartRule{{
		Action:    v1.ContainerRestartRuleActionRestartAllContainers,
		ExitCodes: &v1.ContainerRestartRuleOnExitCodes{Operator: v1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{42}},
	}}
	w := newWorld(t, p)
	w.run = func(_ string, attempt uint32) behaviour {
		switch attempt {
		case 0:
			return behaviour{d: time.Second, code: 42}
		case 1, 2:
			return behaviour{d: time.Second, code: 1}
		}
		return behaviour{}
	}
	w.step(Tick{})
	w.until(5 * time.Second)
	if st := w.cstatus("m"); st.State.Waiting == nil || st.State.Waiting.Reason != "CrashLoopBackOff" {
		t.Fatalf("%+v", st)
	}
	pod := p.DeepCopy() // the API was told nothing
	w.state = Restore(w.cfg, pod, w.saved, Observed{At: w.now}, w.now)
	w.boxes, w.cons = nil, map[string]*Instance{}
	w.step(Desired{Pod: pod})
	w.until(time.Minute)
	if st := w.cstatus("m"); st.State.Running == nil {
		t.Fatalf("%+v\n%s", st, w.tail())
	}
}

// What a failed mount left is returned when the pod ends, and at once.
func TestFailedMountsAreReturned(t *testing.T) {
	for _, e := range []Effect{MountVolumes{}, EnsureCgroup{}} {
		w := newWorld(t, newPod(v1.RestartPolicyAlways, "m"))
		w.fail = func(x Effect) *Failure {
			if x == e || e == (EnsureCgroup{}) && Name(x) == "EnsureCgroup" {
				return &Failure{Message: "no"}
			}
			return nil
		}
		returned := map[string]bool{}
		w.delay = func(x Effect) time.Duration { returned[Name(x)] = true; return 0 }
		w.step(Tick{})
		w.until(time.Hour)
		w.step(SourceRemoved{})
		w.until(time.Hour + time.Second)
		if !returned["UnmountVolumes"] || !returned["RemoveCgroup"] || w.state.Stage != Gone {
			t.Errorf("%s: %v, %s\n%s", Name(e), returned, w.state.Stage, w.tail())
		}
	}
}

// One that fails when the pod has ended meanwhile is returned then: nothing else would happen to the pod any more.
func TestWhatFailsAfterTheEndIsReturned(t *testing.T) {
	for _, late := range []string{"MountVolumes", "EnsureCgroup"} {
		w := newWorld(t, newPod(v1.RestartPolicyAlways, "m"))
		w.delay = func(x Effect) time.Duration {
			if Name(x) == late {
				return 10 * time.Second
			}
			return 0
		}
		w.fail = func(x Effect) *Failure {
			if Name(x) == late {
				return &Failure{Message: "who knows", Unsure: true}
			}
			return nil
		}
		w.step(Tick{})
		w.until(time.Second)
		w.step(SourceRemoved{})
		w.until(10*time.Second + time.Millisecond)
		if w.state.Stage != Gone {
			t.Errorf("%s: %s\n%s", late, w.state.Stage, w.tail())
		}
	}
}

// Who wakes late, when the back-off of a pull is over, says nothing of it in the back-off of what happens after: a crash is a crash, and what runs
// next is another attempt.
func TestNoWordOfAPullThatIsOver(t *testing.T) {
	w := newWorld(t, newPod(v1.RestartPolicyAlways, "m"))
	pulled := false
	w.fail = func(e Effect) *Failure {
		switch e.(type) {
		case PullImage:
			if !pulled {
				return &Failure{Reason: "ErrImagePull", Message: "not found"}
			}
		case StartContainer:
			return &Failure{Message: "no such file"}
		}
		return nil
	}
	w.run = func(string, uint32) behaviour { return behaviour{noStart: true} }
	w.step(Tick{})
	w.until(time.Second)
	if st := w.cstatus("m").State.Waiting; st.Reason != "ErrImagePull" {
		t.Fatal(st)
	}
	pulled = true
	w.advanceTo(epoch.Add(15 * time.Second))
	w.step(Tick{})
	w.until(55 * time.Second)
	if n := toldOf(w, "BackOff"); n == 0 || w.cstatus("m").State.Waiting.Reason != "CrashLoopBackOff" && w.cstatus("m").State.Waiting.Reason != "RunContainerError" {
		t.Fatalf("%d\n%s", n, w.tail())
	}
	for _, e := range w.events {
		if strings.Contains(e.Message, "pulling") {
			t.Errorf("told %q\n%s", e.Message, w.tail())
		}
	}
}
