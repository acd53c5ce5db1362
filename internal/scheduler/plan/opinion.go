package plan

import "podo.dev/podo/internal/scheduler/framework"

// Opinion is what extenders said of the nodes that passed the plug-ins.
type Opinion struct {
	Passed   []string
	Rejected map[string]*framework.Rejection // by node
	Scores   map[string]int64                // by node, weighted: added to those of the plug-ins
}

// Feasible are the nodes that the plug-ins pass for a pod, for extenders to judge; when there are none, the decision has a
// Diagnosis.
func (p *Planner) Feasible(c *framework.Cluster, pod *framework.Pod) ([]*framework.Node, Decision) {
	d := p.find(c, pod)
	return p.nodes(c), d
}

// Among chooses one of the nodes that extenders passed, in the cluster as it is now: what no longer fits is left out.
func (p *Planner) Among(c *framework.Cluster, pod *framework.Pod, o Opinion) (d Decision) {
	p.clear()
	p.opinion = &o
	m := p.memo(pod.Shape)
	p.relate(c, pod)
	for _, n := range named(c, o.Passed) {
		d.Evaluated++
		p.try(m, pod, n, n.Slot(), n.Stamp())
	}
	if d.Feasible = len(p.slots); d.Feasible == 0 {
		d.Diagnosis = p.diagnose(c, m, pod)
		return d
	}
	d.Node, d.Score = p.choose(c, pod.Shape)
	return d
}
