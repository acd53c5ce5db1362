package framework

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

// Tallies that are kept up say what those say that are made of all pods now, whatever came, went, moved, was relabelled, began to leave, or was
// only tried between.
func TestTalliesAreKeptUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := NewCluster()
		nodes, placed, spaces := map[string]*v1.Node{}, map[types.UID]*v1.Pod{}, map[string]map[string]string{}
		pick := func(t *rapid.T, of ...string) string { return rapid.SampledFrom(of).Draw(t, "of") }
		asks := []*v1.Pod{}
		for i := range 6 {
			asks = append(asks, relatedPod(t, fmt.Sprint("asks-", i)))
		}
		serial := 0
		t.Repeat(map[string]func(*rapid.T){
			"node": func(t *rapid.T) {
				n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: pick(t, "a", "b", "c", "d"), Labels: map[string]string{}}}
				n.Labels["zone"], n.Labels["host"] = pick(t, "", "x", "y"), n.Name
				if pick(t, "with", "without") == "without" {
					delete(n.Labels, pick(t, "zone", "host"))
				}
				nodes[n.Name] = n
				c.SetNode(n)
			},
			"node gone": func(t *rapid.T) {
				name := pick(t, "a", "b", "c", "d")
				delete(nodes, name)
				c.RemoveNode(name)
			},
			"namespace": func(t *rapid.T) {
				name := pick(t, "ns", "other")
				spaces[name] = map[string]string{"team": pick(t, "x", "y")}
				c.SetNamespace(name, spaces[name])
			},
			"placed": func(t *rapid.T) {
				serial++
				p := relatedPod(t, fmt.Sprint("p-", serial))
				p.Spec.NodeName = pick(t, "a", "b", "c", "d")
				placed[p.UID] = p
				c.SetPod(p)
			},
			"changed": func(t *rapid.T) {
				if p := anyOf(t, placed); p != nil {
					p = p.DeepCopy()
					if p.Labels = map[string]string{"app": pick(t, "x", "y")}; pick(t, "stays", "leaves") == "leaves" {
						p.DeletionTimestamp = new(metav1.Unix(1, 0))
					}
					placed[p.UID] = p
					c.SetPod(p)
				}
			},
			"gone": func(t *rapid.T) {
				if p := anyOf(t, placed); p != nil {
					delete(placed, p.UID)
					c.RemovePod(p.UID)
				}
			},
			"tried": func(t *rapid.T) { // one is lifted and another put in its place, as for a preemption
				p := anyOf(t, placed)
				if p == nil || c.Node(p.Spec.NodeName) == nil {
					return
				}
				n, lifted, other := c.Node(p.Spec.NodeName), c.PlacedAs(p.UID), c.Shape(relatedPod(t, "other"))
				ask := asks[0]
				counted(c, ask)
				n.Lift(lifted)
				n.Put(other)
				got := counted(c, ask)
				n.Lift(other)
				n.Put(lifted)
				instead := maps.Clone(placed)
				delete(instead, p.UID)
				instead["other"] = other.Object.DeepCopy()
				instead["other"].Spec.NodeName = n.Name
				if want := counted(made(spaces, nodes, instead), ask); got != want {
					t.Fatalf("while one is tried:\n%s\nanew:\n%s", got, want)
				}
			},
			"": func(t *rapid.T) {
				anew := made(spaces, nodes, placed)
				for _, p := range asks {
					if got, want := counted(c, p), counted(anew, p); got != want {
						t.Fatalf("kept up:\n%s\nanew:\n%s", got, want)
					}
					s := c.Shape(p).Shape
					least, domains := c.Counted(&s.Relations.Hard[0], s).Least()
					if wantLeast, wantDomains := leastOf(p, nodes, placed); least != wantLeast || domains != wantDomains {
						t.Fatalf("least %d of %d, want %d of %d", least, domains, wantLeast, wantDomains)
					}
				}
			},
		})
	})
}

