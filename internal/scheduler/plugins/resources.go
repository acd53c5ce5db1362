package plugins

import (
	"math"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"podo.dev/podo/internal/scheduler/framework"
	"podo.dev/podo/internal/timeline"
)

// NodeResourcesFit keeps pods off nodes that have less left than they ask for, and prefers those with most left (LeastAllocated,
// cpu and memory weighing the same).
type NodeResourcesFit struct {
	Strategy Strategy
	// Ignored are extended resources that extenders look after; nil: none.
	Ignored func(v1.ResourceName) bool
}

// Strategy is how NodeResourcesFit ranks nodes by their use of some resources.
type Strategy struct {
	// Score maps the use of a resource in percent, the pod's own included, to 0..100. nil: the share that would be left.
	Score func(used int64) int64
	// Beyond is the score of a resource of which more is asked for than the node has.
	Beyond int64
	// LeaveOutZero leaves resources that score nothing out of the mean, which is then rounded.
	LeaveOutZero bool
	Resources    []Resource // default: cpu and memory with equal weight
}

// Resource is a resource with its weight among others.
type Resource struct {
	Name   v1.ResourceName
	Weight int64
}

var cpuAndMemory = []Resource{{v1.ResourceCPU, 1}, {v1.ResourceMemory, 1}}

func (NodeResourcesFit) Name() string   { return "NodeResourcesFit" }
func (NodeResourcesFit) Static() bool   { return false }
func (NodeResourcesFit) Absolute() bool { return true }

