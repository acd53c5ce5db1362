// Package plugins are the scheduler's rules, a file each, with upstream's names, reasons, formulas and weights. They are pure
// functions of a pod's shape and a node.
package plugins

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"podo.dev/podo/internal/scheduler/framework"
)

// Set is what a scheduler decides with. Filters run in order, static ones first; scores in any order.
type Set struct {
	PreEnqueue []framework.PreEnqueue
	Sort       framework.QueueSort
	PreFilters []framework.PreFilter
	Filters    []framework.Filter
	Scores     []framework.Score
	Relations  []framework.Relation // after the Filters
}

// Default is upstream's default profile as far as the plug-ins exist. like is described at PodTopologySpread; it may be nil.
func Default(like func(*v1.Pod) labels.Selector) Set {
	return Set{
		PreEnqueue: []framework.PreEnqueue{SchedulingGates{}},
		Sort:       PrioritySort{},
		PreFilters: []framework.PreFilter{NodeAffinity{}},
		Filters: []framework.Filter{
			NodeUnschedulable{}, NodeName{}, TaintToleration{}, NodeAffinity{}, NodePorts{}, NodeResourcesFit{},
		},
		Scores:    []framework.Score{TaintToleration{}, NodeAffinity{}, NodeResourcesFit{}, BalancedAllocation{}},
		Relations: []framework.Relation{PodTopologySpread{Like: like}, InterPodAffinity{}, ImageLocality{}},
	}
}

// scale brings raw counts to 0..100 in proportion to the largest; reverse turns them round. All zero stay zero, or all
// become 100 when reversed.
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
