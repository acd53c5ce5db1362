package plan

import "podo.dev/podo/internal/scheduler/framework"

// Help is what a change of a node means for pods of a shape.
type Help int

// The kinds of help, the better the larger.
const (
	NoHelp  Help = iota
	Blocked      // there is room, but something elsewhere is in the way
	Victims      // there is room once pods of lower priority have left
	Room         // there is room
)

// Helps tells what a node can do for a pod; a pod without an Object stands for any of its shape that does not wait for room
// there. When something elsewhere is in the way, by is the plug-in that says so: then this node need not change for it to help.
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
	lower := p.couldLeave(pod, n)
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

// couldLeave are the pods that a pod may have leave a node.
func (p *Planner) couldLeave(pod *framework.Pod, n *framework.Node) []*framework.Pod {
	if pod.Shape.NeverPreempts || !p.Preempts() {
		return nil
	}
	return LowerPriority(pod, n)
}

// elsewhere is the plug-in that rejects a node because of what is elsewhere; "" when the node itself is the reason.
func (p *Planner) elsewhere(r *framework.Rejection) string {
	for _, x := range p.set.Relations {
		if x.Name() == r.Plugin {
			return r.Plugin
		}
	}
	return ""
}

// Rooms is how many pods of a shape fit on a node for which Helps has just returned Room, counting those for which others would have to
// leave; 0 when that depends on more than the resources they use.
func (p *Planner) Rooms(shape *framework.Shape, n *framework.Node) (count int) {
	switch {
	case p.bound:
		return 0
	case len(shape.Ports) > 0:
		return 1
	}
	pod := &framework.Pod{Shape: shape}
	held, lower := p.hold(pod, n), p.couldLeave(pod, n)
	for _, v := range lower {
		p.lift(n, v)
	}
	for int64(count) <= n.MaxPods && p.filter(shape, n) == nil {
		n.Weigh(pod, 1)
		count++
	}
	for range count {
		n.Weigh(pod, -1)
	}
	for _, v := range lower {
		p.put(n, v)
	}
	p.release(n, held)
	return count
}
