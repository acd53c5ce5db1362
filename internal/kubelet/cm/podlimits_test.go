package cm

import (
	"context"
	"testing"

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
