package podlife

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// world is a node in which one pod lives: a model of the runtime, a clock that jumps to whatever is due next, and the checks
// that hold after every step. Effects take delay; 0 makes them happen within the step.
type world struct {
	t       fataler
	now     time.Time
	cfg     *Config
	state   State
	saved   *Saved
	delay   func(Effect) time.Duration
	fail    func(Effect) *Failure // nil: never
	run     func(name string, attempt uint32) behaviour
	boxes   []*SandboxInfo
	cons    map[string]*Instance // by ID
	ends    map[string]time.Time // natural ends of running instances
	queue   []pending
	seq     int
	trace   []string
	events  []Tell
	done    map[string]bool     // sandbox/name that ended well
	term0   bool                // TERM ends containers with 0
	unsure  bool                // what the runtime does not know the state of stays so when it is stopped
	after   func()              // called after each step, when set
	pulled  map[string]bool     // containers whose image was there when the kubelet ended: it is asked for once more
	probed  map[string]ProbeSet // which probes run, by instance
	prober  bool                // they have results, and what users are told is compared with what they were told before
	ran     map[string]bool     // containers of which an instance ran
	unready map[string]bool     // instances of which readiness has failed
	kept    *Saved              // what is on the disk when the machine goes down: the last that had to be
	told    *v1.PodStatus       // the last status

	limits map[string]amounts   // of containers, by id
	full   func(*v1.Pod) string // why the node has no room for what a pod asks for; nil is room for all
}

type behaviour struct {
	d       time.Duration // 0: for ever
	code    int32
	noStart bool // the command does not exist
	deaf    bool // ignores TERM
}

type pending struct {
	at     time.Time
	n      int
	effect Effect // nil: ev
	ev     Event
	wake   bool
}

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func newWorld(t fataler, pod *v1.Pod) *world {
	w := &world{
		t: t, now: epoch, cfg: Defaults(), cons: map[string]*Instance{}, ends: map[string]time.Time{}, done: map[string]bool{},
		limits: map[string]amounts{}, probed: map[string]ProbeSet{}, ran: map[string]bool{}, unready: map[string]bool{},
		delay: func(Effect) time.Duration { return 0 },
		run:   func(string, uint32) behaviour { return behaviour{} },
	}
	w.cfg.HostIPs = []string{"10.0.0.1"}
	w.state = Begin(w.cfg, pod, w.now)
	return w
}

func newPod(policy v1.RestartPolicy, names ...string) *v1.Pod {
	grace := int64(30)
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", UID: "u1", Generation: 1},
		Spec:       v1.PodSpec{RestartPolicy: policy, TerminationGracePeriodSeconds: &grace},
	}
	always := v1.ContainerRestartPolicyAlways
	for _, n := range names {
		c := v1.Container{Name: n, Image: "img"}
		switch n[0] {
		case 'i':
			p.Spec.InitContainers = append(p.Spec.InitContainers, c)
		case 'e':
			p.Spec.EphemeralContainers = append(p.Spec.EphemeralContainers, v1.EphemeralContainer{
				EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: n, Image: "img"},
			})
		case 's':
			c.RestartPolicy = &always
			p.Spec.InitContainers = append(p.Spec.InitContainers, c)
		default:
			p.Spec.Containers = append(p.Spec.Containers, c)
		}
	}
	return p
}

func (w *world) step(ev Event) {
	old := w.state
	next, fx := Step(old, ev, w.now)
	w.checkStep(old, next, ev, fx)
	w.state = next
	w.checkTold()
	if w.after != nil {
		w.after()
	}
	for _, e := range fx {
		w.begin(e)
	}
	w.checkProbes()
}

