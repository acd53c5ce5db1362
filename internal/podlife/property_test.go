package podlife

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

func drawPod(t *rapid.T) *v1.Pod {
	policy := rapid.SampledFrom([]v1.RestartPolicy{v1.RestartPolicyAlways, v1.RestartPolicyOnFailure, v1.RestartPolicyNever}).Draw(t, "policy")
	var names []string
	for i := range rapid.IntRange(0, 3).Draw(t, "inits") {
		names = append(names, fmt.Sprintf("%s%d", rapid.SampledFrom([]string{"i", "s"}).Draw(t, "kind"), i))
	}
	for i := range rapid.IntRange(1, 2).Draw(t, "mains") {
		names = append(names, fmt.Sprintf("m%d", i))
	}
	if rapid.IntRange(0, 3).Draw(t, "ephemeral") == 0 {
		names = append(names, "e0")
	}
	p := newPod(policy, names...)
	if rapid.IntRange(0, 4).Draw(t, "deadline?") == 0 {
		d := rapid.Int64Range(1, 600).Draw(t, "deadline")
		p.Spec.ActiveDeadlineSeconds = &d
	}
	for _, list := range [][]v1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			drawContainer(t, &list[i])
			list[i].Resources = drawResources(t)
			if rapid.IntRange(0, 2).Draw(t, "anew") == 0 && !(list[i].Name[0] == 'i') {
				list[i].ResizePolicy = []v1.ContainerResizePolicy{{ResourceName: v1.ResourceMemory, RestartPolicy: v1.RestartContainer}}
			}
		}
	}
	return p
}

// drawContainer gives a container hooks, probes and rules of its own, now and then.
func drawContainer(t *rapid.T, c *v1.Container) {
	if c.Name[0] != 'i' {
		switch rapid.IntRange(0, 9).Draw(t, "hooks") {
		case 0:
			c.Lifecycle = &v1.Lifecycle{PreStop: &v1.LifecycleHandler{}}
		case 1:
			c.Lifecycle = &v1.Lifecycle{PostStart: &v1.LifecycleHandler{}}
		}
		if rapid.IntRange(0, 4).Draw(t, "liveness") == 0 {
			c.LivenessProbe = &v1.Probe{}
		}
		if rapid.IntRange(0, 4).Draw(t, "readiness") == 0 {
			c.ReadinessProbe = &v1.Probe{}
		}
		if rapid.IntRange(0, 4).Draw(t, "startup") == 0 {
			c.StartupProbe = &v1.Probe{}
		}
	}
	if c.Name[0] == 's' || rapid.IntRange(0, 4).Draw(t, "rules") > 0 {
		return
	}
	own := rapid.SampledFrom([]v1.ContainerRestartPolicy{
		v1.ContainerRestartPolicyAlways, v1.ContainerRestartPolicyOnFailure, v1.ContainerRestartPolicyNever,
	}).Draw(t, "own")
	if c.Name[0] == 'i' {
		own = v1.ContainerRestartPolicyNever // Always would make it a sidecar
	}
	c.RestartPolicy = &own
	c.RestartPolicyRules = []v1.ContainerRestartRule{{
		Action: rapid.SampledFrom([]v1.ContainerRestartRuleAction{
			v1.ContainerRestartRuleActionRestart, v1.ContainerRestartRuleActionRestartAllContainers,
		}).Draw(t, "action"),
		ExitCodes: &v1.ContainerRestartRuleOnExitCodes{
			Operator: rapid.SampledFrom([]v1.ContainerRestartRuleOnExitCodesOperator{
				v1.ContainerRestartRuleOnExitCodesOpIn, v1.ContainerRestartRuleOnExitCodesOpNotIn,
			}).Draw(t, "operator"),
			Values: []int32{1},
		},
	}}
	if r := &c.RestartPolicyRules[0]; r.Action == v1.ContainerRestartRuleActionRestartAllContainers {
		r.ExitCodes.Operator = v1.ContainerRestartRuleOnExitCodesOpIn // there is no back-off: what cannot be started would begin anew for ever
	}
}

func drawRun(t *rapid.T) func(string, uint32) behaviour {
	type key struct {
		name    string
		attempt uint32
	}
	memo := map[key]behaviour{}
	return func(name string, attempt uint32) behaviour {
		k := key{name, min(attempt, 4)}
		b, ok := memo[k]
		if !ok {
			b = behaviour{
				d:       time.Duration(rapid.SampledFrom([]int{0, 1, 7, 60, 700}).Draw(t, "d")) * time.Second,
				code:    rapid.SampledFrom([]int32{0, 0, 1, 137}).Draw(t, "code"),
				deaf:    rapid.IntRange(0, 3).Draw(t, "deaf") == 0,
				noStart: rapid.IntRange(0, 9).Draw(t, "noStart") == 0,
			}
			if name[0] == 'i' && b.d == 0 {
				b.d = 3 * time.Second
			}
			memo[k] = b
		}
		return b
	}
}

