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

// maxRaw bounds the number of Score plug-ins whose scores are relative to those of other nodes.
const maxRaw = 2

// maxMemos bounds how many shapes the planner keeps node results of.
const maxMemos = 64

// entry is what plug-ins said about the node in a slot: the static ones as long as the node's epoch is the same, the others as long as
// its turn is too.
type entry struct {
	epoch, turn uint64
	asked       bool                 // the others
	rejected    *framework.Rejection // by the static ones
	taken       *framework.Rejection // by the others
	raw         [maxRaw]int64        // of scores that are relative
	sum         int64                // of the others, weighted
}

// memo is what the planner remembers of a shape.
type memo struct {
	uses      int
	entries   []entry    // by slot; made at the second use, so that one-off pods cost nothing
	diagnosis *Diagnosis // of the last failure, while the cluster's generation is at
	at        uint64
	verdicts  *verdicts // from which it was made; nil: not kept
	futile    string    // why room cannot be made, for diagnosis; "" while that is not known
	victims   []victims // by slot: who would have to leave
}

// Planner decides. It is for one goroutine.
type Planner struct {
	Percent int // of the nodes that are scored; 0: by their number
	// Ended is told of each extension point that a decision has passed: PreFilter, Filter, Score. ok: not that no node may take the pod.
	Ended func(point string, ok bool)
	// Timed, unless it is nil, asks a plug-in in the planner's place and hands on its answer: about one node at a time, those that rank all nodes
	// at once about all. point is Filter or Score; nothing is rejected by a score.
	Timed func(plugin, point string, ask func() *framework.Rejection) *framework.Rejection

	set       plugins.Set
	static    []filter
	dynamic   []filter
	last      []filter // asked when the relations have passed a node, and remembered by nobody
	scores    []score
	inquiries []asked // of relations, by their index
	rng       *rand.Rand
	start     int // where the next search begins, so that nodes take turns

	memos map[*framework.Shape]*memo
	order []*framework.Shape // of memos, oldest first

	// of is what concerns the pod that is looked at, by the relation's index; nil where nothing does.
	of    []framework.Related
	bound bool            // some of it may keep the pod off a node
	late  bool            // so may some of last
	waits *framework.Node // where the pod waits for room

	// opinion is what others said of nodes; nil: nobody was asked.
	opinion *Opinion

	// Scratch, reused.
	scratch  entry
	slots    []int32 // of the feasible nodes: they are many, and no pointers
	feasible []*framework.Node
	raws     [][maxRaw]int64
	sums     []int64
	raw      []int64
	total    []int64
	list     []*candidate
}

// New makes a Planner whose choices between equally good nodes follow from seed.
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

// score is a Score with its place in entry.raw, if it is relative.
type score struct {
	plugins.Score
	raw   int
	asked int // since Asked was called
}

// filter is a Filter and how often it has been asked since Asked was called.
type filter struct {
	plugin framework.Filter
	asked  int
}

// asked is how often a relation has been.
type asked struct{ filter, score int }

// Asked tells how often plug-ins have been asked about a node since it was last called.
func (p *Planner) Asked(tell func(plugin, point string, times int)) {
	one := func(plugin, point string, times *int) {
		if *times > 0 {
			tell(plugin, point, *times)
			*times = 0
		}
	}
	for _, list := range [][]filter{p.static, p.dynamic, p.last} {
		for i := range list {
			one(list[i].plugin.Name(), "Filter", &list[i].asked)
		}
	}
	for i := range p.scores {
		one(p.scores[i].Name(), "Score", &p.scores[i].asked)
	}
	for i := range p.inquiries {
		one(p.set.Relations[i].Name(), "Filter", &p.inquiries[i].filter)
		one(p.set.Relations[i].Name(), "Score", &p.inquiries[i].score)
	}
}

// Sample is how many feasible nodes are enough out of n: all up to 100, then percent of them, but at least 100. A percent of 0 stands for a
// share that falls from half to a twentieth.
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

// find fills p.slots with those of nodes for a pod, or says why there is none.
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
	// Room that was made for the pod is taken before anything else is looked at.
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

// searchAll looks at nodes until there are enough, or says why there are none.
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

func (p *Planner) memo(shape *framework.Shape) *memo {
	m := p.memos[shape]
	if m == nil {
		if len(p.order) >= maxMemos {
			delete(p.memos, p.order[0])
			p.order = p.order[1:]
		}
		m = &memo{}
		p.memos[shape] = m
		p.order = append(p.order, shape)
	}
	m.uses++
	return m
}

// narrow finds the only nodes that come into question for the pod that relate was called for, and by is which plug-ins said so.
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

