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

// Plug-ins are asked in upstream's order: what a node has not declared is said of those only that all others passed, and others may leave for a
// pod in vain where nobody could know.
func TestDeclaredFeaturesComeLast(t *testing.T) {
	c := framework.NewCluster()
	for _, name := range []string{"full", "large"} {
		n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		n.Status.Allocatable = v1.ResourceList{v1.ResourceCPU: resource.MustParse("1"), v1.ResourcePods: resource.MustParse("10")}
		c.SetNode(n)
	}
	pod := func(name, node string, priority int32) *v1.Pod {
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}}
		p.Spec.Containers = []v1.Container{{Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("600m")}}}}
		p.Spec.NodeName, p.Spec.Priority = node, &priority
		return p
	}
	c.SetPod(pod("low", "full", 0))
	p, needs := plan.New(plugins.Default(nil), 1), pod("needs", "", 1)
	needs.Spec.HostNetwork, needs.Spec.HostUsers = true, new(false)
	for range 3 { // what is remembered of the first look is the same
		of := c.Shape(needs)
		d := p.Schedule(c, of)
		if d.Diagnosis == nil {
			t.Fatalf("on %s", d.Node.Name)
		}
		room := p.Preempt(c, of, d.Diagnosis, nil, noon)
		const want = "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) didn't match Pod's required features. " +
			"preemption: 0/2 nodes are available: 1 Preemption is not helpful for scheduling, 1 node(s) didn't match Pod's required features."
		if got := d.Diagnosis.Message(room.Text); got != want {
			t.Error(got)
		}
	}
	c.SetNode(func() *v1.Node {
		n := c.Node("large").Object.DeepCopy()
		n.Status.DeclaredFeatures = []string{ownUsers}
		return n
	}())
	if d := p.Schedule(c, c.Shape(needs)); d.Node == nil || d.Node.Name != "large" {
		t.Errorf("%+v", d.Diagnosis)
	}
}

// All plug-ins are asked with the pods that are nominated to a node, and only of a node that takes the pod then, once more without them: a pod
// that finds the company it wants in one of those is told what is asked after company.
func TestNominatedPodsAreCompanyUntilAllHaveBeenAsked(t *testing.T) {
	c := framework.NewCluster()
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"zone": "a"}}}
	n.Status.Allocatable = v1.ResourceList{v1.ResourcePods: resource.MustParse("10")}
	c.SetNode(n)
	pod := func(name string) *v1.Pod {
		return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), Labels: map[string]string{"app": name}}}
	}
	c.Nominate(c.Shape(pod("host")), "n")
	guest := pod("guest")
	guest.Spec.HostNetwork, guest.Spec.HostUsers = true, new(false)
	guest.Spec.Affinity = &v1.Affinity{PodAffinity: &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{
		{TopologyKey: "zone", LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "host"}}},
	}}}
	p := plan.New(plugins.Default(nil), 1)
	says := func(want string) {
		t.Helper()
		d := p.Schedule(c, c.Shape(guest))
		if d.Diagnosis == nil {
			t.Fatalf("on %s", d.Node.Name)
		}
		if got := d.Diagnosis.Message(""); !strings.HasPrefix(got, "0/1 nodes are available: 1 node(s) didn't match "+want+".") {
			t.Error(got)
		}
	}
	says("Pod's required features")
	n = n.DeepCopy()
	n.Status.DeclaredFeatures = []string{ownUsers}
	c.SetNode(n)
	says("pod affinity rules")
}
