package framework

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Term is a pod (anti-)affinity term: a selection of pods, and the node label that defines "together". Terms with the same Key
// are equal.
type Term struct {
	Key         string
	TopologyKey string

	namespaces []string
	among      labels.Selector // further namespaces, by their labels
	selector   labels.Selector
}

// meets tells whether the term means pods of a kind. namespace are the labels of their namespace.
func (t *Term) meets(k *kind, namespace map[string]string) bool {
	if !slices.Contains(t.namespaces, k.namespace) && !t.among.Matches(labels.Set(namespace)) {
		return false
	}
	return t.selector.Matches(k.labels)
}

// only is the one namespace whose pods the term can mean; "" when there may be several, or none.
func (t *Term) only() string {
	if _, more := t.among.Requirements(); more || len(t.namespaces) != 1 {
		return ""
	}
	return t.namespaces[0]
}

// Weighted is a preferred term; a negative weight is anti-affinity.
type Weighted struct {
	Term
	Weight int64
}

// Spread is a topology spread constraint.
type Spread struct {
	Key         string // of what it counts
	TopologyKey string
	MaxSkew     int64
	MinDomains  int
	Selector    labels.Selector
	namespace   string

	// The nodes whose pods count: those with all of these labels and, by the constraint's policies, only those that the pod's
	// required affinity matches and whose taints it tolerates.
	keys       []string
	byAffinity bool
	byTaints   bool
}

// Relations are what a pod asks about other pods, in its spec.
type Relations struct {
	Affinity, AntiAffinity []Term // required; Affinity is for pods that all terms mean
	Preferred              []Weighted
	Hard, Soft             []Spread
	// OwnConstraints tells that the pod has spread constraints of its own, so that no default ones apply.
	OwnConstraints bool

	// What else decides about a pod with relations: it gets a shape for each set of labels.
	Namespace string
	Labels    labels.Set

	held []held
}

// relational tells whether a spec says anything about other pods.
func relational(spec *v1.PodSpec) bool {
	return len(spec.TopologySpreadConstraints) > 0 || spec.Affinity != nil && (spec.Affinity.PodAffinity != nil || spec.Affinity.PodAntiAffinity != nil)
}

func relationsOf(pod *v1.Pod, s *Shape) *Relations {
	if !relational(&pod.Spec) {
		return nil
	}
	r := &Relations{OwnConstraints: len(pod.Spec.TopologySpreadConstraints) > 0, Namespace: pod.Namespace, Labels: pod.Labels}
	defer r.hold()
	r.Hard = spreads(pod, s, v1.DoNotSchedule)
	r.Soft = spreads(pod, s, v1.ScheduleAnyway)
	if pod.Spec.Affinity == nil {
		return r
	}
	if a := pod.Spec.Affinity.PodAffinity; a != nil {
		r.Affinity = terms(pod, a.RequiredDuringSchedulingIgnoredDuringExecution)
		r.Preferred = weighted(r.Preferred, pod, a.PreferredDuringSchedulingIgnoredDuringExecution, 1)
	}
	if a := pod.Spec.Affinity.PodAntiAffinity; a != nil {
		r.AntiAffinity = terms(pod, a.RequiredDuringSchedulingIgnoredDuringExecution)
		r.Preferred = weighted(r.Preferred, pod, a.PreferredDuringSchedulingIgnoredDuringExecution, -1)
	}
	return r
}

// hold lists the terms as they concern others.
func (r *Relations) hold() {
	add := func(kind HoldingKind, t *Term, weight int64) {
		r.held = append(r.held, held{key: string(kind) + strconv.FormatInt(weight, 10) + "|" + t.Key, kind: kind, weight: weight, term: t})
	}
	for i := range r.AntiAffinity {
		add(RequiredAntiAffinity, &r.AntiAffinity[i], 0)
	}
	for i := range r.Affinity {
		add(RequiredAffinity, &r.Affinity[i], 0)
	}
	for i := range r.Preferred {
		add(Preferred, &r.Preferred[i].Term, r.Preferred[i].Weight)
	}
}

func terms(pod *v1.Pod, list []v1.PodAffinityTerm) []Term {
	var out []Term
	for i := range list {
		out = append(out, term(pod, &list[i]))
	}
	return out
}

func weighted(out []Weighted, pod *v1.Pod, list []v1.WeightedPodAffinityTerm, sign int64) []Weighted {
	for i := range list {
		out = append(out, Weighted{term(pod, &list[i].PodAffinityTerm), sign * int64(list[i].Weight)})
	}
	return out
}

// term reads a term. One whose selectors do not parse is refused by validation; if it got through, it means no pod.
func term(pod *v1.Pod, t *v1.PodAffinityTerm) Term {
	out := Term{TopologyKey: t.TopologyKey, namespaces: t.Namespaces, selector: selector(t.LabelSelector), among: selector(t.NamespaceSelector)}
	if len(t.Namespaces) == 0 && t.NamespaceSelector == nil {
		out.namespaces = []string{pod.Namespace}
	}
	names := slices.Sorted(slices.Values(out.namespaces))
	out.Key = strings.Join([]string{strings.Join(names, ","), text(out.among), text(out.selector), t.TopologyKey}, "|")
	return out
}