// begin puts an effect on its way.
func (w *world) begin(e Effect) {
	switch x := e.(type) {
	case Save:
		s := x.Saved
		w.saved = &s
		if x.Durable {
			w.kept = &s
		}
		return
	case Tell:
		w.events = append(w.events, x)
		w.trace = append(w.trace, fmt.Sprintf("%s tell %s %s: %s", w.rel(), x.Container, x.Reason, x.Message))
		return
	case SetProbes:
		w.probe(x)
		return
	case WakeAt:
		w.queue = slices.DeleteFunc(w.queue, func(p pending) bool { return p.wake })
		if !x.At.IsZero() {
			w.push(pending{at: x.At, ev: Tick{}, wake: true})
		}
		return
	}
	switch x := e.(type) {
	case Observe, EnsureCgroup, MountVolumes:
	case PullImage:
		w.trace = append(w.trace, fmt.Sprintf("%s do %s%s %+v", w.rel(), either(w.pulled[x.Container], "again ", ""), e.Key(), e))
		delete(w.pulled, x.Container)
	default:
		w.trace = append(w.trace, fmt.Sprintf("%s do %s %+v", w.rel(), e.Key(), e))
	}
	if st, ok := e.(StopContainer); ok {
		w.term(st)
		return
	}
	if x, ok := e.(CreateContainer); ok { // what it is made of is settled when it is asked for
		w.limits[fmt.Sprintf("%s-%d", x.Container, x.Attempt)] = amountsOf(Effective(w.state.Given().Spec.Resources, w.state.Container(x.Container).spec.Resources))
	}
	w.push(pending{at: w.now.Add(w.delay(e)), effect: e})
}

func (w *world) push(p pending) {
	w.seq++
	p.n = w.seq
	w.queue = append(w.queue, p)
	w.sort()
}

func (w *world) sort() {
	slices.SortFunc(w.queue, func(a, b pending) int {
		ra, ida := a.rank()
		rb, idb := b.rank()
		return cmp.Or(a.at.Compare(b.at), ra-rb, strings.Compare(ida, idb), a.n-b.n)
	})
}

// rank is the order of what is due at one moment, the same whether a restart asked for it again or not: containers that are killed end
// first, by their names, and clocks ring last.
func (p *pending) rank() (int, string) {
	if st, ok := p.effect.(StopContainer); ok {
		return 0, st.ID
	}
	return either(p.wake, 2, 1), ""
}

func (w *world) rel() string { return fmt.Sprintf("+%.3fs", w.now.Sub(epoch).Seconds()) }

func (w *world) term(st StopContainer) {
	in := w.cons[st.ID]
	if in == nil || in.State != InstanceRunning {
		w.push(pending{at: w.now.Add(w.delay(st)), effect: st})
		return
	}
	at := w.now.Add(w.delay(st))
	if w.run(in.Name, in.Attempt).deaf {
		at = w.now.Add(st.Grace)
	}
	w.push(pending{at: at, effect: st})
}

// turnOnce handles the next due thing not after limit; false when there is none.
func (w *world) turnOnce(limit time.Time) bool {
	end, at := "", limit.Add(1)
	for _, id := range sortedKeys(w.ends) {
		if t := w.ends[id]; t.Before(at) {
			end, at = id, t
		}
	}
	if len(w.queue) > 0 && !w.queue[0].at.After(at) && !w.queue[0].at.After(limit) {
		p := w.queue[0]
		w.queue = w.queue[1:]
		w.advanceTo(p.at)
		if p.effect != nil {
			if ev := w.execute(p.effect); ev != nil {
				w.step(ev)
			}
		} else {
			w.step(p.ev)
		}
		return true
	}
	if end == "" {
		return false
	}
	w.advanceTo(at)
	w.exit(end, w.run(w.cons[end].Name, w.cons[end].Attempt).code, "")
	w.step(Observation{Observed: w.observe()})
	return true
}

func (w *world) advanceTo(t time.Time) {
	if t.After(w.now) {
		w.now = t
	}
}

