package cm

import (
	"math"
	"strconv"

	v1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
)

// The kernel's numbers for cpu time.
const (
	MinShares     = 2      // the least weight, also of what asks for nothing
	MaxShares     = 262144 // the most
	SharesPerCPU  = 1024
	QuotaPeriod   = 100_000 // µs, upstream's default period
	minQuota      = 1_000   // µs
	maxV2Weight   = 10_000
	milliPerCPU   = 1000
	unlimitedCPUs = "max"
)

// Limits are what a cgroup is given. A nil field is left as the kernel made it.
type Limits struct {
	CPUShares *uint64 // in cgroup v1's scale, MinShares to MaxShares
	CPUQuota  *int64  // µs of cpu time per period; negative lifts the limit
	CPUPeriod *uint64 // µs
	Memory    *int64  // bytes; negative lifts the limit
	Pids      *int64
	HugePages map[string]int64 // page size as the kernel names it ("2MB") -> bytes
	// Unified are further files of memory's that only cgroup v2 has.
	Unified map[string]string
}

// MilliCPUToShares converts a cpu request to cgroup v1's weight.
func MilliCPUToShares(milli int64) uint64 {
	if milli == 0 {
		return MinShares
	}
	return uint64(min(max(milli*SharesPerCPU/milliPerCPU, MinShares), MaxShares))
}

// MilliCPUToQuota converts a cpu limit to µs of cpu time in each period; 0 means no limit.
func MilliCPUToQuota(milli, period int64) int64 {
	if milli == 0 {
		return 0
	}
	return max(milli*period/milliPerCPU, minQuota)
}

// weightOfShares is cgroup v2's weight for v1's shares, by the formula that runc uses since 1.3.2: the one that maps both ends
// and both defaults (1024 and 100) on each other.
func weightOfShares(shares uint64) uint64 {
	switch {
	case shares <= MinShares:
		return 1
	case shares >= MaxShares:
		return maxV2Weight
	}
	l := math.Log2(float64(shares))
	return uint64(math.Ceil(math.Pow(10, (l*l+125*l)/612-7.0/34)))
}

// PodLimits are the limits of a pod's own cgroup. A limit holds for the pod only when the pod itself or every one of its
// containers has it: one unlimited container makes the whole pod unlimited. Quotas are left out when enforceQuota is false.
func PodLimits(pod *v1.Pod, enforceQuota bool, period int64) Limits {
	class := QOS(pod)
	if class == v1.PodQOSBestEffort {
		return Limits{CPUShares: ptr(uint64(MinShares))}
	}
	requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	limits := resourcehelper.PodLimits(pod, resourcehelper.PodResourcesOptions{})
	cpuForAll, memoryForAll := true, true
	huge := map[string]int64{}
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			cpuForAll = cpuForAll && !list[i].Resources.Limits.Cpu().IsZero()
			memoryForAll = memoryForAll && !list[i].Resources.Limits.Memory().IsZero()
		}
	}
	if resourcehelper.IsPodLevelResourcesSet(pod) && pod.Spec.Resources != nil {
		cpuForAll = cpuForAll || !pod.Spec.Resources.Limits.Cpu().IsZero()
		memoryForAll = memoryForAll || !pod.Spec.Resources.Limits.Memory().IsZero()
	}
	for name, q := range limits {
		if size, ok := HugePageUnit(name); ok {
			huge[size] = q.Value()
		}
	}
	out := Limits{CPUShares: ptr(MilliCPUToShares(requests.Cpu().MilliValue())), HugePages: huge}
	if quota := MilliCPUToQuota(limits.Cpu().MilliValue(), period); cpuForAll && enforceQuota && quota != 0 {
		out.CPUQuota, out.CPUPeriod = &quota, ptr(uint64(period))
	}
	if m := limits.Memory().Value(); memoryForAll && m != 0 {
		out.Memory = &m
	}
	return out
}

// write is one value for one control file; controller names the hierarchy on v1.
type write struct{ controller, file, value string }

// writesV1 is what limits mean on cgroup v1.
func writesV1(l Limits) []write {
	var out []write
	if l.CPUShares != nil {
		out = append(out, write{"cpu", "cpu.shares", strconv.FormatUint(*l.CPUShares, 10)})
	}
	if l.CPUPeriod != nil {
		out = append(out, write{"cpu", "cpu.cfs_period_us", strconv.FormatUint(*l.CPUPeriod, 10)})
	}
	if l.CPUQuota != nil {
		out = append(out, write{"cpu", "cpu.cfs_quota_us", strconv.FormatInt(*l.CPUQuota, 10)})
	}
	if l.Memory != nil {
		out = append(out, write{"memory", "memory.limit_in_bytes", strconv.FormatInt(*l.Memory, 10)})
	}
	if l.Pids != nil {
		out = append(out, write{"pids", "pids.max", orMax(*l.Pids)})
	}
	for _, size := range sortedKeys(l.HugePages) {
		out = append(out, write{"hugetlb", "hugetlb." + size + ".limit_in_bytes", strconv.FormatInt(l.HugePages[size], 10)})
	}
	return out
}

// writesV2 is what limits mean on cgroup v2.
func writesV2(l Limits) []write {
	var out []write
	if l.CPUShares != nil {
		out = append(out, write{"cpu", "cpu.weight", strconv.FormatUint(weightOfShares(*l.CPUShares), 10)})
	}
	if l.CPUQuota != nil {
		period := uint64(QuotaPeriod)
		if l.CPUPeriod != nil {
			period = *l.CPUPeriod
		}
		quota := unlimitedCPUs
		if *l.CPUQuota > 0 {
			quota = strconv.FormatInt(*l.CPUQuota, 10)
		}
		out = append(out, write{"cpu", "cpu.max", quota + " " + strconv.FormatUint(period, 10)})
	}
	if l.Memory != nil {
		out = append(out, write{"memory", "memory.max", orMax(*l.Memory)})
	}
	if l.Pids != nil {
		out = append(out, write{"pids", "pids.max", orMax(*l.Pids)})
	}
	for _, size := range sortedKeys(l.HugePages) {
		out = append(out, write{"hugetlb", "hugetlb." + size + ".max", strconv.FormatInt(l.HugePages[size], 10)})
	}
	for _, file := range sortedKeys(l.Unified) {
		out = append(out, write{"memory", file, l.Unified[file]})
	}
	return out
}

func orMax(n int64) string {
	if n < 0 {
		return "max"
	}
	return strconv.FormatInt(n, 10)
}

func ptr[T any](v T) *T { return &v }
