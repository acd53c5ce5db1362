package stats

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"podo.dev/podo/internal/kubelet/labels"
)

type files map[string]string

func (f files) ReadFile(path string) ([]byte, error) {
	if s, ok := f[path]; ok {
		return []byte(s), nil
	}
	return nil, fs.ErrNotExist
}

func (f files) ReadDir(path string) ([]string, error) {
	var out []string
	for name := range f {
		if rest, ok := strings.CutPrefix(name, path+"/"); ok {
			first, _, _ := strings.Cut(rest, "/")
			out = append(out, first)
		}
	}
	if out == nil {
		return nil, fs.ErrNotExist
	}
	return out, nil
}

type fakeRuntime struct {
	fail  error
	cpu   uint64 // seconds that container b has used
	at    int64  // seconds at which it was measured
	mount string
	extra uint64 // nanoseconds
	// silent about what is swapped out, as containerd is; it tells how long containers waited for processors
	silent bool
}

func number(n uint64) *runtimev1.UInt64Value { return &runtimev1.UInt64Value{Value: n} }

func (f *fakeRuntime) ListContainers(_ context.Context, filter *runtimev1.ContainerFilter) ([]*runtimev1.Container, error) {
	if filter.LabelSelector[labels.Node] != "n" || filter.State.State != runtimev1.ContainerState_CONTAINER_RUNNING {
		return nil, errors.New("only this node's running containers")
	}
	of := func(id, pod, name string) *runtimev1.Container {
		return &runtimev1.Container{Id: id, PodSandboxId: "box-" + pod, CreatedAt: 5e9, Labels: map[string]string{
			labels.PodUID: "uid-" + pod, labels.PodName: pod, labels.PodNamespace: "ns", labels.ContainerName: name,
		}}
	}
	return []*runtimev1.Container{of("1", "q", "x"), of("2", "p", "b"), of("3", "p", "a")}, f.fail
}

func (f *fakeRuntime) ListPodSandboxStats(context.Context, *runtimev1.PodSandboxStatsFilter) ([]*runtimev1.PodSandboxStats, error) {
	of := func(id string, cpu, n uint64) *runtimev1.ContainerStats {
		v := number(n * 1e9)
		return &runtimev1.ContainerStats{
			Attributes:    &runtimev1.ContainerAttributes{Id: id},
			Cpu:           &runtimev1.CpuUsage{Timestamp: f.at * 1e9, UsageCoreNanoSeconds: number(cpu*1e9 + f.extra), UsageNanoCores: number(0)},
			Memory:        &runtimev1.MemoryUsage{Timestamp: 7e9, WorkingSetBytes: v, AvailableBytes: number(0)},
			WritableLayer: &runtimev1.FilesystemUsage{Timestamp: int64(n) - 2, UsedBytes: v, InodesUsed: number(n)}, // of b none yet
			Swap:          &runtimev1.SwapUsage{Timestamp: 7e9, SwapUsageBytes: number(n), SwapAvailableBytes: number(10)},
		}
	}
	if f.silent {
		full := of
		of = func(id string, cpu, n uint64) *runtimev1.ContainerStats {
			s := full(id, cpu, n)
			s.Swap, s.Cpu.Psi = nil, &runtimev1.PsiStats{Full: &runtimev1.PsiData{Total: 5e8}, Some: &runtimev1.PsiData{Total: 15e8}}
			return s
		}
	}
	return []*runtimev1.PodSandboxStats{{
		Attributes: &runtimev1.PodSandboxAttributes{Id: "box-p"},
		Linux: &runtimev1.LinuxPodSandboxStats{
			Cpu:    &runtimev1.CpuUsage{Timestamp: f.at * 1e9, UsageCoreNanoSeconds: number(6e9), Psi: &runtimev1.PsiStats{Full: &runtimev1.PsiData{Total: 3}, Some: &runtimev1.PsiData{Avg10: 1.5}}},
			Memory: &runtimev1.MemoryUsage{Timestamp: 7e9, WorkingSetBytes: number(6e9), AvailableBytes: number(1e9)},
			Network: &runtimev1.NetworkUsage{Timestamp: 7e9, DefaultInterface: &runtimev1.NetworkInterfaceUsage{
				Name: "eth0", RxBytes: number(1), TxBytes: number(2), RxErrors: number(3), TxErrors: number(4),
			}, Interfaces: []*runtimev1.NetworkInterfaceUsage{{Name: "eth0"}, {Name: "net1"}}},
			Process:    &runtimev1.ProcessUsage{ProcessCount: number(8)},
			Containers: []*runtimev1.ContainerStats{of("2", f.cpu, 2), of("3", 3, 3), of("9", 9, 9)}, // one is not ours
		},
	}}, nil // pod q has no numbers yet
}

