package podlife

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"
)

// allocate is a node that judges what is asked for at this moment.
func (w *world) allocate() Event {
	if w.full != nil {
		if why := w.full(w.state.Pod); why != "" {
			return Allocated{Pod: w.state.Pod, Reason: v1.PodReasonDeferred, Message: why}
		}
	}
	return Allocated{Pod: w.state.Pod}
}

// resize changes containers one by one; one that fails leaves those after it as they were.
func (w *world) resize(x ResizePod, f *Failure) Event {
	out := Resized{Granted: x.Granted, Fail: f}
	for i, ch := range x.Changes {
		if f != nil && !f.Unsure && i > 0 {
			break
		}
		if in := w.cons[ch.ID]; in == nil || in.State != InstanceRunning {
			out.Fail = &Failure{Message: "container is not running"}
			break
		}
		w.limits[ch.ID] = amountsOf(ch.To)
		if f == nil || !f.Unsure {
			out.Done = append(out.Done, ch)
		}
	}
	return out
}

func resources(cpu, memory string) v1.ResourceRequirements {
	return v1.ResourceRequirements{
		Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse(memory)},
		Limits:   v1.ResourceList{v1.ResourceMemory: resource.MustParse(memory)},
	}
}

func drawResources(t *rapid.T) v1.ResourceRequirements {
	return resources(rapid.SampledFrom([]string{"100m", "200m", "1"}).Draw(t, "cpu"), rapid.SampledFrom([]string{"1Mi", "2Mi"}).Draw(t, "memory"))
}

func drawResize(t *rapid.T, p *v1.Pod) *v1.Pod {
	p = p.DeepCopy()
	p.Generation++
	for _, list := range [][]v1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			if rapid.Bool().Draw(t, "resize?") {
				list[i].Resources = drawResources(t)
			}
		}
	}
	return p
}

// asks is the pod with a container that asks for something else.
func asks(p *v1.Pod, container int, r v1.ResourceRequirements) *v1.Pod {
	p = p.DeepCopy()
	p.Generation++
	p.Spec.Containers[container].Resources = r
	return p
}

// reasons are the events about resizes so far.
func (w *world) reasons() string {
	var out []string
	for _, e := range w.events {
		if strings.HasPrefix(e.Reason, "Resize") {
			out = append(out, e.Reason)
		}
	}
	return strings.Join(out, " ")
}

func TestResizeInPlace(t *testing.T) {
	p := newPod(v1.RestartPolicyAlways, "m0", "m1")
	p.Spec.Containers[0].Resources, p.Spec.Containers[1].Resources = resources("100m", "1Mi"), resources("100m", "1Mi")
	w := newWorld(t, p)
	w.step(Tick{})
	w.until(time.Second)
	w.delay = func(Effect) time.Duration { return time.Second }
	w.step(Desired{Pod: asks(w.state.Pod, 0, resources("200m", "2Mi"))})
	if st := w.status(); st.ObservedGeneration != 1 {
		t.Errorf("generation %d is told of before it is judged", st.ObservedGeneration)
	}
	w.until(2500 * time.Millisecond) // granted, and on its way
	st := w.status()
	if st.ObservedGeneration != 2 {
		t.Errorf("generation %d is told", st.ObservedGeneration)
	}
	if c := condition(st, v1.PodResizeInProgress); c == nil || c.ObservedGeneration != 2 || c.Reason != "" {
		t.Errorf("while it goes on: %+v", c)
	}
	if got := st.ContainerStatuses[0]; got.AllocatedResources.Cpu().String() != "200m" || got.Resources.Requests.Cpu().String() != "100m" {
		t.Errorf("allocated %v, resources %v", got.AllocatedResources, got.Resources)
	}
	w.until(10 * time.Second)
	st = w.status()
	if got := st.ContainerStatuses[0]; got.Resources.Requests.Cpu().String() != "200m" || got.Resources.Limits.Memory().String() != "2Mi" || got.RestartCount != 0 {
		t.Errorf("afterwards: %v, %d restarts", got.Resources, got.RestartCount)
	}
	if w.limits["m0-0"] != amountsOf(resources("200m", "2Mi")) || condition(st, v1.PodResizeInProgress) != nil {
		t.Errorf("limits %+v, conditions %+v", w.limits, st.Conditions)
	}
	if got := w.reasons(); got != "ResizeStarted ResizeCompleted" {
		t.Errorf("events %q", got)
	}
	want := `Pod resize completed: {"containers":[{"name":"m0","resources":{"limits":{"memory":"2Mi"},"requests":{"cpu":"200m","memory":"2Mi"}}},` +
		`{"name":"m1","resources":{"limits":{"memory":"1Mi"},"requests":{"cpu":"100m","memory":"1Mi"}}}],"generation":2}`
	if got := w.events[len(w.events)-1].Message; got != want {
		t.Errorf("said %s\nwant %s", got, want)
	}
}

