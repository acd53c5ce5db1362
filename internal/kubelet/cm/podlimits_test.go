package cm

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"podo.dev/podo/internal/host/fake"
)

// What was set is what is read, and a resize that is half way is left as it is.
func TestLimitsOfAPod(t *testing.T) {
	for name, tc := range map[string]struct {
		host   func(*testing.T) *fake.Host
		usage  string
		weight bool // shares are kept as weights, which are coarser
	}{
		"v1": {v1Host, "/sys/fs/cgroup/memory/podo/kubepods/podu/memory.usage_in_bytes", false},
		"v2": {v2Host, "/sys/fs/cgroup/podo/kubepods/podu/memory.current", true},
	} {
		t.Run(name, func(t *testing.T) {
			h := tc.host(t)
			m := manager(t, h, "")
			p := pod("u", container("a", list("cpu", "500m", "memory", "1Gi"), list("cpu", "500m", "memory", "1Gi")))
			if _, err := m.Ensure(context.Background(), p, true); err != nil {
				t.Fatal(err)
			}
			check := func(quota, memory int64, shares uint64) {
				t.Helper()
				l, err := m.Limits(p)
				if err != nil {
					t.Fatal(err)
				}
				if tc.weight {
					shares = sharesOfWeight(weightOfShares(shares))
				}
				if *l.CPUQuota != quota || *l.CPUPeriod != QuotaPeriod || *l.Memory != memory || *l.CPUShares != shares {
					t.Errorf("quota %d of %d, memory %d, shares %d", *l.CPUQuota, *l.CPUPeriod, *l.Memory, *l.CPUShares)
				}
			}
			check(50_000, 1<<30, 512)
			bigger := p.DeepCopy()
			bigger.Spec.Containers[0].Resources.Limits[v1.ResourceMemory] = list("memory", "2Gi")[v1.ResourceMemory]
			bigger.Status.QOSClass = v1.PodQOSGuaranteed
			if _, err := m.Ensure(context.Background(), bigger, true); err != nil {
				t.Fatal(err)
			}
			check(50_000, 1<<30, 512)
			if err := m.SetLimits(bigger, Limits{Memory: m.Wanted(bigger).Memory}); err != nil {
				t.Fatal(err)
			}
			check(50_000, 2<<30, 512)
			put(t, h, tc.usage, "12345\n")
			if n, err := m.MemoryUsage(p); n != 12345 || err != nil {
				t.Errorf("usage %d, %v", n, err)
			}
		})
	}
}

func TestWeightsAndBack(t *testing.T) {
	for _, shares := range []uint64{MinShares, 3, 102, 512, 1024, 2048, 50_000, MaxShares} {
		if w := weightOfShares(shares); weightOfShares(sharesOfWeight(w)) != w || sharesOfWeight(w) > shares {
			t.Errorf("%d shares are weight %d, which is %d shares", shares, w, sharesOfWeight(w))
		}
	}
}

// Huge pages that a pod does not ask for it does not get, and what it may use of memory before it is slowed down lies between its
// request and its limit.
func TestWanted(t *testing.T) {
	h := v2Host(t)
	factor := 0.5
	m, err := New(Config{Host: h, Root: "/podo", PageSizes: []string{"2MB", "1GB"}, ThrottlingFactor: &factor, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	p := pod("u", container("a", list("memory", "1Gi"), list("memory", "3Gi", "hugepages-2Mi", "4Mi")))
	l := m.Wanted(p)
	if l.HugePages["2MB"] != 4<<20 || len(l.HugePages) != 2 || l.HugePages["1GB"] != 0 || l.Unified != nil {
		t.Errorf("%+v", l)
	}
	p.Spec.Resources = &v1.ResourceRequirements{Requests: list("memory", "1Gi"), Limits: list("memory", "3Gi")}
	if l = m.Wanted(p); l.Unified["memory.high"] != "2147483648" {
		t.Errorf("%+v", l.Unified)
	}
	if n := m.Wanted(pod("v", container("a", nil, nil))).HugePages; len(n) != 2 {
		t.Errorf("one that asks for nothing: %v", n)
	}
}

// What is reserved is enforced on cgroups that others made, and on no others.
func TestEnforce(t *testing.T) {
	for name, make := range map[string]func(*testing.T) *fake.Host{"v1": v1Host, "v2": v2Host} {
		t.Run(name, func(t *testing.T) {
			h := make(t)
			m := manager(t, h, "")
			var told []string
			tell := func(s string) { told = append(told, s) }
			system := SystemShare("/system", list("cpu", "500m", "memory", "1Gi", "pid", "1000"), false)
			if err := m.Enforce([]Share{system}, tell); err == nil || !strings.Contains(err.Error(), `Failed to enforce System Reserved Cgroup Limits on "/system": cgroup "/system" has some missing paths: `) {
				t.Errorf("a cgroup that is not there: %v", err)
			}
			dirs := m.layout.dirs("/system")
			for _, d := range append(dirs, m.layout.dirs("/kube")...) {
				if _, err := h.MakeCgroup(d); err != nil {
					t.Fatal(err)
				}
			}
			if err := m.Enforce([]Share{system, KubeShare("/kube", list("cpu", "1", "memory", "1Gi"), true)}, tell); err != nil {
				t.Fatal(err)
			}
			memory, file := m.layout.dir("memory", "/system"), "memory.limit_in_bytes"
			if m.layout.V2 {
				file = "memory.max"
				want(t, h, memory+"/memory.min", "1073741824")
			} else {
				want(t, h, m.layout.dir("cpu", "/system")+"/cpu.shares", "512")
				want(t, h, m.layout.dir("cpu", "/kube")+"/cpu.shares", "1024")
			}
			want(t, h, memory+"/"+file, "1073741824")
			want(t, h, m.layout.dir("pids", "/system")+"/pids.max", "1000")
			if b, err := h.ReadFile(m.layout.dir("memory", "/kube") + "/" + file); err == nil && strings.TrimSpace(string(b)) == "1073741824" {
				t.Error("memory was limited although only what can be taken back is enforced")
			}
			if len(told) != 2 || told[1] != "Updated limits on kube reserved cgroup /kube" {
				t.Errorf("told %q", told)
			}
		})
	}
}

// What is done with cgroups is told by what it is; what changes nothing is not.
func TestOperationsAreTold(t *testing.T) {
	var told []string
	m, err := New(Config{
		Host: v1Host(t), Root: "/podo", Pods: list("cpu", "2"), Logger: quiet,
		Operated: func(operation string, took time.Duration) {
			if took < 0 {
				t.Errorf("%s took %s", operation, took)
			}
			told = append(told, operation)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	p := pod("u1", container("a", list("cpu", "500m"), nil))
	best := pod("u2", container("a", nil, nil))
	for _, p := range []*v1.Pod{p, best} {
		if _, err := m.Ensure(t.Context(), p, false); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.SetLimits(p, Limits{Memory: ptr(int64(1 << 30))}); err != nil {
		t.Fatal(err)
	}
	for _, p := range []*v1.Pod{best, p} {
		if err := m.Remove(t.Context(), p.UID); err != nil {
			t.Fatal(err)
		}
	}
	// The weight of the class is written for the burstable pod, within what is done for it.
	want := []string{"update", "create", "create", "update", "destroy", "update", "destroy"}
	if !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
}
