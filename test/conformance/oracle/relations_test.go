package oracle

import (
	"context"
	"fmt"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	upstream "k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/parallelize"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/imagelocality"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/interpodaffinity"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/podtopologyspread"
	"k8s.io/kubernetes/pkg/scheduler/metrics"

	"podo.dev/podo/internal/scheduler/framework"
	"podo.dev/podo/internal/scheduler/plugins"
)

// crowd is a case of the plug-ins that judge a node by where other pods are: pods whose labels and terms meet often.
type crowd struct {
	nodes  []*v1.Node
	placed []*v1.Pod
	pod    *v1.Pod
}

// whole is what upstream's plug-ins ask their scheduler for.
type whole struct {
	fwk.Handle
	snapshot  *cache.Snapshot
	informers informers.SharedInformerFactory
}

func (w whole) SnapshotSharedLister() fwk.SharedLister                 { return w.snapshot }
func (w whole) Parallelizer() fwk.Parallelizer                         { return parallelize.NewParallelizer(1) }
func (w whole) SharedInformerFactory() informers.SharedInformerFactory { return w.informers }

// spaces are the namespaces of a crowd, with their labels.
var spaces = map[string]map[string]string{"ns": {}, "other": {"team": "x"}}

func (m *mutator) one(list ...string) string { return list[m.IntN(len(list))] }

func (m *mutator) selector() *metav1.LabelSelector {
	switch m.IntN(5) {
	case 0:
		return nil
	case 1:
		return &metav1.LabelSelector{}
	case 2:
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"b"}}}}
	}
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": m.one("a", "b")}}
}

func (m *mutator) term() v1.PodAffinityTerm {
	t := v1.PodAffinityTerm{LabelSelector: m.selector(), TopologyKey: m.one("zone", v1.LabelHostname)}
	if m.IntN(4) == 0 {
		t.Namespaces = []string{m.one("ns", "other")}
	}
	switch m.IntN(6) {
	case 0:
		t.NamespaceSelector = &metav1.LabelSelector{}
	case 1:
		t.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "x"}}
	}
	return t
}

func (m *mutator) terms() (required []v1.PodAffinityTerm, preferred []v1.WeightedPodAffinityTerm) {
	for range m.IntN(3) {
		required = append(required, m.term())
	}
	for range m.IntN(3) {
		preferred = append(preferred, v1.WeightedPodAffinityTerm{Weight: int32(1 + m.IntN(100)), PodAffinityTerm: m.term()})
	}
	return required, preferred
}

func (m *mutator) social(name string) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Namespace: m.one("ns", "ns", "other"), Labels: map[string]string{"app": m.one("a", "b")}}}
	if m.IntN(4) == 0 {
		p.Labels["tier"] = m.one("x", "y")
	}
	for range 1 + m.IntN(2) {
		p.Spec.Containers = append(p.Spec.Containers, v1.Container{Image: m.one("localhost/big", "small:1", "none")})
	}
	if m.IntN(4) == 0 {
		p.Spec.InitContainers = []v1.Container{{Image: "small:1"}}
	}
	if m.IntN(4) == 0 {
		p.Spec.NodeSelector = map[string]string{"zone": m.one("a", "b")}
	}
	if m.IntN(3) == 0 {
		p.Spec.Tolerations = []v1.Toleration{{Key: "k", Operator: v1.TolerationOpExists}}
	}
	if m.IntN(2) == 0 {
		p.Spec.Affinity = &v1.Affinity{}
		if m.IntN(2) == 0 {
			r, w := m.terms()
			p.Spec.Affinity.PodAffinity = &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: r, PreferredDuringSchedulingIgnoredDuringExecution: w}
		}
		if m.IntN(2) == 0 {
			r, w := m.terms()
			p.Spec.Affinity.PodAntiAffinity = &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: r, PreferredDuringSchedulingIgnoredDuringExecution: w}
		}
	}
	policies := []*v1.NodeInclusionPolicy{nil, new(v1.NodeInclusionPolicyHonor), new(v1.NodeInclusionPolicyIgnore)}
	for range m.IntN(3) {
		c := v1.TopologySpreadConstraint{
			MaxSkew: int32(1 + m.IntN(2)), TopologyKey: m.one("zone", v1.LabelHostname), LabelSelector: m.selector(),
			WhenUnsatisfiable:  v1.UnsatisfiableConstraintAction(m.one(string(v1.DoNotSchedule), string(v1.ScheduleAnyway))),
			NodeAffinityPolicy: policies[m.IntN(3)], NodeTaintsPolicy: policies[m.IntN(3)],
		}
		if c.WhenUnsatisfiable == v1.DoNotSchedule && m.IntN(3) == 0 {
			c.MinDomains = new(int32(1 + m.IntN(4)))
		}
		if c.LabelSelector != nil && m.IntN(4) == 0 {
			c.MatchLabelKeys = []string{"tier"}
		}
		p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, c)
	}
	return p
}

