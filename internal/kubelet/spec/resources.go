package spec

import (
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"podo.dev/podo/internal/kubelet/cm"
	"podo.dev/podo/internal/kubelet/eviction"
	"podo.dev/podo/internal/podlife"
)

// Resources are the limits of a container, as the runtime is told when it is created or resized.
func (b *Builder) Resources(pod *v1.Pod, c *v1.Container) *runtimev1.LinuxContainerResources {
	var request *resource.Quantity
	if q, ok := c.Resources.Requests[v1.ResourceCPU]; ok {
		request = &q
	}
	out := b.limits(request, limitOf(pod, c, v1.ResourceCPU), limitOf(pod, c, v1.ResourceMemory))
	out.OomScoreAdj = oomScore(pod, c, b.c.Machine.Memory)
	var ofPod v1.ResourceList
	if resourcehelper.IsPodLevelResourcesSet(pod) {
		ofPod = pod.Spec.Resources.Limits
	}
	for _, size := range b.c.Machine.PageSizes() {
		l := &runtimev1.HugepageLimit{PageSize: size}                         // none, unless asked for
		for _, limits := range []v1.ResourceList{ofPod, c.Resources.Limits} { // the container's own limit wins
			for name, q := range limits {
				if unit, ok := cm.HugePageUnit(name); ok && unit == size {
					l.Limit = uint64(q.Value())
				}
			}
		}
		out.HugepageLimits = append(out.HugepageLimits, l)
	}
	b.swap(out, pod, c)
	b.throttle(out, pod, c)
	return out
}

// throttle sets the memory usage from which a container is slowed down (cgroup v2 only). Without one it is written as unlimited,
// since a resized container may have had one.
func (b *Builder) throttle(out *runtimev1.LinuxContainerResources, pod *v1.Pod, c *v1.Container) {
	if !b.c.CgroupV2 {
		return
	}
	set := func(file string, n int64) {
		if out.Unified == nil {
			out.Unified = map[string]string{}
		}
		out.Unified[file] = strconv.FormatInt(n, 10)
	}
	set("memory.min", 0)
	set("memory.low", 0)
	request, limit := c.Resources.Requests.Memory().Value(), c.Resources.Limits.Memory().Value()
	if b.c.ThrottlingFactor == nil || request == limit && request != 0 {
		return
	}
	if limit == 0 {
		if r := pod.Spec.Resources; r != nil && !r.Limits.Memory().IsZero() {
			return // the pod's own cgroup slows it down
		}
		allocatable := b.c.Facts().Allocatable
		limit = allocatable.Memory().Value()
	}
	if high := cm.ThrottleAt(request, limit, *b.c.ThrottlingFactor); high != 0 {
		set("memory.high", high)
	}
}

// limitOf is a container's limit, or the pod's own where the container has none.
func limitOf(pod *v1.Pod, c *v1.Container, name v1.ResourceName) *resource.Quantity {
	q := c.Resources.Limits[name]
	if q.IsZero() && resourcehelper.IsPodLevelResourcesSet(pod) {
		q = pod.Spec.Resources.Limits[name]
	}
	return &q
}

// limits translates quantities. A cpu request that is not there is the limit.
func (b *Builder) limits(cpuRequest, cpuLimit, memory *resource.Quantity) *runtimev1.LinuxContainerResources {
	if cpuRequest == nil {
		cpuRequest = cpuLimit
	}
	out := &runtimev1.LinuxContainerResources{
		CpuShares: int64(cm.MilliCPUToShares(cpuRequest.MilliValue())), MemoryLimitInBytes: memory.Value(),
	}
	if !b.c.NoCPUQuota {
		out.CpuPeriod, out.CpuQuota = b.period, cm.MilliCPUToQuota(cpuLimit.MilliValue(), b.period)
	}
	if b.c.CgroupV2 && !b.c.SingleProcessOOMKill {
		out.Unified = map[string]string{"memory.oom.group": "1"}
	}
	return out
}

