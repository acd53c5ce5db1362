package spec

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func TestUsers(t *testing.T) {
	n := newTest(t)
	type want struct {
		uid  int64 // -1: not set
		name string
		err  string
	}
	for _, tc := range []struct {
		image     string
		pod       *v1.PodSecurityContext
		container *v1.SecurityContext
		want      want
	}{
		{"numeric", nil, nil, want{uid: -1}},
		{"root", &v1.PodSecurityContext{RunAsUser: ptr(int64(5))}, nil, want{uid: 5}},
		{"root", &v1.PodSecurityContext{RunAsUser: ptr(int64(5))}, &v1.SecurityContext{RunAsUser: ptr(int64(6))}, want{uid: 6}},
		{"root", &v1.PodSecurityContext{RunAsGroup: ptr(int64(5))}, nil, want{uid: 0}},
		{"named", &v1.PodSecurityContext{RunAsGroup: ptr(int64(5))}, nil, want{uid: -1, name: "nobody"}},
		{"root", &v1.PodSecurityContext{SupplementalGroupsPolicy: ptr(v1.SupplementalGroupsPolicyStrict)}, nil, want{uid: 0}},
		{"named", &v1.PodSecurityContext{SupplementalGroupsPolicy: ptr(v1.SupplementalGroupsPolicyStrict)}, nil, want{uid: -1, name: "nobody"}},
		{"numeric", &v1.PodSecurityContext{SupplementalGroupsPolicy: ptr(v1.SupplementalGroupsPolicyMerge)}, nil, want{uid: -1}},
		{"numeric", &v1.PodSecurityContext{RunAsNonRoot: ptr(true)}, nil, want{uid: 1000}},
		{"root", &v1.PodSecurityContext{RunAsNonRoot: ptr(true)}, &v1.SecurityContext{RunAsNonRoot: ptr(false)}, want{uid: -1}},
		{
			"root", &v1.PodSecurityContext{RunAsNonRoot: ptr(true)}, &v1.SecurityContext{RunAsUser: ptr(int64(0))},
			want{err: `container's runAsUser breaks non-root policy (pod: "p_ns(u1)", container: a)`},
		},
		{
			"root", &v1.PodSecurityContext{RunAsNonRoot: ptr(true)}, nil,
			want{err: `container has runAsNonRoot and image will run as root (pod: "p_ns(u1)", container: a)`},
		},
		{
			"zero", nil, &v1.SecurityContext{RunAsNonRoot: ptr(true)},
			want{err: `container has runAsNonRoot and image will run as root (pod: "p_ns(u1)", container: a)`},
		},
		{
			"named", nil, &v1.SecurityContext{RunAsNonRoot: ptr(true)},
			want{err: `container has runAsNonRoot and image has non-numeric user (nobody), cannot verify user is non-root (pod: "p_ns(u1)", container: a)`},
		},
	} {
		p := testPod(func(p *v1.Pod) {
			p.Spec.SecurityContext, p.Spec.Containers[0].SecurityContext = tc.pod, tc.container
		})
		sc, err := n.security(t.Context(), p, &p.Spec.Containers[0], tc.image)
		if tc.want.err != "" || err != nil {
			if err == nil || err.Error() != tc.want.err {
				t.Errorf("%s: %v, want %s", tc.image, err, tc.want.err)
			}
			continue
		}
		uid := int64(-1)
		if sc.RunAsUser != nil {
			uid = sc.RunAsUser.Value
		}
		if uid != tc.want.uid || sc.RunAsUsername != tc.want.name {
			t.Errorf("%s %v %v: user %d %q, want %+v", tc.image, tc.pod, tc.container, uid, sc.RunAsUsername, tc.want)
		}
	}
}

