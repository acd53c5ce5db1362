package cm

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"podo.dev/podo/internal/host"
	"podo.dev/podo/internal/host/fake"
	"podo.dev/podo/internal/host/linux"
)

var quiet = slog.New(slog.DiscardHandler)

// v1Host is a machine with cgroup v1, hybrid: the unified hierarchy has hugetlb only.
func v1Host(t *testing.T) *fake.Host {
	t.Helper()
	h := fake.New(t.TempDir())
	for _, c := range []string{"cpu", "cpuacct", "cpuset", "memory", "pids", "devices"} {
		h.AddMount(host.Mount{Source: c, Target: "/sys/fs/cgroup/" + c, FSType: "cgroup", Options: []string{"rw", c}})
		put(t, h, "/sys/fs/cgroup/"+c+"/cgroup.procs", "")
	}
	put(t, h, "/sys/fs/cgroup/cpuset/cpuset.cpus", "0-1\n")
	put(t, h, "/sys/fs/cgroup/cpuset/cpuset.mems", "0\n")
	h.AddMount(host.Mount{Target: "/sys/fs/cgroup/unified", FSType: "cgroup2"})
	put(t, h, "/sys/fs/cgroup/unified/cgroup.controllers", "hugetlb\n")
	return h
}

// v2Host is a machine with cgroup v2.
func v2Host(t *testing.T) *fake.Host {
	t.Helper()
	h := fake.New(t.TempDir())
	h.AddMount(host.Mount{Target: "/sys/fs/cgroup", FSType: "cgroup2"})
	put(t, h, "/sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory pids rdma\n")
	return h
}

func put(t *testing.T, h *fake.Host, path, content string) {
	t.Helper()
	if err := h.WriteFile(path, content); err != nil {
		t.Fatal(err)
	}
}

func want(t *testing.T, h host.Files, path, content string) {
	t.Helper()
	b, err := h.ReadFile(path)
	if err != nil || strings.TrimSpace(string(b)) != content {
		t.Errorf("%s is %q, %v; want %q", path, b, err, content)
	}
}