func made(spaces map[string]map[string]string, nodes map[string]*v1.Node, placed map[types.UID]*v1.Pod) *Cluster {
	c := NewCluster()
	for name, labels := range spaces {
		c.SetNamespace(name, labels)
	}
	for _, n := range nodes {
		c.SetNode(n)
	}
	for _, p := range placed {
		c.SetPod(p)
	}
	return c
}

// leastOf counts one by one what the spread constraint of p counts.
func leastOf(p *v1.Pod, nodes map[string]*v1.Node, placed map[types.UID]*v1.Pod) (least int64, domains int) {
	x := p.Spec.TopologySpreadConstraints[0]
	counts := map[string]int64{}
	in := func(n *v1.Node) (string, bool) {
		if n == nil {
			return "", false
		}
		value, ok := n.Labels[x.TopologyKey]
		return value, ok && (len(p.Spec.NodeSelector) == 0 || n.Labels["zone"] == "x")
	}
	for _, n := range nodes {
		if value, ok := in(n); ok {
			counts[value] += 0
		}
	}
	for _, q := range placed {
		value, ok := in(nodes[q.Spec.NodeName])
		if ok && q.Namespace == p.Namespace && q.DeletionTimestamp == nil && q.Labels["app"] == x.LabelSelector.MatchLabels["app"] {
			counts[value]++
		}
	}
	if len(counts) == 0 {
		return 0, 0
	}
	return slices.Min(slices.Collect(maps.Values(counts))), len(counts)
}

func anyOf(t *rapid.T, of map[types.UID]*v1.Pod) *v1.Pod {
	uids := []types.UID{}
	for uid := range of {
		uids = append(uids, uid)
	}
	if len(uids) == 0 {
		return nil
	}
	slices.Sort(uids)
	return of[rapid.SampledFrom(uids).Draw(t, "which")]
}

// relatedPod has a constraint and terms of each sort, by labels that few have.
func relatedPod(t *rapid.T, name string) *v1.Pod {
	pick := func(of ...string) string { return rapid.SampledFrom(of).Draw(t, "of") }
	like := func() *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{"app": pick("x", "y")}}
	}
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Namespace: pick("ns", "other")}}
	p.Labels = map[string]string{"app": pick("x", "y")}
	p.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: pick("zone", "host"), WhenUnsatisfiable: v1.DoNotSchedule, LabelSelector: like(),
	}}
	if pick("anywhere", "somewhere") == "somewhere" {
		p.Spec.NodeSelector = map[string]string{"zone": "x"}
	}
	term := v1.PodAffinityTerm{TopologyKey: pick("zone", "host"), LabelSelector: like()}
	switch pick("own", "named", "selected", "both") {
	case "both":
		term.Namespaces = []string{"ns"}
		term.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "x"}}
	case "named":
		term.Namespaces = []string{"ns", "other"}
	case "selected":
		term.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "x"}}
	}
	p.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{term}}}
	return p
}