func TestSecurity(t *testing.T) {
	n := newTest(t)
	if err := n.host.WriteFile("/sys/devices/system/cpu/cpu1/thermal_throttle/x", ""); err != nil {
		t.Fatal(err)
	}
	n = &testNode{Builder: must(New(n.c))}
	p := testPod()
	sc := n.must(t, p).Linux.SecurityContext
	if sc.Seccomp.ProfileType != runtimev1.SecurityProfile_Unconfined || sc.NoNewPrivs || sc.Privileged || sc.ReadonlyRootfs ||
		sc.Capabilities != nil || sc.Apparmor != nil || !slices.Contains(sc.MaskedPaths, "/proc/kcore") ||
		!slices.Contains(sc.MaskedPaths, "/sys/devices/system/cpu/cpu1/thermal_throttle") || !slices.Contains(sc.ReadonlyPaths, "/proc/sys") {
		t.Errorf("defaults %v", sc)
	}
	p.Spec.SecurityContext = &v1.PodSecurityContext{
		SeccompProfile:  &v1.SeccompProfile{Type: v1.SeccompProfileTypeRuntimeDefault},
		AppArmorProfile: &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeUnconfined}, FSGroup: ptr(int64(7)),
		SupplementalGroupsPolicy: ptr(v1.SupplementalGroupsPolicyStrict),
	}
	p.Spec.Containers[0].SecurityContext = &v1.SecurityContext{
		Privileged: ptr(true), ReadOnlyRootFilesystem: ptr(true), AllowPrivilegeEscalation: ptr(false), ProcMount: ptr(v1.UnmaskedProcMount),
		Capabilities:   &v1.Capabilities{Add: []v1.Capability{"NET_ADMIN"}, Drop: []v1.Capability{"ALL"}},
		SeccompProfile: &v1.SeccompProfile{Type: v1.SeccompProfileTypeLocalhost, LocalhostProfile: ptr("x.json")},
		SELinuxOptions: &v1.SELinuxOptions{Level: "s0"},
	}
	sc = n.must(t, p).Linux.SecurityContext
	if sc.Seccomp.LocalhostRef != "/seccomp/x.json" || sc.Apparmor.ProfileType != runtimev1.SecurityProfile_Unconfined || !sc.NoNewPrivs ||
		!sc.Privileged || !sc.ReadonlyRootfs || sc.MaskedPaths != nil || sc.ReadonlyPaths != nil || sc.SelinuxOptions.Level != "s0" ||
		!slices.Equal(sc.Capabilities.AddCapabilities, []string{"NET_ADMIN"}) || !slices.Equal(sc.Capabilities.DropCapabilities, []string{"ALL"}) ||
		!slices.Equal(sc.SupplementalGroups, []int64{7}) || sc.SupplementalGroupsPolicy != runtimev1.SupplementalGroupsPolicy_Strict {
		t.Errorf("set %v", sc)
	}
	p.Spec.Containers[0].SecurityContext = nil
	if sc := n.must(t, p).Linux.SecurityContext; sc.Seccomp.ProfileType != runtimev1.SecurityProfile_RuntimeDefault {
		t.Errorf("the pod's profile: %v", sc.Seccomp)
	}
	n = newTest(t, func(c *Config) { c.SeccompDefault = true })
	if sc := n.must(t, testPod()).Linux.SecurityContext; sc.Seccomp.ProfileType != runtimev1.SecurityProfile_RuntimeDefault {
		t.Errorf("the node's default: %v", sc.Seccomp)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestResources(t *testing.T) {
	n := newTest(t)
	p := testPod(func(p *v1.Pod) {
		p.Spec.Containers[0].Resources = v1.ResourceRequirements{
			Requests: v1.ResourceList{"memory": resource.MustParse("1Gi")},
			Limits:   v1.ResourceList{"cpu": resource.MustParse("1500m"), "memory": resource.MustParse("2Gi"), "hugepages-2Mi": resource.MustParse("4Mi")},
		}
	})
	r := n.Resources(p, &p.Spec.Containers[0])
	if r.CpuShares != 1536 || r.CpuPeriod != 100_000 || r.CpuQuota != 150_000 || r.MemoryLimitInBytes != 2<<30 || r.OomScoreAdj != 900 ||
		len(r.HugepageLimits) != 1 || r.HugepageLimits[0].PageSize != "2MB" || r.HugepageLimits[0].Limit != 4<<20 || r.Unified != nil || r.MemorySwapLimitInBytes != 0 {
		t.Errorf("resources %v", r)
	}
	// Huge pages of the pod are its containers', but of those that say themselves.
	p.Spec.Resources = &v1.ResourceRequirements{Limits: v1.ResourceList{"hugepages-2Mi": resource.MustParse("8Mi"), "cpu": resource.MustParse("2")}}
	if r := n.Resources(p, &p.Spec.Containers[0]); r.HugepageLimits[0].Limit != 4<<20 {
		t.Errorf("its own %v", r)
	}
	if r := n.Resources(p, &v1.Container{Name: "b"}); r.HugepageLimits[0].Limit != 8<<20 {
		t.Errorf("the pod's %v", r)
	}
	p.Spec.Resources = nil
	r = newTest(t, func(c *Config) { c.SwapLimited, c.NoCPUQuota = true, true }).Resources(p, &p.Spec.Containers[0])
	if r.CpuQuota != 0 || r.CpuPeriod != 0 || r.MemorySwapLimitInBytes != 2<<30 {
		t.Errorf("v1 without quotas %v", r)
	}
	r = newTest(t, func(c *Config) { c.SwapLimited, c.CgroupV2 = true, true }).Resources(p, &p.Spec.Containers[0])
	if r.Unified["memory.oom.group"] != "1" || r.Unified["memory.swap.max"] != "0" || r.MemorySwapLimitInBytes != 0 {
		t.Errorf("v2 %v", r)
	}
}

func TestOOMScore(t *testing.T) {
	gi := func(n string) v1.ResourceList {
		return v1.ResourceList{"memory": resource.MustParse(n), "cpu": resource.MustParse("1")}
	}
	requests := func(n string) func(*v1.Pod) {
		return func(p *v1.Pod) { p.Spec.Containers[0].Resources.Requests = gi(n) }
	}
	for _, tc := range []struct {
		name string
		pod  *v1.Pod
		want int64
	}{
		{"best effort", testPod(), 1000},
		{"guaranteed", testPod(func(p *v1.Pod) { p.Spec.Containers[0].Resources.Limits = gi("1Gi") }), -997},
		{"a tenth of the node", testPod(requests("1Gi")), 900},
		{"all of the node", testPod(requests("10Gi")), 3},
		{"almost nothing", testPod(requests("1Ki")), 999},
		{"critical", testPod(requests("1Gi"), func(p *v1.Pod) {
			p.Spec.Priority, p.Spec.PriorityClassName = ptr(int32(2000001000)), "system-node-critical"
		}), -997},
		{"the pod's request is shared", testPod(requests("1Gi"), func(p *v1.Pod) {
			p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: "b"})
			p.Spec.Resources = &v1.ResourceRequirements{Requests: gi("5Gi")}
		}), 700},
	} {
		if got := oomScore(tc.pod, &tc.pod.Spec.Containers[0], 10<<30); got != tc.want {
			t.Errorf("%s: %d, want %d", tc.name, got, tc.want)
		}
	}
	sidecar := testPod(requests("2Gi"), func(p *v1.Pod) {
		p.Spec.InitContainers = []v1.Container{{Name: "s", RestartPolicy: ptr(v1.ContainerRestartPolicyAlways)}}
	})
	if got := oomScore(sidecar, &sidecar.Spec.InitContainers[0], 10<<30); got != 800 {
		t.Errorf("a sidecar goes no sooner than what it serves: %d, want 800", got)
	}
	sidecar.Spec.Resources = &v1.ResourceRequirements{Requests: gi("4Gi")}
	if got := oomScore(sidecar, &sidecar.Spec.InitContainers[0], 10<<30); got != 700 {
		t.Errorf("nor where the pod asks for more than its containers: %d, want 700", got)
	}
}

