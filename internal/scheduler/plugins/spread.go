package plugins

import (
	"math"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"podo.dev/podo/internal/scheduler/framework"
	"podo.dev/podo/internal/timeline"
)

// PodTopologySpread keeps like pods evenly spread over domains, as their topologySpreadConstraints say.
type PodTopologySpread struct {
	// Like selects the peers of a pod that has no constraints of its own: the pods of its Services and of its controller. They
	// are preferred apart, by node and by zone. nil: no defaults.
	Like func(pod *v1.Pod) labels.Selector
	// Defaults are the constraints for such pods; nil: upstream's, which do not require nodes to have the labels.
	Defaults []v1.TopologySpreadConstraint
}

// systemDefaults are upstream's.
var systemDefaults = []v1.TopologySpreadConstraint{
	{TopologyKey: v1.LabelHostname, WhenUnsatisfiable: v1.ScheduleAnyway, MaxSkew: 3},
	{TopologyKey: v1.LabelTopologyZone, WhenUnsatisfiable: v1.ScheduleAnyway, MaxSkew: 5},
}

const spreadName = "PodTopologySpread"

var (
	uneven  = &framework.Rejection{Plugin: spreadName, Reasons: []string{"node(s) didn't match pod topology spread constraints"}}
	unlabel = &framework.Rejection{
		Plugin: spreadName, Reasons: []string{"node(s) didn't match pod topology spread constraints (missing required label)"}, Unresolvable: true,
	}
)

func (PodTopologySpread) Name() string { return spreadName }

// Relate finds the pod's constraints, or the default ones.
func (p PodTopologySpread) Relate(c *framework.Cluster, pod *framework.Pod) framework.Related {
	if r := pod.Shape.Relations; r != nil && r.OwnConstraints {
		return newSpreading(c, pod.Shape, r.Hard, r.Soft, r.Labels, true)
	}
	list := p.Defaults
	if list == nil {
		list = systemDefaults
	}
	if p.Like == nil || pod.Object == nil || len(list) == 0 {
		return nil
	}
	like := p.Like(pod.Object)
	if like == nil || like.Empty() {
		return nil
	}
	allKeys := p.Defaults != nil
	of := func(action v1.UnsatisfiableConstraintAction) []framework.Spread {
		return framework.DefaultSpreads(pod.Object, pod.Shape, list, action, like, allKeys || action == v1.DoNotSchedule)
	}
	return newSpreading(c, pod.Shape, of(v1.DoNotSchedule), of(v1.ScheduleAnyway), pod.Object.Labels, allKeys)
}

func newSpreading(c *framework.Cluster, s *framework.Shape, hard, soft []framework.Spread, own labels.Set, allKeys bool) *spreading {
	out := &spreading{allKeys: allKeys}
	for i := range hard {
		out.hard = append(out.hard, constraint{&hard[i], c.Counted(&hard[i], s), selfMatch(&hard[i], own)})
	}
	for i := range soft {
		out.soft = append(out.soft, constraint{&soft[i], c.Counted(&soft[i], s), 0})
	}
	return out
}

// selfMatch is 1 when the constraint's selector matches the pod itself.
func selfMatch(x *framework.Spread, own labels.Set) int64 {
	if x.Selector.Matches(own) {
		return 1
	}
	return 0
}

type constraint struct {
	*framework.Spread
	tally *framework.Tally
	self  int64
}

// skew is how many pods more than the emptiest domain the node's domain would have.
func (c *constraint) skew(count int64) int64 {
	least, domains := c.tally.Least()
	if domains < c.MinDomains {
		least = 0
	}
	return count + c.self - least
}

type spreading struct {
	hard, soft []constraint
	allKeys    bool // nodes that lack a label of a soft constraint score nothing
}

func (s *spreading) Binding() bool { return len(s.hard) > 0 }

// Filter holds the hard constraints.
func (s *spreading) Filter(n *framework.Node) *framework.Rejection {
	for i := range s.hard {
		c := &s.hard[i]
		count, ok := c.tally.In(n)
		switch {
		case !ok:
			return unlabel
		case c.skew(count) > c.MaxSkew:
			return uneven
		}
	}
	return nil
}

// Explain tells the skew that would be.
func (s *spreading) Explain(n *framework.Node) []timeline.Field {
	for i := range s.hard {
		c := &s.hard[i]
		count, ok := c.tally.In(n)
		if !ok {
			return []timeline.Field{{Key: "missing", Value: c.TopologyKey}}
		}
		if skew := c.skew(count); skew > c.MaxSkew {
			var r timeline.Record
			return r.With("by", c.TopologyKey).With("here", count).With("skew", skew).With("max", c.MaxSkew).Fields
		}
	}
	return nil
}

// hasAllKeys tells whether a node has the labels of all soft constraints.
func (s *spreading) hasAllKeys(n *framework.Node) bool {
	for i := range s.soft {
		if _, ok := s.soft[i].tally.In(n); !ok {
			return false
		}
	}
	return true
}

// Score prefers domains with fewer peers. A constraint counts the more, the more domains there are.
func (s *spreading) Score(nodes []*framework.Node, scores []int64) bool {
	if len(s.soft) == 0 {
		return false
	}
	ignored := make([]bool, len(nodes))
	left := len(nodes)
	for i, n := range nodes {
		if s.allKeys && !s.hasAllKeys(n) {
			ignored[i] = true
			left--
		}
	}
	sums := make([]float64, len(nodes))
	for k := range s.soft {
		c := &s.soft[k]
		size := left
		if c.TopologyKey != v1.LabelHostname {
			size = c.tally.Distinct(nodes, ignored)
		}
		weight := math.Log(float64(size + 2))
		for i, n := range nodes {
			count, ok := c.tally.In(n)
			if !ok || ignored[i] {
				continue
			}
			if c.TopologyKey == v1.LabelHostname {
				count = c.tally.On(n)
			}
			sums[i] += float64(count)*weight + float64(c.MaxSkew-1)
		}
	}
	least, most := int64(math.MaxInt64), int64(0)
	for i, v := range sums {
		scores[i] = int64(math.Round(v))
		if !ignored[i] {
			least, most = min(least, scores[i]), max(most, scores[i])
		}
	}
	for i := range scores {
		switch {
		case ignored[i]:
			scores[i] = 0
		case most == 0:
			scores[i] = framework.MaxScore
		default:
			scores[i] = framework.MaxScore * (most + least - scores[i]) / most
		}
	}
	return true
}
