package resize

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"podo.dev/podo/internal/kubelet/cm"
	"podo.dev/podo/internal/podlife"
)

func requirements(cpu, memory string) v1.ResourceRequirements {
	l := v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse(memory)}
	return v1.ResourceRequirements{Requests: l, Limits: l}
}

func limits(cpu, memory string) cm.Limits {
	c, m := resource.MustParse(cpu), resource.MustParse(memory)
	quota, period, shares, bytes := cm.MilliCPUToQuota(c.MilliValue(), cm.QuotaPeriod), uint64(cm.QuotaPeriod), cm.MilliCPUToShares(c.MilliValue()), m.Value()
	return cm.Limits{CPUQuota: &quota, CPUPeriod: &period, CPUShares: &shares, Memory: &bytes}
}

func change(name, cpu, memory, toCPU, toMemory string) podlife.Change {
	return podlife.Change{Container: name, ID: "id-" + name, From: requirements(cpu, memory), To: requirements(toCPU, toMemory)}
}

// node is cgroups, a runtime and specs that write down what they are told.
type node struct {
	now, want cm.Limits
	used      uint64
	uses      map[string]uint64
	fail      string // the call that fails
	calls     []string
}

func (n *node) did(format string, a ...any) error {
	n.calls = append(n.calls, fmt.Sprintf(format, a...))
	if n.fail != "" && strings.HasPrefix(n.calls[len(n.calls)-1], n.fail) {
		return errors.New("no")
	}
	return nil
}

func (n *node) Wanted(*v1.Pod) cm.Limits          { return n.want }
func (n *node) Limits(*v1.Pod) (cm.Limits, error) { return n.now, nil }
func (n *node) SetLimits(_ *v1.Pod, l cm.Limits) error {
	switch {
	case l.Memory != nil:
		return n.did("pod memory %dMi", *l.Memory>>20)
	case l.CPUQuota != nil:
		return n.did("pod quota %d", *l.CPUQuota)
	}
	return n.did("pod shares %d", *l.CPUShares)
}
func (n *node) MemoryUsage(*v1.Pod) (uint64, error) { return n.used, nil }
func (n *node) UpdateContainerResources(_ context.Context, id string, r *runtimev1.ContainerResources) error {
	return n.did("%s %dm %dMi", id, r.GetLinux().GetCpuQuota(), r.GetLinux().GetMemoryLimitInBytes()>>20)
}

func (n *node) ContainerStats(_ context.Context, id string) (*runtimev1.ContainerStats, error) {
	return &runtimev1.ContainerStats{Memory: &runtimev1.MemoryUsage{UsageBytes: &runtimev1.UInt64Value{Value: n.uses[id]}}}, nil
}

func (n *node) Resources(_ *v1.Pod, c *v1.Container) *runtimev1.LinuxContainerResources {
	return &runtimev1.LinuxContainerResources{CpuQuota: c.Resources.Limits.Cpu().MilliValue(), MemoryLimitInBytes: c.Resources.Limits.Memory().Value()}
}

func resize(n *node, changes ...podlife.Change) ([]podlife.Change, error) {
	pod := &v1.Pod{}
	pod.Name, pod.Namespace, pod.UID = "p", "ns", "u"
	for _, c := range changes {
		pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{Name: c.Container, Resources: c.To})
	}
	return Resizer{n, n, n}.Resize(context.Background(), pod, changes)
}

// The kernel refuses a part that is larger than the whole: the order is what makes a resize work.
func TestOrder(t *testing.T) {
	for name, tc := range map[string]struct {
		now, want cm.Limits
		changes   []podlife.Change
		calls     string
	}{
		"the pod grows first, and what shrinks in it goes before what grows": {
			limits("300m", "300Mi"), limits("400m", "400Mi"),
			[]podlife.Change{change("a", "100m", "100Mi", "250m", "250Mi"), change("b", "200m", "200Mi", "150m", "150Mi")},
			"pod memory 400Mi; id-b 200m 150Mi; id-a 100m 250Mi; pod quota 40000; pod shares 409; id-b 150m 150Mi; id-a 250m 250Mi",
		},
		"the pod shrinks last": {
			limits("400m", "400Mi"), limits("200m", "200Mi"),
			[]podlife.Change{change("a", "400m", "400Mi", "200m", "200Mi")},
			"id-a 400m 200Mi; pod memory 200Mi; id-a 200m 200Mi; pod shares 204; pod quota 20000",
		},
		"each resource for itself": {
			limits("400m", "200Mi"), limits("200m", "400Mi"),
			[]podlife.Change{change("a", "400m", "200Mi", "200m", "400Mi")},
			"pod memory 400Mi; id-a 400m 400Mi; id-a 200m 400Mi; pod shares 204; pod quota 20000",
		},
		"what is not known to have been set is set again": {
			limits("200m", "200Mi"), limits("200m", "200Mi"), []podlife.Change{change("a", "200m", "200Mi", "200m", "200Mi")}, "id-a 200m 200Mi",
		},
		"a pod without limits keeps having none": {
			limits("200m", "200Mi"), cm.Limits{CPUShares: limits("300m", "1Mi").CPUShares}, nil, "pod shares 307",
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := &node{now: tc.now, want: tc.want}
			if _, err := resize(n, tc.changes...); err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(n.calls, "; "); got != tc.calls {
				t.Errorf("did   %s\nwanted %s", got, tc.calls)
			}
		})
	}
}

func TestHalfWayIsTold(t *testing.T) {
	n := &node{now: limits("1", "100Mi"), want: limits("2", "200Mi"), fail: "pod quota"}
	done, err := resize(n, change("a", "1", "100Mi", "2", "200Mi"))
	if err == nil || len(done) != 1 {
		t.Fatalf("done %v, %v", done, err)
	}
	if to := done[0].To.Limits; to.Cpu().String() != "1" || to.Memory().String() != "200Mi" {
		t.Errorf("the container is said to have %v", to)
	}
}

// Memory that is in use is not taken away: nothing is touched then.
func TestMemoryInUse(t *testing.T) {
	n := &node{now: limits("1", "200Mi"), want: limits("1", "100Mi"), used: 150 << 20, uses: map[string]uint64{"id-a": 120 << 20}}
	_, err := resize(n, change("a", "1", "200Mi", "1", "100Mi"))
	want := `cannot decrease memory limits: [attempting to set pod memory limit (104857600) below current usage (157286400), ` +
		`attempting to set container "a" memory limit (104857600) below current usage (157286400)]`
	if err == nil || err.Error() != want || len(n.calls) > 0 {
		t.Errorf("%v\nwant %s\ncalls %v", err, want, n.calls)
	}
	n.used, n.uses["id-a"] = 50<<20, 40<<20
	if _, err := resize(n, change("a", "1", "200Mi", "1", "100Mi")); err != nil || len(n.calls) == 0 {
		t.Errorf("%v, %v", err, n.calls)
	}
}
