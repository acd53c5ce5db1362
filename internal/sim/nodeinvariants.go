package sim

import (
	"strings"

	v1 "k8s.io/api/core/v1"

	"podo.dev/podo/internal/view"
)

// oneInstance: never do two containers of one name run for a pod.
func (w *World) oneInstance() {
	w.t.Helper()
	for _, m := range w.machines {
		running := map[[2]string]bool{}
		for _, c := range m.Runtime.Containers() {
			if !c.Running {
				continue
			}
			key := [2]string{c.Pod, c.Name}
			if running[key] {
				w.Failf(w.podNamed(c.Pod), "two containers %s of pod %s run on %s", c.Name, c.Pod, m.Name)
			}
			running[key] = true
		}
	}
}

func (w *World) podNamed(name string) *v1.Pod {
	if e := w.View.Snapshot().Get(podKind, "default", name); e != nil {
		return e.Object.(*v1.Pod)
	}
	return nil
}

// statusAgrees: what the API says of containers is what the runtime says; nothing runs of a pod that has ended or is not there.
func (w *World) statusAgrees(s view.Snapshot) {
	w.t.Helper()
	type place struct{ node, pod, container string }
	running := map[place]bool{}
	for _, m := range w.machines {
		for _, c := range m.Runtime.Containers() {
			if c.Running {
				running[place{m.Name, c.Pod, c.Name}] = true
			}
		}
	}
	for _, p := range pods(s) {
		if p.Spec.NodeName == "" {
			continue
		}
		all := append(append([]v1.ContainerStatus{}, p.Status.InitContainerStatuses...), p.Status.ContainerStatuses...)
		for _, c := range all {
			key := place{p.Spec.NodeName, p.Name, c.Name}
			if says := c.State.Running != nil; says != running[key] {
				w.Failf(p, "container %s of pod %s: the status says running=%v, the runtime %v\n%+v", c.Name, p.Name, says, running[key], p.Status)
			}
			if running[key] && ended(p) {
				w.Failf(p, "pod %s is %s, but its container %s runs", p.Name, p.Status.Phase, c.Name)
			}
			delete(running, key)
		}
	}
	for key := range running {
		w.Failf(w.podNamed(key.pod), "on %s runs container %s of pod %s, of which the API knows nothing", key.node, key.container, key.pod)
	}
}

// atWork: a pod on a node that is meant to run does so, or says what it waits for.
func (w *World) atWork(s view.Snapshot) {
	w.t.Helper()
	for _, p := range pods(s) {
		if p.Spec.NodeName == "" || ended(p) {
			continue
		}
		for _, c := range p.Status.ContainerStatuses {
			switch {
			case c.State.Running != nil, c.State.Terminated != nil:
			case c.State.Waiting != nil && c.State.Waiting.Reason != "" && c.State.Waiting.Reason != "ContainerCreating" && c.State.Waiting.Reason != "PodInitializing":
			default:
				w.Failf(p, "after a long quiet time container %s of pod %s on %s is %+v", c.Name, p.Name, p.Spec.NodeName, c.State)
			}
		}
	}
}

// noneRefused: the scheduler never sends a pod to a node that has no room for it: what a pod gives back when it ends is free for the
// kubelet no later than for the scheduler.
func (w *World) noneRefused(s view.Snapshot) {
	w.t.Helper()
	for _, p := range pods(s) {
		if strings.HasPrefix(p.Status.Reason, "OutOf") {
			w.Failf(p, "pod %s was sent to %s, which refuses it: %s", p.Name, p.Spec.NodeName, p.Status.Message)
		}
	}
}
