package plan_test

import (
	"fmt"
	"maps"
	"math"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"podo.dev/podo/internal/scheduler/framework"
	"podo.dev/podo/internal/scheduler/plan"
	"podo.dev/podo/internal/scheduler/plugins"
)

// The oracle's part about other pods: it counts everything anew for each question. Selectors are matchLabels only, namespaces are "ns" and
// "other", of which the latter has the label team=x.

func selects(s *metav1.LabelSelector, set map[string]string) bool {
	if s == nil {
		return false
	}
	for k, v := range s.MatchLabels {
		if set[k] != v {
			return false
		}
	}
	return true
}

var namespaceLabels = map[string]map[string]string{"ns": {}, "other": {"team": "x"}}

// means tells whether a term of holder means q.
func means(t *v1.PodAffinityTerm, holder, q *v1.Pod) bool {
	in := len(t.Namespaces) == 0 && t.NamespaceSelector == nil && q.Namespace == holder.Namespace
	for _, ns := range t.Namespaces {
		in = in || ns == q.Namespace
	}
	in = in || selects(t.NamespaceSelector, namespaceLabels[q.Namespace])
	return in && selects(t.LabelSelector, q.Labels)
}

func affinityOf(p *v1.Pod) (with, apart []v1.PodAffinityTerm, prefer, avoid []v1.WeightedPodAffinityTerm) {
	if a := p.Spec.Affinity; a != nil && a.PodAffinity != nil {
		with, prefer = a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution, a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution
	}
	if a := p.Spec.Affinity; a != nil && a.PodAntiAffinity != nil {
		apart, avoid = a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution, a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution
	}
	return
}

// together tells whether two nodes are in one domain.
func together(a, b *v1.Node, key string) bool {
	x, ok := a.Labels[key]
	y, also := b.Labels[key]
	return ok && also && x == y
}

// unrelated is the reason for which where other pods are keeps p off n.
func (o *oracle) unrelated(p *v1.Pod, n *v1.Node) string {
	for _, c := range p.Spec.TopologySpreadConstraints {
		if c.WhenUnsatisfiable != v1.DoNotSchedule {
			continue
		}
		if _, ok := n.Labels[c.TopologyKey]; !ok {
			return "node(s) didn't match pod topology spread constraints (missing required label)"
		}
		counts := o.spread(p, c)
		least := math.MaxInt
		for _, x := range counts {
			least = min(least, x)
		}
		if len(counts) == 0 || c.MinDomains != nil && len(counts) < int(*c.MinDomains) {
			least = 0
		}
		self := 0
		if selects(c.LabelSelector, p.Labels) {
			self = 1
		}
		if counts[n.Labels[c.TopologyKey]]+self-least > int(c.MaxSkew) {
			return "node(s) didn't match pod topology spread constraints"
		}
	}
	with, apart, _, _ := affinityOf(p)
	meansAll := func(q *v1.Pod) bool {
		for i := range with {
			if !means(&with[i], p, q) {
				return false
			}
		}
		return true
	}
	if len(with) > 0 {
		near, anywhere := 0, 0
		for i := range with {
			if _, ok := n.Labels[with[i].TopologyKey]; !ok {
				return "node(s) didn't match pod affinity rules"
			}
			found := false
			for _, q := range o.pods {
				at := o.nodes[q.Spec.NodeName]
				if at == nil || !meansAll(q) {
					continue
				}
				if _, ok := at.Labels[with[i].TopologyKey]; ok {
					anywhere++
				}
				found = found || together(n, at, with[i].TopologyKey)
			}
			if found {
				near++
			}
		}
		if near < len(with) && !(anywhere == 0 && meansAll(p)) {
			return "node(s) didn't match pod affinity rules"
		}
	}
	for i := range apart {
		for _, q := range o.pods {
			if at := o.nodes[q.Spec.NodeName]; at != nil && means(&apart[i], p, q) && together(n, at, apart[i].TopologyKey) {
				return "node(s) didn't match pod anti-affinity rules"
			}
		}
	}
	for _, q := range o.pods {
		_, theirs, _, _ := affinityOf(q)
		for i := range theirs {
			if at := o.nodes[q.Spec.NodeName]; at != nil && means(&theirs[i], q, p) && together(n, at, theirs[i].TopologyKey) {
				return "node(s) didn't satisfy existing pods anti-affinity rules"
			}
		}
	}
	return ""
}

