// Package plugins are the scheduler's rules, a file each, with upstream's names, reasons, formulas and weights. They are pure
// functions of a pod's shape and a node.
package plugins

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"podo.dev/podo/internal/scheduler/framework"
)

// Set is the rules that a scheduler applies. Filters run in order, static ones first, then the relations, and last the filters in
// Last; scores run in any order.
type Set struct {
	PreEnqueue []framework.PreEnqueue
	Sort       framework.QueueSort
	PreFilters []framework.PreFilter
	Filters    []framework.Filter
	Scores     []Score
	Relations  []Relation
	Last       []framework.Filter
	Preemption Preemption
}

// AllFilters are Filters and Last.
func (s *Set) AllFilters() []framework.Filter { return slices.Concat(s.Filters, s.Last) }

// Score is a scoring plug-in with its weight.
type Score struct {
	framework.Score
	Weight int64
}

// Relation is a plug-in about other pods. Filters tells whether it may reject; with Weight 0 it does not score.
type Relation struct {
	framework.Relation
	Filters bool
	Weight  int64
}

// Preemption limits DefaultPreemption. Percent of the nodes on which it could help are looked at, but at least AtLeast.
type Preemption struct {
	Off              bool
	Percent, AtLeast int
}

// Default is upstream's default profile as far as its plug-ins exist here. like is described at PodTopologySpread; it may be nil.
func Default(like func(*v1.Pod) labels.Selector) Set {
	fit, affinity := NodeResourcesFit{}, NodeAffinity{}
	return Set{
		PreEnqueue: []framework.PreEnqueue{SchedulingGates{}},
		Sort:       PrioritySort{},
		PreFilters: []framework.PreFilter{affinity},
		Filters:    []framework.Filter{NodeUnschedulable{}, NodeName{}, TaintToleration{}, affinity, NodePorts{}, fit},
		Scores:     []Score{{TaintToleration{}, 3}, {affinity, 2}, {fit, 1}, {BalancedAllocation{}, 1}},
		Relations: []Relation{
			{PodTopologySpread{Like: like}, true, 2}, {InterPodAffinity{HardWeight: 1}, true, 2}, {ImageLocality{}, false, 1},
		},
		Last:       []framework.Filter{NodeDeclaredFeatures{}},
		Preemption: Preemption{Percent: 10, AtLeast: 100},
	}
}

// scale maps raw counts to 0..100 in proportion to the largest; reverse turns them round. All zeros stay 0, or become 100 when
// reversed.
func scale(raw []int64, reverse bool) {
	var top int64
	for _, v := range raw {
		top = max(top, v)
	}
	for i, v := range raw {
		if top > 0 {
			v = framework.MaxScore * v / top
		}
		if reverse {
			v = framework.MaxScore - v
		}
		raw[i] = v
	}
}
