package stats

import (
	"math"
	"path/filepath"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"podo.dev/podo/internal/host"
)

// cgroup reads what the kernel knows of pods and the runtime does not report: how much of them is swapped out and, on cgroup v2,
// their pressure. On v1 dir is in the memory hierarchy. An empty dir yields nothing.
type cgroup struct {
	files host.Files
	dir   string
	v2    bool
}

// cgroupOf is a pod's; that of all pods together for nil.
func (s *Source) cgroupOf(pod *v1.Pod) cgroup {
	dir, v2 := s.cfg.Cgroup(pod)
	return cgroup{s.cfg.Files, dir, v2}
}

// container is the cgroup of a container in the pod's. Each runtime has its own way of putting the id into the name.
func (c cgroup) container(id string) cgroup {
	if c.dir != "" {
		names, _ := c.files.ReadDir(c.dir) // a cgroup that is gone has no children
		for _, name := range names {
			if strings.Contains(name, id) {
				return cgroup{c.files, filepath.Join(c.dir, name), c.v2}
			}
		}
	}
	return cgroup{}
}

// add fills in what the runtime left out.
func (c cgroup) add(cpu *v1alpha1.CPUStats, memory *v1alpha1.MemoryStats, swap **v1alpha1.SwapStats, io **v1alpha1.IOStats, now metav1.Time) {
	if c.dir == "" {
		return
	}
	if *swap == nil {
		*swap = c.swap(now)
	}
	if !c.v2 { // v1 has no pressure
		return
	}
	if cpu != nil && cpu.PSI == nil {
		cpu.PSI = pressureIn(c.files, filepath.Join(c.dir, "cpu.pressure"))
	}
	if memory != nil && memory.PSI == nil {
		memory.PSI = pressureIn(c.files, filepath.Join(c.dir, "memory.pressure"))
	}
	if io == nil || *io != nil {
		return
	}
	if p := pressureIn(c.files, filepath.Join(c.dir, "io.pressure")); p != nil {
		*io = &v1alpha1.IOStats{Time: now, PSI: p}
	}
}

// unlimited is the value from which on a limit counts as none, as upstream has it.
const unlimited = 1 << 62

// swap is the swap in use and what is still available. Where the kernel does not account swap, both are 0, as upstream has it;
// nil when the cgroup is gone.
func (c cgroup) swap(now metav1.Time) *v1alpha1.SwapStats {
	limit := "memory.memsw.limit_in_bytes" // it limits memory and swap together; upstream reports it as the swap's
	var used uint64
	if c.v2 {
		limit = "memory.swap.max"
		if _, ok := c.number("memory.current"); !ok {
			return nil
		}
		used, _ = c.number("memory.swap.current")
	} else {
		counts, err := c.counts()
		if err != nil {
			return nil
		}
		used = counts["total_swap"]
	}
	out := &v1alpha1.SwapStats{Time: now, SwapUsageBytes: &used}
	if most, _ := c.number(limit); most <= unlimited {
		free := most - min(used, most)
		out.SwapAvailableBytes = &free
	}
	return out
}

// memory fills in what the kernel counts of a cgroup's memory besides the working set, and what is available where there is a
// limit.
func (c cgroup) memory(out *v1alpha1.MemoryStats) {
	if c.dir == "" {
		return
	}
	usage, limit, rss, faults, major := "memory.usage_in_bytes", "memory.limit_in_bytes", "total_rss", "total_pgfault", "total_pgmajfault"
	if c.v2 {
		usage, limit, rss, faults, major = "memory.current", "memory.max", "anon", "pgfault", "pgmajfault"
	}
	if n, ok := c.number(usage); ok {
		out.UsageBytes = &n
	}
	if most, ok := c.number(limit); ok && most <= unlimited && out.WorkingSetBytes != nil {
		free := most - min(*out.WorkingSetBytes, most)
		out.AvailableBytes = &free
	}
	counts, _ := c.counts() // empty for a cgroup that is gone
	for name, to := range map[string]**uint64{rss: &out.RSSBytes, faults: &out.PageFaults, major: &out.MajorPageFaults} {
		if n, ok := counts[name]; ok {
			*to = &n
		}
	}
}

// counts is memory.stat.
func (c cgroup) counts() (map[string]uint64, error) {
	text, err := c.files.ReadFile(filepath.Join(c.dir, "memory.stat"))
	if err != nil {
		return nil, err
	}
	out := map[string]uint64{}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 2 {
			out[f[0]], _ = strconv.ParseUint(f[1], 10, 64)
		}
	}
	return out, nil
}

// number reads a file with one number; "max" is the largest.
func (c cgroup) number(name string) (uint64, bool) {
	text, err := c.files.ReadFile(filepath.Join(c.dir, name))
	if err != nil {
		return 0, false
	}
	if strings.TrimSpace(string(text)) == "max" {
		return math.MaxUint64, true
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	return n, err == nil
}