// spread counts what a constraint of p counts, by domain.
func (o *oracle) spread(p *v1.Pod, c v1.TopologySpreadConstraint) map[string]int {
	out := map[string]int{}
	for _, n := range o.nodes {
		if !o.counts(p, c, n) {
			continue
		}
		out[n.Labels[c.TopologyKey]] += o.like(p, c, n)
	}
	return out
}

// counts tells whether a node's pods count for a constraint.
func (o *oracle) counts(p *v1.Pod, c v1.TopologySpreadConstraint, n *v1.Node) bool {
	for _, x := range p.Spec.TopologySpreadConstraints {
		if _, ok := n.Labels[x.TopologyKey]; !ok && x.WhenUnsatisfiable == c.WhenUnsatisfiable {
			return false
		}
	}
	if c.NodeAffinityPolicy == nil || *c.NodeAffinityPolicy == v1.NodeInclusionPolicyHonor {
		for k, v := range p.Spec.NodeSelector {
			if n.Labels[k] != v {
				return false
			}
		}
	}
	if c.NodeTaintsPolicy != nil && *c.NodeTaintsPolicy == v1.NodeInclusionPolicyHonor {
		for _, t := range n.Spec.Taints {
			if t.Effect != v1.TaintEffectPreferNoSchedule && !tolerates(p, t) {
				return false
			}
		}
	}
	return true
}

func (o *oracle) like(p *v1.Pod, c v1.TopologySpreadConstraint, n *v1.Node) (count int) {
	if c.LabelSelector != nil && len(c.LabelSelector.MatchLabels) == 0 {
		return 0
	}
	for _, q := range o.on(n.Name) {
		if q.Namespace == p.Namespace && q.DeletionTimestamp == nil && selects(c.LabelSelector, q.Labels) {
			count++
		}
	}
	return count
}

// relatedScores are the weighted scores of feasible nodes.
func (o *oracle) relatedScores(p *v1.Pod, nodes []*v1.Node) []int64 {
	out := make([]int64, len(nodes))
	for i, v := range o.spreadScores(p, nodes) {
		out[i] += 2 * v
	}
	for i, v := range o.affinityScores(p, nodes) {
		out[i] += 2 * v
	}
	return out
}

func (o *oracle) spreadScores(p *v1.Pod, nodes []*v1.Node) []int64 {
	var soft []v1.TopologySpreadConstraint
	for _, c := range p.Spec.TopologySpreadConstraints {
		if c.WhenUnsatisfiable == v1.ScheduleAnyway {
			soft = append(soft, c)
		}
	}
	if len(soft) == 0 {
		return nil
	}
	labelled := func(n *v1.Node) bool {
		for _, c := range soft {
			if _, ok := n.Labels[c.TopologyKey]; !ok {
				return false
			}
		}
		return true
	}
	raw := map[int]int64{}
	for i, n := range nodes {
		if !labelled(n) {
			continue
		}
		sum := 0.0
		for _, c := range soft {
			values := map[string]bool{}
			for _, x := range nodes {
				if labelled(x) {
					values[x.Labels[c.TopologyKey]] = true
				}
			}
			sum += float64(o.spread(p, c)[n.Labels[c.TopologyKey]])*math.Log(float64(len(values)+2)) + float64(c.MaxSkew-1)
		}
		raw[i] = int64(math.Round(sum))
	}
	least, most := int64(math.MaxInt64), int64(0)
	for v := range maps.Values(raw) {
		least, most = min(least, v), max(most, v)
	}
	out := make([]int64, len(nodes))
	for i, v := range raw {
		if out[i] = 100; most > 0 {
			out[i] = 100 * (most + least - v) / most
		}
	}
	return out
}

func (o *oracle) affinityScores(p *v1.Pod, nodes []*v1.Node) []int64 {
	_, _, prefer, avoid := affinityOf(p)
	raw := make([]int64, len(nodes))
	for i, n := range nodes {
		for _, q := range o.pods {
			at := o.nodes[q.Spec.NodeName]
			if at == nil {
				continue
			}
			add := func(t *v1.PodAffinityTerm, weight int64, holder, meant *v1.Pod) {
				if means(t, holder, meant) && together(n, at, t.TopologyKey) {
					raw[i] += weight
				}
			}
			for k := range prefer {
				add(&prefer[k].PodAffinityTerm, int64(prefer[k].Weight), p, q)
			}
			for k := range avoid {
				add(&avoid[k].PodAffinityTerm, -int64(avoid[k].Weight), p, q)
			}
			theirs, _, theyPrefer, theyAvoid := affinityOf(q)
			for k := range theirs {
				add(&theirs[k], 1, q, p)
			}
			for k := range theyPrefer {
				add(&theyPrefer[k].PodAffinityTerm, int64(theyPrefer[k].Weight), q, p)
			}
			for k := range theyAvoid {
				add(&theyAvoid[k].PodAffinityTerm, -int64(theyAvoid[k].Weight), q, p)
			}
		}
	}
	least, most := int64(math.MaxInt64), int64(math.MinInt64)
	for _, v := range raw {
		least, most = min(least, v), max(most, v)
	}
	for i := range raw {
		if most == least {
			raw[i] = 0
		} else {
			raw[i] = int64(100 * (float64(raw[i]-least) / float64(most-least)))
		}
	}
	return raw
}

