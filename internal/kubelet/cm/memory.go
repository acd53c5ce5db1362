package cm

import (
	"strconv"

	v1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
)

const pageSize = 4096

// ThrottleAt is the memory.high of a cgroup, the usage from which its processes are slowed down until the limit kills them. It
// lies between request and limit by factor, in whole pages; 0 means none.
func ThrottleAt(request, limit int64, factor float64) int64 {
	if limit == 0 || request == limit && request != 0 {
		return 0
	}
	if high := int64((float64(request)+float64(limit-request)*factor)/pageSize) * pageSize; high > request {
		return high
	}
	return 0
}

// throttle is the memory.high of a pod that has resources of its own; it slows down those of its containers that have no limit.
func throttle(pod *v1.Pod, l Limits, factor float64) map[string]string {
	if !resourcehelper.IsPodLevelResourcesSet(pod) || l.Memory == nil {
		return nil
	}
	request := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	high := ThrottleAt(request.Memory().Value(), *l.Memory, factor)
	if high == 0 {
		return nil
	}
	return map[string]string{"memory.high": strconv.FormatInt(high, 10)}
}

// Swaps tells whether a container may swap under swapBehavior LimitedSwap: one of a burstable pod whose memory request is above
// zero and below its limit.
func Swaps(pod *v1.Pod, c *v1.Container, critical bool) bool {
	request, limit := c.Resources.Requests.Memory(), c.Resources.Limits.Memory()
	return !critical && QOS(pod) == v1.PodQOSBurstable && !(request.IsZero() && limit.IsZero()) && request.Cmp(*limit) != 0
}
