package plan

import (
	"slices"

	"podo.dev/podo/internal/scheduler/framework"
)

// verdicts are what each node says to pods of a shape after no node took the last one. They are updated with the changes of the
// cluster, so that the next pod of the shape costs a look at what changed and not at every node. They serve pods that depend on
// the nodes alone (no relation that may reject, no nomination, no nodes named).
type verdicts struct {
	mark       framework.Mark
	by         []*framework.Rejection // by slot; nil: it takes the pod
	groups     []group                // by rejection, in the order in which they appeared
	open       []int32                // slots of nodes that take the pod
	resolvable int
	elsewhere  *framework.Rejection // the rejection of nodes that were not asked
}

// group are the nodes that say the same.
type group struct {
	of      *framework.Rejection
	count   int
	example int               // a slot; -1: to be found
	nearing framework.Nearing // nil: nodes are not compared
}

// maxGroups bounds the groups: with a plug-in that says something different of each node, they would be useless.
const maxGroups = 64

// lookForExample is how many nodes with the same rejection are compared to find an example.
const lookForExample = 256

// unseen stands for a node that has not been asked yet.
var unseen = &framework.Rejection{Unresolvable: true}

// verdict is what a node says to a pod; nil means that it takes the pod.
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

// group finds the group of a rejection; nil when there is none. Most rejections are shared values; others are compared.
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

// exemplify finds a new example for a group: the first node with the rejection, or a nearer one among those after it.
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

// refresh finds the nodes for a pod from what changed since an equal pod found none. ok is false when all nodes have to be looked
// at.
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

// tidy drops groups without nodes, and open nodes that are no longer open.
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