func sortedKeys[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

func (w *world) until(d time.Duration) {
	limit := epoch.Add(d)
	for n := 0; w.turnOnce(limit); n++ {
		if n > 20000 {
			w.t.Fatalf("no end of events at %s:\n%s", w.rel(), w.tail())
		}
	}
	w.advanceTo(limit)
}

func (w *world) tail() string {
	out := ""
	for _, l := range w.trace[max(0, len(w.trace)-25):] {
		out += l + "\n"
	}
	return out
}

func (w *world) exit(id string, code int32, reason string) {
	in := *w.cons[id]
	in.State, in.ExitCode, in.Reason, in.FinishedAt = InstanceExited, code, reason, w.now
	w.cons[id] = &in
	delete(w.ends, id)
	for i := range w.queue { // who stops it hears of it at once
		if st, ok := w.queue[i].effect.(StopContainer); ok && st.ID == id {
			w.queue[i].at = w.now
		}
	}
	w.sort()
	if code == 0 {
		w.done[in.SandboxID+"/"+in.Name] = true
	}
	w.trace = append(w.trace, fmt.Sprintf("%s exit %s %d", w.rel(), id, code))
}

func (w *world) observe() Observed {
	o := Observed{At: w.now}
	for _, b := range w.boxes {
		o.Sandboxes = append(o.Sandboxes, *b)
	}
	for _, id := range sortedKeys(w.cons) {
		o.Containers = append(o.Containers, *w.cons[id])
	}
	return o
}

func (w *world) box(id string) *SandboxInfo {
	for _, b := range w.boxes {
		if b.ID == id {
			return b
		}
	}
	return nil
}

// execute makes an effect happen and returns its result.
func (w *world) execute(e Effect) Event {
	var f *Failure
	if w.fail != nil {
		f = w.fail(e)
	}
	happens := f == nil || f.Unsure
	switch x := e.(type) {
	case Admit:
		return Admitted{}
	case EnsureCgroup:
		return CgroupDone{Parent: "/pod", Fail: f}
	case RemoveCgroup:
		return CgroupDone{Fail: f}
	case Allocate:
		return w.allocate()
	case ResizePod:
		return w.resize(x, f)
	case MountVolumes, UnmountVolumes:
		return VolumesDone{Fail: f}
	case CreateSandbox:
		id := fmt.Sprintf("sb%d", x.Attempt)
		if happens && w.box(id) == nil {
			w.boxes = append(w.boxes, &SandboxInfo{ID: id, Attempt: x.Attempt, Ready: true, IPs: []string{"10.1.0.5"}})
		}
		if f != nil {
			return SandboxCreated{Attempt: x.Attempt, Fail: f}
		}
		return SandboxCreated{Attempt: x.Attempt, ID: id, IPs: []string{"10.1.0.5"}}
	case StopSandbox:
		if b := w.box(x.ID); b != nil && happens {
			b.Ready = false
			w.killIn(x.ID)
		}
		return Swept{ID: x.ID, Fail: f}
	case RemoveSandbox:
		if happens {
			w.killIn(x.ID)
			w.boxes = slices.DeleteFunc(w.boxes, func(b *SandboxInfo) bool { return b.ID == x.ID })
			for id, in := range w.cons {
				if in.SandboxID == x.ID {
					delete(w.cons, id)
				}
			}
		}
		return Swept{ID: x.ID, Fail: f}
	case RemoveContainer:
		if in := w.cons[x.ID]; happens && in != nil {
			if in.ExitCode == 0 {
				delete(w.done, in.SandboxID+"/"+in.Name)
			}
			delete(w.cons, x.ID)
			delete(w.ends, x.ID)
		}
		return Swept{ID: x.ID, Fail: f}
	case PullImage:
		return ImageReady{Container: x.Container, Ref: "sha256:1", Fail: f}
	case CreateContainer:
		id := fmt.Sprintf("%s-%d", x.Container, x.Attempt)
		sb := w.state.SandboxID
		if w.box(sb) == nil || w.cons[id] != nil {
			return ContainerCreated{Container: x.Container, Attempt: x.Attempt, Fail: &Failure{Message: "cannot", Unsure: w.cons[id] != nil}}
		}
		in := &Instance{
			ID: id, SandboxID: sb, Name: x.Container, Attempt: x.Attempt, State: InstanceCreated, CreatedAt: w.now,
			Hash: SpecHash(w.state.Container(x.Container).spec),
		}
		if happens {
			w.cons[id] = in
		}
		return ContainerCreated{Container: x.Container, Attempt: x.Attempt, Instance: in, Fail: f}
	case StartContainer:
		return w.start(x, f, happens)
	case StopContainer:
		in := w.cons[x.ID]
		if in == nil {
			return ContainerStopped{Container: x.Container, ID: x.ID, Grace: x.Grace, Fail: f}
		}
		if (in.State == InstanceRunning || in.State == InstanceUnknown && !w.unsure) && happens {
			b := w.run(in.Name, in.Attempt)
			w.exit(x.ID, either(b.deaf, int32(137), either(w.term0, int32(0), 143)), "")
		}
		return ContainerStopped{Container: x.Container, ID: x.ID, Grace: x.Grace, Instance: w.cons[x.ID], Fail: f}
	case RunHook:
		return HookDone{Container: x.Container, ID: x.ID, Hook: x.Hook, Fail: f}
	case Observe:
		return Observation{Observed: w.observe(), Asked: true, Fail: f}
	}
	w.t.Fatalf("unknown effect %T", e)
	return nil
}

func (w *world) start(x StartContainer, f *Failure, happens bool) Event {
	in := w.cons[x.ID]
	if in == nil {
		return ContainerStarted{Container: x.Container, ID: x.ID, Fail: &Failure{Message: "not found", Unsure: true}}
	}
	b := w.run(in.Name, in.Attempt)
	box := w.box(in.SandboxID)
	switch {
	case b.noStart || box == nil || !box.Ready:
		if in.State == InstanceCreated {
			w.exit(x.ID, 128, "StartError")
		}
		f = &Failure{Reason: "RunContainerError", Message: "no such file"}
	case happens && in.State == InstanceCreated:
		cp := *in
		cp.State, cp.StartedAt = InstanceRunning, w.now
		w.cons[x.ID] = &cp
		w.trace = append(w.trace, fmt.Sprintf("%s run %s", w.rel(), x.ID))
		w.checkStart(&cp)
		if b.d > 0 {
			w.ends[x.ID] = w.now.Add(b.d)
		}
	}
	return ContainerStarted{Container: x.Container, ID: x.ID, Instance: w.cons[x.ID], Fail: f}
}

func (w *world) killIn(sandbox string) {
	for _, id := range sortedKeys(w.cons) {
		if in := w.cons[id]; in.SandboxID == sandbox && in.State == InstanceRunning {
			w.exit(id, 137, "")
		}
	}
}

// loseSandbox is a reboot, or somebody who kills the sandbox and all in it.
func (w *world) loseSandbox() {
	for _, b := range w.boxes {
		b.Ready = false
		w.killIn(b.ID)
	}
	w.step(Observation{Observed: w.observe()})
}

// restart is a kubelet that ends and comes back: what was in flight is forgotten, the runtime goes on.
func (w *world) restart(lost func(Effect) bool) {
	q := w.queue
	w.queue = nil
	for _, p := range q {
		if _, ok := p.effect.(StopContainer); ok && p.at.After(w.now) {
			continue // the runtime gives up with its caller: nothing is killed
		}
		if p.effect != nil && (lost == nil || !lost(p.effect)) {
			w.execute(p.effect) // the runtime did it, nobody heard
		}
	}
	clear(w.probed)
	pod := w.state.Pod.DeepCopy()
	st := Status(w.state)
	pod.Status = st
	if w.state.Removed {
		pod = w.state.Pod
	}
	removed := w.state.Removed
	w.pulled = map[string]bool{}
	for i := range w.state.Containers {
		if c := &w.state.Containers[i]; c.Stage == Pulled {
			w.pulled[c.Name] = true
		}
	}
	w.trace = append(w.trace, w.rel()+" --- restart")
	w.state = Restore(w.cfg, pod, w.saved, w.observe(), w.now)
	if removed {
		w.step(SourceRemoved{})
	} else {
		w.step(Desired{Pod: pod})
	}
}

// power is a machine that goes down: with it whatever ran, and maybe what was saved last.
func (w *world) power(old bool) {
	if old {
		w.saved = w.kept
	}
	for _, b := range w.boxes {
		b.Ready = false
	}
	for _, id := range sortedKeys(w.cons) {
		if w.cons[id].State == InstanceRunning {
			w.exit(id, 255, "Unknown")
		}
	}
	w.trace = append(w.trace, w.rel()+" --- power")
	w.restart(func(Effect) bool { return true })
}

func (w *world) status() v1.PodStatus { return Status(w.state) }

func (w *world) cstatus(name string) v1.ContainerStatus {
	st := w.status()
	for _, l := range [][]v1.ContainerStatus{st.InitContainerStatuses, st.ContainerStatuses, st.EphemeralContainerStatuses} {
		for _, c := range l {
			if c.Name == name {
				return c
			}
		}
	}
	w.t.Fatalf("no status of %s", name)
	return v1.ContainerStatus{}
}

// checkStart holds invariant 1 at the moment a process starts.
func (w *world) checkStart(in *Instance) {
	if w.state.Stage > Stopping {
		w.t.Fatalf("%s started in stage %s\n%s", in.ID, w.state.Stage, w.tail())
	}
	for _, o := range w.cons {
		if o.Name == in.Name && o.ID != in.ID && o.State == InstanceRunning {
			w.t.Fatalf("two running instances: %s and %s\n%s", o.ID, in.ID, w.tail())
		}
	}
	if in.Name[0] == 'e' && w.ran[in.Name] {
		w.t.Fatalf("%s started again\n%s", in.ID, w.tail())
	}
	w.ran[in.Name] = true
	if in.Name[0] != 'm' {
		return
	}
	for _, c := range w.state.Pod.Spec.InitContainers {
		if c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways {
			continue
		}
		if !w.done[in.SandboxID+"/"+c.Name] {
			w.t.Fatalf("%s started before %s was done in its sandbox\n%s", in.ID, c.Name, w.tail())
		}
	}
}

// checkStep holds the invariants of podlife.md that one step can show.
func (w *world) checkStep(old, next State, ev Event, fx []Effect) {
	if next.Stage < old.Stage && !(old.Stage == Running && next.Stage == Starting) {
		w.t.Fatalf("stage went back from %s to %s on %T", old.Stage, next.Stage, ev)
	}
	if old.Final != "" && next.Final != old.Final {
		w.t.Fatalf("final phase changed from %s to %s", old.Final, next.Final)
	}
	if old.Stage == Stopping && next.Stage == Stopping && next.Stop.Deadline.After(old.Stop.Deadline) {
		w.t.Fatalf("deadline moved from %s to %s", old.Stop.Deadline, next.Stop.Deadline)
	}
	if old.Stop.Why != NotStopped && next.Stop.Why != old.Stop.Why {
		w.t.Fatalf("cause of stopping changed from %s to %s", old.Stop.Why, next.Stop.Why)
	}
	for _, e := range fx {
		for _, p := range w.queue {
			if p.effect != nil && p.effect.Key() == e.Key() {
				w.t.Fatalf("%+v asked for while %+v is in flight\n%s", e, p.effect, w.tail())
			}
		}
		switch x := e.(type) {
		case CreateContainer, StartContainer, PullImage, CreateSandbox, MountVolumes, EnsureCgroup:
			if next.Stage > Running {
				w.t.Fatalf("%+v in stage %s\n%s", e, next.Stage, w.tail())
			}
		case UnmountVolumes, RemoveCgroup:
			w.checkNothingRuns(e)
		case StopSandbox:
			for _, c := range w.cons {
				if c.SandboxID == x.ID && c.State == InstanceRunning && w.box(x.ID).Ready && w.known(c) {
					w.t.Fatalf("sandbox stopped under %s\n%s", c.ID, w.tail())
				}
			}
		}
	}
	again, fx2 := Step(next, Tick{}, w.now)
	if len(fx2) != 0 {
		w.t.Fatalf("not quiet after %T: %+v\n%s", ev, fx2, w.tail())
	}
	_ = again
	w.checkStatus(next)
}

func (w *world) known(in *Instance) bool {
	c := w.state.Container(in.Name)
	return c != nil && c.Cur != nil && c.Cur.ID == in.ID
}

func (w *world) checkNothingRuns(e Effect) {
	for _, c := range w.cons {
		if c.State == InstanceRunning && w.known(c) {
			w.t.Fatalf("%+v while %s runs\n%s", e, c.ID, w.tail())
		}
	}
}

// checkStatus: total, terminal phases only when nothing runs, conditions agree.
func (w *world) checkStatus(s State) {
	st := Status(s)
	for _, l := range [][]v1.ContainerStatus{st.InitContainerStatuses, st.ContainerStatuses} {
		for _, c := range l {
			n := 0
			if c.State.Waiting != nil {
				n++
				if c.State.Waiting.Reason == "" {
					w.t.Fatalf("%s waits for no reason", c.Name)
				}
			}
			if c.State.Running != nil {
				n++
				if own := s.Stop.Why != Ended; own && (st.Phase == v1.PodFailed || st.Phase == v1.PodSucceeded) {
					w.t.Fatalf("%s runs in phase %s", c.Name, st.Phase)
				}
			}
			if c.State.Terminated != nil {
				n++
			}
			if n != 1 {
				w.t.Fatalf("%s has %d states", c.Name, n)
			}
		}
	}
	cond := map[v1.PodConditionType]v1.ConditionStatus{}
	for _, c := range st.Conditions {
		cond[c.Type] = c.Status
	}
	if cond[v1.PodReady] == v1.ConditionTrue && (cond[v1.ContainersReady] != v1.ConditionTrue || cond[v1.PodInitialized] != v1.ConditionTrue) {
		w.t.Fatalf("conditions disagree: %v", cond)
	}
}

// probe is a prober to whom every container is started two seconds after its start, and ready a second later.
func (w *world) probe(x SetProbes) {
	w.queue = slices.DeleteFunc(w.queue, func(p pending) bool {
		e, ok := p.ev.(ProbeTurned)
		return ok && e.ID == x.ID
	})
	if x.Set == NoProbes {
		delete(w.probed, x.ID)
		return
	}
	w.probed[x.ID] = x.Set
	in, c := w.cons[x.ID], w.state.Container(x.Container)
	if in == nil || !w.prober {
		return
	}
	later := func(d time.Duration, probe Probe) {
		at := in.StartedAt.Add(d)
		w.push(pending{at: either(at.After(w.now), at, w.now), ev: ProbeTurned{Container: x.Container, ID: x.ID, Probe: probe, OK: true}})
	}
	started := c.spec.StartupProbe == nil || c.Startup == ProbeOK
	if !started && x.Set == AllProbes {
		later(2*time.Second, Startup)
		started = true
	}
	if c.spec.ReadinessProbe != nil && c.Readiness == ProbeUnknown && started && !w.unready[x.ID] {
		later(3*time.Second, Readiness)
	}
}

// turn has a probe of a container fail.
func (w *world) turn(probe Probe) {
	for _, c := range w.state.Containers {
		p := map[Probe]*v1.Probe{Liveness: c.spec.LivenessProbe, Readiness: c.spec.ReadinessProbe, Startup: c.spec.StartupProbe}[probe]
		began := map[Probe]bool{Liveness: c.started(), Readiness: c.Readiness == ProbeOK, Startup: c.Startup == ProbeUnknown}[probe]
		if c.Stage == Up && p != nil && began {
			w.unready[c.Cur.ID] = w.unready[c.Cur.ID] || probe == Readiness
			w.step(ProbeTurned{Container: c.Name, ID: c.Cur.ID, Probe: probe})
			return
		}
	}
}

// vanish is somebody who removes a container behind everybody's back. With one that is told of only as the one before, nobody knows it any more.
func (w *world) vanish() {
	for _, id := range sortedKeys(w.cons) {
		if in := w.cons[id]; !w.known(in) || !w.now.After(w.state.Container(in.Name).knownAt) { // at one moment with what is learnt of it, it would not be believed
			continue
		}
		delete(w.cons, id)
		delete(w.ends, id)
		w.trace = append(w.trace, w.rel()+" vanish "+id)
		break
	}
	w.step(Observation{Observed: w.observe()})
}

// checkProbes: what runs is probed, what is being stopped only for whether it is ready, what has ended not at all.
func (w *world) checkProbes() {
	for i := range w.state.Containers {
		c := &w.state.Containers[i]
		if c.Cur == nil {
			continue
		}
		want := NoProbes
		switch {
		case c.Stage == Up && w.state.Stage <= Stopping && (c.spec.LivenessProbe != nil || c.spec.ReadinessProbe != nil || c.spec.StartupProbe != nil):
			want = AllProbes
		case c.stopping() && c.spec.ReadinessProbe != nil:
			want = ReadinessOnly
		}
		if got := w.probed[c.Cur.ID]; got != want {
			w.t.Fatalf("%s is probed as %d, want %d: %s\n%s", c.Cur.ID, got, want, c.Stage, w.tail())
		}
	}
}

// checkTold: what users are told one after the other makes sense, and is taken by the API.
func (w *world) checkTold() {
	st := Status(w.state)
	old := w.told
	w.told = &st
	if old == nil || !w.prober || w.state.Removed { // of one that is nowhere any more nobody is told
		return
	}
	if (old.Phase == v1.PodSucceeded || old.Phase == v1.PodFailed) && st.Phase != old.Phase {
		w.t.Fatalf("phase from %s to %s\n%s", old.Phase, st.Phase, w.tail())
	}
	if !old.StartTime.Equal(st.StartTime) {
		w.t.Fatalf("start from %s to %s\n%s", old.StartTime, st.StartTime, w.tail())
	}
	if old.ObservedGeneration > st.ObservedGeneration {
		w.t.Fatalf("observed generation from %d to %d\n%s", old.ObservedGeneration, st.ObservedGeneration, w.tail())
	}
	is := func(s *v1.PodStatus, t v1.PodConditionType) bool {
		return slices.ContainsFunc(s.Conditions, func(c v1.PodCondition) bool { return c.Type == t && c.Status == v1.ConditionTrue })
	}
	if is(old, v1.PodInitialized) && !is(&st, v1.PodInitialized) {
		w.t.Fatalf("no longer initialized\n%s", w.tail())
	}
	if old.PodIP != "" && st.PodIP == "" && w.saved != nil {
		w.t.Fatalf("no address any more\n%s", w.tail())
	}
	lists := func(s *v1.PodStatus) [][]v1.ContainerStatus {
		return [][]v1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses, s.EphemeralContainerStatuses}
	}
	for k, list := range lists(&st) {
		for i := range list {
			c := &list[i]
			j := slices.IndexFunc(lists(old)[k], func(o v1.ContainerStatus) bool { return o.Name == c.Name })
			if j < 0 {
				continue
			}
			w.checkToldContainer(&lists(old)[k][j], c)
		}
	}
}

