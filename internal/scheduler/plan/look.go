package plan

import "podo.dev/podo/internal/scheduler/framework"

// What plug-ins say of one node, in the order of asking: first the static ones, whose answers last longest; then the other
// filters and the scores, whose answers last until a pod comes or goes there; last those that depend on what is elsewhere, which
// are not remembered.

// maxRaw bounds the number of Score plug-ins with scores relative to those of other nodes.
const maxRaw = 2

// maxMemos bounds the number of shapes whose results the planner keeps.
const maxMemos = 64

// entry is what plug-ins said about the node in a slot. The static answers hold while the node's epoch is the same, the others
// while its turn is too.
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
	entries   []entry    // by slot; made at the second use, so that a unique pod costs nothing
	diagnosis *Diagnosis // of the last failure, while the cluster's generation is at
	at        uint64
	verdicts  *verdicts // what diagnosis was made from; nil: not kept
	futile    string    // why no room can be made, for diagnosis; "" while unknown
	victims   []victims // by slot: who would have to leave
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

// look asks the static plug-ins about the node in a slot, or takes the remembered answer.
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

// lookCloser asks the dynamic filters, and the scores, about a node that passed the static ones, or takes the remembered answer.
// Filters see the node as if the pods that are nominated to it and rank no lower than the pod were there already. A pod that is
// itself nominated there is asked about again.
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

// occupied asks the dynamic plug-ins and the relations, as if the pods that are nominated to the node and rank no lower than the
// pod were there already.
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

// lookFurther asks the relations, and the filters after them, about a node that passed all others. With nominated pods there the
// relations are asked once more without them: those pods may go elsewhere in the end, so no pod may depend on their presence. The
// other plug-ins need no second question: without those pods only less is used.
func (p *Planner) lookFurther(pod *framework.Pod, n *framework.Node) *framework.Rejection {
	held := p.hold(pod, n)
	r := p.askRest(pod.Shape, n)
	p.release(n, held)
	if r == nil && p.bound && len(held) > 0 {
		r = p.related(n)
	}
	return r
}

// askRest asks the relations and the filters after them about a node as it is.
func (p *Planner) askRest(shape *framework.Shape, n *framework.Node) *framework.Rejection {
	if p.bound {
		if r := p.related(n); r != nil {
			return r
		}
	}
	if p.late {
		for i := range p.last {
			if r := p.ask(&p.last[i], shape, n); r != nil {
				return r
			}
		}
	}
	return nil
}

// related asks the relations of the current pod.
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

// relate finds what concerns the pod in the places of others. occupied, victims and choose use it until the next pod is looked
// at.
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

// hold puts the pods that are nominated to the node there, except pod.
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

// put and lift are the node's. Where no relation looks and no port is involved, only resources matter, and less has to be done.
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