// counted is all that a pod's tallies say.
func counted(c *Cluster, pod *v1.Pod) string {
	nodes := slices.Clone(c.Nodes)
	slices.SortFunc(nodes, func(a, b *Node) int { return strings.Compare(a.Name, b.Name) })
	var out []string
	tell := func(what string, t *Tally) {
		least, domains := t.Least()
		text := fmt.Sprint(what, " least ", least, " of ", domains, " any ", t.Any(), " distinct ", t.Distinct(nodes, make([]bool, len(nodes))))
		for _, n := range nodes {
			count, ok := t.In(n)
			text += fmt.Sprint("; ", n.Name, " ", count, ok, t.On(n))
		}
		out = append(out, text)
	}
	s := c.Shape(pod).Shape
	for i := range s.Relations.Hard {
		tell("spread "+s.Relations.Hard[i].Key, c.Counted(&s.Relations.Hard[i], s))
	}
	for i := range s.Relations.AntiAffinity {
		tell("term "+s.Relations.AntiAffinity[i].Key, c.Meant(s.Relations.AntiAffinity[i:i+1], s.Relations.AntiAffinity[i].TopologyKey))
	}
	for h := range c.Holders(pod) {
		tell("holders "+h.Term.Key, h.Tally)
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

// What nobody asks for any more is forgotten: tallies beyond the most that are kept, and the kinds of pods that have gone.
func TestTalliesAreForgotten(t *testing.T) {
	c := NewCluster()
	c.SetNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"host": "a"}}})
	for i := range 2 * maxTallies {
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprint("p-", i), UID: types.UID(fmt.Sprint("p-", i))}}
		p.Labels = map[string]string{"app": p.Name}
		p.Spec.NodeName = "a"
		p.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: "host", WhenUnsatisfiable: v1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{MatchLabels: p.Labels},
		}}
		c.SetPod(p)
		s := c.PlacedAs(p.UID).Shape
		if count, _ := c.Counted(&s.Relations.Hard[0], s).In(c.Node("a")); count != 1 {
			t.Fatalf("%s is counted %d times", p.Name, count)
		}
	}
	if len(c.tallies.byKey) != 2*maxTallies {
		t.Errorf("%d tallies: some are gone that a pod may have been given", len(c.tallies.byKey))
	}
	c.Trim()
	l := c.tallies.layouts["host|host"]
	if len(c.tallies.byKey) != maxTallies || len(c.tallies.layouts) != 1 || len(l.tallies) != maxTallies {
		t.Errorf("%d tallies, %d layouts", len(c.tallies.byKey), len(c.tallies.layouts))
	}
	for i := range 2 * maxTallies {
		c.RemovePod(types.UID(fmt.Sprint("p-", i)))
	}
	for _, x := range c.tallies.byKey {
		if x.Any() {
			t.Errorf("%s counts pods that have gone", x.key)
		}
	}
	if len(c.tallies.alikes) != 0 {
		t.Errorf("kinds of pods that have gone are held: %v", c.tallies.alikes)
	}
	c.SetNamespace("ns", map[string]string{"new": "labels"})
	if len(c.tallies.byKey)+len(c.tallies.layouts)+c.tallies.order.Len() != 0 {
		t.Errorf("%d tallies and %d layouts are held of before", len(c.tallies.byKey), len(c.tallies.layouts))
	}
}

// Whom a pod wants elsewhere is told as long as it is expected somewhere, also when it is not there yet, and nothing is held of it afterwards.
func TestWhatExpectedPodsWantIsForgotten(t *testing.T) {
	c := NewCluster()
	c.SetNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"host": "a"}}})
	web := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Labels: map[string]string{"app": "web"}}}
	holders := func() (n int) {
		for range c.Holders(web) {
			n++
		}
		return n
	}
	var alone []*Pod
	for _, name := range []string{"one", "two"} {
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}}
		p.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{
			{TopologyKey: "host", LabelSelector: &metav1.LabelSelector{MatchLabels: web.Labels}},
		}}}
		alone = append(alone, c.Shape(p))
		c.Nominate(alone[len(alone)-1], "a")
	}
	for _, step := range []struct {
		what string
		do   func()
		want int
	}{
		{"both expected", func() {}, 1},
		{"one is tried", func() { c.Node("a").Put(alone[0]); c.Node("a").Lift(alone[0]) }, 1},
		{"one is placed", func() { c.Assume(alone[0], "a") }, 1},
		{"the other is not expected", func() { c.Denominate("two") }, 1},
		{"one has left", func() { c.Forget("one") }, 0},
		{"expected elsewhere", func() { c.Nominate(alone[1], "a"); c.Nominate(alone[1], "b") }, 1},
		{"expected nowhere", func() { c.Denominate("two") }, 0},
	} {
		step.do()
		if n := holders(); n != step.want {
			t.Errorf("%s: %d terms mean the pod, want %d", step.what, n, step.want)
		}
	}
	if len(c.tallies.holders)+len(c.tallies.layouts) != 0 {
		t.Errorf("%d terms and %d layouts are held of pods that are nowhere", len(c.tallies.holders), len(c.tallies.layouts))
	}
}
