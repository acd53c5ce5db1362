package plan_test

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"podo.dev/podo/internal/scheduler/framework"
	"podo.dev/podo/internal/scheduler/plan"
	"podo.dev/podo/internal/scheduler/plugins"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// on places a pod that asks for cpu only; age is for how long it has run.
func on(node, name string, priority int32, cpu string, age time.Duration) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), Labels: map[string]string{"name": name}}}
	p.Spec.NodeName, p.Spec.Priority = node, &priority
	p.Spec.Containers = []v1.Container{{Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)}}}}
	p.Status.StartTime = &metav1.Time{Time: noon.Add(-age)}
	return p
}

// Nodes have four CPUs each. What is wanted is the node and the victims, or the text.
func TestWhoHasToLeave(t *testing.T) {
	const h = time.Hour
	budget := func(allowed int32, name string) framework.Budget {
		return framework.Budget{Namespace: "ns", Selector: labels.SelectorFromSet(labels.Set{"name": name}), Allowed: allowed}
	}
	for name, test := range map[string]struct {
		pods    []*v1.Pod
		cpu     string // of the pod that needs room; its priority is 100
		budgets []framework.Budget
		want    string
	}{
		"one is enough": {
			pods: []*v1.Pod{on("n1", "a", 1, "2", h), on("n1", "b", 2, "2", h)}, cpu: "2", want: "n1: a",
		},
		"the younger of equals": {
			pods: []*v1.Pod{on("n1", "old", 1, "2", 2*h), on("n1", "young", 1, "2", h)}, cpu: "2", want: "n1: young",
		},
		"as few as possible, the important one stays": {
			pods: []*v1.Pod{on("n1", "a", 5, "2", h), on("n1", "b", 1, "1", h), on("n1", "c", 1, "1", h)}, cpu: "2", want: "n1: b c",
		},
		"nobody of the same priority": {
			pods: []*v1.Pod{on("n1", "a", 100, "4", h)}, cpu: "2",
			want: "0/1 nodes are available: 1 No preemption victims found for incoming pod.",
		},
		"not enough even without them": {
			pods: []*v1.Pod{on("n1", "a", 100, "3", h), on("n1", "b", 1, "1", h)}, cpu: "2",
			want: "0/1 nodes are available: 1 Insufficient cpu.",
		},
		"larger than any node": {
			pods: []*v1.Pod{on("n1", "a", 1, "3", h)}, cpu: "5",
			want: "0/1 nodes are available: 1 Preemption is not helpful for scheduling.",
		},
		"the node whose most important victim matters least": {
			pods: []*v1.Pod{on("n1", "a", 9, "4", h), on("n2", "b", 3, "2", h), on("n2", "c", 3, "2", h)}, cpu: "4", want: "n2: b c",
		},
		"the smallest sum of priorities": {
			pods: []*v1.Pod{on("n1", "a", 9, "2", h), on("n1", "b", 8, "2", h), on("n2", "c", 9, "2", h), on("n2", "d", 2, "2", h)}, cpu: "4", want: "n2: c d",
		},
		"negative priorities do not make many victims cheap": {
			pods: []*v1.Pod{on("n1", "a", -5, "2", h), on("n1", "b", -5, "2", h), on("n2", "c", -5, "4", h)}, cpu: "4", want: "n2: c",
		},
		"the one that started last": {
			pods: []*v1.Pod{on("n1", "a", 1, "4", 3*h), on("n2", "b", 1, "4", h), on("n3", "c", 1, "4", 2*h)}, cpu: "4", want: "n2: b",
		},
		"a budget is kept where it can be": {
			pods: []*v1.Pod{on("n1", "a", 1, "4", h), on("n2", "b", 50, "4", h)}, cpu: "4", budgets: []framework.Budget{budget(0, "a")}, want: "n2: b",
		},
		"a budget that has something to give": {
			pods: []*v1.Pod{on("n1", "a", 1, "4", h), on("n2", "b", 50, "4", h)}, cpu: "4", budgets: []framework.Budget{budget(1, "a")}, want: "n1: a",
		},
		"the protected one is put back first": {
			pods: []*v1.Pod{on("n1", "a", 1, "2", h), on("n1", "b", 9, "2", h)}, cpu: "2", budgets: []framework.Budget{budget(0, "a")}, want: "n1: b",
		},
		"an empty selector protects nobody": {
			pods: []*v1.Pod{on("n1", "a", 1, "4", h), on("n2", "b", 50, "4", h)}, cpu: "4",
			budgets: []framework.Budget{{Namespace: "ns", Selector: labels.Everything()}}, want: "n1: a",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, p := framework.NewCluster(), plan.New(plugins.Default(nil), 1)
			for _, x := range test.pods {
				if c.Node(x.Spec.NodeName) == nil {
					n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: x.Spec.NodeName}}
					n.Status.Allocatable = v1.ResourceList{v1.ResourceCPU: resource.MustParse("4"), v1.ResourcePods: resource.MustParse("110")}
					c.SetNode(n)
				}
				c.SetPod(x)
			}
			pod := c.Shape(on("", "high", 100, test.cpu, 0))
			d := p.Schedule(c, pod)
			if d.Node != nil {
				t.Fatalf("there is room on %s", d.Node.Name)
			}
			got := p.Preempt(c, pod, d.Diagnosis, test.budgets, noon)
			if text := told(got); text != test.want {
				t.Errorf("got  %s\nwant %s", text, test.want)
			}
		})
	}
}

