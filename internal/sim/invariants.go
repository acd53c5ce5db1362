package sim

import (
	"slices"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/scheduler/framework"
	"podo.dev/podo/internal/scheduler/plan"
	"podo.dev/podo/internal/scheduler/plugins"
	"podo.dev/podo/internal/timeline"
	"podo.dev/podo/internal/view"
)

// settle is longer than any back-off and grace: what has not happened by then never does.
const settle = 12 * time.Minute

// prompt is longer than a node's return, a pod's grace and a scheduling back-off, and shorter than five minutes.
const prompt = 2 * time.Minute

// quietPoint ends all faults, brings everything back, waits until nothing moves any more, and checks what must hold.
func (w *World) quietPoint() {
	w.t.Helper()
	w.note("quiet point")
	w.faults.off()
	w.scheduler.start()
	for _, p := range w.control {
		p.start()
	}
	for _, m := range w.machines {
		m.recover()
	}
	w.drains.Wait()
	// Scheduling is prompt: it must not live on the queue's five-minute flush.
	time.Sleep(prompt)
	synctest.Wait()
	w.noneForgotten(w.View.Snapshot())
	time.Sleep(settle)
	synctest.Wait()
	w.check()
}

func (w *World) check() {
	w.t.Helper()
	if w.t.Failed() {
		w.t.FailNow()
	}
	s := w.View.Snapshot()
	w.noOverCommit(s)
	w.everyPodExplained(s)
	w.noneForgotten(s)
	w.boundOnce(s)
	w.workloadsKept(s)
	w.setsKept(s)
	w.jobsCounted(s)
	w.shutNodesEmpty(s)
	w.nodesWell(s)
	w.oneInstance()
	if w.real {
		w.statusAgrees(s)
		w.atWork(s)
		w.noneRefused(s)
	} else {
		w.atRest() // real kubelets restart what crashes, and say so
	}
	w.View.CheckAll()
}

func pods(s view.Snapshot) (out []*v1.Pod) {
	for e := range s.All(podKind, "", view.Key{}) {
		out = append(out, e.Object.(*v1.Pod))
	}
	return out
}

func ended(p *v1.Pod) bool {
	return p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed
}

// noOverCommit: what the pods of a node ask for is never more than it has.
func (w *World) noOverCommit(s view.Snapshot) {
	w.t.Helper()
	type sum struct{ cpu, pods, port int64 }
	by := map[string]*sum{}
	for _, p := range pods(s) {
		if p.Spec.NodeName == "" || ended(p) {
			continue
		}
		n := by[p.Spec.NodeName]
		if n == nil {
			n = &sum{}
			by[p.Spec.NodeName] = n
		}
		n.pods++
		n.cpu += p.Spec.Containers[0].Resources.Requests.Cpu().MilliValue()
		for _, port := range p.Spec.Containers[0].Ports {
			if port.HostPort != 0 {
				n.port++
			}
		}
		have := Allocatable()
		if n.cpu > have.Cpu().MilliValue() || n.pods > have.Pods().Value() || n.port > 1 {
			w.Failf(p, "node %s is over-committed: %dm of cpu, %d pods, %d times the host port", p.Spec.NodeName, n.cpu, n.pods, n.port)
		}
	}
}

// everyPodExplained: a pod has a node, or says why not.
func (w *World) everyPodExplained(s view.Snapshot) {
	w.t.Helper()
	for _, p := range pods(s) {
		switch {
		case p.DeletionTimestamp != nil:
			w.Failf(p, "pod %s is still being deleted", p.Name)
		case p.Spec.NodeName != "":
			if p.Status.Phase == v1.PodPending && len(p.Status.ContainerStatuses) == 0 {
				w.Failf(p, "pod %s on %s is pending without a word", p.Name, p.Spec.NodeName)
			}
		default:
			i := slices.IndexFunc(p.Status.Conditions, func(c v1.PodCondition) bool { return c.Type == v1.PodScheduled })
			if i < 0 || p.Status.Conditions[i].Status != v1.ConditionFalse || p.Status.Conditions[i].Reason == "" {
				w.Failf(p, "pod %s has no node and does not say why: %+v", p.Name, p.Status.Conditions)
			}
		}
	}
}

// noneForgotten: no pod waits that would fit somewhere.
func (w *World) noneForgotten(s view.Snapshot) {
	w.t.Helper()
	c := framework.NewCluster()
	for e := range s.All(nodeKind, "", view.Key{}) {
		c.SetNode(e.Object.(*v1.Node))
	}
	for _, p := range pods(s) {
		if p.Spec.NodeName != "" && !ended(p) {
			c.SetPod(p)
		}
	}
	planner := plan.New(plugins.Default(nil), 1)
	for _, p := range pods(s) {
		if p.Spec.NodeName != "" || len(p.Spec.SchedulingGates) > 0 || ended(p) {
			continue
		}
		if d := planner.Schedule(c, c.Shape(p)); d.Node != nil {
			w.Failf(p, "pod %s waits although %s would take it", p.Name, d.Node.Name)
		}
	}
}

// boundOnce: a pod's story has at most one bind, and none while it was gated.
func (w *World) boundOnce(s view.Snapshot) {
	w.t.Helper()
	for _, p := range pods(s) {
		bound := timeline.Select(w.Timeline.Records(timeline.Query{UID: string(p.UID)}), timeline.Query{Stages: []timeline.Stage{timeline.Bound}})
		if len(bound) > 1 {
			w.Failf(p, "pod %s was bound %d times", p.Name, len(bound))
		}
		if p.Spec.NodeName != "" && len(p.Spec.SchedulingGates) > 0 {
			w.Failf(p, "pod %s is gated and bound", p.Name)
		}
	}
}

// empty deletes everything and checks that nothing is left.
func (w *World) empty() {
	w.t.Helper()
	w.note("delete everything")
	w.giveUpWorkloads()
	time.Sleep(settle)
	synctest.Wait()
	for _, p := range pods(w.View.Snapshot()) {
		w.must(w.admin.Delete(w.ctx(), client.Pods.At(p.Namespace, p.Name), deleteNow))
	}
	time.Sleep(settle)
	synctest.Wait()
	for _, p := range pods(w.View.Snapshot()) {
		w.Failf(p, "pod %s is still there", p.Name)
	}
	for _, m := range w.machines {
		for _, c := range m.Runtime.Containers() {
			w.Failf(nil, "container %s of pod %s is left on %s", c.Name, c.Pod, m.Name)
		}
		for _, b := range m.Runtime.Sandboxes() {
			w.Failf(nil, "a sandbox of pod %s is left on %s", b.Pod, m.Name)
		}
	}
}

var deleteNow = metav1.DeleteOptions{}