func condition(st v1.PodStatus, kind v1.PodConditionType) *v1.PodCondition {
	for i := range st.Conditions {
		if st.Conditions[i].Type == kind {
			return &st.Conditions[i]
		}
	}
	return nil
}

func TestResizeByPolicy(t *testing.T) {
	p := newPod(v1.RestartPolicyNever, "m0", "m1")
	p.Spec.Containers[0].Resources = resources("100m", "1Mi")
	p.Spec.Containers[0].ResizePolicy = []v1.ContainerResizePolicy{{ResourceName: v1.ResourceMemory, RestartPolicy: v1.RestartContainer}}
	w := newWorld(t, p)
	w.step(Tick{})
	w.until(time.Second)
	w.step(Desired{Pod: asks(w.state.Pod, 0, resources("200m", "1Mi"))}) // cpu: in place
	w.until(2 * time.Second)
	w.step(Desired{Pod: asks(w.state.Pod, 0, resources("200m", "2Mi"))})
	w.restart(nil) // whatever has been begun goes on
	w.until(60 * time.Second)
	got := w.cstatus("m0")
	if got.RestartCount != 1 || got.State.Running == nil || got.Resources.Limits.Memory().String() != "2Mi" || w.state.Progress != nil {
		t.Errorf("%+v, in progress %+v\n%s", got, w.state.Progress, w.tail())
	}
	if w.limits["m0-1"] != amountsOf(resources("200m", "2Mi")) || w.cstatus("m1").RestartCount != 0 {
		t.Errorf("limits %+v, m1 %+v", w.limits, w.cstatus("m1"))
	}
	w.step(Desired{Pod: asks(w.state.Pod, 0, resources("200m", "1Mi"))}) // again, at once: it never failed
	w.until(61 * time.Second)
	if got := w.cstatus("m0"); got.RestartCount != 2 || got.State.Running == nil {
		t.Errorf("%+v", got)
	}
}

func TestResizePending(t *testing.T) {
	p := newPod(v1.RestartPolicyAlways, "m0")
	p.Spec.Containers[0].Resources = resources("100m", "1Mi")
	w := newWorld(t, p)
	full := "Node didn't have enough resource: cpu, requested: 1000, used: 0, capacity: 500"
	w.full = func(p *v1.Pod) string {
		if p.Spec.Containers[0].Resources.Requests.Cpu().MilliValue() > 500 {
			return full
		}
		return ""
	}
	w.step(Tick{})
	w.until(time.Second)
	w.step(Desired{Pod: asks(w.state.Pod, 0, resources("1", "1Mi"))})
	w.until(2 * time.Second)
	w.step(Allocated{Pod: w.state.Pod, Reason: v1.PodReasonDeferred, Message: full + "!"}) // judged again: told, but no event
	st := w.status()
	c := condition(st, v1.PodResizePending)
	if c == nil || c.Reason != "Deferred" || c.Message != full+"!" || c.ObservedGeneration != 2 || st.ContainerStatuses[0].AllocatedResources.Cpu().String() != "100m" {
		t.Fatalf("%+v, %+v", c, st.ContainerStatuses[0])
	}
	w.restart(nil)
	w.until(3 * time.Second)
	if c := condition(w.status(), v1.PodResizePending); c == nil || c.ObservedGeneration != 2 {
		t.Errorf("after a restart: %+v", c)
	}
	ends := deleting(w.state.Pod, w.now, 30) // nobody judges it any more
	ends.Generation = 3
	if end, _ := Step(w.state, Desired{Pod: ends}, w.now); Status(end).ObservedGeneration != 3 {
		t.Errorf("of a pod that ends the generation %d is observed", Status(end).ObservedGeneration)
	}
	w.step(Desired{Pod: asks(w.state.Pod, 0, resources("100m", "1Mi"))}) // taken back
	w.until(4 * time.Second)
	if c := condition(w.status(), v1.PodResizePending); c != nil {
		t.Errorf("after it was taken back: %+v", c)
	}
	if got := w.reasons(); got != "ResizeDeferred" {
		t.Errorf("events %q", got)
	}
}

