package plan

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	"podo.dev/podo/internal/scheduler/framework"
	"podo.dev/podo/internal/timeline"
)

// Diagnosis is why no node takes a pod. The zero value stands for a cluster without nodes. It is shared by equal pods and
// never changed.
type Diagnosis struct {
	Nodes int // all of them
	// Refused says that a plug-in refused the pod whatever the node. Then no change of nodes can help it.
	Refused bool
	// Reasons are grouped: one for all nodes that a plug-in rejected in the same words.
	Reasons []Reason

	rejected   []*framework.Rejection // distinct ones
	by         []*framework.Rejection // by slot, until the cluster changes
	resolvable int                    // how many nodes could take the pod if others left
}

// Reason is one folded rejection.
type Reason struct {
	Plugin  string
	Text    string
	Count   int              // nodes
	Example string           // one of the nodes; where a plug-in can compare, the nearest one at the first look
	Numbers []timeline.Field // what decided there
}

// helpable tells whether the node in a slot could take the pod if others left. It holds until the cluster changes.
func (d *Diagnosis) helpable(slot int) bool {
	if d.Refused {
		return d.resolvable > 0
	}
	r := d.by[slot]
	return r != nil && !r.Unresolvable
}

// diagnose asks every node again. It runs only when no node is feasible, so that each has an answer.
func (p *Planner) diagnose(c *framework.Cluster, m *memo, pod *framework.Pod) *Diagnosis {
	names, by := p.narrow(pod.Shape)
	v := &verdicts{mark: c.Mark(), elsewhere: notNamed(by)}
	wanted := map[string]bool{}
	for _, n := range names {
		wanted[n] = true
	}
	for slot, n := range c.Nodes {
		r := v.elsewhere
		if by == nil || wanted[n.Name] {
			r = p.verdict(m, pod, n)
		}
		if r == nil && p.opinion != nil {
			r = p.opinion.Rejected[n.Name]
		}
		p.take(c, v, pod.Shape, slot, r)
	}
	d := p.tell(c, v, pod)
	if by == nil && p.opinion == nil && !p.bound && p.waits == nil && len(v.groups) <= maxGroups {
		m.verdicts = v
	}
	return d
}

// tell puts verdicts into words.
func (p *Planner) tell(c *framework.Cluster, v *verdicts, pod *framework.Pod) *Diagnosis {
	d := &Diagnosis{Nodes: len(c.Nodes), by: v.by, resolvable: v.resolvable}
	for i := range v.groups {
		g := &v.groups[i]
		if g.example < 0 {
			p.exemplify(c, v, pod.Shape, g)
		}
		example := c.Nodes[g.example]
		d.rejected = append(d.rejected, g.of)
		d.fold(g.of, g.count, example.Name, func() []timeline.Field {
			if g.of == v.elsewhere {
				return nil
			}
			return p.explain(g.of, pod, example)
		})
	}
	sort.Slice(d.Reasons, func(i, j int) bool { return d.Reasons[i].words() < d.Reasons[j].words() })
	return d
}

func (p *Planner) nearing(plugin string) framework.Nearing {
	for _, f := range p.set.AllFilters() {
		if n, ok := f.(framework.Nearing); ok && f.Name() == plugin {
			return n
		}
	}
	return nil
}

// notNamed is the rejection of nodes that plug-ins excluded before any was looked at.
func notNamed(by []string) *framework.Rejection {
	if by == nil {
		return nil
	}
	slices.Sort(by)
	return &framework.Rejection{Plugin: by[0], Reasons: []string{fmt.Sprintf("node(s) didn't satisfy plugin(s) %v", by)}, Unresolvable: true}
}

func (d *Diagnosis) fold(r *framework.Rejection, count int, example string, numbers func() []timeline.Field) {
	for _, text := range r.Reasons {
		found := false
		for i := range d.Reasons {
			if d.Reasons[i].Text == text && d.Reasons[i].Plugin == r.Plugin {
				d.Reasons[i].Count += count
				found = true
			}
		}
		if !found {
			d.Reasons = append(d.Reasons, Reason{Plugin: r.Plugin, Text: text, Count: count, Example: example, Numbers: numbers()})
		}
	}
}

func (p *Planner) explain(r *framework.Rejection, pod *framework.Pod, n *framework.Node) []timeline.Field {
	held := p.hold(pod, n)
	fields := p.numbers(r, pod, n)
	p.release(n, held)
	if fields == nil && len(held) > 0 {
		fields = p.numbers(r, pod, n) // the node was rejected as it is without its nominated pods
	}
	return fields
}

// numbers asks the plug-in that rejected a node for the figures.
func (p *Planner) numbers(r *framework.Rejection, pod *framework.Pod, n *framework.Node) []timeline.Field {
	for _, f := range p.set.AllFilters() {
		if f.Name() == r.Plugin {
			return f.Explain(pod.Shape, n)
		}
	}
	for i, f := range p.set.Relations {
		if f.Name() == r.Plugin && p.of[i] != nil {
			return p.of[i].Explain(n)
		}
	}
	return nil
}

// Plugins are the plug-ins that rejected a node, each once.
func (d *Diagnosis) Plugins() (out []string) {
	add := func(plugin string) {
		if !slices.Contains(out, plugin) {
			out = append(out, plugin)
		}
	}
	for _, r := range d.Reasons {
		add(r.Plugin)
	}
	for _, r := range d.rejected { // perhaps without a word
		add(r.Plugin)
	}
	return out
}

func (r Reason) words() string { return fmt.Sprintf("%d %s", r.Count, r.Text) }

// Message is the text of FailedScheduling and of the PodScheduled condition, in upstream's words. preemption is the outcome of
// preemption; "" for none.
func (d *Diagnosis) Message(preemption string) string {
	if d.Nodes == 0 {
		return "no nodes available to schedule pods"
	}
	words := make([]string, len(d.Reasons))
	for i, r := range d.Reasons {
		if words[i] = r.words(); d.Refused {
			words[i] = r.Text // of all of them
		}
	}
	out := fmt.Sprintf("0/%d nodes are available:", d.Nodes)
	if len(words) > 0 {
		out += " " + strings.Join(words, ", ") + "."
	}
	if preemption != "" {
		out += " preemption: " + preemption
	}
	return out
}

// Fields are the diagnosis as a timeline record: a field for each plug-in with its grouped reasons and the figures of one node.
func (d *Diagnosis) Fields() []timeline.Field {
	var out []timeline.Field
	for _, r := range d.Reasons {
		v := r.words()
		if r.Example != "" {
			v += " (" + r.Example
			for _, f := range r.Numbers {
				v += " " + f.Key + "=" + f.Value
			}
			v += ")"
		}
		out = append(out, timeline.Field{Key: r.Plugin, Value: v})
	}
	return out
}
