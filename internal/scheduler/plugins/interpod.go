package plugins

import (
	"math"

	v1 "k8s.io/api/core/v1"

	"podo.dev/podo/internal/scheduler/framework"
	"podo.dev/podo/internal/timeline"
)

// InterPodAffinity puts pods together and apart: by their own podAffinity and podAntiAffinity, and by that of pods which are placed.
type InterPodAffinity struct {
	// HardWeight is the weight of placed pods' required affinity as a preference of the pods that it selects.
	HardWeight int64
	// OwnPreferencesOnly ignores the preferences of placed pods for pods that have none themselves.
	OwnPreferencesOnly bool
}

const interPodName = "InterPodAffinity"

var (
	notTogether = &framework.Rejection{Plugin: interPodName, Reasons: []string{"node(s) didn't match pod affinity rules"}, Unresolvable: true}
	notApart    = &framework.Rejection{Plugin: interPodName, Reasons: []string{"node(s) didn't match pod anti-affinity rules"}}
	notWelcome  = &framework.Rejection{Plugin: interPodName, Reasons: []string{"node(s) didn't satisfy existing pods anti-affinity rules"}}
)

func (InterPodAffinity) Name() string { return interPodName }

// Relate finds the pod's terms and those of others that mean it.
func (a InterPodAffinity) Relate(c *framework.Cluster, pod *framework.Pod) framework.Related {
	out, r := &kinship{cluster: c}, pod.Shape.Relations
	if pod.Object != nil {
		theirs := !a.OwnPreferencesOnly || r != nil && len(r.Preferred) > 0
		for h := range c.Holders(pod.Object) {
			switch {
			case h.Kind == framework.RequiredAntiAffinity:
				out.against = append(out.against, tallied{h.Term, h.Tally, 0})
			case !theirs:
			case h.Kind == framework.Preferred:
				out.prefer = append(out.prefer, tallied{h.Term, h.Tally, h.Weight})
			case a.HardWeight > 0:
				out.prefer = append(out.prefer, tallied{h.Term, h.Tally, a.HardWeight})
			}
		}
	}
	if r == nil {
		if len(out.against)+len(out.prefer) == 0 {
			return nil
		}
		return out
	}
	for i := range r.Affinity {
		out.with = append(out.with, tallied{&r.Affinity[i], c.Meant(r.Affinity, r.Affinity[i].TopologyKey), 0})
	}
	for i := range r.AntiAffinity {
		out.apart = append(out.apart, tallied{&r.AntiAffinity[i], c.Meant(r.AntiAffinity[i:i+1], r.AntiAffinity[i].TopologyKey), 0})
	}
	for i := range r.Preferred {
		p := &r.Preferred[i]
		out.prefer = append(out.prefer, tallied{&p.Term, c.Meant([]framework.Term{p.Term}, p.TopologyKey), p.Weight})
	}
	own := &v1.Pod{}
	own.Namespace, own.Labels = r.Namespace, r.Labels
	out.meansItself = len(r.Affinity) > 0
	for i := range r.Affinity {
		out.meansItself = out.meansItself && c.Means(&r.Affinity[i], own)
	}
	return out
}

type tallied struct {
	term   *framework.Term
	tally  *framework.Tally
	weight int64
}

func (t *tallied) in(n *framework.Node) int64 {
	count, _ := t.tally.In(n)
	return count
}

type kinship struct {
	cluster     *framework.Cluster
	with, apart []tallied // the pod's own
	against     []tallied // others'
	prefer      []tallied // both
	meansItself bool
}

func (k *kinship) Binding() bool { return len(k.with)+len(k.apart)+len(k.against) > 0 }

// Filter applies what is required. The first pod of a group with affinity to itself may go anywhere.
func (k *kinship) Filter(n *framework.Node) *framework.Rejection {
	together, anywhere := true, true
	for i := range k.with {
		t := &k.with[i]
		count, ok := t.tally.In(n)
		if !ok {
			return notTogether
		}
		together = together && count > 0
		anywhere = anywhere && !t.tally.Any()
	}
	if !together && !(anywhere && k.meansItself) {
		return notTogether
	}
	for i := range k.apart {
		if k.apart[i].in(n) > 0 {
			return notApart
		}
	}
	for i := range k.against {
		if k.against[i].in(n) > 0 {
			return notWelcome
		}
	}
	return nil
}

// Explain names the label that decided, and one of the pods that keep the pod away.
func (k *kinship) Explain(n *framework.Node) []timeline.Field {
	var r timeline.Record
	for i := range k.with {
		if count, ok := k.with[i].tally.In(n); !ok || count == 0 {
			return r.With("by", k.with[i].term.TopologyKey).With("there", count).Fields
		}
	}
	for _, list := range [][]tallied{k.apart, k.against} {
		for i := range list {
			if count := list[i].in(n); count > 0 {
				return r.With("by", list[i].term.TopologyKey).With("there", count).With("pod", k.keeps(&list[i], n)).Fields
			}
		}
	}
	return nil
}

// keeps names a pod that a tally counts in the domain of a node: the first by name on the first node that has one.
func (k *kinship) keeps(t *tallied, n *framework.Node) string {
	domain := n.Object.Labels[t.term.TopologyKey]
	for _, on := range append([]*framework.Node{n}, k.cluster.Nodes...) {
		if t.tally.On(on) == 0 || on.Object.Labels[t.term.TopologyKey] != domain {
			continue
		}
		name := ""
		for _, p := range on.Pods {
			if full := p.Object.Namespace + "/" + p.Object.Name; t.tally.Counts(p) && (name == "" || full < name) {
				name = full
			}
		}
		return name
	}
	return ""
}

// Score adds up the weights of what is in the node's domains.
func (k *kinship) Score(nodes []*framework.Node, scores []int64) bool {
	any := false
	for i := range k.prefer {
		any = any || k.prefer[i].tally.Any()
	}
	if !any {
		return false
	}
	least, most := int64(math.MaxInt64), int64(math.MinInt64)
	for i, n := range nodes {
		scores[i] = 0
		for j := range k.prefer {
			scores[i] += k.prefer[j].weight * k.prefer[j].in(n)
		}
		least, most = min(least, scores[i]), max(most, scores[i])
	}
	for i := range scores {
		if most == least {
			scores[i] = 0
		} else {
			scores[i] = int64(framework.MaxScore * (float64(scores[i]-least) / float64(most-least)))
		}
	}
	return true
}