func manager(t *testing.T, h host.Host, driver Driver) *Manager {
	t.Helper()
	m, err := New(Config{
		Host: h, Root: "/podo", Driver: driver, Pods: list("cpu", "2", "memory", "4Gi", "pid", "3000"), PodPidsLimit: 100, Logger: quiet,
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestV1(t *testing.T) {
	h := v1Host(t)
	m := manager(t, h, "")
	if m.Layout().V2 {
		t.Fatal("a hybrid host counts as v1")
	}
	want(t, h, "/sys/fs/cgroup/cpu/podo/kubepods/cpu.shares", "2048")
	want(t, h, "/sys/fs/cgroup/memory/podo/kubepods/memory.limit_in_bytes", "4294967296")
	want(t, h, "/sys/fs/cgroup/pids/podo/kubepods/pids.max", "3000")
	want(t, h, "/sys/fs/cgroup/cpu/podo/kubepods/besteffort/cpu.shares", "2")

	p := pod("u1", container("a", list("cpu", "500m"), nil))
	parent, err := m.Ensure(context.Background(), p, false)
	if err != nil || parent != "/podo/kubepods/burstable/podu1" {
		t.Fatalf("Ensure = %s, %v", parent, err)
	}
	want(t, h, "/sys/fs/cgroup/cpu/podo/kubepods/burstable/podu1/cpu.shares", "512")
	want(t, h, "/sys/fs/cgroup/cpuset/podo/kubepods/burstable/podu1/cpuset.cpus", "0-1")
	want(t, h, "/sys/fs/cgroup/cpuset/podo/kubepods/burstable/podu1/cpuset.mems", "0")
	want(t, h, "/sys/fs/cgroup/pids/podo/kubepods/burstable/podu1/pids.max", "100")
	want(t, h, "/sys/fs/cgroup/cpu/podo/kubepods/burstable/cpu.shares", "512")
	put(t, h, "/sys/fs/cgroup/pids/podo/kubepods/burstable/podu1/pids.current", "7\n")
	if n, err := m.Processes(p); n != 7 || err != nil {
		t.Errorf("%d processes, %v", n, err)
	}

	if _, err := m.Ensure(context.Background(), pod("u2", container("a", list("cpu", "1"), nil)), false); err != nil {
		t.Fatal(err)
	}
	want(t, h, "/sys/fs/cgroup/cpu/podo/kubepods/burstable/cpu.shares", "1536")

	// Another run adopts what is there, and its first new pod adds to the weight.
	m = manager(t, h, "")
	want(t, h, "/sys/fs/cgroup/cpu/podo/kubepods/burstable/cpu.shares", "1536")
	if uids, err := m.Pods(); err != nil || !slices.Equal(uids, []types.UID{"u1", "u2"}) {
		t.Errorf("Pods = %v, %v", uids, err)
	}

	// The runtime's cgroups below and beside, and a process that outlived its container, do not keep the pod's.
	put(t, h, "/sys/fs/cgroup/devices/podo/kubepods/burstable/podu1/abc/cgroup.procs", "4711\n")
	put(t, h, "/sys/fs/cgroup/cpu/podo/kubepods/burstable/podu1/abc/cgroup.procs", "4711\n")
	for range 2 {
		if err := m.Remove(context.Background(), "u1"); err != nil {
			t.Fatal(err)
		}
	}
	if got := h.Killed(); !slices.Equal(got, []int{4711}) {
		t.Errorf("killed %v, want 4711 once", got)
	}
	for _, c := range []string{"cpu", "memory", "devices", "cpuset"} {
		if _, err := os.Stat(h.Path("/sys/fs/cgroup/" + c + "/podo/kubepods/burstable/podu1")); !os.IsNotExist(err) {
			t.Errorf("the pod's cgroup is left in %s: %v", c, err)
		}
	}
	want(t, h, "/sys/fs/cgroup/cpu/podo/kubepods/burstable/cpu.shares", "1024")

	put(t, h, "/sys/fs/cgroup/cpu/other/cgroup.procs", "1\n")
	if err := m.Teardown(context.Background()); err != nil {
		t.Fatal(err)
	}
	if names, _ := h.ChildCgroups("/sys/fs/cgroup/cpu"); !slices.Equal(names, []string{"other"}) {
		t.Errorf("after Teardown the root has %v, want what is not ours only", names)
	}
}

func TestV2(t *testing.T) {
	h := v2Host(t)
	m := manager(t, h, Systemd)
	if !m.Layout().V2 || m.Layout().Has("hugetlb") || !m.Layout().Has("pids") {
		t.Fatalf("layout %+v", m.Layout())
	}
	parent, err := m.Ensure(context.Background(), pod("u-1", container("a", nil, list("cpu", "1", "memory", "1Gi"))), false)
	if err != nil || parent != "podo-kubepods-podu_1.slice" {
		t.Fatalf("Ensure = %s, %v", parent, err)
	}
	dir := "/sys/fs/cgroup/podo.slice/podo-kubepods.slice/podo-kubepods-podu_1.slice/"
	want(t, h, dir+"memory.max", "1073741824")
	want(t, h, dir+"cpu.max", "100000 100000")
	want(t, h, "/sys/fs/cgroup/cgroup.subtree_control", "+cpu +cpuset +memory +pids")
	want(t, h, "/sys/fs/cgroup/podo.slice/podo-kubepods.slice/cgroup.subtree_control", "+cpu +cpuset +memory +pids")
	if err := m.Remove(context.Background(), "u-1"); err != nil {
		t.Fatal(err)
	}
	if uids, err := m.Pods(); err != nil || len(uids) != 0 {
		t.Errorf("Pods = %v, %v; want none", uids, err)
	}
}

func TestMissingControllerIsNamed(t *testing.T) {
	h := fake.New(t.TempDir())
	h.AddMount(host.Mount{Target: "/sys/fs/cgroup/cpu", FSType: "cgroup", Options: []string{"cpu"}})
	_, err := New(Config{Host: h, Root: "/podo", Logger: quiet})
	if err == nil || !strings.Contains(err.Error(), `"memory" is not mounted`) {
		t.Errorf("New = %v", err)
	}
}

func TestFailedWriteIsTold(t *testing.T) {
	h := v1Host(t)
	m := manager(t, h, "")
	full := errors.New("no space")
	h.Fail("write", "/sys/fs/cgroup/cpu/podo/kubepods/besteffort/podu/cpu.shares", full)
	if _, err := m.Ensure(context.Background(), pod("u", container("a", nil, nil)), false); !errors.Is(err, full) {
		t.Errorf("Ensure = %v, want %v", err, full)
	}
}

// A kernel that does not take the pods' limit, since they use more, keeps nobody from beginning: it is tried again.
func TestPodsAreLimitedLater(t *testing.T) {
	h := v1Host(t)
	busy := errors.New("device or resource busy")
	h.Fail("write", "/sys/fs/cgroup/memory/podo/kubepods/memory.limit_in_bytes", busy)
	m := manager(t, h, "")
	want(t, h, "/sys/fs/cgroup/cpu/podo/kubepods/besteffort/cpu.shares", "2")
	if err := m.LimitPods(); !errors.Is(err, busy) || err.Error() != `Failed to update Node Allocatable Limits ["podo" "kubepods"]: `+errors.Unwrap(err).Error() {
		t.Errorf("LimitPods = %v", err)
	}
	h.Fail("write", "/sys/fs/cgroup/memory/podo/kubepods/memory.limit_in_bytes", nil)
	if err := m.LimitPods(); err != nil {
		t.Errorf("LimitPods = %v", err)
	}
	want(t, h, "/sys/fs/cgroup/memory/podo/kubepods/memory.limit_in_bytes", "4294967296")
	want(t, h, "/sys/fs/cgroup/pids/podo/kubepods/pids.max", "3000")
}

// Figures are where the kernel has them, by either driver.
func TestFigures(t *testing.T) {
	p := pod("u1", container("a", list("cpu", "1"), nil))
	for _, c := range []struct {
		of     *Manager
		v2     bool
		a, all string
	}{
		{manager(t, v1Host(t), ""), false, "/sys/fs/cgroup/memory/podo/kubepods/burstable/podu1", "/sys/fs/cgroup/memory/podo/kubepods"},
		{manager(t, v2Host(t), Systemd), true, "/sys/fs/cgroup/podo.slice/podo-kubepods.slice/podo-kubepods-burstable.slice/podo-kubepods-burstable-podu1.slice", "/sys/fs/cgroup/podo.slice/podo-kubepods.slice"},
	} {
		if dir, v2 := c.of.Figures(p); dir != c.a || v2 != c.v2 {
			t.Errorf("%s %v, want %s", dir, v2, c.a)
		}
		if dir, _ := c.of.Figures(nil); dir != c.all {
			t.Errorf("%s, want %s", dir, c.all)
		}
	}
}

// TestRealHost makes, fills and removes a pod's cgroup on the machine itself.
func TestRealHost(t *testing.T) {
	if os.Geteuid() != 0 {
		if os.Getenv("CI") != "" {
			t.Fatal("needs root, and CI runs as root")
		}
		t.Skip("needs root")
	}
	root := "/podo-cmtest-" + strconv.Itoa(os.Getpid())
	m, err := New(Config{Host: linux.New(), Root: root, Pods: list("memory", "1Gi"), PodPidsLimit: 50, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	t.Cleanup(func() {
		if err := m.Teardown(context.Background()); err != nil {
			t.Error(err)
		}
		for _, dir := range m.layout.allDirs(root) {
			if _, err := os.Stat(dir); !os.IsNotExist(err) {
				t.Errorf("%s is left", dir)
			}
		}
	})
	both := list("cpu", "100m", "memory", "64Mi")
	p := pod("u1", container("a", both, both))
	start := time.Now()
	if _, err := m.Ensure(ctx, p, false); err != nil {
		t.Fatal(err)
	}
	t.Logf("Ensure took %s", time.Since(start))
	name := podName(m.root, v1.PodQOSGuaranteed, "u1")
	if !m.layout.V2 {
		want(t, linux.New(), filepath.Join(m.layout.dir("memory", Cgroupfs.Path(name)), "memory.limit_in_bytes"), "67108864")
		want(t, linux.New(), filepath.Join(m.layout.dir("cpu", Cgroupfs.Path(name)), "cpu.cfs_quota_us"), "10000")
	}
	// A process in a cgroup below the pod's, as runc leaves one.
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	below := m.layout.dir("pids", Cgroupfs.Path(append(name, "container.with.dots")))
	if _, err := linux.New().MakeCgroup(below); err != nil {
		t.Fatal(err)
	}
	if err := linux.New().WriteControl(below, "cgroup.procs", fmt.Sprint(cmd.Process.Pid)); err != nil {
		t.Fatal(err)
	}
	start = time.Now()
	if err := m.Remove(ctx, "u1"); err != nil {
		t.Fatal(err)
	}
	t.Logf("Remove took %s", time.Since(start))
	select {
	case <-ended:
	case <-ctx.Done():
		t.Error("the process that outlived its pod was not ended")
	}
	if uids, err := m.Pods(); err != nil || len(uids) != 0 {
		t.Errorf("Pods = %v, %v; want none", uids, err)
	}
}

func TestReadMachine(t *testing.T) {
	h := fake.New(t.TempDir())
	put(t, h, "/sys/devices/system/cpu/online", "0-3,8,10-11\n")
	put(t, h, "/proc/meminfo", "MemFree: 1 kB\nMemTotal:       16384 kB\n")
	put(t, h, "/proc/sys/kernel/pid_max", "32768\n")
	put(t, h, "/proc/sys/kernel/threads-max", "4096\n")
	put(t, h, "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "3\n")
	put(t, h, "/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages", "0\n")
	m, err := ReadMachine(h)
	if err != nil {
		t.Fatal(err)
	}
	if m.CPUs != 7 || m.Memory != 16<<20 || m.HugePages["2MB"] != 6<<20 || !slices.Equal(m.PageSizes(), []string{"1GB", "2MB"}) {
		t.Errorf("machine %+v", m)
	}
	if q := m.Capacity()["hugepages-2Mi"]; q.Value() != 6<<20 {
		t.Errorf("capacity %v", m.Capacity())
	}
	reserved := Reserved{System: list("pid", "1k", "memory", "1Mi"), Kube: list("pid", "96")}
	if q := m.ForPods(m.Capacity(), reserved)[Processes]; q.Value() != 3000 {
		t.Errorf("%v processes of 4096 for pods, with 1096 reserved", q)
	}
	real, err := ReadMachine(linux.New())
	if err != nil || real.CPUs < 1 || real.Memory < 1<<26 {
		t.Errorf("this machine: %+v, %v", real, err)
	}
}
