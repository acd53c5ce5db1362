package stats

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"podo.dev/podo/internal/host"
	"podo.dev/podo/internal/kubelet/disk"
)

// ticksPerSecond is the unit of /proc/stat, the same on all Linux machines that matter.
const ticksPerSecond = 100

// node measures the machine.
func (s *Source) node(ctx context.Context, brief bool) (v1alpha1.NodeStats, error) {
	now := metav1.NewTime(s.cfg.Now())
	out := v1alpha1.NodeStats{NodeName: s.cfg.Node}
	if err := s.processors(&out, now); err != nil {
		return out, err
	}
	if err := s.memory(&out, now); err != nil {
		return out, err
	}
	out.SystemContainers = s.system(now, brief)
	if brief {
		return out, nil
	}
	out.Network = s.network(now)
	if fs, err := disk.Of(s.cfg.DataDir); err == nil {
		out.Fs = fsStats(fs, now)
	}
	out.Runtime = s.images(ctx, now)
	out.Rlimit = s.processes(now)
	if p := s.pressure("io"); p != nil {
		out.IO = &v1alpha1.IOStats{Time: now, PSI: p}
	}
	return out, nil
}

func (s *Source) processors(out *v1alpha1.NodeStats, now metav1.Time) error {
	stat, err := s.cfg.Files.ReadFile("/proc/stat")
	if err != nil {
		return fmt.Errorf("measure the cpus: %w", err)
	}
	for line := range strings.Lines(string(stat)) {
		f := strings.Fields(line)
		switch {
		case len(f) > 5 && f[0] == "cpu":
			var busy uint64
			for i, v := range f[1:min(len(f), 9)] {
				if n, err := strconv.ParseUint(v, 10, 64); err == nil && i != 3 && i != 4 { // neither idle nor waiting for disks
					busy += n
				}
			}
			busy *= uint64(time.Second) / ticksPerSecond
			out.CPU = &v1alpha1.CPUStats{Time: now, UsageCoreNanoSeconds: &busy, PSI: s.pressure("cpu")}
			s.loads.fill("the machine", out.CPU)
		case len(f) == 2 && f[0] == "btime":
			if n, err := strconv.ParseInt(f[1], 10, 64); err == nil {
				out.StartTime = metav1.NewTime(time.Unix(n, 0))
			}
		}
	}
	return nil
}

func (s *Source) memory(out *v1alpha1.NodeStats, now metav1.Time) error {
	kb, err := s.meminfo()
	if err != nil {
		return fmt.Errorf("measure the memory: %w", err)
	}
	usage, available := (kb["MemTotal"]-kb["MemFree"])<<10, kb["MemAvailable"]<<10
	working, rss := (kb["MemTotal"]-kb["MemAvailable"])<<10, kb["AnonPages"]<<10
	out.Memory = &v1alpha1.MemoryStats{
		Time: now, UsageBytes: &usage, AvailableBytes: &available, WorkingSetBytes: &working, RSSBytes: &rss, PSI: s.pressure("memory"),
	}
	for _, f := range []struct {
		name string
		to   **uint64
	}{{"pgfault", &out.Memory.PageFaults}, {"pgmajfault", &out.Memory.MajorPageFaults}} {
		if n, ok := s.vmstat(f.name); ok {
			*f.to = &n
		}
	}
	used, free := (kb["SwapTotal"]-kb["SwapFree"])<<10, kb["SwapFree"]<<10
	out.Swap = &v1alpha1.SwapStats{Time: now, SwapUsageBytes: &used, SwapAvailableBytes: &free}
	return nil
}

// meminfo is /proc/meminfo, in kB.
func (s *Source) meminfo() (map[string]uint64, error) {
	text, err := s.cfg.Files.ReadFile("/proc/meminfo")
	if err != nil {
		return nil, err
	}
	kb := map[string]uint64{}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) >= 2 {
			kb[strings.TrimSuffix(f[0], ":")], _ = strconv.ParseUint(f[1], 10, 64)
		}
	}
	return kb, nil
}

func (s *Source) vmstat(name string) (uint64, bool) {
	text, err := s.cfg.Files.ReadFile("/proc/vmstat")
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == name {
			n, err := strconv.ParseUint(f[1], 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}

// pressure is how long tasks of the machine waited for a resource; nil where the kernel does not tell.
func (s *Source) pressure(resource string) *v1alpha1.PSIStats {
	return pressureIn(s.cfg.Files, "/proc/pressure/"+resource)
}

// pressureIn reads a file of that kind.
func pressureIn(files host.Files, path string) *v1alpha1.PSIStats {
	text, err := files.ReadFile(path)
	if err != nil || len(text) == 0 { // a kernel that does not account pressure fails or returns nothing
		return nil
	}
	out := &v1alpha1.PSIStats{}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line) // some avg10=0.00 avg60=0.00 avg300=0.00 total=0
		if len(f) == 0 {
			continue
		}
		d := &out.Some
		if f[0] == "full" {
			d = &out.Full
		}
		for _, v := range f[1:] {
			name, text, _ := strings.Cut(v, "=")
			n, _ := strconv.ParseFloat(text, 64)
			switch name {
			case "avg10":
				d.Avg10 = n
			case "avg60":
				d.Avg60 = n
			case "avg300":
				d.Avg300 = n
			case "total":
				d.Total = uint64(n) * uint64(time.Microsecond)
			}
		}
	}
	return out
}

