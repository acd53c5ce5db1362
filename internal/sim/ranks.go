package sim

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/scheduler/framework"
	"podo.dev/podo/internal/scheduler/plan"
	"podo.dev/podo/internal/scheduler/plugins"
	"podo.dev/podo/internal/view"
)

// ranks is what users do with pods of several priorities, some of which keep apart.
var ranks = []action{{30, (*World).createRanked}}

var classKind = schema.GroupResource{Group: "scheduling.k8s.io", Resource: "priorityclasses"}

// makeClasses makes the priorities that there are.
func (w *World) makeClasses() {
	for rank := range 3 {
		class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("rank-", rank)}, Value: int32(1 + rank)}
		_, err := w.admin.Create(w.ctx(), client.Resource(classKind).At("", ""), class)
		w.must(err)
	}
}

func (w *World) createRanked() {
	w.serial++
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("pod-%d", w.serial), Labels: map[string]string{"app": "ranked"}}}
	p.Spec.PriorityClassName = fmt.Sprint("rank-", w.rng.IntN(3))
	p.Spec.TerminationGracePeriodSeconds = new(int64(w.rng.IntN(10)))
	c := v1.Container{Name: "main", Image: Image, Command: []string{"sleep", "inf"}, ImagePullPolicy: v1.PullIfNotPresent}
	cpu := []string{"500m", "1", "2", "3"}[w.rng.IntN(4)]
	c.Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)}
	p.Spec.Containers = []v1.Container{c}
	if w.rng.IntN(6) == 0 {
		p.Labels["app"] = "apart"
		p.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{
			{TopologyKey: v1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "apart"}}},
		}}}
	}
	if w.rng.IntN(8) == 0 {
		p.Spec.PreemptionPolicy = new(v1.PreemptNever)
	}
	_, err := w.admin.Create(w.ctx(), client.Pods.At("default", ""), p)
	w.note("create %s cpu=%q %s: %v", p.Name, cpu, p.Spec.PriorityClassName, err)
}

// noneCouldPreempt: no pod waits for which others would have to make room; and pods that keep apart are.
func (w *World) noneCouldPreempt(s view.Snapshot) {
	w.t.Helper()
	c := framework.NewCluster()
	for e := range s.All(nodeKind, "", view.Key{}) {
		c.SetNode(e.Object.(*v1.Node))
	}
	apart := map[string]string{}
	for _, p := range pods(s) {
		if p.Spec.NodeName == "" || ended(p) {
			continue
		}
		c.SetPod(p)
		if p.Labels["app"] == "apart" {
			if other := apart[p.Spec.NodeName]; other != "" {
				w.Failf(p, "%s and %s are both on %s, and keep apart", p.Name, other, p.Spec.NodeName)
			}
			apart[p.Spec.NodeName] = p.Name
		}
	}
	planner := plan.New(plugins.Default(nil), 1)
	for _, p := range pods(s) {
		if p.Spec.NodeName != "" || ended(p) || p.Spec.PreemptionPolicy != nil && *p.Spec.PreemptionPolicy == v1.PreemptNever {
			continue
		}
		pod := c.Shape(p)
		d := planner.Schedule(c, pod)
		if d.Diagnosis == nil {
			continue // noneForgotten tells
		}
		if room := planner.Preempt(c, pod, d.Diagnosis, nil, time.Now()); room.Node != nil {
			w.Failf(p, "pod %s waits although %d pods of lower priority on %s could leave for it", p.Name, len(room.Victims), room.Node.Name)
		}
	}
}