// The resources that are short, as bits: the rejections for all combinations of the four common ones are made once.
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
func (f NodeResourcesFit) Filter(s *framework.Shape, n *framework.Node) *framework.Rejection {
	bits, beyond := 0, 0
	if n.Count+1 > n.MaxPods {
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
		if f.Ignored != nil && f.Ignored(x.Name) {
			continue
		}
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

// Nearer tells whether a lacks less than b: of each the resource that lacks the largest share of the request is compared.
func (f NodeResourcesFit) Nearer(s *framework.Shape, a, b *framework.Node) bool {
	return f.lacks(s, a) < f.lacks(s, b)
}

func (f NodeResourcesFit) lacks(s *framework.Shape, n *framework.Node) (most float64) {
	add := func(want, have, used int64) {
		if want > 0 {
			most = max(most, float64(want-(have-used))/float64(want))
		}
	}
	add(1, n.MaxPods, n.Count)
	add(s.Requests.MilliCPU, n.Allocatable.MilliCPU, n.Used.MilliCPU)
	add(s.Requests.Memory, n.Allocatable.Memory, n.Used.Memory)
	add(s.Requests.Ephemeral, n.Allocatable.Ephemeral, n.Used.Ephemeral)
	for _, x := range s.Requests.Scalars {
		if f.Ignored == nil || !f.Ignored(x.Name) {
			add(x.Value, n.Allocatable.Get(x.Name), n.Used.Get(x.Name))
		}
	}
	return most
}

// Explain tells asked and free of everything that is short.
func (NodeResourcesFit) Explain(s *framework.Shape, n *framework.Node) []timeline.Field {
	var r timeline.Record
	if n.Count+1 > n.MaxPods {
		r = r.With("pods", n.Count).With("max", n.MaxPods)
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

func (NodeResourcesFit) Skip(*framework.Shape) bool { return false }
func (NodeResourcesFit) Normalize([]int64)          {}

// Raw is the mean over the resources. A resource that the node lacks does not count, nor does an extended one that the pod does
// not ask for.
func (f NodeResourcesFit) Raw(s *framework.Shape, n *framework.Node) int64 {
	var sum, weight int64
	resources := f.Strategy.Resources
	if resources == nil {
		resources = cpuAndMemory
	}
	for _, r := range resources {
		want, have, used := amounts(r.Name, s, n)
		if have == 0 {
			continue
		}
		var score int64
		switch used += want; {
		case used > have:
			score = f.Strategy.Beyond
		case f.Strategy.Score == nil:
			score = (have - used) * framework.MaxScore / have
		default:
			score = f.Strategy.Score(used * framework.MaxScore / have)
		}
		if score == 0 && f.Strategy.LeaveOutZero {
			continue
		}
		sum += score * r.Weight
		weight += r.Weight
	}
	switch {
	case weight == 0:
		return 0
	case f.Strategy.LeaveOutZero:
		return int64(math.Round(float64(sum) / float64(weight)))
	}
	return sum / weight
}

// amounts are the figures for scores. have is 0 for a resource that does not count.
func amounts(name v1.ResourceName, s *framework.Shape, n *framework.Node) (want, have, used int64) {
	switch name {
	case v1.ResourceCPU:
		return s.ScoreCPU, n.Allocatable.MilliCPU, n.UsedCPU
	case v1.ResourceMemory:
		return s.ScoreMemory, n.Allocatable.Memory, n.UsedMemory
	case v1.ResourceEphemeralStorage:
		return s.Requests.Ephemeral, n.Allocatable.Ephemeral, n.Used.Ephemeral
	}
	if want = s.Requests.Get(name); want == 0 {
		return 0, 0, 0
	}
	return want, n.Allocatable.Get(name), n.Used.Get(name)
}

// BalancedAllocation prefers nodes whose cpu and memory would be used in similar shares: what counts is whether the pod improves
// the balance.
type BalancedAllocation struct {
	Resources []v1.ResourceName // default: cpu and memory
}

func (BalancedAllocation) Name() string      { return "NodeResourcesBalancedAllocation" }
func (BalancedAllocation) Static() bool      { return false }
func (BalancedAllocation) Absolute() bool    { return true }
func (BalancedAllocation) Normalize([]int64) {}

// Skip leaves out pods that ask for none of the resources: they would all go to one node.
func (b BalancedAllocation) Skip(s *framework.Shape) bool {
	for _, name := range b.resources() {
		if asked(name, s) != 0 {
			return false
		}
	}
	return true
}

func (b BalancedAllocation) resources() []v1.ResourceName {
	if b.Resources == nil {
		return []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory}
	}
	return b.Resources
}

func asked(name v1.ResourceName, s *framework.Shape) int64 {
	switch name {
	case v1.ResourceCPU:
		return s.Requests.MilliCPU
	case v1.ResourceMemory:
		return s.Requests.Memory
	case v1.ResourceEphemeralStorage:
		return s.Requests.Ephemeral
	}
	return s.Requests.Get(name)
}

// Raw is about 75 when the pod changes nothing, up to 100 when it evens the shares out, and down to 50 when it makes them differ.
func (b BalancedAllocation) Raw(s *framework.Shape, n *framework.Node) int64 {
	if b.Resources == nil { // nearly always
		after := balance(n, s.Requests.MilliCPU+n.Used.MilliCPU, s.Requests.Memory+n.Used.Memory)
		before := balance(n, n.Used.MilliCPU, n.Used.Memory)
		return framework.MaxScore/2 + (framework.MaxScore/2+after-before)/2
	}
	var after, before []float64
	share := func(used, have int64) float64 { return math.Min(1, float64(used)/float64(have)) }
	for _, name := range b.Resources {
		_, have, used := amounts(name, s, n)
		switch name {
		case v1.ResourceCPU:
			used = n.Used.MilliCPU
		case v1.ResourceMemory:
			used = n.Used.Memory
		}
		if have > 0 {
			after, before = append(after, share(used+asked(name, s), have)), append(before, share(used, have))
		}
	}
	return framework.MaxScore/2 + (framework.MaxScore/2+evenness(after)-evenness(before))/2
}

// evenness is 100 minus the standard deviation of shares, in percent.
func evenness(shares []float64) int64 {
	if len(shares) < 2 {
		return framework.MaxScore
	}
	if len(shares) == 2 {
		return int64((1 - math.Abs((shares[0]-shares[1])/2)) * framework.MaxScore)
	}
	var mean, sum float64
	for _, x := range shares {
		mean += x / float64(len(shares))
	}
	for _, x := range shares {
		sum += (x - mean) * (x - mean)
	}
	return int64((1 - math.Sqrt(sum/float64(len(shares)))) * framework.MaxScore)
}

// balance is evenness for cpu and memory, without allocating. A node without one of the two is in balance.
func balance(n *framework.Node, milliCPU, memory int64) int64 {
	if n.Allocatable.MilliCPU == 0 || n.Allocatable.Memory == 0 {
		return framework.MaxScore
	}
	share := func(used, have int64) float64 { return math.Min(1, float64(used)/float64(have)) }
	apart := share(milliCPU, n.Allocatable.MilliCPU) - share(memory, n.Allocatable.Memory)
	return int64((1 - math.Abs(apart/2)) * framework.MaxScore)
}
