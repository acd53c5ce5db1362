package cm

import (
	"maps"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

// list reads "cpu=1,memory=1Gi".
func list(pairs ...string) v1.ResourceList {
	out := v1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		out[v1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return out
}

func container(name string, requests, limits v1.ResourceList) v1.Container {
	return v1.Container{Name: name, Resources: v1.ResourceRequirements{Requests: requests, Limits: limits}}
}

func pod(uid string, cs ...v1.Container) *v1.Pod {
	p := &v1.Pod{}
	p.UID, p.Name, p.Namespace = types.UID(uid), "p", "ns"
	p.Spec.Containers = cs
	return p
}

func TestQOS(t *testing.T) {
	both := list("cpu", "1", "memory", "1Gi")
	withInit := pod("a", container("a", both, both))
	withInit.Spec.InitContainers = []v1.Container{container("i", nil, nil)}
	podLevel := pod("a", container("a", nil, nil))
	podLevel.Spec.Resources = &v1.ResourceRequirements{Requests: both, Limits: both}
	told := pod("a", container("a", nil, nil))
	told.Status.QOSClass = v1.PodQOSGuaranteed
	for _, tc := range []struct {
		name string
		pod  *v1.Pod
		want v1.PodQOSClass
	}{
		{"nothing asked", pod("a", container("a", nil, nil)), v1.PodQOSBestEffort},
		{"storage does not count", pod("a", container("a", list("ephemeral-storage", "1Gi"), nil)), v1.PodQOSBestEffort},
		{"zero is nothing", pod("a", container("a", list("cpu", "0"), nil)), v1.PodQOSBestEffort},
		{"limits alone", pod("a", container("a", nil, both)), v1.PodQOSGuaranteed},
		{"requests are limits", pod("a", container("a", both, both)), v1.PodQOSGuaranteed},
		{"no memory limit", pod("a", container("a", list("cpu", "1"), list("cpu", "1"))), v1.PodQOSBurstable},
		{"less than the limit", pod("a", container("a", list("cpu", "500m", "memory", "1Gi"), both)), v1.PodQOSBurstable},
		{"one of two", pod("a", container("a", both, both), container("b", nil, nil)), v1.PodQOSBurstable},
		{"an init container counts", withInit, v1.PodQOSBurstable},
		{"the pod's own", podLevel, v1.PodQOSGuaranteed},
		{"as the API server said", told, v1.PodQOSGuaranteed},
	} {
		if got := QOS(tc.pod); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
	}
}

func TestPodLimits(t *testing.T) {
	both := list("cpu", "500m", "memory", "64Mi")
	overhead := pod("a", container("a", both, both))
	overhead.Spec.Overhead = list("cpu", "100m", "memory", "1Mi")
	podLevel := pod("a", container("a", nil, nil), container("b", nil, nil))
	podLevel.Spec.Resources = &v1.ResourceRequirements{Requests: list("cpu", "1"), Limits: both}
	mi := int64(1 << 20)
	for _, tc := range []struct {
		name          string
		pod           *v1.Pod
		shares        uint64
		quota, memory int64 // 0: not set
	}{
		{"best effort", pod("a", container("a", nil, nil)), 2, 0, 0},
		{"guaranteed", pod("a", container("a", both, both)), 512, 50_000, 64 * mi},
		{"two containers add up", pod("a", container("a", both, both), container("b", both, both)), 1024, 100_000, 128 * mi},
		{"one without limits lifts the pod's", pod("a", container("a", both, both), container("b", nil, nil)), 512, 0, 0},
		{"request alone", pod("a", container("a", list("cpu", "2"), nil)), 2048, 0, 0},
		{"a tiny quota is a millisecond", pod("a", container("a", nil, list("cpu", "1m", "memory", "4Mi"))), 2, 1000, 4 * mi},
		{"overhead", overhead, 614, 60_000, 65 * mi},
		{"the pod's own limits", podLevel, 1024, 50_000, 64 * mi},
	} {
		l := PodLimits(tc.pod, true, QuotaPeriod)
		if *l.CPUShares != tc.shares {
			t.Errorf("%s: shares %d, want %d", tc.name, *l.CPUShares, tc.shares)
		}
		if (l.CPUQuota == nil) != (tc.quota == 0) || (l.CPUQuota != nil && *l.CPUQuota != tc.quota) {
			t.Errorf("%s: quota %v, want %d", tc.name, l.CPUQuota, tc.quota)
		}
		if (l.Memory == nil) != (tc.memory == 0) || (l.Memory != nil && *l.Memory != tc.memory) {
			t.Errorf("%s: memory %v, want %d", tc.name, l.Memory, tc.memory)
		}
		if l := PodLimits(tc.pod, false, QuotaPeriod); l.CPUQuota != nil {
			t.Errorf("%s: a quota though quotas are off", tc.name)
		}
	}
}

func TestPathsOfDrivers(t *testing.T) {
	root := Name{"podo-a"}
	for _, tc := range []struct {
		driver       Driver
		class        v1.PodQOSClass
		path, parent string
	}{
		{Cgroupfs, v1.PodQOSGuaranteed, "/podo-a/kubepods/pod1-2", "/podo-a/kubepods/pod1-2"},
		{Cgroupfs, v1.PodQOSBestEffort, "/podo-a/kubepods/besteffort/pod1-2", "/podo-a/kubepods/besteffort/pod1-2"},
		{
			Systemd, v1.PodQOSBurstable,
			"/podo_a.slice/podo_a-kubepods.slice/podo_a-kubepods-burstable.slice/podo_a-kubepods-burstable-pod1_2.slice",
			"podo_a-kubepods-burstable-pod1_2.slice",
		},
	} {
		n := podName(root, tc.class, "1-2")
		if got := tc.driver.Path(n); got != tc.path {
			t.Errorf("%s %s: path %s, want %s", tc.driver, tc.class, got, tc.path)
		}
		if got := tc.driver.Parent(n); got != tc.parent {
			t.Errorf("%s %s: parent %s, want %s", tc.driver, tc.class, got, tc.parent)
		}
	}
	if got := Systemd.Path(podName(nil, v1.PodQOSBestEffort, "1-2")); got != "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod1_2.slice" {
		t.Errorf("without a root: %s", got)
	}
	for dir, want := range map[string]string{
		"pod1-2": "1-2", "kubepods-besteffort-pod1_2.slice": "1-2", "burstable": "", "pod": "", "kubepods-besteffort.slice": "",
	} {
		got, ok := podUID(dir)
		if !ok {
			got = ""
		}
		if string(got) != want {
			t.Errorf("podUID(%s) = %q, want %q", dir, got, want)
		}
	}
}

func TestWeightIsMonotonicAndFitsBothEnds(t *testing.T) {
	for shares, want := range map[uint64]uint64{0: 1, 2: 1, 1024: 100, MaxShares: 10_000} {
		if got := weightOfShares(shares); got != want {
			t.Errorf("weight of %d shares is %d, want %d", shares, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		a := rapid.Uint64Range(2, MaxShares).Draw(t, "a")
		b := rapid.Uint64Range(a, MaxShares).Draw(t, "b")
		if wa, wb := weightOfShares(a), weightOfShares(b); wa > wb || wa < 1 || wb > 10_000 {
			t.Fatalf("weights %d of %d and %d of %d", wa, a, wb, b)
		}
	})
}

func TestWritesOfBothVersions(t *testing.T) {
	l := Limits{
		CPUShares: ptr(uint64(1024)), CPUQuota: ptr(int64(50_000)), CPUPeriod: ptr(uint64(100_000)), Memory: ptr(int64(-1)),
		Pids: ptr(int64(100)), HugePages: map[string]int64{"2MB": 4 << 20},
	}
	got := map[string]string{}
	for _, w := range writesV1(l) {
		got[w.controller+" "+w.file] = w.value
	}
	want := map[string]string{
		"cpu cpu.shares": "1024", "cpu cpu.cfs_quota_us": "50000", "cpu cpu.cfs_period_us": "100000",
		"memory memory.limit_in_bytes": "-1", "pids pids.max": "100", "hugetlb hugetlb.2MB.limit_in_bytes": "4194304",
	}
	if !maps.Equal(got, want) {
		t.Errorf("v1: %v\nwant %v", got, want)
	}
	clear(got)
	for _, w := range writesV2(l) {
		got[w.controller+" "+w.file] = w.value
	}
	want = map[string]string{
		"cpu cpu.weight": "100", "cpu cpu.max": "50000 100000", "memory memory.max": "max", "pids pids.max": "100",
		"hugetlb hugetlb.2MB.max": "4194304",
	}
	if !maps.Equal(got, want) {
		t.Errorf("v2: %v\nwant %v", got, want)
	}
}

func TestAllocatable(t *testing.T) {
	capacity := list("cpu", "4", "memory", "8Gi", "ephemeral-storage", "100Gi", "pods", "110", "hugepages-2Mi", "1Gi")
	r := Reserved{
		Kube: list("cpu", "100m", "memory", "256Mi"), System: list("memory", "256Mi", "ephemeral-storage", "200Gi"),
		Eviction: map[string]string{"memory.available": "512Mi", "nodefs.available": "10%", "imagefs.available": "15%"},
	}
	got, err := Allocatable(capacity, r)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range list("cpu", "3900m", "memory", "6Gi", "ephemeral-storage", "0", "pods", "110", "hugepages-2Mi", "1Gi") {
		if q := got[name]; q.Cmp(want) != 0 {
			t.Errorf("%s: %s, want %s", name, q.String(), want.String())
		}
	}
	if q := (Machine{}).ForPods(capacity, r)[v1.ResourceMemory]; q.Cmp(resource.MustParse("7680Mi")) != 0 {
		t.Errorf("for pods: %s; what eviction keeps free must not be taken off", q.String())
	}
	// Upstream's own figure, to the byte.
	part, err := Allocatable(list("ephemeral-storage", "270553174016"), Reserved{Eviction: map[string]string{"nodefs.available": "1%"}})
	if q := part.StorageEphemeral(); err != nil || q.Value() != 267847642337 {
		t.Errorf("1%% of a disk is kept free: %s, %v", q, err)
	}
	if none, err := Allocatable(capacity, Reserved{Eviction: map[string]string{"nodefs.available": "100%"}}); err != nil || none.StorageEphemeral().IsZero() {
		t.Errorf("a threshold of 100%% is none: %v, %v", none.StorageEphemeral(), err)
	}
	for _, bad := range []string{"lots", "101%", "-1%", "x%"} {
		if _, err := Allocatable(capacity, Reserved{Eviction: map[string]string{"memory.available": bad}}); err == nil {
			t.Errorf("threshold %q was taken", bad)
		}
	}
}

func TestHugePageUnit(t *testing.T) {
	for name, want := range map[v1.ResourceName]string{
		"hugepages-2Mi": "2MB", "hugepages-1Gi": "1GB", "hugepages-64Ki": "64KB", "memory": "", "hugepages-x": "",
	} {
		if got, _ := HugePageUnit(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
