package scheduler

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/scheduler/queue"
	"podo.dev/podo/internal/view"
)

// Who waits cannot go: whatever has happened, once everything has been decided no pod waits that some node would take, or for which others
// would leave. That time alone would have it tried again does not count.
func TestWhoWaitsCannotGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, f, err := view.NewFed(view.Config{Kinds: registry.All()})
		if err != nil {
			t.Fatal(err)
		}
		f.Complete()
		rapid.Check(bubbled{t}, func(t *rapid.T) {
			w := &waits{T: t, bench: newBench(t, v), pods: map[types.UID]*v1.Pod{}, machines: map[string]*v1.Node{}, spaces: map[string]string{}}
			defer w.close()
			w.extenders.all = nil
			for i := range 3 {
				w.machine(machine(i, "2"))
			}
			w.space("ns", "a")
			w.space("other", "b")
			t.Repeat(map[string]func(*rapid.T){
				"node":      w.changeNode,
				"node gone": w.dropNode,
				"space":     func(t *rapid.T) { w.space(drawOf(t, "ns", "other"), drawOf(t, "a", "b")) },
				"come":      w.come,
				"placed":    w.changePlaced,
				"waiting":   w.changeWaiting,
				"settle":    func(*rapid.T) { w.settled() },
			})
			w.settled()
		})
	})
}

type waits struct {
	*rapid.T
	*bench
	pods     map[types.UID]*v1.Pod
	machines map[string]*v1.Node
	spaces   map[string]string
	serial   int
}

func drawOf(t *rapid.T, of ...string) string { return rapid.SampledFrom(of).Draw(t, "which") }

func (w *waits) machine(is *v1.Node) {
	c := view.Change{New: entry(is)}
	if was := w.machines[is.Name]; was != nil {
		c.Old = entry(was)
	}
	w.machines[is.Name] = is
	w.nodeChanged(c, time.Now())
}

func (w *waits) changeNode(t *rapid.T) {
	n := machine(rapid.IntRange(0, 4).Draw(t, "node"), drawOf(t, "1", "2", "4"))
	switch rapid.IntRange(0, 5).Draw(t, "how") {
	case 0:
		n.Labels[v1.LabelTopologyZone] = "zone-2"
	case 1:
		delete(n.Labels, v1.LabelTopologyZone)
	case 2:
		n.Spec.Taints = []v1.Taint{{Key: "k", Effect: v1.TaintEffectNoSchedule}}
	case 3:
		n.Spec.Unschedulable = true
	case 4:
		n.Labels["disk"] = "ssd"
	}
	w.machine(n)
}

func (w *waits) dropNode(t *rapid.T) {
	if len(w.machines) > 0 {
		name := rapid.SampledFrom(slices.Sorted(maps.Keys(w.machines))).Draw(t, "node")
		w.nodeChanged(view.Change{Old: entry(w.machines[name])}, time.Now())
		delete(w.machines, name)
	}
}

func (w *waits) space(name, label string) {
	is := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"team": label}}}
	w.namespaceChanged(view.Change{New: &view.Entry{Key: view.Key{Name: name}, Meta: is, Object: is}}, time.Now())
}

func (w *waits) become(was, is *v1.Pod) {
	c := view.Change{}
	if was != nil {
		c.Old = entry(was)
		delete(w.pods, was.UID)
	}
	if is != nil {
		w.serial++
		is.ResourceVersion = fmt.Sprint(w.serial)
		c.New = entry(is)
		w.pods[is.UID] = is
	}
	w.podChanged(c, time.Now())
}