func (m *mutator) crowd() crowd {
	var c crowd
	for i := range 1 + m.IntN(5) {
		n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n", i), Labels: map[string]string{v1.LabelHostname: fmt.Sprint("n", i), "zone": m.one("a", "b", "c")}}}
		switch m.IntN(8) {
		case 0:
			delete(n.Labels, "zone")
		case 1:
			delete(n.Labels, v1.LabelHostname)
		case 2:
			n.Spec.Taints = []v1.Taint{{Key: "k", Effect: v1.TaintEffectNoSchedule}}
		}
		for name, size := range map[string]int64{"localhost/big:latest": 900 << 20, "small:1": 60 << 20} {
			if m.IntN(2) == 0 {
				n.Status.Images = append(n.Status.Images, v1.ContainerImage{Names: []string{name}, SizeBytes: size})
			}
		}
		c.nodes = append(c.nodes, n)
		for j := range m.IntN(5) {
			p := m.social(fmt.Sprintf("p%d-%d", i, j))
			if p.Spec.NodeName = n.Name; m.IntN(8) == 0 {
				p.DeletionTimestamp = &metav1.Time{}
			}
			c.placed = append(c.placed, p)
		}
	}
	c.pod = m.social("pod")
	return c
}

// theirs are upstream's plug-ins on the crowd.
func (c crowd) theirs(ctx context.Context) ([]fwk.Plugin, *cache.Snapshot, error) {
	w := whole{snapshot: cache.NewSnapshot(c.placed, c.nodes), informers: informers.NewSharedInformerFactory(fake.NewClientset(), 0)}
	for name, labels := range spaces {
		ns := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
		if err := w.informers.Core().V1().Namespaces().Informer().GetStore().Add(ns); err != nil {
			return nil, nil, err
		}
	}
	features := feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate)
	var out []fwk.Plugin
	for _, p := range []struct {
		make makePlugin
		args runtime.Object
	}{
		{podtopologyspread.New, &config.PodTopologySpreadArgs{DefaultingType: config.SystemDefaulting}},
		{interpodaffinity.New, &config.InterPodAffinityArgs{HardPodAffinityWeight: 1}},
		{func(ctx context.Context, o runtime.Object, h fwk.Handle, _ feature.Features) (fwk.Plugin, error) {
			return imagelocality.New(ctx, o, h)
		}, nil},
	} {
		plugin, err := p.make(ctx, p.args, w, features)
		if err != nil {
			return nil, nil, err
		}
		out = append(out, plugin)
	}
	return out, w.snapshot, nil
}

