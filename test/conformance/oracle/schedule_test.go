package oracle

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	upstream "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodedeclaredfeatures"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodename"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeports"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeunschedulable"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/tainttoleration"

	"podo.dev/podo/internal/scheduler/framework"
	"podo.dev/podo/internal/scheduler/plugins"
)

// handle is what upstream's plug-ins ask their scheduler for while they decide on one pod: nothing that is served here.
type handle struct{ fwk.Handle }

func (handle) SharedDRAManager() fwk.SharedDRAManager { return nil }

type makePlugin func(context.Context, runtime.Object, fwk.Handle, feature.Features) (fwk.Plugin, error)

// upstreamPlugins are the plug-ins that both sides have, at upstream's default arguments. A new one is a line.
func upstreamPlugins(t *testing.T) []fwk.Plugin {
	t.Helper()
	features := feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate)
	features.EnableDRAExtendedResource = false // needs the classes of devices, which are not served yet
	resources := []config.ResourceSpec{{Name: "cpu", Weight: 1}, {Name: "memory", Weight: 1}}
	var out []fwk.Plugin
	for _, p := range []struct {
		make makePlugin
		args runtime.Object
	}{
		{nodename.New, nil},
		{nodedeclaredfeatures.New, nil},
		{nodeunschedulable.New, nil},
		{nodeports.New, nil},
		{tainttoleration.New, nil},
		{nodeaffinity.New, &config.NodeAffinityArgs{}},
		{noderesources.NewFit, &config.NodeResourcesFitArgs{ScoringStrategy: &config.ScoringStrategy{Type: config.LeastAllocated, Resources: resources}}},
		{noderesources.NewBalancedAllocation, &config.NodeResourcesBalancedAllocationArgs{Resources: resources}},
	} {
		plugin, err := p.make(t.Context(), p.args, handle{}, features)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, plugin)
	}
	return out
}

// cluster is a case: nodes, the pods on each, and a pod that looks for one.
type cluster struct {
	nodes  []*v1.Node
	placed [][]*v1.Pod
	pod    *v1.Pod
}

func (m *mutator) cluster(pods, nodes *population) cluster {
	podKind, nodeKind := kind("pods"), kind("nodes")
	var c cluster
	id := 0
	pod := func() *v1.Pod {
		for {
			p := pods.pick(m).(*v1.Pod)
			if m.IntN(2) == 0 {
				m.Mutate(&p.Spec, 1+m.IntN(2))
			}
			podKind.complete(p)
			o := podKind.UpstreamCreate(p)
			if o.Object == nil {
				continue
			}
			p = o.Object.(*v1.Pod)
			if m.IntN(3) > 0 {
				p.Spec.NodeName = ""
			}
			id++
			p.UID = types.UID(fmt.Sprint("u", id))
			return p
		}
	}
	for i := range 1 + m.IntN(4) {
		var n *v1.Node
		for n == nil {
			o := nodes.pick(m)
			m.Mutate(o, m.IntN(4))
			nodeKind.complete(o)
			if r := nodeKind.UpstreamCreate(o); r.Object != nil {
				n = r.Object.(*v1.Node)
			}
		}
		n.Name = fmt.Sprint("n", i+1)
		c.nodes = append(c.nodes, n)
		var on []*v1.Pod
		for range m.IntN(3) {
			p := pod()
			p.Spec.NodeName = n.Name
			on = append(on, p)
		}
		c.placed = append(c.placed, on)
	}
	c.pod = pod()
	return c
}

// verdict is what a filter says of a node, as text. Upstream's order of extended resources is a map's; the message sorts them all.
func verdict(unresolvable bool, reasons []string) string {
	return fmt.Sprintf("unresolvable %v: %s", unresolvable, strings.Join(slices.Sorted(slices.Values(reasons)), ", "))
}

func (c cluster) differ(ctx context.Context, theirs []fwk.Plugin) []Difference {
	var infos []fwk.NodeInfo
	podo := framework.NewCluster()
	for i, n := range c.nodes {
		info := upstream.NewNodeInfo(c.placed[i]...)
		info.SetNode(n)
		infos = append(infos, info)
		podo.SetNode(n)
		for _, p := range c.placed[i] {
			podo.SetPod(p)
		}
	}
	shape, set := podo.Shape(c.pod).Shape, plugins.Default(nil)
	var out []Difference
	for _, plugin := range theirs {
		state := upstream.NewCycleState()
		skip := false
		if p, ok := plugin.(fwk.PreFilterPlugin); ok {
			_, status := p.PreFilter(ctx, state, c.pod, infos)
			skip = status.IsSkip()
		}
		if f, ok := plugin.(fwk.FilterPlugin); ok {
			for i, info := range infos {
				up, ours := "", ""
				if !skip {
					if s := f.Filter(ctx, state, c.pod, info); !s.IsSuccess() {
						up = verdict(s.Code() == fwk.UnschedulableAndUnresolvable, s.Reasons())
					}
				}
				for _, mine := range set.AllFilters() {
					if mine.Name() != plugin.Name() {
						continue
					}
					if r := mine.Filter(shape, podo.Node(c.nodes[i].Name)); r != nil {
						ours = verdict(r.Unresolvable, r.Reasons)
					}
				}
				if up != ours {
					out = append(out, Difference{Where: "filter " + plugin.Name(), Upstream: up, Podo: ours})
				}
			}
		}
		if s, ok := plugin.(fwk.ScorePlugin); ok {
			out = append(out, c.differScores(ctx, s, infos, podo, shape)...)
		}
	}
	return out
}

