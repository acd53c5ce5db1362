package plan

import (
	"podo.dev/podo/internal/scheduler/framework"
	"podo.dev/podo/internal/scheduler/plugins"
)

// Plug-ins are called here: each call is counted, and timed where somebody measures.

// score is a Score with its index in entry.raw, if it is relative.
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

// Asked reports how often each plug-in was asked about a node since its last call.
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

func (p *Planner) ask(f *filter, shape *framework.Shape, n *framework.Node) *framework.Rejection {
	f.asked++
	if p.Timed == nil {
		return f.plugin.Filter(shape, n)
	}
	return p.Timed(f.plugin.Name(), "Filter", func() *framework.Rejection { return f.plugin.Filter(shape, n) })
}

// worth is what a score says of a node.
func (p *Planner) worth(s *score, shape *framework.Shape, n *framework.Node) int64 {
	s.asked++
	if p.Timed == nil {
		return s.Raw(shape, n)
	}
	return p.timedWorth(s, shape, n)
}

// timedWorth is a function of its own so that nothing is allocated where nobody measures.
func (p *Planner) timedWorth(s *score, shape *framework.Shape, n *framework.Node) (raw int64) {
	p.Timed(s.Name(), "Score", func() *framework.Rejection { raw = s.Raw(shape, n); return nil })
	return raw
}

func (p *Planner) askRelated(i int, f framework.Related, n *framework.Node) *framework.Rejection {
	p.inquiries[i].filter++
	if p.Timed == nil {
		return f.Filter(n)
	}
	return p.Timed(p.set.Relations[i].Name(), "Filter", func() *framework.Rejection { return f.Filter(n) })
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