func (c crowd) differ(ctx context.Context) (out []Difference) {
	podo := framework.NewCluster()
	for name, labels := range spaces {
		podo.SetNamespace(name, labels)
	}
	for _, n := range c.nodes {
		podo.SetNode(n)
	}
	for _, p := range c.placed {
		podo.SetPod(p)
	}
	pod := podo.Shape(c.pod)
	theirs, snapshot, err := c.theirs(ctx)
	if err != nil {
		return []Difference{{Where: "relations", Upstream: err.Error()}}
	}
	infos, err := snapshot.NodeInfos().List()
	if err != nil {
		return []Difference{{Where: "relations", Upstream: err.Error()}}
	}
	for _, plugin := range theirs {
		i := slices.IndexFunc(plugins.Default(nil).Relations, func(r plugins.Relation) bool { return r.Name() == plugin.Name() })
		if i < 0 {
			return append(out, Difference{Where: plugin.Name(), Upstream: "is there", Podo: "is not"})
		}
		ours := plugins.Default(nil).Relations[i].Relate(podo, pod)
		state, skip := upstream.NewCycleState(), false
		if p, ok := plugin.(fwk.PreFilterPlugin); ok {
			_, status := p.PreFilter(ctx, state, c.pod, infos)
			skip = status.IsSkip()
		}
		var fit []fwk.NodeInfo
		for _, info := range infos {
			up, here := "", ""
			if f, ok := plugin.(fwk.FilterPlugin); ok && !skip {
				if s := f.Filter(ctx, state, c.pod, info); !s.IsSuccess() {
					up = verdict(s.Code() == fwk.UnschedulableAndUnresolvable, s.Reasons())
				}
			}
			if ours != nil && ours.Binding() {
				if r := ours.Filter(podo.Node(info.Node().Name)); r != nil {
					here = verdict(r.Unresolvable, r.Reasons)
				}
			}
			if up != here {
				out = append(out, Difference{Where: "filter " + plugin.Name(), Upstream: up, Podo: here})
			}
			if up == "" && here == "" {
				fit = append(fit, info)
			}
		}
		if s, ok := plugin.(fwk.ScorePlugin); ok && len(fit) > 0 {
			out = append(out, c.differScores(ctx, s, state, fit, podo, ours)...)
		}
	}
	return out
}

// differScores compares the normalized scores of the nodes that both let pass.
func (c crowd) differScores(ctx context.Context, plugin fwk.ScorePlugin, state fwk.CycleState, fit []fwk.NodeInfo, podo *framework.Cluster, ours framework.Related) []Difference {
	up, err := theirScores(ctx, plugin, state, c.pod, fit)
	if err != nil {
		return []Difference{*err}
	}
	here := make([]int64, len(fit))
	nodes := make([]*framework.Node, len(fit))
	for i, info := range fit {
		nodes[i] = podo.Node(info.Node().Name)
	}
	if ours == nil || !ours.Score(nodes, here) {
		here = make([]int64, len(fit))
	}
	if same(up) && same(here) {
		return nil // adds nothing to the nodes' order
	}
	return compareJSON("score "+plugin.Name(), fmt.Sprint(up), fmt.Sprint(here))
}

// TestSchedulerRelations compares how nodes are judged by where other pods are.
func TestSchedulerRelations(t *testing.T) {
	if *only != "" {
		t.Skip("one kind only")
	}
	t.Parallel()
	metrics.Register() // upstream's plug-ins count
	m := mutatorFor(t)
	var r Report
	for range rounds(1) {
		c := m.crowd()
		r.ran()
		r.found("relations", c.differ(t.Context()), func(sig string) string { return c.smallest(t.Context(), sig) })
	}
	r.fail(t)
}

// smallest leaves out pods and nodes as long as the difference shows.
func (c crowd) smallest(ctx context.Context, sig string) string {
	shows := func(c crowd) bool {
		_, ok := signatures("relations", c.differ(ctx))[sig]
		return ok
	}
	for i := 0; i < len(c.placed); {
		next := c
		if next.placed = slices.Delete(slices.Clone(c.placed), i, i+1); shows(next) {
			c = next
		} else {
			i++
		}
	}
	text := ""
	for _, d := range c.differ(ctx) {
		if signature("relations", d) == sig {
			text = "upstream: " + d.Upstream + "\npodo:     " + d.Podo + "\n"
			break
		}
	}
	text += "pod:\n" + manifest(c.pod)
	for _, n := range c.nodes {
		text += "node:\n" + manifest(n)
	}
	for _, p := range c.placed {
		text += "placed:\n" + manifest(p)
	}
	return text
}