// search fills p.slots (and what is beside it) with up to want nodes that pass, going round from p.start.
func (p *Planner) search(c *framework.Cluster, m *memo, pod *framework.Pod, nodes []*framework.Node, want int) (d Decision) {
	if len(nodes) == 0 {
		return d
	}
	all := &nodes[0] == &c.Nodes[0] // then a node itself is only looked at when something about it is new
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

// look asks the static plug-ins about the node in a slot, or remembers.
func (p *Planner) look(m *memo, shape *framework.Shape, n *framework.Node, at int, stamp framework.Stamp) *entry {
	e := &p.scratch
	if at < len(m.entries) {
		e = &m.entries[at]
		if e.epoch == stamp.Epoch {
			return e
		}
	}
	*e = entry{epoch: stamp.Epoch}
	for i := range p.static {
		if e.rejected = p.ask(&p.static[i], shape, n); e.rejected != nil {
			return e
		}
	}
	return e
}

func (p *Planner) ask(f *filter, shape *framework.Shape, n *framework.Node) *framework.Rejection {
	f.asked++
	if p.Timed == nil {
		return f.plugin.Filter(shape, n)
	}
	return p.Timed(f.plugin.Name(), "Filter", func() *framework.Rejection { return f.plugin.Filter(shape, n) })
}

// lookCloser asks the dynamic filters about a node that the static ones passed, and the scores, or remembers. Filters see the node as if
// those that wait for room there and do not rank below the pod had it already: a pod that waits there itself is asked for anew.
func (p *Planner) lookCloser(e *entry, pod *framework.Pod, n *framework.Node, stamp framework.Stamp) *framework.Rejection {
	if e.asked && e.turn == stamp.Turn && p.waits != n {
		return e.taken
	}
	held := p.hold(pod, n)
	e.asked, e.turn, e.taken = p.waits != n, stamp.Turn, p.filter(pod.Shape, n)
	p.release(n, held)
	if e.taken == nil {
		p.rank(e, pod.Shape, n)
	}
	return e.taken
}

func (p *Planner) filter(shape *framework.Shape, n *framework.Node) *framework.Rejection {
	for i := range p.dynamic {
		if r := p.ask(&p.dynamic[i], shape, n); r != nil {
			return r
		}
	}
	return nil
}

// rank asks the scores about a node.
func (p *Planner) rank(e *entry, shape *framework.Shape, n *framework.Node) {
	e.sum = 0
	for i := range p.scores {
		switch s := &p.scores[i]; {
		case s.Skip(shape):
		case s.Absolute():
			e.sum += s.Weight * p.worth(s, shape, n)
		default:
			e.raw[s.raw] = p.worth(s, shape, n)
		}
	}
}

// worth is what a score says of a node.
func (p *Planner) worth(s *score, shape *framework.Shape, n *framework.Node) int64 {
	s.asked++
	if p.Timed == nil {
		return s.Raw(shape, n)
	}
	return p.timedWorth(s, shape, n)
}

// timedWorth is apart so that nothing is allocated where nobody measures.
func (p *Planner) timedWorth(s *score, shape *framework.Shape, n *framework.Node) (raw int64) {
	p.Timed(s.Name(), "Score", func() *framework.Rejection { raw = s.Raw(shape, n); return nil })
	return raw
}

// occupied asks the dynamic plug-ins and the relations, as if those that wait for room on the node and do not rank below the pod had it
// already.
func (p *Planner) occupied(pod *framework.Pod, n *framework.Node) *framework.Rejection {
	held := p.hold(pod, n)
	r := p.filter(pod.Shape, n)
	p.release(n, held)
	if r != nil || !p.more() {
		return r
	}
	return p.lookFurther(pod, n)
}

// more tells whether lookFurther has anybody to ask.
func (p *Planner) more() bool { return p.bound || p.late }

// lookFurther asks the relations, and whom comes after them, about a node that all others passed.
func (p *Planner) lookFurther(pod *framework.Pod, n *framework.Node) (r *framework.Rejection) {
	if p.bound {
		r = p.unrelated(pod, n)
	}
	if r != nil || !p.late {
		return r
	}
	held := p.hold(pod, n)
	for i := 0; i < len(p.last) && r == nil; i++ {
		r = p.ask(&p.last[i], pod.Shape, n)
	}
	p.release(n, held)
	return r
}

// unrelated is what the relations say, as if those that wait there had it, and as if they had not: they may go elsewhere in the end, so that
// nobody may count on their being there. What the other plug-ins look at is only less without them.
func (p *Planner) unrelated(pod *framework.Pod, n *framework.Node) *framework.Rejection {
	held := p.hold(pod, n)
	r := p.related(n)
	p.release(n, held)
	if r == nil && len(held) > 0 {
		r = p.related(n)
	}
	return r
}

// related asks the relations of the pod that is looked at.
func (p *Planner) related(n *framework.Node) *framework.Rejection {
	for i, f := range p.of {
		if f != nil && p.set.Relations[i].Filters && f.Binding() {
			if r := p.askRelated(i, f, n); r != nil {
				return r
			}
		}
	}
	return nil
}

func (p *Planner) askRelated(i int, f framework.Related, n *framework.Node) *framework.Rejection {
	p.inquiries[i].filter++
	if p.Timed == nil {
		return f.Filter(n)
	}
	return p.Timed(p.set.Relations[i].Name(), "Filter", func() *framework.Rejection { return f.Filter(n) })
}

// relate finds what concerns the pod in where others are. occupied, victims and choose go by it until the next pod is looked at.
func (p *Planner) relate(c *framework.Cluster, pod *framework.Pod) {
	p.of, p.bound, p.late, p.waits = p.of[:0], false, false, nil
	c.Trim()
	if pod.Object != nil {
		p.waits = c.NominatedTo(pod.Object.UID)
	}
	for _, r := range p.set.Relations {
		x := r.Relate(c, pod)
		p.of = append(p.of, x)
		p.bound = p.bound || x != nil && r.Filters && x.Binding()
	}
	for i := range p.last {
		x, some := p.last[i].plugin.(framework.Concerning)
		p.late = p.late || !some || x.Concerns(pod.Shape)
	}
}

// hold puts the pods on the node that wait for room there, other than pod.
func (p *Planner) hold(pod *framework.Pod, n *framework.Node) (held []*framework.Pod) {
	for _, w := range n.Nominated {
		self := pod.Object != nil && w.Object.UID == pod.Object.UID
		if self || w.Shape.Priority < pod.Shape.Priority || n.Pods[w.Object.UID] != nil {
			continue
		}
		p.put(n, w)
		held = append(held, w)
	}
	return held
}

func (p *Planner) release(n *framework.Node, held []*framework.Pod) {
	for _, w := range held {
		p.lift(n, w)
	}
}

// put and lift are the node's; where no relation looks, and no port is handed over, what a pod takes of the node is all that counts.
func (p *Planner) put(n *framework.Node, pod *framework.Pod) {
	if p.bound || len(pod.Shape.Ports) > 0 {
		n.Put(pod)
	} else {
		n.Weigh(pod, 1)
	}
}

func (p *Planner) lift(n *framework.Node, pod *framework.Pod) {
	if p.bound || len(pod.Shape.Ports) > 0 {
		n.Lift(pod)
	} else {
		n.Weigh(pod, -1)
	}
}

// Help is what a change of a node does for pods of a shape.
type Help int

// The kinds of help, the better the larger.
const (
	NoHelp  Help = iota
	Blocked      // there is room, and what is elsewhere is in the way
	Victims      // there is room once pods of lower priority have gone
	Room         // there is room
)

// Helps tells what a node can do for a pod; one without an Object stands for any of its shape that does not wait for room there. When it is
// something elsewhere that is in the way, by is the plug-in that says so: then nothing about this node needs to happen for it to help.
func (p *Planner) Helps(c *framework.Cluster, pod *framework.Pod, n *framework.Node) (help Help, by string) {
	shape := pod.Shape
	for i := range p.static {
		if p.ask(&p.static[i], shape, n) != nil {
			return NoHelp, ""
		}
	}
	p.relate(c, pod)
	r := p.occupied(pod, n)
	if r == nil {
		return Room, ""
	}
	if by = p.elsewhere(r); by != "" {
		help = Blocked
	}
	if shape.NeverPreempts || !p.Preempts() {
		return help, by
	}
	lower := LowerPriority(pod, n)
	if len(lower) == 0 {
		return help, by
	}
	for _, v := range lower {
		p.lift(n, v)
	}
	r = p.occupied(pod, n)
	for _, v := range lower {
		p.put(n, v)
	}
	if r == nil {
		return Victims, ""
	}
	if by == "" {
		by = p.elsewhere(r)
	}
	return help, by
}

// elsewhere is the plug-in that rejects a node because of what is elsewhere; "" when it is because of the node.
func (p *Planner) elsewhere(r *framework.Rejection) string {
	for _, x := range p.set.Relations {
		if x.Name() == r.Plugin {
			return r.Plugin
		}
	}
	return ""
}

// Rooms is how many pods of a shape find room on a node of which Helps has just said that it has Room; 0: that depends on more than what
// they take of the node.
func (p *Planner) Rooms(shape *framework.Shape, n *framework.Node) (count int) {
	switch {
	case p.bound:
		return 0
	case len(shape.Ports) > 0:
		return 1
	}
	pod := &framework.Pod{Shape: shape}
	held := p.hold(pod, n)
	for int64(count) <= n.MaxPods && p.filter(shape, n) == nil {
		n.Weigh(pod, 1)
		count++
	}
	for range count {
		n.Weigh(pod, -1)
	}
	p.release(n, held)
	return count
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

// scoreRelated fills p.raw, unless the relation has no preference.
func (p *Planner) scoreRelated(i int, r framework.Related, nodes []*framework.Node) bool {
	p.inquiries[i].score += len(nodes)
	if p.Timed == nil {
		return r.Score(nodes, p.raw)
	}
	return p.timedScore(i, r, nodes)
}

// timedScore is apart as timedWorth is.
func (p *Planner) timedScore(i int, r framework.Related, nodes []*framework.Node) (some bool) {
	p.Timed(p.set.Relations[i].Name(), "Score", func() *framework.Rejection { some = r.Score(nodes, p.raw); return nil })
	return some
}

// nodes are those of p.slots.
func (p *Planner) nodes(c *framework.Cluster) []*framework.Node {
	p.feasible = p.feasible[:0]
	for _, at := range p.slots {
		p.feasible = append(p.feasible, c.Nodes[at])
	}
	return p.feasible
}