func told(p plan.Preemption) string {
	if p.Node == nil {
		return p.Text
	}
	var names []string
	for _, v := range p.Victims {
		names = append(names, v.Object.Name)
	}
	return p.Node.Name + ": " + strings.Join(names, " ")
}

// Room that is made for a pod is not given to others below it, is there for itself and for those above it, and is free again when the
// pod no longer waits.
func TestNominatedPodsHoldTheirRoom(t *testing.T) {
	c, p := framework.NewCluster(), plan.New(plugins.Default(nil), 1)
	for _, name := range []string{"n1", "n2"} {
		n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		n.Status.Allocatable = v1.ResourceList{v1.ResourceCPU: resource.MustParse("4"), v1.ResourcePods: resource.MustParse("110")}
		c.SetNode(n)
	}
	c.SetPod(on("n2", "full", 1000, "4", 0))
	waiting := c.Shape(on("", "waiting", 100, "3", 0))
	c.Nominate(waiting, "n1")
	try := func(name string, priority int32, cpu string) string {
		if d := p.Schedule(c, c.Shape(on("", name, priority, cpu, 0))); d.Node != nil {
			return d.Node.Name
		}
		return ""
	}
	for _, x := range []struct {
		name     string
		priority int32
		cpu      string
		want     string
	}{
		{"below", 10, "2", ""}, {"below, small", 10, "1", "n1"}, {"equal", 100, "3", ""}, {"above", 101, "3", "n1"}, {"waiting", 100, "3", "n1"},
	} {
		if got := try(x.name, x.priority, x.cpu); got != x.want {
			t.Errorf("%s: got %q, want %q", x.name, got, x.want)
		}
	}
	if help, _ := p.Helps(c, waiting, c.Node("n1")); help != plan.Room {
		t.Errorf("who waits is not helped by its room: %v", help)
	}
	c.Denominate(waiting.Object.UID)
	if got := try("below", 10, "2"); got != "n1" {
		t.Errorf("room that nobody waits for: %q", got)
	}
}

// without is the oracle's cluster when some pods have left.
func (o *oracle) without(gone map[types.UID]bool) *oracle {
	out := &oracle{nodes: o.nodes, pods: map[types.UID]*v1.Pod{}}
	for uid, p := range o.pods {
		if !gone[uid] {
			out.pods[uid] = p
		}
	}
	return out
}

type cost struct {
	highest int32
	sum     int64
	count   int
	start   int64
}

