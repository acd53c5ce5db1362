package framework

import (
	"slices"

	v1 "k8s.io/api/core/v1"
)

// layout is the division of nodes into the domains of a label. Tallies over the same nodes and label share one.
type layout struct {
	key         string
	topologyKey string
	nodes       func(*v1.Node) bool // those whose pods count; nil: all
	at          []spot              // by Node.id
	byValue     map[string]int32    // domains by the label's value
	domains     []domain
	unused      []int32 // domains without nodes, to be reused
	spread      int     // domains with nodes whose pods count
	tallies     map[*Tally]struct{}
	looks       uint64
	nowhere     domain // for distinct
}

// spot is where a node is: domain is the number of its domain plus one, so that the zero value means none.
type spot struct {
	domain int32
	in     bool // its pods count
}

type domain struct {
	value string
	nodes int // those with the value
	in    int // of them, those whose pods count
	seen  uint64
}

func newLayout(key, topologyKey string, among func(*v1.Node) bool, nodes []*Node) *layout {
	l := &layout{key: key, topologyKey: topologyKey, nodes: among, byValue: map[string]int32{}, tallies: map[*Tally]struct{}{}}
	for _, n := range nodes {
		l.look(n)
	}
	return l
}

func (l *layout) spot(n *Node) spot { return l.spotOf(n.id) }

func (l *layout) spotOf(id int) spot {
	if id >= len(l.at) {
		return spot{}
	}
	return l.at[id]
}

// look updates a node that is new, changed, or (without an object) gone.
func (l *layout) look(n *Node) {
	was, is := l.spot(n), spot{}
	if n.Object != nil {
		if value, ok := n.Object.Labels[l.topologyKey]; ok {
			is = spot{l.domain(value) + 1, l.nodes == nil || l.nodes(n.Object)}
		}
	}
	if is == was {
		return
	}
	if is.domain > 0 {
		l.enter(is, 1)
	}
	for t := range l.tallies {
		t.moved(n, was, is)
	}
	if was.domain > 0 {
		l.enter(was, -1)
	}
	l.at = grown(l.at, n.id)
	l.at[n.id] = is
}

// domain finds the one of a value, or makes it.
func (l *layout) domain(value string) int32 {
	if d, ok := l.byValue[value]; ok {
		return d
	}
	d := int32(len(l.domains))
	if last := len(l.unused) - 1; last >= 0 {
		d, l.unused = l.unused[last], l.unused[:last]
		l.domains[d] = domain{value: value}
	} else {
		l.domains = append(l.domains, domain{value: value})
	}
	l.byValue[value] = d
	return d
}

// enter counts a node where it is (1), or no longer (-1).
func (l *layout) enter(s spot, sign int) {
	d := &l.domains[s.domain-1]
	d.nodes += sign
	if s.in {
		had := d.in > 0
		d.in += sign
		switch has := d.in > 0; {
		case has && !had:
			l.spread++
		case had && !has:
			l.spread--
		}
	}
	if d.nodes == 0 { // and with its nodes all that was counted has gone
		delete(l.byValue, d.value)
		l.unused = append(l.unused, s.domain-1)
	}
}

// distinct is the number of domains that the nodes of nodes for which left is not true are in. Nodes without the label are in one
// domain, as if its value were "".
func (l *layout) distinct(nodes []*Node, left []bool) (count int) {
	l.looks++
	blank := &l.nowhere
	if d, ok := l.byValue[""]; ok {
		blank = &l.domains[d]
	}
	for i, n := range nodes {
		if left[i] {
			continue
		}
		d := blank
		if s := l.spot(n); s.domain > 0 {
			d = &l.domains[s.domain-1]
		}
		if d.seen != l.looks {
			d.seen = l.looks
			count++
		}
	}
	return count
}

// grown is a list that has an element i.
func grown[T any](list []T, i int) []T {
	if i < len(list) {
		return list
	}
	return slices.Grow(list, i+1-len(list))[:i+1]
}
