package plan_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"podo.dev/podo/internal/scheduler/framework"
	"podo.dev/podo/internal/scheduler/plan"
	"podo.dev/podo/internal/scheduler/plugins"
)

// What a planner remembers of earlier pods never makes a difference: one that has just been made finds the same nodes, the same reasons and
// the same candidates for preemption, whatever came, went, started, or was nominated between.
func TestWhatIsRememberedIsTrue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := framework.NewCluster()
		c.SetNamespace("other", namespaceLabels["other"])
		old := plan.New(plugins.Default(nil), 1)
		old.Percent = 100
		name := rapid.SampledFrom([]string{"n1", "n2", "n3", "n4"})
		var shapes []*v1.Pod
		for i := range 4 {
			shapes = append(shapes, drawPod(t, fmt.Sprint("shape", i)))
			shapes[i].Spec.Priority = new(int32(rapid.IntRange(0, 2).Draw(t, "priority")))
		}
		serial := 0
		draw := func(t *rapid.T) *v1.Pod {
			serial++
			p := rapid.SampledFrom(shapes).Draw(t, "shape").DeepCopy()
			p.Name = fmt.Sprint("p", serial)
			p.UID = types.UID(p.Name)
			return p
		}
		var placed []*v1.Pod
		var waiting []*framework.Pod
		one := func(t *rapid.T, n int) int { return rapid.IntRange(0, n-1).Draw(t, "which") }
		t.Repeat(map[string]func(*rapid.T){
			"node":      func(t *rapid.T) { c.SetNode(drawNode(t, name.Draw(t, "name"))) },
			"node gone": func(t *rapid.T) { c.RemoveNode(name.Draw(t, "name")) },
			"placed": func(t *rapid.T) {
				p := draw(t)
				p.Spec.NodeName = name.Draw(t, "name")
				placed = append(placed, p)
				c.SetPod(p)
			},
			"started": func(t *rapid.T) {
				if len(placed) > 0 {
					i := one(t, len(placed))
					placed[i] = placed[i].DeepCopy()
					at := metav1.Unix(int64(rapid.IntRange(0, 3).Draw(t, "start")), 0)
					placed[i].Status.StartTime = &at
					c.SetPod(placed[i])
				}
			},
			"gone": func(t *rapid.T) {
				if len(placed) > 0 {
					i := one(t, len(placed))
					c.RemovePod(placed[i].UID)
					placed = slices.Delete(placed, i, i+1)
				}
			},
			"nominated": func(t *rapid.T) {
				waiting = append(waiting, c.Shape(draw(t)))
				c.Nominate(waiting[len(waiting)-1], name.Draw(t, "name"))
			},
			"no longer": func(t *rapid.T) {
				if len(waiting) > 0 {
					i := one(t, len(waiting))
					c.Denominate(waiting[i].Object.UID)
					waiting = slices.Delete(waiting, i, i+1)
				}
			},
			"": func(t *rapid.T) {
				pod := c.Shape(draw(t))
				if len(waiting) > 0 && rapid.Bool().Draw(t, "one that waits") {
					pod = waiting[one(t, len(waiting))]
				}
				fresh := plan.New(plugins.Default(nil), 1)
				fresh.Percent = 100
				if got, want := findings(old, c, pod), findings(fresh, c, pod); got != want {
					t.Fatalf("finds    %s\nit would %s", got, want)
				}
			},
		})
	})
}

func findings(p *plan.Planner, c *framework.Cluster, pod *framework.Pod) string {
	nodes, d := p.Feasible(c, pod)
	if d.Diagnosis == nil {
		var out []string
		for _, n := range nodes {
			out = append(out, n.Name)
		}
		slices.Sort(out)
		return fmt.Sprint("nodes ", out)
	}
	found := p.Candidates(c, pod, d.Diagnosis, nil, time.Unix(100, 0))
	out := []string{}
	for _, x := range found.List {
		victims := []string{}
		for _, v := range x.Victims {
			victims = append(victims, v.Object.Name)
		}
		out = append(out, fmt.Sprint(x.Node.Name, victims))
	}
	slices.Sort(out)
	return fmt.Sprint(d.Diagnosis.Message(found.Text), out)
}
