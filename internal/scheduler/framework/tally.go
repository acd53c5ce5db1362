package framework

import (
	"container/list"
	"iter"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Tally counts placed pods of one kind by domain, the value of a node label. It is made when it is first asked for and then
// follows every change, tentative ones too (Node.Lift, Node.Put).
type Tally struct {
	key    string
	of     func(*kind) bool // the pods that are counted; nil: those that hold the key
	layout *layout
	on     []int32 // by Node.id, whether or not the node is in a domain
	pods   []int64 // by domain, of the nodes that count
	total  int64   // of pods
	// levels is the number of domains by their count. They are built when somebody asks for the least, and again when nodes have
	// moved.
	levels map[int64]int
	least  int64 // the smallest level; searched again when no domain has it
	used   *list.Element
	gone   bool
}

// In is the count of the domain that a node is in; ok is false when the node lacks the label.
func (t *Tally) In(n *Node) (count int64, ok bool) {
	s := t.layout.spot(n)
	if s.domain == 0 {
		return 0, false
	}
	if d := int(s.domain - 1); d < len(t.pods) {
		return t.pods[d], true
	}
	return 0, true
}

// On is the count of a node alone, whether or not it counts for its domain; 0 when it lacks the label.
func (t *Tally) On(n *Node) int64 {
	if n.id >= len(t.on) || t.layout.spot(n).domain == 0 {
		return 0
	}
	return int64(t.on[n.id])
}

// Counts tells whether a pod is counted.
func (t *Tally) Counts(p *Pod) bool {
	if t.of == nil {
		return holds(t.key, p) > 0
	}
	k := kindOf(p.Object)
	return t.of(&k)
}

// Distinct is the number of domains that the nodes for which left is not true are in. Nodes without the label are in one domain,
// as if its value were "".
func (t *Tally) Distinct(nodes []*Node, left []bool) (count int) {
	return t.layout.distinct(nodes, left)
}

// Any tells whether anything is counted at all.
func (t *Tally) Any() bool { return t.total > 0 }

// Least is the smallest count of a domain that has nodes, and how many such domains there are.
func (t *Tally) Least() (count int64, domains int) {
	if t.layout.spread == 0 {
		return 0, 0
	}
	anew := t.levels == nil
	if anew {
		t.levels = map[int64]int{}
		t.pods = grown(t.pods, len(t.layout.domains)-1)
		for d := range t.layout.domains {
			if t.layout.domains[d].in > 0 {
				t.levels[t.pods[d]]++
			}
		}
	}
	if anew || t.levels[t.least] == 0 {
		first := true
		for level := range t.levels {
			if first || level < t.least {
				t.least, first = level, false
			}
		}
	}
	return t.least, t.layout.spread
}

// count adds pods that came to a node, or subtracts those that left it (negative).
func (t *Tally) count(id int, pods int64) {
	t.on = grown(t.on, id)
	t.on[id] += int32(pods)
	if s := t.layout.spotOf(id); s.in {
		t.change(int(s.domain-1), pods)
	}
}

// change adds pods to a domain.
func (t *Tally) change(d int, pods int64) {
	t.pods = grown(t.pods, d)
	was := t.pods[d]
	t.pods[d] += pods
	t.total += pods
	if t.levels == nil || pods == 0 {
		return
	}
	if t.levels[was]--; t.levels[was] == 0 {
		delete(t.levels, was)
	}
	t.levels[t.pods[d]]++
	t.least = min(t.least, t.pods[d])
}

// moved handles a node that is in another domain, or begins or ceases to count.
func (t *Tally) moved(n *Node, was, is spot) {
	t.levels = nil
	var pods int64
	if n.id < len(t.on) {
		pods = int64(t.on[n.id])
	}
	if was.in {
		t.change(int(was.domain-1), -pods)
	}
	if is.in {
		t.change(int(is.domain-1), pods)
	}
}

// maxTallies bounds how many are kept from one waiting pod to the next. The least recently used go.
const maxTallies = 256

// tallies are those of a cluster.
type tallies struct {
	nodes   func() []*Node
	layouts map[string]*layout
	alikes  map[string]map[string]*alike // by namespace
	byKey   map[string]*Tally
	order   *list.List // of the tallies, least recently used first
	// holders are the terms of placed pods for or against others, with who has them.
	holders    map[string]*Holders
	namespaces map[string]map[string]string // their labels
}

// Holders are the placed pods that have a term, counted by domain.
type Holders struct {
	Term   *Term
	Kind   HoldingKind
	Weight int64 // of a preference; negative for anti-affinity
	Tally  *Tally
	pods   int64
	// expected are pods that wait for room somewhere and, once there, will have the term.
	expected int64
}

// HoldingKind is how a placed pod has a term: required or preferred, for or against.
type HoldingKind string

// The kinds.
const (
	RequiredAffinity     HoldingKind = "affinity"
	RequiredAntiAffinity HoldingKind = "anti-affinity"
	Preferred            HoldingKind = "preferred"
)

func newTallies(nodes func() []*Node) *tallies {
	return &tallies{
		nodes: nodes, layouts: map[string]*layout{}, alikes: map[string]map[string]*alike{}, byKey: map[string]*Tally{}, order: list.New(),
		holders: map[string]*Holders{}, namespaces: map[string]map[string]string{},
	}
}

// look handles a node that changed or is gone.
func (t *tallies) look(n *Node) {
	for _, l := range t.layouts {
		l.look(n)
	}
}

// among says which nodes' pods count, and the label of their domains. Equal keys mean the same.
type among struct {
	key         string
	topologyKey string
	nodes       func(*v1.Node) bool // nil: all
}

// everywhere are all nodes that have a label.
func everywhere(topologyKey string) among {
	return among{key: topologyKey + "|", topologyKey: topologyKey}
}

func (t *tallies) make(key string, on among, of func(*kind) bool) *Tally {
	l := t.layouts[on.key]
	if l == nil {
		l = newLayout(on.key, on.topologyKey, on.nodes, t.nodes())
		t.layouts[on.key] = l
	}
	x := &Tally{key: key, of: of, layout: l}
	l.tallies[x] = struct{}{}
	return x
}

// drop ends a tally.
func (t *tallies) drop(x *Tally) {
	x.gone, x.on, x.pods, x.levels = true, nil, nil, nil // an alike may still refer to it for a while
	if delete(x.layout.tallies, x); len(x.layout.tallies) == 0 {
		delete(t.layouts, x.layout.key)
	}
	x.layout = nil
	if x.used != nil {
		t.order.Remove(x.used)
		delete(t.byKey, x.key)
	}
}

// get finds the tally with the key, or makes it. It counts pods of the namespace; "": of any.
func (t *tallies) get(key string, on among, namespace string, of func(*kind) bool) *Tally {
	if x := t.byKey[key]; x != nil {
		t.order.MoveToBack(x.used)
		return x
	}
	x := t.make(key, on, of)
	for a := range t.every(namespace) {
		if !of(&a.kind) {
			continue
		}
		a.tallies = append(slices.DeleteFunc(a.tallies, func(o *Tally) bool { return o.gone }), x)
		for id, count := range a.on.all() {
			x.count(id, int64(count))
		}
	}
	t.byKey[key], x.used = x, t.order.PushBack(x)
	return x
}

// account adds a pod that came to a node (1) or subtracts one that left it (-1).
func (t *tallies) account(n *Node, pod *Pod, sign int64) {
	if pod.like != nil {
		for _, x := range pod.like.tallies {
			if !x.gone {
				x.count(n.id, sign)
			}
		}
	} else { // it is only tried
		k := kindOf(pod.Object)
		for _, x := range t.byKey {
			if x.of(&k) {
				x.count(n.id, sign)
			}
		}
	}
	r := pod.Shape.Relations
	if r == nil {
		return
	}
	for i := range r.held {
		h := t.holdersOf(&r.held[i])
		h.Tally.count(n.id, sign)
		h.pods += sign
	}
}

func (t *tallies) holdersOf(held *held) *Holders {
	h := t.holders[held.key]
	if h == nil {
		h = &Holders{Term: held.term, Kind: held.kind, Weight: held.weight, Tally: t.make(held.key, everywhere(held.term.TopologyKey), nil)}
		t.holders[held.key] = h
	}
	return h
}

// expect adds a pod that waits for room somewhere (1), or removes it (-1): pods that its terms will concern have to consider
// that.
func (t *tallies) expect(pod *Pod, sign int64) {
	r := pod.Shape.Relations
	if r == nil {
		return
	}
	for i := range r.held {
		if r.held[i].kind == RequiredAntiAffinity {
			t.holdersOf(&r.held[i]).expected += sign
		}
	}
}

// forget drops the tallies of terms that no pod holds any more.
func (t *tallies) forget(pod *Pod) {
	if r := pod.Shape.Relations; r != nil {
		for _, held := range r.held {
			if h := t.holders[held.key]; h != nil && h.pods == 0 && h.expected == 0 {
				t.drop(h.Tally)
				delete(t.holders, held.key)
			}
		}
	}
}

// held is a term of a pod as it concerns others.
type held struct {
	key    string // of all of it
	kind   HoldingKind
	weight int64
	term   *Term
}

// holds is how often a pod has what the key names.
func holds(key string, p *Pod) (n int64) {
	if r := p.Shape.Relations; r != nil {
		for i := range r.held {
			if r.held[i].key == key {
				n++
			}
		}
	}
	return n
}

// SetNamespace records a namespace's labels and tells whether they may decide otherwise than before.
func (c *Cluster) SetNamespace(name string, labels map[string]string) (changed bool) {
	if old, known := c.tallies.namespaces[name]; known && sameLabels(old, labels) {
		return false
	}
	c.tallies.namespaces[name] = labels
	for _, x := range c.tallies.byKey {
		c.tallies.drop(x) // it is made again when it is asked for
	}
	c.Generation++
	return true
}

// RemoveNamespace forgets a namespace.
func (c *Cluster) RemoveNamespace(name string) { delete(c.tallies.namespaces, name) }

// Trim drops the tallies beyond the maximum. It is called before a pod is looked at; until the next call all tallies that are
// handed out stay, since one pod may need more than the maximum.
func (c *Cluster) Trim() {
	for c.tallies.order.Len() > maxTallies {
		c.tallies.drop(c.tallies.order.Front().Value.(*Tally))
	}
}

// Counted is the tally of a spread constraint of a pod of the shape.
func (c *Cluster) Counted(x *Spread, s *Shape) *Tally {
	return c.tallies.get(x.Key, x.among(s), x.namespace, x.meets)
}

// Meant is the tally of the pods that all terms mean, in the domains of the label.
func (c *Cluster) Meant(terms []Term, topologyKey string) *Tally {
	key, namespace := "terms|"+topologyKey, ""
	for i := range terms {
		key += "|" + terms[i].Key
		if namespace == "" {
			namespace = terms[i].only()
		}
	}
	return c.tallies.get(key, everywhere(topologyKey), namespace, func(k *kind) bool {
		for i := range terms {
			if !c.means(&terms[i], k) {
				return false
			}
		}
		return true
	})
}

// Means tells whether a term means a pod.
func (c *Cluster) Means(t *Term, pod *v1.Pod) bool {
	k := kindOf(pod)
	return c.means(t, &k)
}

func (c *Cluster) means(t *Term, k *kind) bool { return t.meets(k, c.tallies.namespaces[k.namespace]) }

// Concerns tells whether the place of a pod matters to what a waiting pod of the shape requires.
func (c *Cluster) Concerns(s *Shape, pod *v1.Pod) bool {
	r := s.Relations
	if r == nil {
		return false
	}
	for i := range r.Hard {
		if x := &r.Hard[i]; x.namespace == pod.Namespace && x.Selector.Matches(labels.Set(pod.Labels)) {
			return true
		}
	}
	means := func(t Term) bool { return c.Means(&t, pod) }
	return slices.ContainsFunc(r.Affinity, means) || slices.ContainsFunc(r.AntiAffinity, means)
}

// Holders are the holders of terms that mean a pod, including terms that only an expected pod has.
func (c *Cluster) Holders(pod *v1.Pod) iter.Seq[*Holders] {
	return func(yield func(*Holders) bool) {
		for _, h := range c.tallies.holders {
			if h.pods+h.expected > 0 && c.Means(h.Term, pod) && !yield(h) {
				return
			}
		}
	}
}
