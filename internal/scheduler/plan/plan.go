// Package plan decides where a pod goes: filter, score, choose. It is pure: the same cluster, pods and seed give the same
// decisions.
package plan

import (
	"math/rand/v2"
	"slices"

	"podo.dev/podo/internal/scheduler/framework"
	"podo.dev/podo/internal/scheduler/plugins"
)

// Decision is the outcome for one pod: Node, or Diagnosis when no node takes it.
type Decision struct {
	Node      *framework.Node
	Evaluated int   // nodes looked at
	Feasible  int   // of them, those that passed
	Score     int64 // of the chosen one; 0 when it was the only one
	Diagnosis *Diagnosis
}

// Planner decides. It is for one goroutine.
type Planner struct {
	Percent int // of the nodes that are scored; 0: depends on their number
	// Ended is called after each extension point of a decision: PreFilter, Filter, Score. ok is false when no node may take the
	// pod.
	Ended func(point string, ok bool)
	// Timed, unless nil, calls a plug-in in the planner's place and returns its answer: for one node at a time, or for all nodes
	// where the plug-in ranks them together. point is Filter or Score; a score rejects nothing.
	Timed func(plugin, point string, ask func() *framework.Rejection) *framework.Rejection

	set       plugins.Set
	static    []filter
	dynamic   []filter
	last      []filter // called after the relations have passed a node; not remembered
	scores    []score
	inquiries []asked // of relations, by their index
	rng       *rand.Rand
	start     int // where the next search begins, so that nodes take turns

	memos map[*framework.Shape]*memo
	order []*framework.Shape // of memos, oldest first

	// of is what concerns the current pod, by the relation's index; nil where nothing does.
	of    []framework.Related
	bound bool            // one of them may reject a node
	late  bool            // so may some of last
	waits *framework.Node // the node to which the pod is nominated

	// opinion is what extenders said of nodes; nil: none was asked.
	opinion *Opinion

	// Scratch, reused.
	scratch  entry
	slots    []int32 // of the feasible nodes, as numbers: they are many
	feasible []*framework.Node
	raws     [][maxRaw]int64
	sums     []int64
	raw      []int64
	total    []int64
	list     []*candidate
}

// New makes a Planner. seed decides between equally good nodes.
func New(set plugins.Set, seed uint64) *Planner {
	p := &Planner{Ended: func(string, bool) {}, set: set, rng: rand.New(rand.NewPCG(seed, seed)), memos: map[*framework.Shape]*memo{}}
	for _, f := range set.Filters {
		if f.Static() {
			p.static = append(p.static, filter{plugin: f})
		} else {
			p.dynamic = append(p.dynamic, filter{plugin: f})
		}
	}
	for _, f := range set.Last {
		p.last = append(p.last, filter{plugin: f})
	}
	p.inquiries = make([]asked, len(set.Relations))
	raws := 0
	for _, s := range set.Scores {
		x := score{Score: s}
		if !s.Absolute() {
			if raws == maxRaw {
				panic("scheduler: more relative scores than maxRaw")
			}
			x.raw = raws
			raws++
		}
		p.scores = append(p.scores, x)
	}
	return p
}

// Sample is how many feasible nodes out of n are enough: all up to 100, then percent of them but at least 100. A percent of 0
// stands for a share that falls from half to a twentieth.
func Sample(n, percent int) int {
	if n < 100 {
		return n
	}
	if percent == 0 {
		percent = max(50-n/125, 5)
	}
	return min(max(n*percent/100, 100), n)
}

// Schedule chooses a node for a pod; it changes nothing.
func (p *Planner) Schedule(c *framework.Cluster, pod *framework.Pod) Decision {
	d := p.find(c, pod)
	if d.Diagnosis == nil {
		d.Node, d.Score = p.choose(c, pod.Shape)
		p.Ended("Score", true)
	}
	return d
}

// find fills p.slots with the slots of feasible nodes, or says why there is none.
func (p *Planner) find(c *framework.Cluster, pod *framework.Pod) Decision {
	p.clear()
	if len(c.Nodes) == 0 {
		return Decision{Diagnosis: &Diagnosis{}}
	}
	shape := pod.Shape
	m := p.memo(shape)
	p.relate(c, pod)
	waits := p.waits
	shared := waits == nil && (!p.bound || shape.Relations != nil) && !p.personal() // what holds for the pod holds for its shape
	r := p.refused(shape)
	p.Ended("PreFilter", r == nil)
	if r != nil {
		return Decision{Diagnosis: refusal(c, r)}
	}
	defer p.Ended("Filter", true)
	if m.diagnosis != nil && m.at == c.Generation && shared {
		return Decision{Evaluated: len(c.Nodes), Diagnosis: m.diagnosis}
	}
	if m.uses > 1 && len(m.entries) < len(c.Nodes) {
		m.entries = append(m.entries, make([]entry, len(c.Nodes)-len(m.entries))...)
	}
	// Room that was made for the pod comes first.
	if waits != nil && waits.Object != nil {
		if p.try(m, pod, waits, waits.Slot(), waits.Stamp()); len(p.slots) > 0 {
			return Decision{Evaluated: 1, Feasible: 1}
		}
	}
	d, known := Decision{}, false
	if shared && !p.bound {
		d, known = p.refresh(c, m, pod)
	}
	if !known {
		d = p.searchAll(c, m, pod)
	}
	if d.Diagnosis != nil && shared {
		m.diagnosis, m.at, m.futile = d.Diagnosis, c.Generation, ""
	}
	return d
}

