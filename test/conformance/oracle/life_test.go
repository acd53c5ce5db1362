package oracle

import (
	"fmt"
	"slices"
	"testing"
	"time"
	_ "unsafe" // go:linkname

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/klog/v2"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	_ "k8s.io/kubernetes/pkg/kubelet"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	upstream "k8s.io/kubernetes/pkg/kubelet/status"

	"podo.dev/podo/internal/podlife"
)

// life is a case: a pod, and what a runtime has of it when a kubelet starts anew.
type life struct {
	pod    *v1.Pod
	saved  podlife.Saved
	seen   podlife.Observed
	events []podlife.Event
}

var lifeNow = created.Add(time.Hour)

// life makes a pod at any point of its life.
func (m *mutator) life(pods *population) (life, bool) {
	k := kind("pods")
	pod := k.stored(m, pods)
	if pod == nil {
		return life{}, false
	}
	c := life{pod: pod.(*v1.Pod)}
	c.pod.Spec.NodeName, c.pod.Status = "n1", v1.PodStatus{}
	c.pod.Generation = int64(1 + m.IntN(3))
	for _, g := range c.pod.Spec.ReadinessGates {
		if m.IntN(3) > 0 {
			c.pod.Status.Conditions = append(c.pod.Status.Conditions, v1.PodCondition{
				Type: g.ConditionType, Status: pick(m, []v1.ConditionStatus{v1.ConditionTrue, v1.ConditionFalse, v1.ConditionUnknown}),
			})
		}
	}
	c.saved = podlife.Saved{Namespace: c.pod.Namespace, Name: c.pod.Name, UID: c.pod.UID, Admitted: true, Start: created.Time}
	if m.IntN(5) > 0 {
		c.seen.Sandboxes = []podlife.SandboxInfo{{ID: "s", Ready: m.IntN(6) > 0, IPs: []string{"10.0.0.1"}}}
	}
	for _, name := range containers(c.pod) {
		newest := m.IntN(3) - 1 // -1: there is none
		for n := range newest + 1 {
			in := podlife.Instance{
				ID: fmt.Sprint(name, n), SandboxID: "s", Name: name, Attempt: uint32(n), Image: "i", ImageRef: "sha256:1", CreatedAt: created.Time,
				State: podlife.InstanceExited, StartedAt: created.Time, FinishedAt: created.Add(time.Minute), ExitCode: int32(m.IntN(2)),
			}
			if n == newest && len(c.seen.Sandboxes) > 0 && c.seen.Sandboxes[0].Ready {
				in.State = pick(m, []podlife.InstanceState{podlife.InstanceCreated, podlife.InstanceRunning, podlife.InstanceRunning, podlife.InstanceExited})
			}
			c.seen.Containers = append(c.seen.Containers, in)
			if in.State == podlife.InstanceRunning {
				c.events = append(c.events,
					podlife.ProbeTurned{Container: name, ID: in.ID, Probe: podlife.Startup, OK: m.IntN(3) > 0},
					podlife.ProbeTurned{Container: name, ID: in.ID, Probe: podlife.Readiness, OK: m.IntN(3) > 0})
			}
		}
	}
	if m.IntN(8) == 0 {
		c.events = append(c.events, podlife.StopAsked{Why: podlife.Evicted, Reason: "Evicted", Message: "m"})
	}
	return c, true
}

func containers(pod *v1.Pod) []string {
	var out []string
	for _, c := range pod.Spec.InitContainers {
		out = append(out, c.Name)
	}
	for _, c := range pod.Spec.Containers {
		out = append(out, c.Name)
	}
	return out
}

// getPhase is upstream's; not exported, so that the linker finds it.
//
//go:linkname getPhase k8s.io/kubernetes/pkg/kubelet.getPhase
func getPhase(logger klog.Logger, pod *v1.Pod, statuses []v1.ContainerStatus, terminal, initialized bool) v1.PodPhase