func (w *world) checkToldContainer(old, c *v1.ContainerStatus) {
	s := w.state.Container(c.Name)
	if c.RestartCount < old.RestartCount {
		w.t.Fatalf("%s: restarts from %d to %d\n%s", c.Name, old.RestartCount, c.RestartCount, w.tail())
	}
	if c.ContainerID != old.ContainerID && c.ContainerID != "" && old.ContainerID != "" && c.RestartCount == old.RestartCount {
		w.t.Fatalf("%s: from %s to %s without a restart\n%s", c.Name, old.ContainerID, c.ContainerID, w.tail())
	}
	if t := old.State.Terminated; t != nil && c.State.Terminated == nil && !w.state.mayRestartAll() && s.Kind != Sidecar {
		if s.Kind == Ephemeral || !w.state.restarts(&Container{Kind: Main, Cur: &Instance{ExitCode: t.ExitCode}, spec: s.spec}) {
			w.t.Fatalf("%s: had ended with %d, and now %+v\n%s", c.Name, t.ExitCode, c.State, w.tail())
		}
	}
	if a, b := old.State.Running, c.State.Running; a != nil && b != nil && old.ContainerID == c.ContainerID && old.Started != nil && *old.Started && !*c.Started {
		w.t.Fatalf("%s: no longer started\n%s", c.Name, w.tail())
	}
}

type fataler interface{ Fatalf(string, ...any) }