// searchAll looks at nodes until enough are feasible, or says why none is.
func (p *Planner) searchAll(c *framework.Cluster, m *memo, pod *framework.Pod) (d Decision) {
	if names, by := p.narrow(pod.Shape); by != nil {
		d = p.search(c, m, pod, named(c, names), len(names))
	} else {
		d = p.search(c, m, pod, c.Nodes, Sample(len(c.Nodes), p.Percent))
		p.start = (p.start + d.Evaluated) % len(c.Nodes)
	}
	if len(p.slots) == 0 {
		d.Diagnosis = p.diagnose(c, m, pod)
	}
	return d
}

// narrow finds the only nodes that come into question for the current pod; by names the plug-ins that said so.
func (p *Planner) narrow(shape *framework.Shape) (names []string, by []string) {
	narrowed := func(plugin string, only []string, ok bool) {
		if !ok {
			return
		}
		if by != nil {
			only = intersect(names, only)
		}
		names, by = only, append(by, plugin)
	}
	for _, f := range p.set.PreFilters {
		only, ok, _ := f.PreFilter(shape)
		narrowed(f.Name(), only, ok)
	}
	for i, x := range p.of {
		if x, ok := x.(framework.Narrowing); ok && p.set.Relations[i].Filters {
			only, ok := x.Only()
			narrowed(p.set.Relations[i].Name(), only, ok)
		}
	}
	return names, by
}

func intersect(a, b []string) []string {
	var out []string
	for _, x := range a {
		for _, y := range b {
			if x == y {
				out = append(out, x)
			}
		}
	}
	return out
}

func named(c *framework.Cluster, names []string) []*framework.Node {
	var out []*framework.Node
	for _, name := range names {
		if n := c.Node(name); n != nil {
			out = append(out, n)
		}
	}
	return out
}

// search fills p.slots (and the slices beside it) with up to want nodes that pass, starting at p.start and going round.
func (p *Planner) search(c *framework.Cluster, m *memo, pod *framework.Pod, nodes []*framework.Node, want int) (d Decision) {
	if len(nodes) == 0 {
		return d
	}
	all := &nodes[0] == &c.Nodes[0] // then a node itself is only looked at when it has changed
	for at := p.start % len(nodes); d.Evaluated < len(nodes) && len(p.slots) < want; at++ {
		if at == len(nodes) {
			at = 0
		}
		d.Evaluated++
		if all {
			p.try(m, pod, nodes[at], at, c.Stamps[at])
		} else {
			p.try(m, pod, nodes[at], nodes[at].Slot(), nodes[at].Stamp())
		}
	}
	d.Feasible = len(p.slots)
	return d
}

func (p *Planner) clear() {
	p.slots, p.raws, p.sums, p.opinion = p.slots[:0], p.raws[:0], p.sums[:0], nil
}

// try adds a node to the feasible ones if it is.
func (p *Planner) try(m *memo, pod *framework.Pod, n *framework.Node, at int, stamp framework.Stamp) {
	e := p.look(m, pod.Shape, n, at, stamp)
	if e.rejected != nil || p.lookCloser(e, pod, n, stamp) != nil || p.more() && p.lookFurther(pod, n) != nil {
		return
	}
	p.slots, p.raws, p.sums = append(p.slots, int32(at)), append(p.raws, e.raw), append(p.sums, e.sum)
}

// choose scores the feasible nodes and takes one of the best.
func (p *Planner) choose(c *framework.Cluster, shape *framework.Shape) (*framework.Node, int64) {
	if len(p.slots) == 1 {
		return c.Nodes[p.slots[0]], 0
	}
	p.total = append(p.total[:0], p.sums...)
	p.raw = slices.Grow(p.raw[:0], len(p.slots))[:len(p.slots)]
	for _, s := range p.scores {
		if s.Absolute() || s.Skip(shape) {
			continue
		}
		differ := false
		for i := range p.raws {
			p.raw[i] = p.raws[i][s.raw]
			differ = differ || p.raw[i] != p.raw[0]
		}
		if !differ {
			p.raw = p.raw[:1] // the same for all
		}
		s.Normalize(p.raw)
		for i := range p.total {
			p.total[i] += s.Weight * p.raw[min(i, len(p.raw)-1)]
		}
		p.raw = p.raw[:len(p.slots)]
	}
	for k, r := range p.of {
		if weight := p.set.Relations[k].Weight; r != nil && weight > 0 && p.scoreRelated(k, r, p.nodes(c)) {
			for i := range p.total {
				p.total[i] += weight * p.raw[i]
			}
		}
	}
	if p.opinion != nil {
		for i, n := range p.nodes(c) {
			p.total[i] += p.opinion.Scores[n.Name]
		}
	}
	best, ties := 0, 1
	for i := 1; i < len(p.total); i++ {
		switch {
		case p.total[i] > p.total[best]:
			best, ties = i, 1
		case p.total[i] == p.total[best]:
			// Each of the equals gets the same chance.
			if ties++; p.rng.IntN(ties) == 0 {
				best = i
			}
		}
	}
	return c.Nodes[p.slots[best]], p.total[best]
}

// nodes are those of p.slots.
func (p *Planner) nodes(c *framework.Cluster) []*framework.Node {
	p.feasible = p.feasible[:0]
	for _, at := range p.slots {
		p.feasible = append(p.feasible, c.Nodes[at])
	}
	return p.feasible
}