func TestResizeError(t *testing.T) {
	p := newPod(v1.RestartPolicyAlways, "m0")
	p.Spec.Containers[0].Resources = resources("100m", "2Mi")
	w := newWorld(t, p)
	low := true
	w.fail = func(e Effect) *Failure {
		if _, ok := e.(ResizePod); ok && low {
			return &Failure{Message: "cannot decrease memory limits"}
		}
		return nil
	}
	w.step(Tick{})
	w.until(time.Second)
	w.step(Desired{Pod: asks(w.state.Pod, 0, resources("100m", "1Mi"))})
	w.until(20 * time.Second)
	c := condition(w.status(), v1.PodResizeInProgress)
	if c == nil || c.Reason != "Error" || c.Message != "cannot decrease memory limits" || c.ObservedGeneration != 2 {
		t.Fatalf("%+v", c)
	}
	limit := func(when, want string) {
		t.Helper()
		if got := w.status().Resources.Limits.Memory().String(); got != want {
			t.Errorf("%s the pod's own limit is told as %s, want %s", when, got, want)
		}
	}
	limit("before a restart", "2Mi")
	w.restart(nil)
	w.until(21 * time.Second)
	limit("after it", "2Mi")
	low = false
	w.until(90 * time.Second)
	limit("at last", "1Mi")
	if got := w.reasons(); got != "ResizeStarted ResizeError ResizeCompleted" || w.state.Progress != nil {
		t.Errorf("events %q", got)
	}
}

// Whatever fails, and however often the kubelet restarts: once things work, what runs has what was last asked for.
func TestResizesSettle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, drawPod(t))
		w.state.Pod.Spec.ActiveDeadlineSeconds = nil
		delays := rapid.SliceOfN(rapid.SampledFrom([]int{0, 5, 80, 2500}), 8, 8).Draw(t, "delays")
		n, m := 0, 0
		w.delay = func(Effect) time.Duration { n++; return time.Duration(delays[n%8]) * time.Millisecond }
		w.run = func(name string, _ uint32) behaviour { return behaviour{d: either(name[0] == 'i', time.Second, 0)} }
		faulty := rapid.SliceOfN(rapid.IntRange(0, 5), 16, 16).Draw(t, "faults")
		w.fail = func(e Effect) *Failure {
			m++
			if _, ok := e.(Admit); ok || faulty[m%16] > 1 {
				return nil
			}
			return &Failure{Reason: "X", Message: fmt.Sprint("fault ", m), Unsure: faulty[m%16] == 1}
		}
		w.step(Tick{})
		at := time.Duration(0)
		for range rapid.IntRange(1, 6).Draw(t, "pokes") {
			at += time.Duration(rapid.SampledFrom([]int{1, 300, 4000, 15000}).Draw(t, "ms")) * time.Millisecond
			w.until(at)
			if rapid.IntRange(0, 2).Draw(t, "restart") == 0 {
				w.restart(func(Effect) bool { return rapid.Bool().Draw(t, "lost") })
			} else {
				w.step(Desired{Pod: drawResize(t, w.state.Pod)})
			}
		}
		w.fail = nil
		w.until(at + 10*time.Minute)
		if w.state.Stage > Running {
			return // its containers have ended for good
		}
		if w.state.Pending != nil || w.state.Progress != nil || w.state.Given() != w.state.Pod {
			t.Fatalf("pending %+v, in progress %+v\n%s", w.state.Pending, w.state.Progress, w.tail())
		}
		for id, in := range w.cons {
			want := w.state.Container(in.Name).spec.Resources
			if in.State == InstanceRunning && w.limits[id] != amountsOf(want) {
				t.Fatalf("%s has %+v, want %+v\n%s", id, w.limits[id], amountsOf(want), w.tail())
			}
		}
	})
}

