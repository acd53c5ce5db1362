package plan_test

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"podo.dev/podo/internal/scheduler/framework"
	"podo.dev/podo/internal/scheduler/plan"
	"podo.dev/podo/internal/scheduler/plugins"
)

// A diagnosis tells the numbers of the node that is nearest to taking the pod, and which pod keeps it away.
func TestDiagnosisTellsNumbersAndPods(t *testing.T) {
	c := framework.NewCluster()
	for i, cpu := range []string{"1", "3500m", "2"} {
		n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n", i), Labels: map[string]string{"zone": "a"}}}
		n.Status.Allocatable = v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu), v1.ResourcePods: resource.MustParse("10")}
		c.SetNode(n)
	}
	pod := func(name, cpu, app, node string) *v1.Pod {
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), Labels: map[string]string{"app": app}}}
		p.Spec.Containers = []v1.Container{{Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)}}}}
		p.Spec.NodeName = node
		return p
	}
	c.SetPod(pod("web-2", "100m", "web", "n2"))
	c.SetPod(pod("web-1", "100m", "web", "n2"))
	p := plan.New(plugins.Default(nil), 1)
	said := func(pod *v1.Pod) string {
		var out []string
		for _, f := range p.Schedule(c, c.Shape(pod)).Diagnosis.Fields() {
			out = append(out, f.Key+": "+f.Value)
		}
		return strings.Join(out, "; ")
	}
	if got := said(pod("large", "4", "large", "")); got != "NodeResourcesFit: 3 Insufficient cpu (n1 cpu.asked=4 cpu.free=3500m)" {
		t.Error(got)
	}
	loner := pod("loner", "100m", "loner", "")
	loner.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{
		{TopologyKey: "zone", LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
	}}}
	if got := said(loner); got != "InterPodAffinity: 3 node(s) didn't match pod anti-affinity rules (n0 by=zone there=2 pod=ns/web-1)" {
		t.Error(got)
	}
}
