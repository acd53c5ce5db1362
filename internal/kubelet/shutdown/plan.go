package shutdown

import (
	"cmp"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubelet/config/v1beta1"
)

// Group is one turn of a shutdown: pods from this priority on, up to the next group's, have so long to end.
type Group struct {
	Priority int32
	Period   time.Duration
}

const systemCritical = 2_000_000_000

// Groups are a configuration's, the lowest priority first; none when the node's shutdown is not waited for.
func Groups(c *v1beta1.KubeletConfiguration) []Group {
	var out []Group
	for _, g := range c.ShutdownGracePeriodByPodPriority {
		out = append(out, Group{g.Priority, time.Duration(g.ShutdownGracePeriodSeconds) * time.Second})
	}
	if all, critical := c.ShutdownGracePeriod.Duration, c.ShutdownGracePeriodCriticalPods.Duration; len(out) == 0 && all > 0 {
		out = []Group{{0, all - critical}, {systemCritical, critical}}
	}
	slices.SortFunc(out, func(a, b Group) int { return cmp.Compare(a.Priority, b.Priority) })
	return out
}

// whole is how long a shutdown takes at most.
func whole(groups []Group) (sum time.Duration) {
	for _, g := range groups {
		sum += g.Period
	}
	return sum
}

// turns are the pods of each group. Pods below the lowest priority go with the lowest group.
func turns(groups []Group, pods []*v1.Pod) [][]*v1.Pod {
	out := make([][]*v1.Pod, len(groups))
	for _, p := range pods {
		var priority int32
		if p.Spec.Priority != nil {
			priority = *p.Spec.Priority
		}
		i := len(groups) - 1
		for i > 0 && groups[i].Priority > priority {
			i--
		}
		out[i] = append(out[i], p)
	}
	return out
}

// grace is the pod's own grace period, when its group has more time than that.
func grace(p *v1.Pod, g Group) time.Duration {
	if own := p.Spec.TerminationGracePeriodSeconds; own != nil {
		return min(g.Period, time.Duration(*own)*time.Second)
	}
	return g.Period
}
