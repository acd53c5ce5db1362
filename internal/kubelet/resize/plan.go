// Package resize changes the limits of a running pod: those of the pod's cgroup and of its containers, in an order that the
// kernel accepts at every step.
package resize

import (
	"math"

	v1 "k8s.io/api/core/v1"

	"podo.dev/podo/internal/kubelet/cm"
	"podo.dev/podo/internal/podlife"
)

// step is one thing to do: of the pod's cgroup, or of the container of a change.
type step struct {
	cgroup cm.Limits
	change *podlife.Change
	to     v1.ResourceRequirements // what the container has once it is done
}

// plan orders a resize. The containers of a pod never have more than the pod: the pod grows before its containers and shrinks
// after them, and containers that shrink go first. Memory comes before cpu, since a change of memory may be refused. A limit that
// want does not have stays as it is, since no number stands for the kernel's own.
func plan(now, want cm.Limits, changes []podlife.Change) []step {
	var out []step
	pod := func(l cm.Limits) { out = append(out, step{cgroup: l}) }
	memory := cm.Limits{Memory: want.Memory}
	if grows(now.Memory, want.Memory) {
		pod(memory)
	}
	out = append(out, containers(changes, v1.ResourceMemory)...)
	if grows(want.Memory, now.Memory) {
		pod(memory)
	}
	quota, shares := cm.Limits{CPUQuota: want.CPUQuota, CPUPeriod: want.CPUPeriod}, cm.Limits{CPUShares: want.CPUShares}
	if grows(now.CPUQuota, want.CPUQuota) {
		pod(quota)
	}
	if moreShares(now.CPUShares, want.CPUShares) {
		pod(shares)
	}
	out = append(out, containers(changes, v1.ResourceCPU)...)
	if moreShares(want.CPUShares, now.CPUShares) {
		pod(shares)
	}
	if grows(want.CPUQuota, now.CPUQuota) {
		pod(quota)
	}
	return out
}

// grows tells whether a limit becomes larger; a negative one means no limit, nil unknown.
func grows(from, to *int64) bool {
	return from != nil && to != nil && bound(*from) < bound(*to)
}

func bound(n int64) int64 {
	if n < 0 {
		return math.MaxInt64
	}
	return n
}

func moreShares(from, to *uint64) bool { return from != nil && to != nil && *from < *to }

// containers are the steps for one resource, those that shrink first. A container that is said to have its resources already gets
// them once more, since that may be outdated.
func containers(changes []podlife.Change, name v1.ResourceName) []step {
	var less, more []step
	for i := range changes {
		c := &changes[i]
		from, to := c.From.Limits[name], c.To.Limits[name]
		if from.Cmp(to) == 0 {
			from, to = c.From.Requests[name], c.To.Requests[name]
		}
		s := step{change: c, to: c.To}
		if name == v1.ResourceMemory {
			s.to = but(c.To, v1.ResourceCPU, c.From)
		}
		switch c := from.Cmp(to); {
		case c > 0:
			less = append(less, s)
		case c < 0, name == v1.ResourceCPU && same(s.change, v1.ResourceMemory):
			more = append(more, s)
		}
	}
	return append(less, more...)
}

func same(c *podlife.Change, name v1.ResourceName) bool {
	from, to := c.From.Limits[name], c.To.Limits[name]
	was, is := c.From.Requests[name], c.To.Requests[name]
	return from.Cmp(to) == 0 && was.Cmp(is) == 0
}

// but is r with other's request and limit of one resource.
func but(r v1.ResourceRequirements, name v1.ResourceName, other v1.ResourceRequirements) v1.ResourceRequirements {
	out := *r.DeepCopy()
	set := func(list *v1.ResourceList, from v1.ResourceList) {
		delete(*list, name)
		if q, ok := from[name]; ok {
			if *list == nil {
				*list = v1.ResourceList{}
			}
			(*list)[name] = q
		}
	}
	set(&out.Requests, other.Requests)
	set(&out.Limits, other.Limits)
	return out
}