// swap gives a container that may swap its share of the node's, by its share of the node's memory.
func (b *Builder) swap(r *runtimev1.LinuxContainerResources, pod *v1.Pod, c *v1.Container) {
	request := c.Resources.Requests.Memory().Value()
	if !b.c.LimitedSwap || !b.c.CgroupV2 || request > b.c.Machine.Memory || !cm.Swaps(pod, c, eviction.Critical(pod)) {
		b.swapMost(r, 0)
		return
	}
	b.swapMost(r, int64(float64(request)/float64(b.c.Machine.Memory)*float64(b.c.Machine.Swap)))
}

// swapMost bounds what a container swaps, where the kernel can: v1 counts memory and swap together, v2 swap alone.
func (b *Builder) swapMost(r *runtimev1.LinuxContainerResources, bytes int64) {
	switch {
	case !b.c.SwapLimited:
	case !b.c.CgroupV2:
		r.MemorySwapLimitInBytes = r.MemoryLimitInBytes
	default:
		if r.Unified == nil {
			r.Unified = map[string]string{}
		}
		r.Unified["memory.swap.max"] = strconv.FormatInt(bytes, 10)
	}
}

// The kernel kills by score when memory runs out: the highest first.
const (
	guaranteedScore = -997
	bestEffortScore = 1000
	scoreScale      = 1000
)

// oomScore protects containers that use what they asked for: a Burstable container's score falls as its share of the node's
// memory grows, so that those that use more than they asked for are killed first.
func oomScore(pod *v1.Pod, c *v1.Container, capacity int64) int64 {
	if isNodeCritical(pod) {
		return guaranteedScore
	}
	switch cm.QOS(pod) {
	case v1.PodQOSGuaranteed:
		return guaranteedScore
	case v1.PodQOSBestEffort:
		return bestEffortScore
	}
	score := scoreScale - scoreScale*fairRequest(pod, c)/capacity
	// A sidecar is never killed before the containers that it serves.
	if isInit(pod, c) && isSidecar(c) {
		least := int64(-1)
		for i := range pod.Spec.Containers {
			if r := pod.Spec.Containers[i].Resources.Requests.Memory().Value(); least < 0 || r < least {
				least = r
			}
		}
		share := fairRequest(pod, c) - c.Resources.Requests.Memory().Value()
		score = min(score, scoreScale-scoreScale*(max(least, 0)+share)/capacity)
	}
	return min(max(score, scoreScale+guaranteedScore), bestEffortScore-1)
}

// fairRequest is what a container asked for, and its share of what the pod asked for beyond its containers.
func fairRequest(pod *v1.Pod, c *v1.Container) int64 {
	own := c.Resources.Requests.Memory().Value()
	if !resourcehelper.IsPodLevelRequestsSet(pod) || len(pod.Spec.Containers) == 0 {
		return own
	}
	sum, n := int64(0), int64(len(pod.Spec.Containers))
	for i := range pod.Spec.Containers {
		sum += pod.Spec.Containers[i].Resources.Requests.Memory().Value()
	}
	for i := range pod.Spec.InitContainers {
		if isSidecar(&pod.Spec.InitContainers[i]) {
			sum, n = sum+pod.Spec.InitContainers[i].Resources.Requests.Memory().Value(), n+1
		}
	}
	return own + max(pod.Spec.Resources.Requests.Memory().Value()-sum, 0)/n
}

func isInit(pod *v1.Pod, c *v1.Container) bool {
	for i := range pod.Spec.InitContainers {
		if pod.Spec.InitContainers[i].Name == c.Name {
			return true
		}
	}
	return false
}

// isNodeCritical tells whether a pod is one that the node cannot work without.
func isNodeCritical(pod *v1.Pod) bool {
	const systemCritical = 2_000_000_000
	high := pod.Spec.Priority != nil && *pod.Spec.Priority >= systemCritical
	return (podlife.Static(pod) || high) && pod.Spec.PriorityClassName == "system-node-critical"
}