func (w *waits) come(t *rapid.T) {
	shape := rapid.IntRange(0, 12).Draw(t, "shape")
	for range rapid.IntRange(1, 4).Draw(t, "many") {
		w.serial++
		p := drawn(shape, w.serial)
		p.Namespace = drawOf(t, "ns", "ns", "other")
		c := &p.Spec.Containers[0]
		like := &metav1.LabelSelector{MatchLabels: p.Labels}
		anywhere := &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}
		switch shape {
		case 5:
			c.Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse("100m")}
			p.Spec.NodeSelector = map[string]string{"disk": "ssd"}
		case 7:
			c.Ports = []v1.ContainerPort{{HostPort: 80, HostIP: drawOf(t, "", "10.0.0.1", "10.0.0.2")}}
		case 8:
			p.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{
				MaxSkew: 1, TopologyKey: v1.LabelHostname, WhenUnsatisfiable: v1.DoNotSchedule, LabelSelector: like,
				NodeTaintsPolicy: new(v1.NodeInclusionPolicyHonor), MinDomains: new(int32(3)),
			}}
		case 9: // keeps those of shape 0 away, in namespaces of team a
			p.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{
				{TopologyKey: v1.LabelTopologyZone, NamespaceSelector: anywhere, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "0"}}},
			}}}
		case 10: // wants to be where those of shape 7 are, in namespaces of team a
			p.Spec.Affinity = &v1.Affinity{PodAffinity: &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{
				{TopologyKey: v1.LabelTopologyZone, NamespaceSelector: anywhere, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "7"}}},
			}}}
		case 11: // alone in its zone
			p.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{
				{TopologyKey: v1.LabelTopologyZone, LabelSelector: like},
			}}}
			p.Spec.Priority = new(int32(rapid.IntRange(0, 3).Draw(t, "priority")))
		case 12:
			p.Spec.NodeName, p.Spec.Affinity = "", &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
				NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchFields: []v1.NodeSelectorRequirement{
					{Key: metav1.ObjectNameField, Operator: v1.NodeSelectorOpIn, Values: []string{drawOf(t, "node-3", "node-4")}},
				}}},
			}}}
		}
		if rapid.IntRange(0, 9).Draw(t, "gated") == 0 {
			p.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "g"}}
		}
		w.become(nil, p)
	}
}

// some pod with a node, or without.
func (w *waits) some(t *rapid.T, placed bool) *v1.Pod {
	var uids []types.UID
	for uid, p := range w.pods {
		if (p.Spec.NodeName != "") == placed {
			uids = append(uids, uid)
		}
	}
	if len(uids) == 0 {
		return nil
	}
	slices.Sort(uids)
	return w.pods[rapid.SampledFrom(uids).Draw(t, "pod")]
}

func (w *waits) relabel(t *rapid.T, is *v1.Pod) {
	is.Labels = map[string]string{"app": fmt.Sprint(rapid.IntRange(0, 12).Draw(t, "app"))}
}

func (w *waits) changePlaced(t *rapid.T) {
	was := w.some(t, true)
	if was == nil {
		return
	}
	is := was.DeepCopy()
	switch rapid.IntRange(0, 4).Draw(t, "how") {
	case 0:
		w.become(was, nil)
		return
	case 1:
		is.Status.Phase = v1.PodSucceeded
	case 2:
		is.DeletionTimestamp, is.Generation = &metav1.Time{Time: time.Now()}, is.Generation+1
	case 3:
		w.relabel(t, is)
	case 4:
		is.Generation++
		for name := range is.Spec.Containers[0].Resources.Requests {
			is.Spec.Containers[0].Resources.Requests[name] = resource.MustParse("100m")
		}
	}
	w.become(was, is)
}

func (w *waits) changeWaiting(t *rapid.T) {
	was := w.some(t, false)
	if was == nil {
		return
	}
	is := was.DeepCopy()
	switch rapid.IntRange(0, 6).Draw(t, "how") {
	case 0:
		w.become(was, nil)
		return
	case 1:
		is.Spec.SchedulingGates = nil
		is.Generation++
	case 2:
		is.Spec.Tolerations = []v1.Toleration{{Operator: v1.TolerationOpExists}}
		is.Generation++
	case 3:
		w.relabel(t, is)
	case 4:
		is.Status.NominatedNodeName = fmt.Sprint("node-", rapid.IntRange(0, 4).Draw(t, "node"))
	case 5:
		is.Status.NominatedNodeName = ""
	case 6:
		for name := range is.Spec.Containers[0].Resources.Requests {
			is.Spec.Containers[0].Resources.Requests[name] = resource.MustParse("100m")
		}
		is.Generation++
	}
	w.become(was, is)
}