// A container that is made anew for another reason needs no resize any more: that is known at once, not at the next event. (The pod's own
// part is done already: it was granted while the container was being started.)
func TestAnotherImageAmidAResize(t *testing.T) {
	p := newPod(v1.RestartPolicyAlways, "m0")
	p.Spec.Containers[0].Resources = resources("100m", "2Mi")
	w := newWorld(t, p)
	w.delay = func(e Effect) time.Duration {
		_, ok := e.(StartContainer)
		return either(ok, 5*time.Second, 0)
	}
	w.fail = func(e Effect) *Failure {
		if x, ok := e.(ResizePod); ok && len(x.Changes) > 0 {
			return &Failure{Message: "no"}
		}
		return nil
	}
	w.step(Tick{})
	w.until(time.Second)
	w.step(Desired{Pod: asks(w.state.Pod, 0, resources("200m", "2Mi"))})
	w.until(20 * time.Second)
	p = w.state.Pod.DeepCopy()
	p.Spec.Containers[0].Image = "other"
	w.step(Desired{Pod: p}) // the world wants quiet after each step
	w.until(time.Minute)
	if st := w.cstatus("m0"); st.State.Running == nil || st.Resources.Requests.Cpu().String() != "200m" || w.state.Progress != nil {
		t.Errorf("%+v", st)
	}
}

// The event of a resize that waits has the node's word for what it lacks, as upstream's has; the condition says that it is deferred.
func TestWhatAResizeWaitsFor(t *testing.T) {
	w := newWorld(t, newPod(v1.RestartPolicyAlways, "m0"))
	w.step(Tick{})
	w.until(time.Second)
	w.step(Allocated{Pod: asks(w.state.Pod, 0, resources("100m", "1Mi")), Reason: v1.PodReasonDeferred, Message: "full", Word: "OutOfmemory"})
	last := w.events[len(w.events)-1]
	if last.Reason != "ResizeDeferred" || !strings.HasPrefix(last.Message, "Pod resize OutOfmemory: {") {
		t.Errorf("%+v", last)
	}
}

// kubernetes/kubernetes#126033: what is not granted is not what a container gets that runs anew meanwhile.
func TestWhatIsDeferredIsNotRunWith(t *testing.T) {
	p := newPod(v1.RestartPolicyAlways, "m0")
	p.Spec.Containers[0].Resources = resources("100m", "1Mi")
	w := newWorld(t, p)
	w.full = func(p *v1.Pod) string {
		return either(p.Spec.Containers[0].Resources.Requests.Cpu().MilliValue() > 500, "full", "")
	}
	w.run = func(_ string, attempt uint32) behaviour {
		return either(attempt == 0, behaviour{d: 5 * time.Second, code: 1}, behaviour{})
	}
	w.step(Tick{})
	w.until(time.Second)
	w.step(Desired{Pod: asks(w.state.Pod, 0, resources("1", "1Mi"))})
	w.until(time.Minute)
	st := w.status()
	if got := st.ContainerStatuses[0]; got.RestartCount != 1 || got.State.Running == nil || got.Resources.Requests.Cpu().String() != "100m" ||
		w.limits["m0-1"] != amountsOf(resources("100m", "1Mi")) || condition(st, v1.PodResizePending) == nil {
		t.Errorf("%+v, %+v", got, w.limits)
	}
}

// kubernetes/kubernetes#141814: what a pod has of cpu and memory is told of both, however little of cpu it is.
func TestLittleCPUIsTold(t *testing.T) {
	for _, cpu := range []string{"1m", "10m", "11m"} {
		amounts := v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse("1Mi")}
		p := newPod(v1.RestartPolicyAlways, "m")
		p.Spec.Containers[0].Resources = v1.ResourceRequirements{Requests: amounts, Limits: amounts}
		w := newWorld(t, p)
		w.step(Tick{})
		w.until(time.Second)
		st := w.status()
		for _, list := range []v1.ResourceList{st.Resources.Requests, st.Resources.Limits, st.AllocatedResources} {
			if list.Cpu().String() != cpu || list.Memory().String() != "1Mi" {
				t.Errorf("of %s is told %+v", cpu, st.Resources)
			}
		}
	}
}