// differ compares the phase that upstream's kubelet makes of the statuses of containers that Podo tells, and the conditions that it
// makes of them in Podo's phase. Those statuses themselves are made by methods of a whole kubelet, with a runtime and a status manager
// behind it, which a test cannot have: they are not compared here, but by the conformance suite.
func (c life) differ() []Difference {
	cfg := podlife.Defaults()
	cfg.HostIPs = []string{"1.2.3.4"}
	s := podlife.Restore(cfg, c.pod, &c.saved, c.seen, lifeNow)
	old := c.pod.Status.DeepCopy()
	for _, ev := range append(c.events, podlife.Tick{}) {
		if s.Initialized { // as the one before this was told
			old.Conditions = append(old.Conditions, v1.PodCondition{Type: v1.PodInitialized, Status: v1.ConditionTrue})
		}
		s, _ = podlife.Step(s, ev, lifeNow)
	}
	st := podlife.Status(s)
	if s.Reject != nil {
		return nil
	}
	statuses := append(append([]v1.ContainerStatus{}, st.InitContainerStatuses...), st.ContainerStatuses...)
	known := &kubecontainer.PodStatus{}
	for _, in := range c.seen.Containers {
		state := map[podlife.InstanceState]kubecontainer.State{
			podlife.InstanceCreated: kubecontainer.ContainerStateCreated, podlife.InstanceRunning: kubecontainer.ContainerStateRunning,
			podlife.InstanceExited: kubecontainer.ContainerStateExited,
		}[in.State]
		cs := &kubecontainer.Status{Name: in.Name, State: state, ExitCode: int(in.ExitCode), CreatedAt: in.CreatedAt, StartedAt: in.StartedAt}
		known.ContainerStatuses = append([]*kubecontainer.Status{cs}, known.ContainerStatuses...) // the newest first
		if len(c.seen.Sandboxes) > 0 && c.seen.Sandboxes[0].Ready {
			known.ActiveContainerStatuses = append([]*kubecontainer.Status{cs}, known.ActiveContainerStatuses...)
		}
	}
	for _, sb := range c.seen.Sandboxes {
		state := runtimeapi.PodSandboxState_SANDBOX_NOTREADY
		if sb.Ready {
			state = runtimeapi.PodSandboxState_SANDBOX_READY
		}
		network := runtimeapi.NamespaceMode_POD
		if c.pod.Spec.HostNetwork {
			network = runtimeapi.NamespaceMode_NODE
		}
		known.SandboxStatuses = append(known.SandboxStatuses, &runtimeapi.PodSandboxStatus{
			Id: sb.ID, State: state, Metadata: &runtimeapi.PodSandboxMetadata{}, Network: &runtimeapi.PodSandboxNetworkStatus{Ip: sb.IPs[0]},
			Linux: &runtimeapi.LinuxPodSandboxStatus{Namespaces: &runtimeapi.Namespace{Options: &runtimeapi.NamespaceOption{Network: network}}},
		})
	}
	out := c.differPhase(s, st.Phase, statuses, known)
	phase := st.Phase
	if s.Stop.Why == podlife.Deadline { // upstream's kubelet takes it for failed before it looks at its conditions; users are told so at its end
		phase = v1.PodFailed
	}
	theirs := []v1.PodCondition{
		upstream.GeneratePodInitializedCondition(c.pod, old, statuses, phase),
		upstream.GenerateContainersReadyCondition(c.pod, old, statuses, phase),
	}
	// A gate may name any condition that is told before.
	before := slices.IndexFunc(st.Conditions, func(c v1.PodCondition) bool { return c.Type == v1.PodReady })
	theirs = append(theirs, upstream.GeneratePodReadyCondition(c.pod, old, st.Conditions[:max(before, 0)], statuses, phase))
	if podutil.AllContainersCouldRestart(&c.pod.Spec) {
		theirs = append(theirs, upstream.GenerateAllContainersRestartingCondition(c.pod, known, old, phase))
	}
	if s.Stage < podlife.Releasing { // from there on the sandbox is being stopped, and Podo says so at once
		theirs = append(theirs, upstream.GeneratePodReadyToStartContainersCondition(c.pod, old, known))
	}
	for _, up := range theirs {
		var ours *v1.PodCondition
		for i := range st.Conditions {
			if st.Conditions[i].Type == up.Type {
				ours = &st.Conditions[i]
			}
		}
		out = append(out, compareJSON(string(up.Type), tree(up), tree(ours))...)
	}
	return out
}

// differPhase leaves out pods that end although their containers do not say so, and the time between the end that the containers
// show and the pod's: upstream's status manager keeps the phase back until nothing runs any more.
func (c life) differPhase(s podlife.State, phase v1.PodPhase, statuses []v1.ContainerStatus, known *kubecontainer.PodStatus) []Difference {
	if s.Stop.Why != podlife.NotStopped && s.Stop.Why != podlife.Completed {
		return nil
	}
	theirs := getPhase(klog.Background(), c.pod, statuses, s.Final != "", kubecontainer.HasAnyActiveRegularContainerStarted(&c.pod.Spec, known))
	if s.Final == "" && (theirs == v1.PodFailed || theirs == v1.PodSucceeded) {
		return nil
	}
	return compareJSON("phase", string(theirs), string(phase))
}

// TestConditions compares what the kubelets say of a pod.
func TestConditions(t *testing.T) {
	if *only != "" && *only != "pods" {
		t.Skip("one kind only")
	}
	t.Parallel()
	m := mutatorFor(t)
	pods := newPopulation(seeds(t, kind("pods")))
	var r Report
	for range rounds(1) {
		c, ok := m.life(pods)
		if !ok {
			continue
		}
		r.ran()
		r.found("life", c.differ(), c.smallest)
	}
	r.fail(t)
}

func (c life) smallest(sig string) string {
	shows := func(c life) bool {
		_, ok := signatures("life", c.differ())[sig]
		return ok
	}
	c.pod = shrink(c.pod, func(o runtime.Object) bool {
		next := c
		next.pod = o.(*v1.Pod)
		return kind("pods").storable(o) && shows(next)
	}).(*v1.Pod)
	d := signatures("life", c.differ())[sig]
	text := "upstream: " + d.Upstream + "\npodo:     " + d.Podo + "\n" + manifest(c.pod)
	for _, sb := range c.seen.Sandboxes {
		text += fmt.Sprintf("sandbox %+v\n", sb)
	}
	for _, in := range c.seen.Containers {
		text += fmt.Sprintf("container %s, attempt %d: state %d, exit code %d\n", in.Name, in.Attempt, in.State, in.ExitCode)
	}
	return text + fmt.Sprintf("events %+v\n", c.events)
}
