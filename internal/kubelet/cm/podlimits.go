package cm

import (
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
)

// Wanted are the limits of a pod's own cgroup, as this node sets them.
func (m *Manager) Wanted(pod *v1.Pod) Limits {
	l := PodLimits(pod, !m.c.NoCPUQuota, m.period)
	if m.c.PodPidsLimit > 0 {
		l.Pids = &m.c.PodPidsLimit
	}
	for _, size := range m.c.PageSizes { // none, unless asked for
		if _, ok := l.HugePages[size]; !ok {
			if l.HugePages == nil {
				l.HugePages = map[string]int64{}
			}
			l.HugePages[size] = 0
		}
	}
	if m.c.ThrottlingFactor != nil {
		l.Unified = throttle(pod, l, *m.c.ThrottlingFactor)
	}
	return l
}

func (m *Manager) podPath(pod *v1.Pod) string {
	return m.c.Driver.Path(podName(m.root, QOS(pod), pod.UID))
}

// SetLimits sets those limits of a pod's cgroup that are given.
func (m *Manager) SetLimits(pod *v1.Pod, l Limits) error {
	began := time.Now()
	err := m.set(m.podPath(pod), l)
	m.operated("update", began)
	if err != nil {
		return err
	}
	if l.CPUShares == nil {
		return nil
	}
	return m.count(pod)
}

// count counts a burstable pod's request into the weight of its class.
func (m *Manager) count(pod *v1.Pod) error {
	if QOS(pod) != v1.PodQOSBurstable {
		return nil
	}
	requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	return m.weigh(func() { m.requests[pod.UID] = requests.Cpu().MilliValue() })
}

// Limits are the limits of cpu and memory that a pod's cgroup has; a negative one is none.
func (m *Manager) Limits(pod *v1.Pod) (Limits, error) {
	p := m.podPath(pod)
	read := func(controller, file string) (string, error) {
		b, err := m.c.Host.ReadFile(path.Join(m.layout.dir(controller, p), file))
		return strings.TrimSpace(string(b)), err
	}
	if m.layout.V2 {
		return limitsV2(read)
	}
	return limitsV1(read)
}

type readControl = func(controller, file string) (string, error)

func limitsV1(read readControl) (Limits, error) {
	shares, err := number(read, "cpu", "cpu.shares")
	if err != nil {
		return Limits{}, err
	}
	quota, err := number(read, "cpu", "cpu.cfs_quota_us")
	if err != nil {
		return Limits{}, err
	}
	period, err := number(read, "cpu", "cpu.cfs_period_us")
	if err != nil {
		return Limits{}, err
	}
	memory, err := number(read, "memory", "memory.limit_in_bytes")
	return Limits{CPUShares: ptr(uint64(shares)), CPUQuota: &quota, CPUPeriod: ptr(uint64(period)), Memory: &memory}, err
}

func limitsV2(read readControl) (Limits, error) {
	weight, err := number(read, "cpu", "cpu.weight")
	if err != nil {
		return Limits{}, err
	}
	text, err := read("cpu", "cpu.max")
	if err != nil {
		return Limits{}, err
	}
	quota, period, _ := strings.Cut(text, " ")
	q, err := parse("cpu.max", quota)
	if err != nil {
		return Limits{}, err
	}
	p, err := parse("cpu.max", period)
	if err != nil {
		return Limits{}, err
	}
	memory, err := number(read, "memory", "memory.max")
	return Limits{CPUShares: ptr(sharesOfWeight(uint64(weight))), CPUQuota: &q, CPUPeriod: ptr(uint64(p)), Memory: &memory}, err
}

func number(read readControl, controller, file string) (int64, error) {
	s, err := read(controller, file)
	if err != nil {
		return 0, err
	}
	return parse(file, s)
}

// parse reads a number of a control file; "max" is none, as a negative one.
func parse(file, s string) (int64, error) {
	if s == "max" {
		return -1, nil
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s says %q, which is no number", file, s)
	}
	return n, nil
}

// sharesOfWeight is the smallest number of shares that maps to a weight, so that what is read back never compares as more than
// what was written.
func sharesOfWeight(weight uint64) uint64 {
	lo, hi := uint64(MinShares), uint64(MaxShares)
	for lo < hi {
		mid := (lo + hi) / 2
		if weightOfShares(mid) < weight {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// Processes is how many processes a pod has.
func (m *Manager) Processes(pod *v1.Pod) (int64, error) {
	b, err := m.c.Host.ReadFile(path.Join(m.layout.dir("pids", m.podPath(pod)), "pids.current"))
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
}

// MemoryUsage is what a pod uses, file pages included, in bytes.
func (m *Manager) MemoryUsage(pod *v1.Pod) (uint64, error) {
	file := "memory.usage_in_bytes"
	if m.layout.V2 {
		file = "memory.current"
	}
	b, err := m.c.Host.ReadFile(path.Join(m.layout.dir("memory", m.podPath(pod)), file))
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64)
}
