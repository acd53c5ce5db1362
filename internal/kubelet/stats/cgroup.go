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

// cgroup is where the kernel tells of pods what the runtime does not: how much of them is swapped out, and on cgroup v2 how long they waited
// for a resource. On v1 it is the memory's hierarchy; without a dir there is none.
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

// container is that of a container in the pod's. Runtimes put the id into its name, each in a way of its own.
func (c cgroup) container(id string) cgroup {
	if c.dir != "" {
		names, _ := c.files.ReadDir(c.dir) // one that has gone has nothing to tell
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
	if !c.v2 { // whose cgroups know no pressure
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

// unlimited is from where on a limit is none, as upstream has it.
const unlimited = 1 << 62

// swap is what of the memory is swapped out, and how much more may be. A kernel that does not count it says nothing: then none is, as upstream
// has it. nil when the cgroup has gone.
func (c cgroup) swap(now metav1.Time) *v1alpha1.SwapStats {
	limit := "memory.memsw.limit_in_bytes" // which is of both together: upstream tells it as if it were the swap's
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

// memory fills in what the kernel counts of a cgroup's memory beside its working set; what may still be used, where there is a limit.
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
	counts, _ := c.counts() // of one that has gone there are none
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