func (f *fakeRuntime) ImageFsInfo(context.Context) (*runtimev1.ImageFsInfoResponse, error) {
	return &runtimev1.ImageFsInfoResponse{ImageFilesystems: []*runtimev1.FilesystemUsage{{
		FsId: &runtimev1.FilesystemIdentifier{Mountpoint: f.mount}, UsedBytes: number(77), InodesUsed: number(7),
	}}}, nil
}

func (f *fakeRuntime) ListMetricDescriptors(context.Context) ([]*runtimev1.MetricDescriptor, error) {
	return []*runtimev1.MetricDescriptor{
		{Name: "container_threads", Help: "h", LabelKeys: []string{"id", "pod"}}, {Name: exact, Help: "h", LabelKeys: []string{"pod", "id"}},
	}, f.fail
}

func (f *fakeRuntime) ListPodSandboxMetrics(context.Context) ([]*runtimev1.PodSandboxMetrics, error) {
	m := func(name string, labels ...string) *runtimev1.Metric {
		return &runtimev1.Metric{Name: name, MetricType: runtimev1.MetricType_GAUGE, Value: number(4), LabelValues: labels}
	}
	return []*runtimev1.PodSandboxMetrics{{
		Metrics: []*runtimev1.Metric{m("container_threads", "box", "p"), m("unknown"), m("container_threads", "too few")},
		ContainerMetrics: []*runtimev1.ContainerMetrics{{Metrics: []*runtimev1.Metric{
			m("container_threads", "2", "p"), m(exact, "p", "2"), m(exact, "p", "other"),
		}}},
	}}, nil
}