var (
	app     = rapid.SampledFrom([]map[string]string{{"app": "a"}, {"app": "b"}, {"app": "a", "tier": "x"}, nil})
	wanted  = rapid.SampledFrom([]*metav1.LabelSelector{{MatchLabels: map[string]string{"app": "a"}}, {MatchLabels: map[string]string{"app": "b"}}, {}, nil})
	keyOf   = rapid.SampledFrom([]string{"zone", "host"})
	around  = rapid.SampledFrom([][]string{nil, {"ns"}, {"ns", "other"}})
	abroad  = rapid.SampledFrom([]*metav1.LabelSelector{nil, nil, {MatchLabels: map[string]string{"team": "x"}}, {}})
	policy  = rapid.SampledFrom([]*v1.NodeInclusionPolicy{nil, new(v1.NodeInclusionPolicyHonor), new(v1.NodeInclusionPolicyIgnore)})
	actions = rapid.SampledFrom([]v1.UnsatisfiableConstraintAction{v1.DoNotSchedule, v1.ScheduleAnyway})
)

func drawTerm(t *rapid.T) v1.PodAffinityTerm {
	return v1.PodAffinityTerm{
		LabelSelector: wanted.Draw(t, "wanted"), TopologyKey: keyOf.Draw(t, "key"), Namespaces: around.Draw(t, "namespaces"), NamespaceSelector: abroad.Draw(t, "abroad"),
	}
}

func drawRelations(t *rapid.T, p *v1.Pod) {
	p.Labels = app.Draw(t, "app")
	p.Namespace = rapid.SampledFrom([]string{"ns", "ns", "other"}).Draw(t, "namespace")
	if rapid.IntRange(0, 2).Draw(t, "spread") == 0 {
		for range rapid.IntRange(1, 2).Draw(t, "constraints") {
			c := v1.TopologySpreadConstraint{
				TopologyKey: keyOf.Draw(t, "key"), WhenUnsatisfiable: actions.Draw(t, "action"), MaxSkew: int32(rapid.IntRange(1, 2).Draw(t, "skew")),
				LabelSelector: wanted.Draw(t, "like"), NodeAffinityPolicy: policy.Draw(t, "affinity policy"), NodeTaintsPolicy: policy.Draw(t, "taints policy"),
			}
			if c.WhenUnsatisfiable == v1.DoNotSchedule && rapid.IntRange(0, 3).Draw(t, "domains") == 0 {
				c.MinDomains = new(int32(rapid.IntRange(1, 4).Draw(t, "min domains")))
			}
			p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, c)
		}
	}
	if rapid.IntRange(0, 2).Draw(t, "related") > 0 {
		return
	}
	if p.Spec.Affinity == nil {
		p.Spec.Affinity = &v1.Affinity{}
	}
	required := func() (out []v1.PodAffinityTerm) {
		for range rapid.IntRange(0, 2).Draw(t, "required") {
			out = append(out, drawTerm(t))
		}
		return out
	}
	preferred := func() (out []v1.WeightedPodAffinityTerm) {
		for range rapid.IntRange(0, 2).Draw(t, "preferred terms") {
			out = append(out, v1.WeightedPodAffinityTerm{Weight: int32(rapid.IntRange(1, 100).Draw(t, "weight")), PodAffinityTerm: drawTerm(t)})
		}
		return out
	}
	if rapid.Bool().Draw(t, "with") {
		p.Spec.Affinity.PodAffinity = &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: required(), PreferredDuringSchedulingIgnoredDuringExecution: preferred()}
	}
	if rapid.Bool().Draw(t, "apart") {
		p.Spec.Affinity.PodAntiAffinity = &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: required(), PreferredDuringSchedulingIgnoredDuringExecution: preferred()}
	}
}

