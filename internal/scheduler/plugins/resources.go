package plugins

import (
	"math"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"podo.dev/podo/internal/scheduler/framework"
	"podo.dev/podo/internal/timeline"
)

// NodeResourcesFit keeps pods off nodes that have not enough left of what they ask for, and prefers those with most left
// (LeastAllocated, cpu and memory alike).
type NodeResourcesFit struct{}

func (NodeResourcesFit) Name() string { return "NodeResourcesFit" }
func (NodeResourcesFit) Static() bool { return false }

// What is short of, as bits: the rejections for every combination of the four common ones are made once.
const (
	shortPods = 1 << iota
	shortCPU
	shortMemory
	shortEphemeral
	combinations
)

var shortOf = func() (out [2][combinations]*framework.Rejection) {
	names := []string{"Too many pods", "Insufficient cpu", "Insufficient memory", "Insufficient ephemeral-storage"}
	for unresolvable := range out {
		for bits := range combinations {
			r := &framework.Rejection{Plugin: "NodeResourcesFit", Unresolvable: unresolvable == 1}
			for i, name := range names {
				if bits&(1<<i) != 0 {
					r.Reasons = append(r.Reasons, name)
				}
			}
			out[unresolvable][bits] = r
		}
	}
	return out
}()

// Filter compares what is asked for with what is left.
func (NodeResourcesFit) Filter(s *framework.Shape, n *framework.Node) *framework.Rejection {
	bits, beyond := 0, 0
	if int64(len(n.Pods))+1 > n.MaxPods {
		bits |= shortPods
	}
	want, have, used := &s.Requests, &n.Allocatable, &n.Used
	check := func(bit int, want, have, used int64) {
		if want > 0 && want > have-used {
			bits |= bit
			if want > have {
				beyond = 1
			}
		}
	}
	check(shortCPU, want.MilliCPU, have.MilliCPU, used.MilliCPU)
	check(shortMemory, want.Memory, have.Memory, used.Memory)
	check(shortEphemeral, want.Ephemeral, have.Ephemeral, used.Ephemeral)
	var scalars []string
	for _, x := range want.Scalars {
		if total := have.Get(x.Name); x.Value > total-used.Get(x.Name) {
			scalars = append(scalars, "Insufficient "+string(x.Name))
			if x.Value > total {
				beyond = 1
			}
		}
	}
	switch {
	case scalars != nil:
		common := shortOf[beyond][bits]
		return &framework.Rejection{Plugin: common.Plugin, Unresolvable: common.Unresolvable, Reasons: append(common.Reasons[:len(common.Reasons):len(common.Reasons)], scalars...)}
	case bits != 0:
		return shortOf[beyond][bits]
	}
	return nil
}

// Explain tells asked and free of everything that is short.
func (NodeResourcesFit) Explain(s *framework.Shape, n *framework.Node) []timeline.Field {
	var r timeline.Record
	if int64(len(n.Pods))+1 > n.MaxPods {
		r = r.With("pods", len(n.Pods)).With("max", n.MaxPods)
	}
	tell := func(name string, want, have, used int64, text func(int64) string) {
		if want > 0 && want > have-used {
			r = r.With(name+".asked", text(want)).With(name+".free", text(have-used))
		}
	}
	milli := func(v int64) string { return resource.NewMilliQuantity(v, resource.DecimalSI).String() }
	bytes := func(v int64) string { return resource.NewQuantity(v, resource.BinarySI).String() }
	plain := func(v int64) string { return resource.NewQuantity(v, resource.DecimalSI).String() }
	tell("cpu", s.Requests.MilliCPU, n.Allocatable.MilliCPU, n.Used.MilliCPU, milli)
	tell("memory", s.Requests.Memory, n.Allocatable.Memory, n.Used.Memory, bytes)
	tell(string(v1.ResourceEphemeralStorage), s.Requests.Ephemeral, n.Allocatable.Ephemeral, n.Used.Ephemeral, bytes)
	for _, x := range s.Requests.Scalars {
		tell(string(x.Name), x.Value, n.Allocatable.Get(x.Name), n.Used.Get(x.Name), plain)
	}
	return r.Fields
}

func (NodeResourcesFit) Weight() int64              { return 1 }
func (NodeResourcesFit) Skip(*framework.Shape) bool { return false }
func (NodeResourcesFit) Normalize([]int64)          {}

// Raw is the mean share that would be left of cpu and memory, in percent, each rounded down. A resource that the node does not
// have is left out.
func (NodeResourcesFit) Raw(s *framework.Shape, n *framework.Node) int64 {
	var sum, weight int64
	left := func(want, have, used int64) {
		if have == 0 {
			return
		}
		weight++
		if want+used <= have {
			sum += (have - used - want) * framework.MaxScore / have
		}
	}
	left(s.ScoreCPU, n.Allocatable.MilliCPU, n.UsedCPU)
	left(s.ScoreMemory, n.Allocatable.Memory, n.UsedMemory)
	if weight == 0 {
		return 0
	}
	return sum / weight
}

// BalancedAllocation prefers nodes whose cpu and memory the pod would bring to like shares: what counts is whether it makes their
// balance better or worse.
type BalancedAllocation struct{}

func (BalancedAllocation) Name() string  { return "NodeResourcesBalancedAllocation" }
func (BalancedAllocation) Static() bool  { return false }
func (BalancedAllocation) Weight() int64 { return 1 }
func (BalancedAllocation) Skip(s *framework.Shape) bool {
	return s.Requests.MilliCPU == 0 && s.Requests.Memory == 0
}
func (BalancedAllocation) Normalize([]int64) {}

// Raw is about 75 when the pod changes nothing, up to 100 when it evens the shares out, down to 50 when it sets them apart.
func (BalancedAllocation) Raw(s *framework.Shape, n *framework.Node) int64 {
	after := balance(n, s.Requests.MilliCPU+n.Used.MilliCPU, s.Requests.Memory+n.Used.Memory)
	before := balance(n, n.Used.MilliCPU, n.Used.Memory)
	return framework.MaxScore/2 + (framework.MaxScore/2+after-before)/2
}

// balance is 100 less the standard deviation of the shares in use, in percent: 50 to 100. A node without one of the two is in balance.
func balance(n *framework.Node, milliCPU, memory int64) int64 {
	if n.Allocatable.MilliCPU == 0 || n.Allocatable.Memory == 0 {
		return framework.MaxScore
	}
	share := func(used, have int64) float64 { return math.Min(1, float64(used)/float64(have)) }
	apart := share(milliCPU, n.Allocatable.MilliCPU) - share(memory, n.Allocatable.Memory)
	return int64((1 - math.Abs(apart/2)) * framework.MaxScore)
}
