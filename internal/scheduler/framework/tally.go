package framework

import (
	"iter"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Tally counts placed pods of one kind by the value of a node label, their domains. It is made when it is first asked for and kept up
// with every change from then on, also with those that are only tried (Node.Lift, Node.Put).
type Tally struct {
	topologyKey string
	of          func(*Pod) int64    // what a pod counts
	nodes       func(*v1.Node) bool // those whose pods count; nil: all
	cells       []cell              // by Node.id; those of nodes without the label are empty
	domains     map[string]*domain  // by the label's value
	levels      map[int64]int       // how many domains with nodes have this count
	spread      int                 // how many domains have nodes
	least       int64               // the smallest level; found anew when there is none of it
	used, looks uint64
	nowhere     domain // for Distinct
}

// cell is what a tally knows of a node.
type cell struct {
	at   *domain // nil: the node has not the label
	in   bool    // its pods count
	pods int64
}

type domain struct {
	pods, nodes int64
	seen        uint64 // by Distinct
}

// at finds the cell of a node; nil when it has not the label.
func (t *Tally) at(n *Node) *cell {
	if n.id >= len(t.cells) || t.cells[n.id].at == nil {
		return nil
	}
	return &t.cells[n.id]
}

// In is the count of the domain that a node is in; ok is false when it has not the label.
func (t *Tally) In(n *Node) (count int64, ok bool) {
	c := t.at(n)
	if c == nil {
		return 0, false
	}
	return c.at.pods, true
}

// On is the count of a node by itself, whether or not it counts for its domain.
func (t *Tally) On(n *Node) int64 {
	if c := t.at(n); c != nil {
		return c.pods
	}
	return 0
}

// Counts tells whether a pod is counted.
func (t *Tally) Counts(p *Pod) bool { return t.of(p) != 0 }

// Distinct is in how many domains the nodes are for which left is not true. Those without the label are in one, as if its value were "".
func (t *Tally) Distinct(nodes []*Node, left []bool) (count int) {
	t.looks++
	blank := t.domains[""]
	if blank == nil {
		blank = &t.nowhere
	}
	for i, n := range nodes {
		if left[i] {
			continue
		}
		d := blank
		if c := t.at(n); c != nil {
			d = c.at
		}
		if d.seen != t.looks {
			d.seen = t.looks
			count++
		}
	}
	return count
}

// Any tells whether anything is counted at all.
func (t *Tally) Any() bool { return len(t.levels) > 1 || len(t.levels) == 1 && t.levels[0] == 0 }

// Least is the smallest count of a domain that has nodes, and how many such domains there are.
func (t *Tally) Least() (count int64, domains int) {
	if t.spread == 0 {
		return 0, 0
	}
	if t.levels[t.least] == 0 {
		first := true
		for level := range t.levels {
			if first || level < t.least {
				t.least, first = level, false
			}
		}
	}
	return t.least, t.spread
}

// change adds pods and nodes to a domain.
func (t *Tally) change(d *domain, pods, nodes int64) {
	if d.nodes > 0 {
		t.spread--
		if t.levels[d.pods]--; t.levels[d.pods] == 0 {
			delete(t.levels, d.pods)
		}
	}
	d.pods += pods
	d.nodes += nodes
	if d.nodes > 0 {
		t.spread++
		t.levels[d.pods]++
		if d.pods < t.least {
			t.least = d.pods
		}
	}
}

// count takes in that a pod came to a node (1) or left it (-1).
func (t *Tally) count(n *Node, pod *Pod, sign int64) {
	c := t.at(n)
	if c == nil {
		return
	}
	v := sign * t.of(pod)
	if v == 0 {
		return
	}
	if c.pods += v; c.in {
		t.change(c.at, v, 0)
	}
}

// look takes a node in, or takes in its change.
func (t *Tally) look(n *Node) {
	t.drop(n)
	value, ok := n.Object.Labels[t.topologyKey]
	if !ok {
		return
	}
	d := t.domains[value]
	if d == nil {
		d = &domain{}
		t.domains[value] = d
	}
	if n.id >= len(t.cells) {
		t.cells = append(t.cells, make([]cell, n.id+1-len(t.cells))...)
	}
	c := &t.cells[n.id]
	*c = cell{in: t.nodes == nil || t.nodes(n.Object), at: d}
	for _, p := range n.Pods {
		c.pods += t.of(p)
	}
	if c.in {
		t.change(d, c.pods, 1)
	}
}

func (t *Tally) drop(n *Node) {
	c := t.at(n)
	if c == nil {
		return
	}
	if c.in {
		t.change(c.at, -c.pods, -1)
	}
	*c = cell{}
}

// maxTallies bounds how many are kept up for pods that wait. The one that was not used for longest goes.
const maxTallies = 256

// tallies are those of a cluster.
type tallies struct {
	nodes func() []*Node
	byKey map[string]*Tally
	clock uint64
	// holders are who of the placed pods asks for or against others.
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
}

// HoldingKind is in what way a placed pod has a term.
type HoldingKind string

// The kinds.
const (
	RequiredAffinity     HoldingKind = "affinity"
	RequiredAntiAffinity HoldingKind = "anti-affinity"
	Preferred            HoldingKind = "preferred"
)

func newTallies(nodes func() []*Node) *tallies {
	return &tallies{nodes: nodes, byKey: map[string]*Tally{}, holders: map[string]*Holders{}, namespaces: map[string]map[string]string{}}
}

func (t *tallies) all() iter.Seq[*Tally] {
	return func(yield func(*Tally) bool) {
		for _, x := range t.byKey {
			if !yield(x) {
				return
			}
		}
		for _, h := range t.holders {
			if !yield(h.Tally) {
				return
			}
		}
	}
}

func (t *tallies) make(topologyKey string, of func(*Pod) int64, nodes func(*v1.Node) bool) *Tally {
	x := &Tally{
		topologyKey: topologyKey, of: of, nodes: nodes, domains: map[string]*domain{}, levels: map[int64]int{},
	}
	for _, n := range t.nodes() {
		x.look(n)
	}
	return x
}

// get finds the tally with the key, or makes it.
func (t *tallies) get(key, topologyKey string, of func(*Pod) int64, nodes func(*v1.Node) bool) *Tally {
	x := t.byKey[key]
	if x == nil {
		if len(t.byKey) >= maxTallies {
			t.forgetOldest()
		}
		x = t.make(topologyKey, of, nodes)
		t.byKey[key] = x
	}
	t.clock++
	x.used = t.clock
	return x
}

func (t *tallies) forgetOldest() {
	oldest := ""
	for key, x := range t.byKey {
		if oldest == "" || x.used < t.byKey[oldest].used {
			oldest = key
		}
	}
	delete(t.byKey, oldest)
}

// account takes in that a pod came to a node (1), where it is among the node's pods already, or left it (-1).
func (t *tallies) account(n *Node, pod *Pod, sign int64) {
	for _, x := range t.byKey {
		x.count(n, pod, sign)
	}
	r := pod.Shape.Relations
	if r == nil {
		return
	}
	for i := range r.held {
		held := &r.held[i]
		h := t.holders[held.key]
		if h == nil {
			h = &Holders{Term: held.term, Kind: held.kind, Weight: held.weight, Tally: t.make(held.term.TopologyKey, holds(held.key), nil)}
			t.holders[held.key] = h
		} else if first(r.held, i) { // the tally asks for all of the key at once
			h.Tally.count(n, pod, sign)
		}
		h.pods += sign
	}
}

// forget drops the tallies of what nobody holds any more.
func (t *tallies) forget(pod *Pod) {
	if r := pod.Shape.Relations; r != nil {
		for _, held := range r.held {
			if h := t.holders[held.key]; h != nil && h.pods == 0 {
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

func first(list []held, i int) bool {
	for _, h := range list[:i] {
		if h.key == list[i].key {
			return false
		}
	}
	return true
}

// holds counts how often a pod has what the key names.
func holds(key string) func(*Pod) int64 {
	return func(p *Pod) (n int64) {
		if r := p.Shape.Relations; r != nil {
			for i := range r.held {
				if r.held[i].key == key {
					n++
				}
			}
		}
		return n
	}
}

// SetNamespace takes in a namespace's labels and tells whether they matter anew.
func (c *Cluster) SetNamespace(name string, labels map[string]string) (changed bool) {
	if old, known := c.tallies.namespaces[name]; known && sameLabels(old, labels) {
		return false
	}
	c.tallies.namespaces[name] = labels
	c.tallies.byKey = map[string]*Tally{} // made anew when they are asked for
	c.Generation++
	return true
}

// RemoveNamespace forgets a namespace.
func (c *Cluster) RemoveNamespace(name string) { delete(c.tallies.namespaces, name) }

// Counted is the tally of a spread constraint of a pod of the shape.
func (c *Cluster) Counted(x *Spread, s *Shape) *Tally {
	return c.tallies.get(x.Key, x.TopologyKey, func(p *Pod) int64 { return one(x.meets(p.Object)) }, func(n *v1.Node) bool { return x.counts(s, n) })
}

// Meant is the tally of the pods that all terms mean, in the domains of the label.
func (c *Cluster) Meant(terms []Term, topologyKey string) *Tally {
	key := "terms|" + topologyKey
	for i := range terms {
		key += "|" + terms[i].Key
	}
	return c.tallies.get(key, topologyKey, func(p *Pod) int64 {
		for i := range terms {
			if !c.Means(&terms[i], p.Object) {
				return 0
			}
		}
		return 1
	}, nil)
}

// Means tells whether a term means a pod.
func (c *Cluster) Means(t *Term, pod *v1.Pod) bool {
	return t.Meets(pod, c.tallies.namespaces[pod.Namespace])
}

// Concerns tells whether where a pod is matters to what a waiting pod of the shape requires.
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

// Holders are those whose terms mean a pod.
func (c *Cluster) Holders(pod *v1.Pod) iter.Seq[*Holders] {
	return func(yield func(*Holders) bool) {
		for _, h := range c.tallies.holders {
			if h.pods > 0 && c.Means(h.Term, pod) && !yield(h) {
				return
			}
		}
	}
}

func one(yes bool) int64 {
	if yes {
		return 1
	}
	return 0
}