// poke is something that happens to the pod from outside.
func poke(t *rapid.T, w *world) {
	switch rapid.SampledFrom([]string{
		"tick", "observe", "sandbox", "vanish", "delete", "remove", "evict", "kill", "probe", "image", "resize", "power", "wait", "wait",
	}).Draw(t, "poke") {
	case "tick":
		w.step(Tick{})
	case "observe":
		w.step(Observation{Observed: w.observe()})
	case "sandbox":
		w.loseSandbox()
	case "power":
		w.power(rapid.Bool().Draw(t, "old"))
	case "vanish":
		w.vanish()
	case "kill":
		for _, id := range sortedKeys(w.cons) {
			if w.cons[id].State == InstanceRunning {
				w.exit(id, 137, "OOMKilled")
				break
			}
		}
		w.step(Observation{Observed: w.observe()})
	case "probe":
		w.turn(rapid.SampledFrom([]Probe{Liveness, Startup, Readiness}).Draw(t, "which"))
	case "image":
		p := w.state.Pod.DeepCopy()
		p.Spec.Containers[0].Image += "x"
		w.step(Desired{Pod: p})
	case "delete":
		p := w.state.Pod.DeepCopy()
		now := metav1.NewTime(w.now)
		g := rapid.SampledFrom([]int64{1, 5, 30}).Draw(t, "grace")
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &now, &g
		w.step(Desired{Pod: p})
	case "resize":
		w.step(Desired{Pod: drawResize(t, w.state.Pod)})
	case "remove":
		w.step(SourceRemoved{})
	case "evict":
		w.step(StopAsked{Why: Evicted, Reason: "Evicted", Message: "The node was low on resource: memory."})
	case "wait":
	}
}

// The invariants hold whatever happens: effects that take time, fail or happen unheard, a runtime that loses things, a kubelet
// that restarts with calls in flight; and a pod that is stopped ends in bounded time once effects succeed.
func TestInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, drawPod(t))
		w.run, w.prober = drawRun(t), true
		delays := rapid.SliceOfN(rapid.SampledFrom([]int{0, 5, 80, 2500}), 8, 8).Draw(t, "delays")
		n := 0
		w.delay = func(Effect) time.Duration { n++; return time.Duration(delays[n%8]) * time.Millisecond }
		faulty := rapid.SliceOfN(rapid.IntRange(0, 5), 16, 16).Draw(t, "faults")
		m := 0
		w.fail = func(e Effect) *Failure {
			if _, ok := e.(Admit); ok {
				return nil
			}
			m++
			switch faulty[m%16] {
			case 0:
				return &Failure{Reason: "X", Message: "no"}
			case 1:
				return &Failure{Reason: "X", Message: "who knows", Unsure: true}
			}
			return nil
		}
		w.step(Tick{})
		at := time.Duration(0)
		for range rapid.IntRange(1, 12).Draw(t, "pokes") {
			at += time.Duration(rapid.SampledFrom([]int{1, 300, 4000, 15000, 90000}).Draw(t, "ms")) * time.Millisecond
			w.until(at)
			if rapid.IntRange(0, 2).Draw(t, "restart") == 0 {
				w.restart(func(Effect) bool { return rapid.Bool().Draw(t, "lost") })
			} else {
				poke(t, w)
			}
		}
		// From here on the runtime answers: the pod must end within its grace, sidecars' seconds and the waits of retries.
		w.fail = nil
		w.step(SourceRemoved{})
		w.until(at + time.Minute + time.Duration(len(w.state.Containers)+3)*(5*time.Second))
		if w.state.Stage != Gone || len(w.boxes) != 0 {
			t.Fatalf("not gone: stage %s, sandboxes %d, containers %d, queue %d: sandbox %s, observing %v, %+v\n%s", w.state.Stage, len(w.boxes), len(w.cons), len(w.queue), w.state.Sandbox, w.state.observing, w.state.Containers, w.tail())
		}
		for id, c := range w.cons {
			if c.State == InstanceRunning {
				t.Fatalf("%s still runs\n%s", id, w.tail())
			}
		}
	})
}