func source(t *testing.T, rt *fakeRuntime) *Source {
	t.Helper()
	root := t.TempDir()
	rt.mount = root
	for path, size := range map[string]int{"volumes/kubernetes.io~empty-dir/scratch/f": 1 << 20, "volumes/kubernetes.io~configmap/cm/f": 10, "logs/a/0.log": 2 << 20} {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s, err := New(Config{
		Node: "n", Runtime: rt, DataDir: root,
		Files: files{
			"/proc/stat":                "cpu  100 20 30 4000 500 6 7 8 9 10\ncpu0 1 1 1 1 1 1\ncpu1 1 1 1 1 1 1\nbtime 1000\n",
			"/proc/meminfo":             "MemTotal: 100 kB\nMemFree: 10 kB\nMemAvailable: 40 kB\nAnonPages: 5 kB\nSwapTotal: 9 kB\nSwapFree: 6 kB\n",
			"/proc/vmstat":              "pgfault 12\npgmajfault 3\n",
			"/proc/loadavg":             "0.01 0.02 0.03 2/345 6789\n",
			"/proc/sys/kernel/pid_max":  "4194304\n",
			"/proc/net/dev":             "Inter-| Receive\n face |bytes\n lo: 1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0\nens1: 9 1 0 0 0 0 0 0 9 1 0 0 0 0 0 0\n eth0: 100 1 2 0 0 0 0 0 200 1 3 0 0 0 0 0\nveth1: 5 1 0 0 0 0 0 0 5 1 0 0 0 0 0 0\n",
			"/proc/pressure/io":         "some avg10=0.50 avg60=0.25 avg300=0.10 total=42\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n",
			"/proc/self/stat":           "42 (po) do) S 1 42 42 0 -1 4194560 11 0 22 0 150 50 0 0 20 0 9 0 100 1000 25 18446744073709551615\n",
			"/proc/sys/kernel/some/oth": "",
			"/proc/cpuinfo":             "processor : 0\nphysical id\t: 0\ncore id\t\t: 0\nprocessor : 1\nphysical id\t: 0\ncore id\t\t: 1\n",
		},
		Pod: func(_, name string) *v1.Pod {
			at := metav1.NewTime(time.Unix(3, 0))
			return &v1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", UID: "uid-p"}, Status: v1.PodStatus{StartTime: &at},
				Spec: v1.PodSpec{Volumes: []v1.Volume{
					{Name: "scratch", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}},
					{Name: "cm", VolumeSource: v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{}}},
				}},
			}
		},
		Volumes: func(types.UID) string { return filepath.Join(root, "volumes") },
		Logs:    func(string, string, types.UID) string { return filepath.Join(root, "logs") },
		Now:     func() time.Time { return time.Unix(rt.at, 0) },
		Pods:    func() (uint64, uint64, bool) { return 5, 6, true },
		Machine: Machine{MachineID: "m", SystemUUID: "s", BootID: "b"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func summary(t *testing.T, s *Source, query string) v1alpha1.Summary {
	t.Helper()
	w := httptest.NewRecorder()
	s.ServeSummary(w, httptest.NewRequest("GET", "/stats/summary"+query, nil))
	var got v1alpha1.Summary
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != 200 {
		t.Fatalf("%d %s %v", w.Code, w.Body, err)
	}
	return got
}

func TestTheMachine(t *testing.T) {
	n := summary(t, source(t, &fakeRuntime{at: 7}), "").Node
	if *n.CPU.UsageCoreNanoSeconds != 1710e6 || *n.Memory.WorkingSetBytes != 60<<10 || *n.Memory.UsageBytes != 90<<10 || n.StartTime.Unix() != 1000 ||
		*n.Memory.RSSBytes != 5<<10 || *n.Memory.PageFaults != 12 || *n.Memory.MajorPageFaults != 3 || *n.Swap.SwapUsageBytes != 3<<10 {
		t.Errorf("%+v", n)
	}
	if *n.Fs.CapacityBytes == 0 || *n.Runtime.ImageFs.UsedBytes != 77 || *n.Runtime.ContainerFs.InodesUsed != 7 || *n.Runtime.ImageFs.CapacityBytes == 0 {
		t.Errorf("%+v %+v", n.Fs, n.Runtime)
	}
	if n.Network.Name != "eth0" || *n.Network.TxErrors != 3 || len(n.Network.Interfaces) != 2 {
		t.Errorf("%+v", n.Network)
	}
	if *n.Rlimit.NumOfRunningProcesses != 345 || *n.Rlimit.MaxPID != 4194304 || n.IO.PSI.Some.Total != 42000 || n.IO.PSI.Some.Avg10 != 0.5 || n.IO.PSI.Full.Total != 7000 {
		t.Errorf("%+v %+v", n.Rlimit, n.IO)
	}
	self, all := n.SystemContainers[0], n.SystemContainers[1]
	if self.Name != "kubelet" || *self.CPU.UsageCoreNanoSeconds != 2e9 || *self.Memory.RSSBytes != 25*4096 || *self.Memory.MajorPageFaults != 22 ||
		all.Name != "pods" || *all.Memory.WorkingSetBytes != 6 {
		t.Errorf("%+v", n.SystemContainers)
	}
}

func TestPods(t *testing.T) {
	rt := &fakeRuntime{cpu: 2, at: 7}
	s := source(t, rt)
	got := summary(t, s, "")
	if len(got.Pods) != 2 {
		t.Fatalf("%+v", got.Pods)
	}
	p, q := got.Pods[0], got.Pods[1]
	a, b := p.Containers[0], p.Containers[1]
	if p.PodRef.Name != "p" || a.Name != "a" || p.StartTime.Unix() != 3 || *p.CPU.UsageCoreNanoSeconds != 6e9 || *p.Memory.AvailableBytes != 1e9 ||
		p.CPU.PSI.Full.Total != 3 || *p.ProcessStats.ProcessCount != 8 || p.Network.Name != "eth0" || *p.Network.Interfaces[0].TxErrors != 4 || len(p.Network.Interfaces) != 2 {
		t.Errorf("%+v", p)
	}
	if *a.Rootfs.UsedBytes != 3e9 || *a.Rootfs.CapacityBytes == 0 || b.Rootfs != nil || a.Memory.AvailableBytes != nil || *a.Logs.UsedBytes < 2<<20 || *a.Swap.SwapUsageBytes != 3 {
		t.Errorf("%+v %+v", a, b)
	}
	if len(p.VolumeStats) != 2 || *p.VolumeStats[1].UsedBytes < 1<<20 || p.VolumeStats[1].Name != "scratch" {
		t.Errorf("%+v", p.VolumeStats)
	}
	if used := *p.EphemeralStorage.UsedBytes; used < 3e9+3<<20 || used > 3e9+4<<20 {
		t.Errorf("%d bytes of the node's disk, want what the root file system, the log and the emptyDir take", used)
	}
	if q.PodRef.Name != "q" || q.CPU != nil || q.StartTime.Unix() != 5 {
		t.Errorf("%+v", q)
	}
	// The load is what was used between two requests, and stays between two that come at once.
	if b.CPU.UsageNanoCores != nil {
		t.Error("a load of nothing to compare with")
	}
	rt.cpu, rt.at = 7, 17
	for range 2 {
		if b := summary(t, s, "").Pods[0].Containers[1]; b.CPU.UsageNanoCores == nil || *b.CPU.UsageNanoCores != 5e8 {
			t.Errorf("%+v, want half a processor", b.CPU)
		}
	}
	brief := summary(t, s, "?only_cpu_and_memory=true")
	if p := brief.Pods[0]; p.CPU == nil || p.Network != nil || p.VolumeStats != nil || p.Containers[0].Logs != nil || brief.Node.Fs != nil || brief.Node.Memory == nil {
		t.Errorf("%+v", p)
	}
}

func TestAVolumeThatHangs(t *testing.T) {
	v := volumes{known: map[types.UID]*measured{}}
	hang, n := make(chan struct{}), 0
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // nobody waits
	for range 3 {
		if got := v.of(ctx, "u", time.Unix(100, 0), func() []v1alpha1.VolumeStats { <-hang; n++; return []v1alpha1.VolumeStats{{Name: "v"}} }); got != nil {
			t.Errorf("%v", got)
		}
	}
	close(hang)
	if got := v.of(t.Context(), "u", time.Unix(101, 0), nil); len(got) != 1 || n != 1 {
		t.Errorf("%v after %d walks, want one", got, n)
	}
}

func TestMetrics(t *testing.T) {
	scrape := func(rt *fakeRuntime, path string) string {
		w := httptest.NewRecorder()
		s := source(t, rt)
		h := s.Resource()
		if path == "cadvisor" {
			h = s.Containers()
		}
		h.ServeHTTP(w, httptest.NewRequest("GET", "/metrics/"+path, nil))
		return w.Body.String()
	}
	expect := func(got string, want ...string) {
		t.Helper()
		for _, w := range want {
			if !strings.Contains(got, w) {
				t.Errorf("%s is missing in\n%s", w, got)
			}
		}
	}
	expect(scrape(&fakeRuntime{cpu: 2, at: 7}, "resource"),
		`container_cpu_usage_seconds_total{container="a",namespace="ns",pod="p"} 3 7000`,
		`container_memory_working_set_bytes{container="b",namespace="ns",pod="p"} 2e+09 7000`,
		`container_start_time_seconds{container="x",namespace="ns",pod="q"} 5`,
		`container_swap_usage_bytes{container="a",namespace="ns",pod="p"} 3 7000`, `container_swap_limit_bytes{container="a",namespace="ns",pod="p"} 13 7000`,
		`pod_cpu_usage_seconds_total{namespace="ns",pod="p"} 6 7000`, `pod_swap_usage_bytes{namespace="ns",pod="p"} 5 7000`,
		`pod_memory_working_set_bytes{namespace="ns",pod="p"} 6e+09 7000`,
		"node_cpu_usage_seconds_total 1.71 ", "node_memory_working_set_bytes 61440 ", "node_swap_usage_bytes 3072 ", "\nresource_scrape_error 0",
	)
	if strings.Contains(scrape(&fakeRuntime{}, "resource"), "\nscrape_error") {
		t.Error("scrape_error is told, which upstream has hidden since 1.30")
	}
	expect(scrape(&fakeRuntime{fail: errors.New("away")}, "resource"), "resource_scrape_error 1")
	expect(scrape(&fakeRuntime{cpu: 2, extra: 5e8}, "cadvisor"), exact+`{id="2",pod="p"} 2.5`+"\n", exact+`{id="other",pod="p"} 4`, `container_threads{id="box",pod="p"} 4`, `container_threads{id="2",pod="p"} 4`,
		`machine_cpu_cores{boot_id="b",machine_id="m",system_uuid="s"} 2`, `machine_cpu_physical_cores{boot_id="b",machine_id="m",system_uuid="s"} 2`,
		`machine_cpu_sockets{boot_id="b",machine_id="m",system_uuid="s"} 1`, `machine_memory_bytes{boot_id="b",machine_id="m",system_uuid="s"} 102400`,
		`machine_swap_bytes{boot_id="b",machine_id="m",system_uuid="s"} 9216`, "machine_scrape_error 0", "container_scrape_error 0")
	expect(scrape(&fakeRuntime{fail: errors.New("away")}, "cadvisor"), "machine_cpu_cores{", "container_scrape_error 1")
	expect(scrape(&fakeRuntime{at: 7, silent: true}, "cadvisor"),
		`container_pressure_cpu_stalled_seconds_total{id="2",pod="p"} 0.5 7000`, `container_pressure_cpu_waiting_seconds_total{id="2",pod="p"} 1.5 7000`)
}

// What the runtime does not tell of pods and containers is read from their cgroups: what is swapped out, and on v2 how long they waited; of all
// pods together what the kernel counts of their memory.
func TestCgroups(t *testing.T) {
	const psi = "some avg10=1.00 avg60=0.00 avg300=0.00 total=2\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=1\n"
	v2 := files{
		"/pods/memory.stat": "anon 3\npgfault 4\npgmajfault 5\n", "/pods/memory.max": "9999999\n",
		"/pods/memory.current": "1\n", "/pods/memory.swap.current": "70\n", "/pods/memory.swap.max": "max\n", "/pods/cpu.pressure": psi,
		"/pod/memory.current": "1\n", "/pod/memory.swap.current": "60\n", "/pod/memory.swap.max": "100\n", "/pod/io.pressure": psi, "/pod/memory.pressure": psi,
		"/pod/cri-containerd-3.scope/memory.current": "1\n", "/pod/cri-containerd-3.scope/memory.swap.current": "9\n",
		"/pod/cri-containerd-3.scope/memory.swap.max": "10\n", "/pod/cri-containerd-3.scope/io.pressure": psi, "/pod/cri-containerd-3.scope/cpu.pressure": psi,
	}
	v1Files := files{
		"/pods/memory.stat":           "swap 1\ntotal_swap 70\nrss 1\ntotal_rss 3\ntotal_pgfault 4\ntotal_pgmajfault 5\n",
		"/pods/memory.usage_in_bytes": "1\n", "/pods/memory.limit_in_bytes": "9999999\n", "/pods/memory.memsw.limit_in_bytes": "9223372036854771712\n",
		"/pod/memory.stat": "total_swap 60\n", "/pod/memory.memsw.limit_in_bytes": "100\n", "/pod/io.pressure": psi,
		"/pod/3/memory.stat": "total_swap 9\n", "/pod/3/memory.memsw.limit_in_bytes": "10\n",
	}
	for name, c := range map[string]struct {
		tree files
		v2   bool
	}{"v2": {v2, true}, "v1": {v1Files, false}} {
		s := source(t, &fakeRuntime{cpu: 2, at: 7, silent: true})
		maps.Copy(s.cfg.Files.(files), c.tree)
		s.cfg.Cgroup = func(p *v1.Pod) (string, bool) {
			if p == nil {
				return "/pods", c.v2
			}
			return "/pod", c.v2
		}
		sum := summary(t, s, "")
		all, p, q := sum.Node.SystemContainers[1], sum.Pods[0], sum.Pods[1]
		a, b := p.Containers[0], p.Containers[1]
		if *all.Swap.SwapUsageBytes != 70 || all.Swap.SwapAvailableBytes != nil || *p.Swap.SwapUsageBytes != 60 || *p.Swap.SwapAvailableBytes != 40 ||
			*a.Swap.SwapUsageBytes != 9 || *a.Swap.SwapAvailableBytes != 1 || b.Swap != nil || q.Swap != nil {
			t.Errorf("%s: %+v %+v %+v %+v %+v", name, all.Swap, p.Swap, a.Swap, b.Swap, q.Swap)
		}
		if m := all.Memory; *m.UsageBytes != 1 || *m.RSSBytes != 3 || *m.PageFaults != 4 || *m.MajorPageFaults != 5 || *m.AvailableBytes+*m.WorkingSetBytes != 9999999 {
			t.Errorf("%s: all pods' memory %+v", name, m)
		}
		if c.v2 != (all.CPU.PSI != nil && p.IO != nil && p.Memory.PSI != nil && a.IO != nil) || c.v2 && (p.IO.PSI.Some.Total != 2000 || a.CPU.PSI.Full.Total != 5e8) {
			t.Errorf("%s: %+v %+v %+v", name, all.CPU, p.IO, a.IO)
		}
		if brief := summary(t, s, "?only_cpu_and_memory=true").Pods[0]; brief.IO != nil || brief.Swap == nil || brief.Containers[0].IO != nil {
			t.Errorf("%s: brief %+v", name, brief)
		}
	}
}