// leave is who would have to leave a node for p; ok is false when that does not help.
func (o *oracle) leave(p *v1.Pod, n *v1.Node) (gone map[types.UID]bool, c cost, ok bool) {
	gone = map[types.UID]bool{}
	var lower []*v1.Pod
	for _, q := range o.on(n.Name) {
		if *q.Spec.Priority < *p.Spec.Priority {
			lower, gone[q.UID] = append(lower, q), true
		}
	}
	if len(lower) == 0 || len(o.without(gone).reject(p, n)) > 0 {
		return nil, cost{}, false
	}
	slices.SortFunc(lower, func(a, b *v1.Pod) int {
		return cmp.Or(cmp.Compare(*b.Spec.Priority, *a.Spec.Priority), a.Status.StartTime.Compare(b.Status.StartTime.Time), strings.Compare(string(a.UID), string(b.UID)))
	})
	for _, q := range lower {
		if delete(gone, q.UID); len(o.without(gone).reject(p, n)) > 0 {
			gone[q.UID] = true
		}
	}
	c.highest, c.start = math.MinInt32, math.MaxInt64
	for uid := range gone {
		c.highest = max(c.highest, *o.pods[uid].Spec.Priority)
		c.sum += int64(*o.pods[uid].Spec.Priority) + 1<<31
		c.count++
	}
	for uid := range gone {
		if q := o.pods[uid]; *q.Spec.Priority == c.highest {
			c.start = min(c.start, q.Status.StartTime.Unix())
		}
	}
	return gone, c, true
}

// On any cluster the planner makes room where the oracle finds it cheapest, by the same victims, and not at all where the oracle finds no
// way; looking changes nothing.
func TestPreemptionAgreesWithTheOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := &oracle{nodes: map[string]*v1.Node{}, pods: map[types.UID]*v1.Pod{}}
		c, p := framework.NewCluster(), plan.New(plugins.Default(nil), 3)
		c.SetNamespace("other", namespaceLabels["other"])
		priority := rapid.SampledFrom([]int32{-1, 0, 5, 100})
		for i := range rapid.IntRange(1, 4).Draw(t, "nodes") {
			n := drawNode(t, fmt.Sprint("n", i))
			o.nodes[n.Name] = n
			c.SetNode(n)
			for j := range rapid.IntRange(0, 5).Draw(t, "pods") {
				q := drawPod(t, fmt.Sprint(n.Name, "p", j))
				q.Spec.NodeName, q.Spec.Priority = n.Name, new(priority.Draw(t, "priority"))
				q.Status.StartTime = &metav1.Time{Time: noon.Add(-time.Duration(rapid.IntRange(0, 3).Draw(t, "age")) * time.Hour)}
				if len(o.reject(q, n)) > 0 && rapid.IntRange(0, 3).Draw(t, "forced") > 0 {
					continue
				}
				o.pods[q.UID] = q
				c.SetPod(q)
			}
		}
		pod := drawPod(t, "high")
		pod.Spec.Priority = new(priority.Draw(t, "its priority"))
		reduced := c.Shape(pod)
		d := p.Schedule(c, reduced)
		if d.Node != nil {
			return
		}
		got := p.Preempt(c, reduced, d.Diagnosis, nil, noon)
		best, ways := cost{}, map[string]map[types.UID]bool{}
		for _, n := range o.nodes {
			gone, x, ok := o.leave(pod, n)
			if !ok {
				continue
			}
			less := cmp.Or(cmp.Compare(x.highest, best.highest), cmp.Compare(x.sum, best.sum), cmp.Compare(x.count, best.count), cmp.Compare(best.start, x.start))
			if len(ways) == 0 || less < 0 {
				best, ways = x, map[string]map[types.UID]bool{n.Name: gone}
			} else if less == 0 {
				ways[n.Name] = gone
			}
		}
		if got.Node == nil {
			if len(ways) > 0 {
				t.Fatalf("no way (%s), the oracle has %v", got.Text, ways)
			}
		} else {
			want, ok := ways[got.Node.Name]
			if !ok || len(want) != len(got.Victims) {
				t.Fatalf("%s, the oracle's best are %v", told(got), ways)
			}
			for _, v := range got.Victims {
				if !want[v.Object.UID] {
					t.Fatalf("%s, the oracle's best are %v", told(got), ways)
				}
			}
		}
		again := plan.New(plugins.Default(nil), 3).Schedule(c, reduced)
		if again.Node != nil || again.Diagnosis.Message("") != d.Diagnosis.Message("") {
			t.Fatal("looking for victims changed the cluster")
		}
	})
}