// A restart between events changes nothing: the same effects at the same times, the same events for users and the same status
// as without it. What may be repeated are questions and acquisitions; among them the image of a container that waits for its
// turn or for room: that it was there is not saved, which would write a file for most pods as they start, and it may be gone.
func TestRestartChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pod := drawPod(t)
		run := drawRun(t)
		failImage := rapid.IntRange(0, 3).Draw(t, "badImage")
		fail := func(e Effect) *Failure {
			if p, ok := e.(PullImage); ok && failImage == 0 && p.Container == "m0" {
				return &Failure{Reason: "ErrImagePull", Message: "not found"}
			}
			if c, ok := e.(CreateContainer); ok && failImage == 1 && c.Container == "m0" {
				return &Failure{Reason: "ErrImagePull", Message: "not found", Image: "mounted"}
			}
			return nil
		}
		type plan struct {
			at   time.Duration
			what string
		}
		var plans []plan
		at := time.Duration(0)
		for range rapid.IntRange(0, 3).Draw(t, "pokes") {
			at += time.Duration(rapid.IntRange(1, 200).Draw(t, "s")) * time.Second
			plans = append(plans, plan{at, rapid.SampledFrom([]string{"sandbox", "kill", "resize", "image", "unready", "unfit", "debug", "delete", "evict"}).Draw(t, "what")})
		}
		other, full := drawResize(t, pod), rapid.Bool().Draw(t, "full")
		restarts := rapid.SliceOfN(rapid.IntRange(1, 400), 1, 4).Draw(t, "restarts")
		slices.Sort(restarts)
		play := func(restart bool) *world {
			w := newWorld(t, pod)
			w.run, w.fail, w.prober = run, fail, true
			w.full = func(p *v1.Pod) string {
				return either(full && slices.ContainsFunc(p.Spec.Containers, func(c v1.Container) bool { return c.Resources.Requests.Cpu().MilliValue() >= 1000 }), "no room", "")
			}
			w.step(Tick{})
			todo := either(restart, restarts, nil)
			for _, p := range append(plans, plan{at + 500*time.Second, "end"}) {
				for len(todo) > 0 && time.Duration(todo[0])*time.Second < p.at {
					at := time.Duration(todo[0]) * time.Second
					todo = todo[1:]
					w.until(at)
					w.restart(nil)
					w.until(at)
				}
				w.until(p.at)
				switch p.what {
				case "sandbox":
					w.loseSandbox()
				case "kill":
					for _, id := range sortedKeys(w.cons) {
						if w.cons[id].State == InstanceRunning {
							w.exit(id, 137, "OOMKilled")
							break
						}
					}
					w.step(Observation{Observed: w.observe()})
				case "delete":
					d := w.state.Pod.DeepCopy()
					now, g := metav1.NewTime(w.now), int64(20)
					d.DeletionTimestamp, d.DeletionGracePeriodSeconds = &now, &g
					w.step(Desired{Pod: d})
				case "image":
					d := w.state.Pod.DeepCopy()
					d.Spec.Containers[0].Image += "x"
					w.step(Desired{Pod: d})
				case "debug":
					d := w.state.Pod.DeepCopy()
					d.Spec.EphemeralContainers = newPod("", fmt.Sprintf("e%d", len(d.Spec.EphemeralContainers))).Spec.EphemeralContainers
					d.Spec.EphemeralContainers = append(slices.Clone(w.state.Pod.Spec.EphemeralContainers), d.Spec.EphemeralContainers...)
					w.step(Desired{Pod: d})
				case "unready", "unfit":
					w.turn(either(p.what == "unready", Readiness, Liveness))
				case "resize":
					d := w.state.Pod.DeepCopy()
					debugs := d.Spec.EphemeralContainers // they never go
					d.Generation, d.Spec = d.Generation+1, other.Spec
					d.Spec.EphemeralContainers = debugs
					w.step(Desired{Pod: d})
				case "evict":
					w.step(StopAsked{Why: Evicted, Reason: "Evicted", Message: "low"})
				}
			}
			return w
		}
		a, b := play(false), play(true)
		ta, tb := story(a), story(b)
		if !slices.Equal(ta, tb) {
			t.Fatalf("restarts at %d changed the story:\n--- without\n%s\n--- with\n%s", restarts, strings.Join(a.trace, "\n"), strings.Join(b.trace, "\n"))
		}
		if sa, sb := fmt.Sprintf("%+v", brief(a.status())), fmt.Sprintf("%+v", brief(b.status())); sa != sb {
			t.Fatalf("restarts at %d changed the status:\n%s\n%s\n%s", restarts, sa, sb, b.tail())
		}
	})
}

// story is the trace without the restart itself and what may be asked twice.
func story(w *world) []string {
	return slices.DeleteFunc(slices.Clone(w.trace), func(l string) bool {
		return strings.Contains(l, "--- restart") || strings.Contains(l, "do admit") || strings.Contains(l, "do stop/") || strings.Contains(l, "do sweep/") ||
			strings.Contains(l, "/PreStop {") || strings.Contains(l, "do again ") ||
			strings.Contains(l, "do allocate") || strings.Contains(l, "do resize")
	})
}

func brief(st v1.PodStatus) []string {
	out := []string{string(st.Phase), st.Reason}
	for _, l := range [][]v1.ContainerStatus{st.InitContainerStatuses, st.ContainerStatuses} {
		for _, c := range l {
			out = append(out, fmt.Sprintf("%s n=%d ready=%v started=%v state=%s last=%s", c.Name, c.RestartCount, c.Ready, *c.Started, c.State.String(), c.LastTerminationState.String()))
		}
	}
	for _, c := range st.Conditions {
		out = append(out, fmt.Sprintf("%s=%s %s %s", c.Type, c.Status, c.Reason, c.Message))
	}
	return out
}