func selector(s *metav1.LabelSelector) labels.Selector {
	out, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return labels.Nothing()
	}
	return out
}

// text is a selector's text; those that select everything and nothing print alike and are told apart.
func text(s labels.Selector) string {
	if _, selectable := s.Requirements(); !selectable {
		return "-"
	}
	return s.String()
}

func spreads(pod *v1.Pod, s *Shape, action v1.UnsatisfiableConstraintAction) []Spread {
	var keys []string
	for _, c := range pod.Spec.TopologySpreadConstraints {
		if c.WhenUnsatisfiable == action {
			keys = append(keys, c.TopologyKey)
		}
	}
	var out []Spread
	for i := range pod.Spec.TopologySpreadConstraints {
		c := &pod.Spec.TopologySpreadConstraints[i]
		if c.WhenUnsatisfiable == action {
			out = append(out, spread(pod, s, c, keys, narrowed(selector(c.LabelSelector), c.MatchLabelKeys, pod.Labels)))
		}
	}
	return out
}

func spread(pod *v1.Pod, s *Shape, c *v1.TopologySpreadConstraint, keys []string, like labels.Selector) Spread {
	x := Spread{
		TopologyKey: c.TopologyKey, MaxSkew: int64(c.MaxSkew), MinDomains: 1, Selector: like,
		namespace: pod.Namespace, keys: keys, byAffinity: c.NodeAffinityPolicy == nil || *c.NodeAffinityPolicy == v1.NodeInclusionPolicyHonor,
		byTaints: c.NodeTaintsPolicy != nil && *c.NodeTaintsPolicy == v1.NodeInclusionPolicyHonor,
	}
	if c.MinDomains != nil {
		x.MinDomains = int(*c.MinDomains)
	}
	x.Key = x.key(s)
	return x
}

// narrowed adds the pod's own values of some labels to a selector.
func narrowed(s labels.Selector, keys []string, own map[string]string) labels.Selector {
	more := labels.Set{}
	for _, k := range keys {
		if v, ok := own[k]; ok {
			more[k] = v
		}
	}
	if len(more) == 0 {
		return s
	}
	requirements, selectable := s.Requirements()
	if !selectable {
		return s
	}
	return labels.SelectorFromSet(more).Add(requirements...)
}

// DefaultSpreads are the constraints of one action in a list, for a pod whose peers a selector selects. With allKeys only nodes
// with the labels of all of them count.
func DefaultSpreads(pod *v1.Pod, s *Shape, list []v1.TopologySpreadConstraint, action v1.UnsatisfiableConstraintAction, like labels.Selector, allKeys bool) []Spread {
	var keys []string
	for i := range list {
		if list[i].WhenUnsatisfiable == action && allKeys {
			keys = append(keys, list[i].TopologyKey)
		}
	}
	var out []Spread
	for i := range list {
		if list[i].WhenUnsatisfiable == action {
			out = append(out, spread(pod, s, &list[i], keys, like))
		}
	}
	return out
}

// key is what the constraint counts: constraints that count the same share a Tally.
func (x *Spread) key(s *Shape) string {
	return strings.Join([]string{"spread", x.namespace, text(x.Selector), x.nodesKey(s)}, "|")
}

// nodesKey identifies the nodes whose pods count, and the label.
func (x *Spread) nodesKey(s *Shape) string {
	parts := []string{x.TopologyKey, strings.Join(x.keys, ",")}
	if x.byAffinity && s.Required != nil {
		parts = append(parts, "affinity", s.nodes)
	}
	if x.byTaints {
		t, _ := json.Marshal(s.Tolerations) // strings and numbers only
		parts = append(parts, "taints", string(t))
	}
	return strings.Join(parts, "|")
}

func (x *Spread) among(s *Shape) among {
	return among{key: x.nodesKey(s), topologyKey: x.TopologyKey, nodes: func(n *v1.Node) bool { return x.counts(s, n) }}
}

// counts tells whether the pods of a node count. It is called for nodes that have the topology key.
func (x *Spread) counts(s *Shape, n *v1.Node) bool {
	for _, k := range x.keys {
		if _, ok := n.Labels[k]; !ok {
			return false
		}
	}
	if x.byAffinity && s.Required != nil {
		if ok, _ := s.Required.Match(n); !ok {
			return false
		}
	}
	return !x.byTaints || Untolerated(s.Tolerations, n) == nil
}

// meets tells whether the constraint counts pods of a kind: those of the namespace that are not being deleted. A selector of
// everything counts none.
func (x *Spread) meets(k *kind) bool {
	return !k.leaving && k.namespace == x.namespace && !x.Selector.Empty() && x.Selector.Matches(k.labels)
}
