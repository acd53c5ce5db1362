package sim

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/store"
	"podo.dev/podo/internal/view"
)

// step does one thing that a user, or fate, may do, and lets some time pass.
func (w *World) step(actions []action) {
	total := 0
	for _, a := range actions {
		total += a.weight
	}
	n := w.rng.IntN(total)
	for _, a := range actions {
		if n -= a.weight; n < 0 {
			a.do(w)
			break
		}
	}
	for _, m := range w.machines {
		w.mend(m)
	}
	time.Sleep(time.Duration(w.rng.ExpFloat64() * float64(2*time.Second)))
	w.oneInstance()
}

type action struct {
	weight int
	do     func(w *World)
}

// users is what users do.
var users = []action{{30, (*World).create}, {15, (*World).delete}, {3, (*World).cordon}, {1, (*World).deleteNode}, {3, (*World).ungate}}

// visitors is what users do where others have most of the work.
var visitors = []action{{6, (*World).create}, {3, (*World).delete}, {1, (*World).cordon}, {1, (*World).deleteNode}, {1, (*World).ungate}}

// fate is what goes wrong in the control plane.
var fate = []action{
	{3, (*World).killScheduler},
	{2, (*World).killController},
	{3, (*World).killKubelet},
	{3, (*World).breakStore},
	{2, (*World).breakWatches},
	{1, (*World).longTime},
}

func (w *World) create() {
	w.serial++
	cpu := []string{"", "100m", "400m", "900m", "1500m", "3"}[w.rng.IntN(6)]
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("pod-%d", w.serial)}}
	grace := int64(w.rng.IntN(40))
	p.Spec.TerminationGracePeriodSeconds = &grace
	c := v1.Container{Name: "main", Image: Image, Command: w.program()}
	c.ImagePullPolicy = v1.PullIfNotPresent
	if cpu != "" {
		c.Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)}
	}
	p.Spec.Containers = []v1.Container{c}
	if w.rng.IntN(4) == 0 {
		p.Spec.InitContainers = []v1.Container{{Name: "init", Image: Image, ImagePullPolicy: v1.PullIfNotPresent, Command: []string{"sleep", "2"}}}
	}
	p.Spec.RestartPolicy = []v1.RestartPolicy{v1.RestartPolicyAlways, v1.RestartPolicyOnFailure, v1.RestartPolicyNever}[w.rng.IntN(3)]
	if w.rng.IntN(8) == 0 {
		p.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "sim/gate"}}
	}
	if w.rng.IntN(8) == 0 {
		p.Spec.Containers[0].Ports = []v1.ContainerPort{{ContainerPort: 80, HostPort: 8080}}
	}
	_, err := w.admin.Create(w.ctx(), client.Pods.At("default", ""), p)
	w.note("create %s cpu=%q %v %s: %v", p.Name, cpu, c.Command, p.Spec.RestartPolicy, err)
}

// Image is what every container of the simulation runs.
const Image = "localhost/sim:1"

func (w *World) program() []string {
	return [][]string{
		{"sleep", "inf"},
		{"sleep", "inf"},
		{"sleep", "20"},
		{"sh", "-c", "sleep 5; exit 3"},
		{"false"},
		{"true"},
		{"sh", "-c", "trap '' TERM; sleep inf"},
		{"sh", "-c", "trap 'sleep 3; exit 0' TERM; sleep inf"},
	}[w.rng.IntN(8)]
}

// anyPod picks one of the pods there are, or nil.
func (w *World) anyPod(keep func(*v1.Pod) bool) *v1.Pod {
	var all []*v1.Pod
	for e := range w.View.Snapshot().All(podKind, "", view.Key{}) {
		if p := e.Object.(*v1.Pod); keep == nil || keep(p) {
			all = append(all, p)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all[w.rng.IntN(len(all))]
}

func (w *World) delete() {
	p := w.anyPod(nil)
	if p == nil {
		return
	}
	o := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &p.UID}}
	if w.rng.IntN(5) == 0 {
		short := int64(1 + w.rng.IntN(5))
		o.GracePeriodSeconds = &short
	}
	err := w.admin.Delete(w.ctx(), client.Pods.At(p.Namespace, p.Name), o)
	w.note("delete %s: %v", p.Name, err)
}

func (w *World) ungate() {
	p := w.anyPod(func(p *v1.Pod) bool { return len(p.Spec.SchedulingGates) > 0 })
	if p == nil {
		return
	}
	_, err := w.admin.Mutate(w.ctx(), client.Pods.At(p.Namespace, p.Name), func(o runtime.Object) (bool, error) {
		o.(*v1.Pod).Spec.SchedulingGates = nil
		return true, nil
	})
	w.note("ungate %s: %v", p.Name, err)
}

func (w *World) machine() *Machine { return w.machines[w.rng.IntN(len(w.machines))] }

func (w *World) cordon() {
	m := w.machine()
	var is bool
	_, err := w.admin.Mutate(w.ctx(), client.Nodes.At("", m.Name), func(o runtime.Object) (bool, error) {
		n := o.(*v1.Node)
		n.Spec.Unschedulable = !n.Spec.Unschedulable
		is = n.Spec.Unschedulable
		return true, nil
	})
	w.note("cordon %s=%v: %v", m.Name, is, err)
}

// deleteNode removes the object; a kubelet that runs registers again.
func (w *World) deleteNode() {
	m := w.machine()
	w.alive.Lock()
	m.disowned = true
	w.alive.Unlock()
	err := w.admin.Delete(w.ctx(), client.Nodes.At("", m.Name), metav1.DeleteOptions{})
	w.note("delete %s: %v", m.Name, err)
}

func (w *World) killScheduler() {
	w.note("kill -9 scheduler")
	w.scheduler.kill()
	time.Sleep(time.Duration(w.rng.IntN(3000)) * time.Millisecond)
	w.scheduler.start()
}

func (w *World) killController() {
	p := w.control[w.rng.IntN(len(w.control))]
	w.note("kill -9 %s", p.c.Name())
	p.kill()
	p.start()
}

func (w *World) killKubelet() {
	m := w.machine()
	if !m.kubelet.running() {
		return
	}
	m.kubelet.kill()
	m.back = time.Now().Add(time.Duration(w.rng.ExpFloat64() * float64(20*time.Second)))
	w.note("kill -9 kubelet of %s until %s", m.Name, m.back.Sub(epoch).Round(time.Millisecond))
}

func (w *World) breakStore() {
	chance, d := w.rng.Float64()*0.5, time.Duration(w.rng.IntN(10_000))*time.Millisecond
	w.note("%d%% of the store's calls fail for %s", int(chance*100), d)
	w.faults.on(chance, d)
}

func (w *World) breakWatches() {
	w.note("the store's watches break")
	w.store.BreakWatches(store.ErrUnavailable)
}

func (w *World) longTime() {
	d := time.Duration(w.rng.IntN(300)) * time.Second
	w.note("%s pass", d)
	time.Sleep(d)
}
