// Package shapes are the loads with which a scheduler is measured: the nodes, the pods that run there already, and the pods to be
// placed. They are those of upstream's scheduler_perf, under its names.
package shapes

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Load is one of them. Its functions make new objects at each call, with names and without UIDs.
type Load struct {
	Name string
	// Label is put on the i-th node; nil: nothing is.
	Label func(i int) map[string]string
	// Before makes the pods that are placed before the measurement begins; nil: none.
	Before func(nodes, i int) *v1.Pod
	Placed func(nodes int) int // how many of them
	// Waiting makes Stuck pods that wait all the time and that nothing can help.
	Waiting func(i int) *v1.Pod
	Stuck   int
	// Pod makes the i-th pod to be placed; Most bounds their number by the room there is (0: 110 a node).
	Pod  func(nodes, i int) *v1.Pod
	Most func(nodes int) int
	// Churn is whether nodes, waiting pods and labels change all the time.
	Churn bool
}

// All are the loads.
func All() []Load {
	zone := func(n int) func(int) map[string]string {
		return func(i int) map[string]string { return map[string]string{v1.LabelTopologyZone: fmt.Sprint("zone", i%n)} }
	}
	large := func(i int) *v1.Pod { return Pod(fmt.Sprint("stuck-", i), func(p *v1.Pod) { ask(p, "1000", "1Gi") }) }
	gated := func(i int) *v1.Pod {
		return Pod(fmt.Sprint("gated-", i), func(p *v1.Pod) { p.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "example.com/closed"}} })
	}
	oneEach := func(nodes int) int { return nodes }
	return []Load{
		{Name: "basic", Pod: like(func(*v1.Pod, int) {})},
		{Name: "node-affinity", Label: zone(2), Pod: like(func(p *v1.Pod, _ int) { p.Spec.Affinity = &v1.Affinity{NodeAffinity: inZones("zone0", "zone1")} })},
		{Name: "pod-affinity", Label: zone(1), Pod: like(func(p *v1.Pod, _ int) { p.Spec.Affinity = together("blue", v1.LabelTopologyZone, true) })},
		{Name: "pod-anti-affinity", Pod: like(func(p *v1.Pod, _ int) { p.Spec.Affinity = apart("blue", v1.LabelHostname, true) }), Most: oneEach},
		{Name: "preferred-pod-affinity", Pod: like(func(p *v1.Pod, _ int) { p.Spec.Affinity = together("blue", v1.LabelHostname, false) })},
		{Name: "preferred-pod-anti-affinity", Pod: like(func(p *v1.Pod, _ int) { p.Spec.Affinity = apart("blue", v1.LabelHostname, false) })},
		{Name: "spreading", Label: zone(3), Pod: like(func(p *v1.Pod, _ int) { spread(p, v1.DoNotSchedule) })},
		{Name: "preferred-spreading", Label: zone(3), Pod: like(func(p *v1.Pod, _ int) { spread(p, v1.ScheduleAnyway) })},
		{
			Name: "preemption", Placed: func(nodes int) int { return 4 * nodes },
			Before: func(nodes, i int) *v1.Pod {
				return Pod(fmt.Sprint("low-", i), func(p *v1.Pod) { ask(p, "900m", "500Mi"); p.Spec.NodeName = Node(i%nodes, nil).Name })
			},
			Pod:  like(func(p *v1.Pod, _ int) { ask(p, "3", "500Mi"); p.Spec.Priority = new(int32(10)) }),
			Most: oneEach,
		},
		{Name: "unschedulable", Waiting: large, Stuck: 200, Churn: true, Pod: like(func(*v1.Pod, int) {})},
		{Name: "daemon-set", Pod: func(nodes, i int) *v1.Pod {
			return Pod(fmt.Sprint("p-", i), func(p *v1.Pod) { p.Spec.Affinity = onNode(Node(i%nodes, nil).Name) })
		}},
		{Name: "gated", Waiting: gated, Stuck: 10_000, Pod: like(func(*v1.Pod, int) {})},
		{Name: "mixed-churn", Label: zone(3), Waiting: large, Stuck: 10, Churn: true, Pod: like(func(p *v1.Pod, i int) {
			switch i % 4 {
			case 1:
				spread(p, v1.ScheduleAnyway)
			case 2:
				p.Spec.Affinity = &v1.Affinity{NodeAffinity: inZones("zone0", "zone1")}
			case 3:
				p.Spec.Affinity = together("blue", v1.LabelTopologyZone, false)
			}
		})},
	}
}

func like(change func(p *v1.Pod, i int)) func(nodes, i int) *v1.Pod {
	return func(_, i int) *v1.Pod { return Pod(fmt.Sprint("p-", i), func(p *v1.Pod) { change(p, i) }) }
}

// Node is the i-th node: 4 cores, 32 GiB, 110 pods.
func Node(i int, labels map[string]string) *v1.Node {
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("node-", i), Labels: map[string]string{}}}
	n.Labels[v1.LabelHostname] = n.Name
	for k, v := range labels {
		n.Labels[k] = v
	}
	n.Status.Allocatable = v1.ResourceList{
		v1.ResourceCPU: resource.MustParse("4"), v1.ResourceMemory: resource.MustParse("32Gi"), v1.ResourcePods: resource.MustParse("110"),
	}
	n.Status.Capacity = n.Status.Allocatable
	n.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue, Reason: "KubeletReady"}}
	return n
}

// Pod asks for 100m and 500Mi, as change leaves it.
func Pod(name string, change func(p *v1.Pod)) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"color": "blue"}}}
	p.Spec.Containers = []v1.Container{{Name: "pause", Image: "registry.k8s.io/pause:3.10"}}
	p.Spec.SchedulerName = v1.DefaultSchedulerName
	p.Spec.Priority = new(int32(0))
	ask(p, "30m", "200Mi")
	change(p)
	return p
}

func ask(p *v1.Pod, cpu, memory string) {
	p.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse(memory)}
}

func selects(color string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"color": color}}
}

func together(color, key string, required bool) *v1.Affinity {
	term := v1.PodAffinityTerm{TopologyKey: key, LabelSelector: selects(color)}
	a := &v1.PodAffinity{}
	if required {
		a.RequiredDuringSchedulingIgnoredDuringExecution = []v1.PodAffinityTerm{term}
	} else {
		a.PreferredDuringSchedulingIgnoredDuringExecution = []v1.WeightedPodAffinityTerm{{Weight: 1, PodAffinityTerm: term}}
	}
	return &v1.Affinity{PodAffinity: a}
}

func apart(color, key string, required bool) *v1.Affinity {
	a := together(color, key, required).PodAffinity
	return &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution:  a.RequiredDuringSchedulingIgnoredDuringExecution,
		PreferredDuringSchedulingIgnoredDuringExecution: a.PreferredDuringSchedulingIgnoredDuringExecution,
	}}
}

func spread(p *v1.Pod, otherwise v1.UnsatisfiableConstraintAction) {
	p.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{
		{MaxSkew: 5, TopologyKey: v1.LabelTopologyZone, WhenUnsatisfiable: otherwise, LabelSelector: selects("blue")},
	}
}

func inZones(zones ...string) *v1.NodeAffinity {
	return &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{
		{MatchExpressions: []v1.NodeSelectorRequirement{{Key: v1.LabelTopologyZone, Operator: v1.NodeSelectorOpIn, Values: zones}}},
	}}}
}

func onNode(name string) *v1.Affinity {
	return &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
		NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchFields: []v1.NodeSelectorRequirement{{Key: "metadata.name", Operator: v1.NodeSelectorOpIn, Values: []string{name}}}}},
	}}}
}