// settled decides everything, with binds that go well and victims that leave, and looks who waits.
func (w *waits) settled() {
	for busy := true; busy; {
		busy = false
		w.cycle()
		for len(w.out.jobs) > 0 {
			for _, job := range <-w.out.jobs {
				busy = true
				var err error
				if was := w.pods[job.pod.UID]; was != nil {
					is := was.DeepCopy()
					is.Spec.NodeName, is.Status.NominatedNodeName = job.node, ""
					w.become(was, is)
				} else {
					err = fmt.Errorf("it is gone")
				}
				w.settle([]bindResult{{job, err}})
			}
		}
		for len(w.out.preemptions) > 0 {
			busy = true
			p := <-w.out.preemptions
			for _, v := range p.victims {
				if now := w.pods[v.UID]; now != nil {
					w.become(now, nil)
				}
			}
			w.roomMade(cleared{pod: p.pod.UID})
		}
		for {
			r, ok := w.out.reports.next()
			if !ok {
				break
			}
			w.out.reports.told(r.pod.UID)
			if was := w.pods[r.pod.UID]; was != nil && was.Spec.NodeName == "" && was.Status.NominatedNodeName != r.nominate {
				is := was.DeepCopy()
				is.Status.NominatedNodeName = r.nominate
				w.become(was, is)
				busy = true
			}
		}
		if busy = busy || w.queue.Count(queue.Active)+w.queue.Count(queue.Backoff) > 0; busy {
			time.Sleep(time.Second)
		}
	}
	for _, i := range w.queue.Items() {
		if i.State != queue.Unschedulable {
			continue
		}
		planner := w.planner[i.Pod.Shape.SchedulerName]
		d := planner.Schedule(w.cluster, i.Pod)
		if d.Node != nil {
			w.Fatalf("%s waits (rejected by %v) and could go to %s", i.Pod.Object.Name, i.RejectedBy, d.Node.Name)
		}
		if i.Pod.Shape.Relations != nil {
			continue // who may leave for it depends on pods elsewhere, and nobody is woken by what only a preemption found there
		}
		if room := planner.Preempt(w.cluster, i.Pod, d.Diagnosis, nil, time.Now()); room.Node != nil {
			w.Fatalf("%s waits (rejected by %v) and others could leave %s", i.Pod.Object.Name, i.RejectedBy, room.Node.Name)
		}
	}
}

// Room is told to as many as can have it, also when it turns out otherwise than when it was told.
func TestRoomFindsItsPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		on := func(p *v1.Pod, node string) *v1.Pod {
			p.Spec.NodeName = node
			return p
		}
		needs := func(p *v1.Pod, much string) *v1.Pod {
			p = p.DeepCopy()
			p.Spec.Containers[0].Resources.Requests[v1.ResourceCPU] = resource.MustParse(much)
			p.Generation++
			p.ResourceVersion += "0"
			return p
		}
		nominated := func(p *v1.Pod) *v1.Pod {
			p = p.DeepCopy()
			p.Status.NominatedNodeName = "node-0"
			p.ResourceVersion += "0"
			return p
		}
		for name, c := range map[string]struct {
			there, wait []*v1.Pod
			happens     func(w *waits)
			goes        []string
			waitsFor    string // the pod for which others leave
		}{
			"the second has others leave": {
				there: []*v1.Pod{on(drawn(1, 1), "node-0"), on(drawn(0, 2), "node-0")}, wait: []*v1.Pod{drawn(2, 3), drawn(2, 4)},
				happens: func(w *waits) { w.become(w.pods["p1"], nil) },
				goes:    []string{"p3"}, waitsFor: "p4",
			},
			"the first asks for less by now": {
				there: []*v1.Pod{on(drawn(1, 1), "node-0")}, wait: []*v1.Pod{drawn(1, 3), drawn(1, 4)},
				happens: func(w *waits) {
					w.become(w.pods["p1"], nil)
					w.become(w.pods["p3"], needs(w.pods["p3"], "100m"))
				},
				goes: []string{"p3", "p4"},
			},
			"somebody holds the room for another": {
				there: []*v1.Pod{on(drawn(1, 1), "node-0")}, wait: []*v1.Pod{drawn(1, 3), drawn(1, 4)},
				happens: func(w *waits) {
					w.become(w.pods["p1"], nil)
					w.become(w.pods["p4"], nominated(w.pods["p4"]))
				},
				goes: []string{"p4"},
			},
			"who holds the room asks for less by now": {
				wait: func() []*v1.Pod {
					held := nominated(drawn(1, 1))
					held.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "g"}}
					return []*v1.Pod{held, drawn(2, 3)}
				}(),
				happens: func(w *waits) { w.become(w.pods["p1"], needs(w.pods["p1"], "100m")) },
				goes:    []string{"p3"},
			},
		} {
			w := &waits{bench: newBench(t, emptyView(t)), pods: map[types.UID]*v1.Pod{}, machines: map[string]*v1.Node{}}
			w.extenders.all = nil
			w.machine(machine(0, "2"))
			for _, p := range append(c.there, c.wait...) {
				w.become(nil, p)
			}
			w.cycle()
			w.state() // what has been told is written by now
			time.Sleep(time.Minute)
			c.happens(w)
			w.cycle()
			var goes []string
			for len(w.out.jobs) > 0 {
				for _, job := range <-w.out.jobs {
					goes = append(goes, job.pod.Name)
				}
			}
			if !slices.Equal(goes, c.goes) {
				t.Errorf("%s: bound are %v, want %v", name, goes, c.goes)
			}
			if node := w.waitsOn(types.UID(c.waitsFor)); c.waitsFor != "" && node == "" {
				t.Errorf("%s: nobody leaves for %s", name, c.waitsFor)
			}
			w.close()
		}
	})
}