// network is what went over the machine's own interfaces: neither loopback nor those of pods.
func (s *Source) network(now metav1.Time) *v1alpha1.NetworkStats {
	text, err := s.cfg.Files.ReadFile("/proc/net/dev")
	if err != nil {
		return nil
	}
	out := &v1alpha1.NetworkStats{Time: now}
	for line := range strings.Lines(string(text)) {
		name, figures, ok := strings.Cut(line, ":")
		name = strings.TrimSpace(name)
		f := strings.Fields(figures)
		if !ok || len(f) < 16 || name == "lo" || strings.HasPrefix(name, "veth") {
			continue
		}
		n := func(i int) *uint64 {
			v, _ := strconv.ParseUint(f[i], 10, 64)
			return &v
		}
		i := v1alpha1.InterfaceStats{Name: name, RxBytes: n(0), RxErrors: n(2), TxBytes: n(8), TxErrors: n(10)}
		out.Interfaces = append(out.Interfaces, i)
		if name == "eth0" || out.Name == "" { // as upstream: eth0 stands for the machine, where it has one
			out.InterfaceStats = i
		}
	}
	return out
}

// images are the file systems of the runtime's images and of containers' writable layers, which are one here.
func (s *Source) images(ctx context.Context, now metav1.Time) *v1alpha1.RuntimeStats {
	info, err := s.cfg.Runtime.ImageFsInfo(ctx)
	if err != nil || len(info.GetImageFilesystems()) == 0 {
		return nil
	}
	fs, err := disk.Of(s.imageDir(ctx))
	if err != nil {
		return nil
	}
	of := func() *v1alpha1.FsStats {
		out := fsStats(fs, now)
		out.UsedBytes, out.InodesUsed = value(info.ImageFilesystems[0].UsedBytes), value(info.ImageFilesystems[0].InodesUsed)
		return out
	}
	return &v1alpha1.RuntimeStats{ImageFs: of(), ContainerFs: of()}
}

// processes are how many tasks there are and may be.
func (s *Source) processes(now metav1.Time) *v1alpha1.RlimitStats {
	load, err := s.cfg.Files.ReadFile("/proc/loadavg")
	most, merr := s.cfg.Files.ReadFile("/proc/sys/kernel/pid_max")
	f := strings.Fields(string(load)) // 0.01 0.02 0.03 2/345 6789
	if err != nil || merr != nil || len(f) < 4 {
		return nil
	}
	_, total, _ := strings.Cut(f[3], "/")
	running, err := strconv.ParseInt(total, 10, 64)
	limit, merr := strconv.ParseInt(strings.TrimSpace(string(most)), 10, 64)
	if err != nil || merr != nil {
		return nil
	}
	return &v1alpha1.RlimitStats{Time: now, NumOfRunningProcesses: &running, MaxPID: &limit}
}

// system are the parts of the machine that belong to no single pod: this process, which has no cgroup of its own, and all pods
// together.
func (s *Source) system(now metav1.Time, brief bool) []v1alpha1.ContainerStats {
	var out []v1alpha1.ContainerStats
	if c, ok := s.self(now); ok {
		out = append(out, c)
	}
	if cpu, memory, ok := s.cfg.Pods(); ok {
		c := v1alpha1.ContainerStats{
			Name: v1alpha1.SystemContainerPods, StartTime: metav1.NewTime(s.started),
			CPU: &v1alpha1.CPUStats{Time: now, UsageCoreNanoSeconds: &cpu}, Memory: &v1alpha1.MemoryStats{Time: now, WorkingSetBytes: &memory},
		}
		s.loads.fill("all pods", c.CPU)
		all := s.cgroupOf(nil)
		all.memory(c.Memory)
		all.add(c.CPU, c.Memory, &c.Swap, either(brief, nil, &c.IO), now)
		out = append(out, c)
	}
	return out
}

func (s *Source) self(now metav1.Time) (v1alpha1.ContainerStats, bool) {
	stat, err := s.cfg.Files.ReadFile("/proc/self/stat")
	f := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:])) // after the program's name in parentheses, which may hold anything
	if err != nil || len(f) < 22 {
		return v1alpha1.ContainerStats{}, false
	}
	n := func(i int) uint64 {
		v, _ := strconv.ParseUint(f[i], 10, 64)
		return v
	}
	const pageSize = 4096
	busy, resident := (n(11)+n(12))*uint64(time.Second)/ticksPerSecond, n(21)*pageSize
	faults, major := n(7), n(9)
	c := v1alpha1.ContainerStats{
		Name: v1alpha1.SystemContainerKubelet, StartTime: metav1.NewTime(s.started), CPU: &v1alpha1.CPUStats{Time: now, UsageCoreNanoSeconds: &busy},
		Memory: &v1alpha1.MemoryStats{Time: now, WorkingSetBytes: &resident, RSSBytes: &resident, PageFaults: &faults, MajorPageFaults: &major},
	}
	s.loads.fill("the kubelet", c.CPU)
	return c, true
}