func spreadPod(i int, key string, action v1.UnsatisfiableConstraintAction) *v1.Pod {
	p := basicPod(i)
	p.Labels = map[string]string{"app": "a"}
	p.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: action, LabelSelector: &metav1.LabelSelector{MatchLabels: p.Labels},
	}}
	return p
}

func relatedPod(i int, key string, apart, required bool) *v1.Pod {
	p := basicPod(i)
	p.Labels = map[string]string{"app": "a"}
	t := v1.PodAffinityTerm{TopologyKey: key, LabelSelector: &metav1.LabelSelector{MatchLabels: p.Labels}}
	req, pref := []v1.PodAffinityTerm{t}, []v1.WeightedPodAffinityTerm(nil)
	if !required {
		req, pref = nil, []v1.WeightedPodAffinityTerm{{Weight: 1, PodAffinityTerm: t}}
	}
	if apart {
		p.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: req, PreferredDuringSchedulingIgnoredDuringExecution: pref}}
	} else {
		p.Spec.Affinity = &v1.Affinity{PodAffinity: &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: req, PreferredDuringSchedulingIgnoredDuringExecution: pref}}
	}
	return p
}

// The shapes of upstream's scheduler benchmark whose pods look at each other, on 5,000 nodes in ten zones.
func BenchmarkRelations5000Nodes(b *testing.B) {
	for name, make := range map[string]func(int) *v1.Pod{
		"spread-required":         func(i int) *v1.Pod { return spreadPod(i, "zone", v1.DoNotSchedule) },
		"spread-preferred":        func(i int) *v1.Pod { return spreadPod(i, "zone", v1.ScheduleAnyway) },
		"affinity":                func(i int) *v1.Pod { return relatedPod(i, "zone", false, true) },
		"anti-affinity":           func(i int) *v1.Pod { return relatedPod(i, "host", true, true) },
		"preferred-affinity":      func(i int) *v1.Pod { return relatedPod(i, "host", false, false) },
		"preferred-anti-affinity": func(i int) *v1.Pod { return relatedPod(i, "host", true, false) },
	} {
		b.Run(name, func(b *testing.B) {
			c, p := framework.NewCluster(), plan.New(plugins.Default(nil), 1)
			for i := range 5000 {
				n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("node-", i), Labels: map[string]string{"host": fmt.Sprint(i), "zone": fmt.Sprint(i % 10)}}}
				n.Status.Allocatable = v1.ResourceList{v1.ResourceCPU: resource.MustParse("64"), v1.ResourceMemory: resource.MustParse("256Gi"), v1.ResourcePods: resource.MustParse("1000")}
				c.SetNode(n)
			}
			i := 0
			for b.Loop() {
				pod := c.Shape(make(i))
				if d := p.Schedule(c, pod); d.Node != nil {
					c.Assume(pod, d.Node.Name)
				} else {
					for j := range i { // full: all nodes have one
						c.Forget(types.UID(fmt.Sprint("p", j)))
					}
				}
				i++
			}
		})
	}
}

// A pod may name more others than are kept count of for those that wait: all of its terms count nonetheless, the first as much as the last.
func TestAPodWithVeryManyTerms(t *testing.T) {
	c, p := bigCluster(3), plan.New(plugins.Default(nil), 1)
	for _, n := range c.Nodes {
		n := n.Object.DeepCopy()
		n.Labels["host"] = n.Name
		c.SetNode(n)
	}
	friend := basicPod(1)
	friend.Labels = map[string]string{"friend": "0"}
	c.Assume(c.Shape(friend), "node-0001")
	pod := basicPod(2)
	pod.Spec.Affinity = &v1.Affinity{PodAffinity: &v1.PodAffinity{}}
	for i := range 300 {
		pod.Spec.Affinity.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution = append(
			pod.Spec.Affinity.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution,
			v1.WeightedPodAffinityTerm{Weight: 100, PodAffinityTerm: v1.PodAffinityTerm{
				TopologyKey:   "host",
				LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"friend": fmt.Sprint(i)}},
			}},
		)
	}
	for range 2 {
		if d := p.Schedule(c, c.Shape(pod)); d.Node == nil || d.Node.Name != "node-0001" {
			t.Fatalf("it does not go to its friend: %+v", d)
		}
		c.SetPod(&v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "else", Namespace: "ns", Name: "else"}, Spec: v1.PodSpec{NodeName: "node-0002"}})
	}
}