// differScores compares the normalized scores of all nodes: what counts is the order that they make.
func (c cluster) differScores(ctx context.Context, plugin fwk.ScorePlugin, infos []fwk.NodeInfo, podo *framework.Cluster, shape *framework.Shape) []Difference {
	if plugin.Name() == "NodeResourcesFit" && c.pod.Spec.Resources != nil {
		return nil // upstream's scorer leaves a pod's own requests out, though its filter counts them: Podo counts them in both
	}
	state := upstream.NewCycleState()
	up, err := theirScores(ctx, plugin, state, c.pod, infos)
	if err != nil {
		return []Difference{*err}
	}
	ours := make([]int64, len(infos))
	found := false
	for _, mine := range plugins.Default(nil).Scores {
		if mine.Name() != plugin.Name() {
			continue
		}
		found = true
		if mine.Skip(shape) {
			continue
		}
		for i := range ours {
			ours[i] = mine.Raw(shape, podo.Node(c.nodes[i].Name))
		}
		mine.Normalize(ours)
	}
	// A plug-in that is skipped adds nothing, and one that gives all nodes the same adds nothing to their order.
	if !found || same(up) && same(ours) {
		return nil
	}
	return compareJSON("score "+plugin.Name(), fmt.Sprint(up), fmt.Sprint(ours))
}

// theirScores are upstream's normalized scores of the nodes; zeros when the plug-in has no preference.
func theirScores(ctx context.Context, plugin fwk.ScorePlugin, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) ([]int64, *Difference) {
	out := make([]int64, len(nodes))
	if p, ok := plugin.(fwk.PreScorePlugin); ok && p.PreScore(ctx, state, pod, nodes).IsSkip() {
		return out, nil
	}
	var list fwk.NodeScoreList
	for _, info := range nodes {
		score, status := plugin.Score(ctx, state, pod, info)
		if !status.IsSuccess() {
			return nil, &Difference{Where: "score " + plugin.Name(), Upstream: status.Message()}
		}
		list = append(list, fwk.NodeScore{Name: info.Node().Name, Score: score})
	}
	if n := plugin.ScoreExtensions(); n != nil {
		n.NormalizeScore(ctx, state, pod, list)
	}
	for i := range list {
		out[i] = list[i].Score
	}
	return out, nil
}

func same(scores []int64) bool {
	for _, s := range scores {
		if s != scores[0] {
			return false
		}
	}
	return true
}

// TestSchedulerPlugins compares what each plug-in says of each node, and how it ranks them.
func TestSchedulerPlugins(t *testing.T) {
	if *only != "" {
		t.Skip("one kind only")
	}
	t.Parallel()
	theirs := upstreamPlugins(t)
	m := mutatorFor(t)
	pods, nodes := newPopulation(seeds(t, kind("pods"))), newPopulation(seeds(t, kind("nodes")))
	var r Report
	for range rounds(1) {
		c := m.cluster(pods, nodes)
		r.ran()
		r.found("scheduler", c.differ(t.Context(), theirs), func(sig string) string { return c.smallest(t.Context(), theirs, sig) })
	}
	r.fail(t)
}

func (c cluster) smallest(ctx context.Context, theirs []fwk.Plugin, sig string) string {
	shows := func(c cluster) bool {
		_, ok := signatures("scheduler", c.differ(ctx, theirs))[sig]
		return ok
	}
	c.pod = shrink(c.pod, func(o runtime.Object) bool { next := c; next.pod = o.(*v1.Pod); return shows(next) }).(*v1.Pod)
	for i := range c.nodes {
		c.nodes[i] = shrink(c.nodes[i], func(o runtime.Object) bool {
			next := c
			next.nodes = append([]*v1.Node{}, c.nodes...)
			next.nodes[i] = o.(*v1.Node)
			return shows(next)
		}).(*v1.Node)
	}
	text := ""
	for _, d := range c.differ(ctx, theirs) {
		if signature("scheduler", d) == sig {
			text = "upstream: " + d.Upstream + "\npodo:     " + d.Podo + "\n"
			break
		}
	}
	text += "pod:\n" + manifest(c.pod)
	for i, n := range c.nodes {
		text += fmt.Sprintf("node with %d pods:\n%s", len(c.placed[i]), manifest(n))
	}
	return text
}
