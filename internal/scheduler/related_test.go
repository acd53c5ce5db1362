package scheduler_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"podo.dev/podo/internal/client"
)

// term is one that means the pods with the label app=of.
func term(of, key string) []v1.PodAffinityTerm {
	return []v1.PodAffinityTerm{{TopologyKey: key, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": of}}}}
}

func labelled(name, app string) *v1.Pod {
	p := pod(name, "100m")
	p.Labels = map[string]string{"app": app}
	return p
}

func inZone(name, zone string) *v1.Node {
	n := node(name, "4")
	n.Labels[v1.LabelTopologyZone] = zone
	return n
}

// A pod that wants to be with another one waits for it, says so, and goes where it is as soon as it is placed.
func TestAffinityWaitsForTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.node(inZone("node-a", "a"))
		w.node(inZone("node-b", "b"))
		w.start()
		p := labelled("cache", "cache")
		p.Spec.Affinity = &v1.Affinity{PodAffinity: &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: term("web", v1.LabelTopologyZone)}}
		w.create(p)
		const want = "0/2 nodes are available: 2 node(s) didn't match pod affinity rules. " +
			"preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
		if c := condition(w.pod("cache"), v1.PodScheduled); c.Message != want {
			t.Errorf("%q", c.Message)
		}
		web := labelled("web", "web")
		web.Spec.NodeSelector = map[string]string{v1.LabelTopologyZone: "b"}
		w.create(web)
		time.Sleep(2 * time.Second) // its back-off
		w.on("cache", "node-b")
	})
}

// Anti-affinity holds both ways; who was kept away goes when the one that kept it away has left.
func TestAntiAffinityHoldsBothWays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.node(inZone("node-a", "a"))
		w.start()
		loner := labelled("loner", "loner")
		loner.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: term("web", v1.LabelHostname)}}
		w.create(loner)
		w.on("loner", "node-a")
		w.create(labelled("web", "web"))
		const want = "0/1 nodes are available: 1 node(s) didn't satisfy existing pods anti-affinity rules. " +
			"preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
		if c := condition(w.pod("web"), v1.PodScheduled); c.Message != want {
			t.Errorf("%q", c.Message)
		}
		w.delete("loner")
		time.Sleep(2 * time.Second)
		w.on("web", "node-a")
		again := loner.DeepCopy()
		again.Name = "again"
		w.create(again)
		if c := condition(w.pod("again"), v1.PodScheduled); c.Reason != v1.PodReasonUnschedulable {
			t.Errorf("%+v", c)
		}
		w.delete("web")
		time.Sleep(2 * time.Second)
		w.on("again", "node-a")
	})
}

// Pods are spread over zones; one too many for its zone waits until another zone's pod makes it even, or a new zone comes.
func TestSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.node(inZone("node-a", "a"))
		full := inZone("node-b", "b")
		full.Spec.Taints = []v1.Taint{{Key: "k", Effect: v1.TaintEffectNoSchedule}}
		w.node(full)
		w.start()
		for i := range 3 {
			p := labelled(fmt.Sprint("p", i), "web")
			p.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{
				MaxSkew: 1, TopologyKey: v1.LabelTopologyZone, WhenUnsatisfiable: v1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{MatchLabels: p.Labels},
			}}
			w.create(p)
			synctest.Wait()
		}
		w.on("p0", "node-a")
		const want = "0/2 nodes are available: 1 node(s) didn't match pod topology spread constraints, 1 node(s) had untolerated taint(s). " +
			"preemption: 0/2 nodes are available: 1 No preemption victims found for incoming pod, 1 Preemption is not helpful for scheduling."
		for _, name := range []string{"p1", "p2"} {
			if c := condition(w.pod(name), v1.PodScheduled); c.Message != want {
				t.Errorf("%s: %q", name, c.Message)
			}
		}
		w.node(inZone("node-b2", "b"))
		time.Sleep(11 * time.Second)
		w.on("p1", "node-b2")
		if got := w.pod("p2").Spec.NodeName; got == "" {
			t.Error("p2 waits although the zones are even")
		}
	})
}

// The pods of a Service are preferred apart without a word in their specs.
func TestPodsOfAServiceAreSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.node(inZone("node-a", "a"))
		w.node(inZone("node-b", "b"))
		s := &v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"}}
		s.Spec.Selector, s.Spec.Ports = map[string]string{"app": "web"}, []v1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(80)}}
		s.Spec.ClusterIP, s.Spec.ClusterIPs = v1.ClusterIPNone, []string{v1.ClusterIPNone}
		if _, err := w.admin.Create(context.Background(), client.Resource{Resource: "services"}.At("ns", ""), s); err != nil {
			t.Fatal(err)
		}
		w.start()
		// Requests that make node-a look better than it is for like pods.
		heavy := pod("heavy", "1")
		heavy.Spec.NodeSelector = map[string]string{v1.LabelHostname: "node-b"}
		w.create(heavy)
		w.on("heavy", "node-b")
		on := map[string]int{}
		for i := range 6 {
			name := fmt.Sprint("web", i)
			w.create(labelled(name, "web"))
			on[w.pod(name).Spec.NodeName]++
		}
		if on["node-a"] != 3 || on["node-b"] != 3 {
			t.Errorf("pods by node: %v", on)
		}
	})
}
