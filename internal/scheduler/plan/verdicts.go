package plan

import (
	"slices"

	"podo.dev/podo/internal/scheduler/framework"
)

// verdicts are what each node says to pods of a shape when no node took the last one. They are kept up with the changes of the cluster, so
// that the next pod of the shape costs a look at what has changed, not at every node. They hold for pods to which nothing matters but the
// nodes themselves (no relation that may reject, no room of their own, no nodes named).
type verdicts struct {
	mark       framework.Mark
	by         []*framework.Rejection // by slot; nil: it takes the pod
	groups     []group                // the same by what is said, in the order of their coming
	open       []int32                // slots of those that take it
	resolvable int
	elsewhere  *framework.Rejection // what is said of nodes that were not asked
}

// group are the nodes that say the same.
type group struct {
	of      *framework.Rejection
	count   int
	example int               // a slot; -1: to be found
	nearing framework.Nearing // nil: one is as good as another
}

// maxGroups bounds what is kept up: a plug-in that says something else of each node makes it pointless.
const maxGroups = 64

// lookForExample is at how many nodes an example is looked for among others that say the same.
const lookForExample = 256

// unseen stands for a node that has not been asked yet.
var unseen = &framework.Rejection{Unresolvable: true}

// verdict is what a node says to a pod; nil: it takes it.
func (p *Planner) verdict(m *memo, pod *framework.Pod, n *framework.Node) *framework.Rejection {
	stamp := n.Stamp()
	e := p.look(m, pod.Shape, n, n.Slot(), stamp)
	r := e.rejected
	if r == nil {
		r = p.lookCloser(e, pod, n, stamp)
	}
	if r == nil && p.more() {
		r = p.lookFurther(pod, n)
	}
	return r
}

// take takes in what the node in a slot says.
func (p *Planner) take(c *framework.Cluster, v *verdicts, shape *framework.Shape, slot int, r *framework.Rejection) {
	for len(v.by) <= slot {
		v.by = append(v.by, unseen)
	}
	g := v.group(r)
	if g != nil {
		r = g.of
	}
	was := v.by[slot]
	v.by[slot] = r
	if was != nil && was != unseen && was != r {
		old := v.group(was)
		if old.count--; old.example == slot {
			old.example = -1
		}
		v.resolvable -= one(!was.Unresolvable)
	}
	switch {
	case r == was && r == nil:
	case r == nil:
		v.open = append(v.open, int32(slot))
	default:
		if g == nil {
			v.groups = append(v.groups, group{of: r, example: slot, nearing: p.nearing(r.Plugin)})
			g = &v.groups[len(v.groups)-1]
		}
		if r != was {
			g.count++
			v.resolvable += one(!r.Unresolvable)
		}
		if g.nearing != nil && g.example >= 0 && g.example != slot && g.nearing.Nearer(shape, c.Nodes[slot], c.Nodes[g.example]) {
			g.example = slot
		}
	}
}

// group finds the one that says something; nil when there is none. Most rejections are shared; those that are not are compared.
func (v *verdicts) group(r *framework.Rejection) *group {
	if r == nil {
		return nil
	}
	for i := range v.groups {
		if v.groups[i].of == r {
			return &v.groups[i]
		}
	}
	for i := range v.groups {
		of := v.groups[i].of
		if of.Plugin == r.Plugin && of.Unresolvable == r.Unresolvable && slices.Equal(of.Reasons, r.Reasons) {
			return &v.groups[i]
		}
	}
	return nil
}

// exemplify finds an example for a group that has lost its own: the first node that says so, or a nearer one of those after it.
func (p *Planner) exemplify(c *framework.Cluster, v *verdicts, shape *framework.Shape, g *group) {
	looked := 0
	for slot, r := range v.by {
		if r != g.of {
			continue
		}
		if g.example < 0 || g.nearing.Nearer(shape, c.Nodes[slot], c.Nodes[g.example]) {
			g.example = slot
		}
		if looked++; g.nearing == nil || looked == lookForExample {
			return
		}
	}
}

// refresh finds the nodes for a pod by what has changed since an equal one found none. ok is false when all of them have to be looked at.
func (p *Planner) refresh(c *framework.Cluster, m *memo, pod *framework.Pod) (d Decision, ok bool) {
	v := m.verdicts
	if v == nil {
		return d, false
	}
	changed, known := c.Since(v.mark)
	if !known || len(changed) > len(c.Nodes) {
		m.verdicts = nil
		return d, false
	}
	v.mark = c.Mark()
	for _, slot := range changed {
		p.take(c, v, pod.Shape, int(slot), p.verdict(m, pod, c.Nodes[slot]))
	}
	v.tidy()
	if len(v.open) > Sample(len(c.Nodes), p.Percent) || len(v.groups) > maxGroups {
		m.verdicts = nil
		return d, false
	}
	for _, slot := range v.open {
		p.try(m, pod, c.Nodes[slot], int(slot), c.Stamps[slot])
	}
	d = Decision{Evaluated: len(c.Nodes), Feasible: len(p.slots)}
	if len(p.slots) == 0 {
		d.Diagnosis = p.tell(c, v, pod)
	}
	return d, true
}

// tidy forgets groups without nodes, and open nodes that are open no longer.
func (v *verdicts) tidy() {
	open := v.open[:0]
	for _, slot := range v.open {
		if v.by[slot] == nil {
			open = append(open, slot)
		}
	}
	v.open = open
	groups := v.groups[:0]
	for _, g := range v.groups {
		if g.count > 0 {
			groups = append(groups, g)
		}
	}
	v.groups = groups
}