// On cgroup v2 a container can be slowed down before its limit kills it, and may swap where the node's configuration lets it.
func TestMemoryBelowTheLimit(t *testing.T) {
	factor := 0.5
	b := newTest(t, func(c *Config) {
		c.SwapLimited, c.CgroupV2, c.LimitedSwap, c.ThrottlingFactor = true, true, true, &factor
		c.Machine.Memory, c.Machine.Swap = 8<<30, 4<<30
	})
	for name, tc := range map[string]struct{ request, limit, high, swap string }{
		"between request and limit": {"1Gi", "3Gi", "2147483648", "536870912"},
		"as much as it may have":    {"1Gi", "1Gi", "", "0"},
	} {
		t.Run(name, func(t *testing.T) {
			p := testPod()
			p.Status.QOSClass = v1.PodQOSBurstable
			c := &p.Spec.Containers[0]
			c.Resources = v1.ResourceRequirements{
				Requests: v1.ResourceList{v1.ResourceMemory: resource.MustParse(tc.request)},
				Limits:   v1.ResourceList{v1.ResourceMemory: resource.MustParse(tc.limit)},
			}
			got := b.Resources(p, c).Unified
			if got["memory.high"] != tc.high || got["memory.swap.max"] != tc.swap || got["memory.min"] != "0" {
				t.Errorf("%v", got)
			}
		})
	}
}
