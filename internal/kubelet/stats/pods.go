package stats

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/kubelet/pkg/apis/stats/v1alpha1"
	"k8s.io/utils/ptr"

	"podo.dev/podo/internal/kubelet/labels"
)

// pods measures the pods that have running containers.
func (s *Source) pods(ctx context.Context, brief bool) ([]v1alpha1.PodStats, error) {
	own := map[string]string{labels.Node: s.cfg.Node}
	running, err := s.cfg.Runtime.ListContainers(ctx, &runtimev1.ContainerFilter{
		LabelSelector: own, State: &runtimev1.ContainerStateValue{State: runtimev1.ContainerState_CONTAINER_RUNNING},
	})
	if err != nil {
		return nil, fmt.Errorf("list containers: %w", err)
	}
	used, err := s.cfg.Runtime.ListPodSandboxStats(ctx, &runtimev1.PodSandboxStatsFilter{LabelSelector: own})
	if err != nil {
		return nil, fmt.Errorf("list pod statistics: %w", err)
	}
	sandboxes, containers := map[string]*runtimev1.PodSandboxStats{}, map[string]*runtimev1.ContainerStats{}
	for _, u := range used {
		sandboxes[u.GetAttributes().GetId()] = u
		for _, c := range u.GetLinux().GetContainers() {
			containers[c.GetAttributes().GetId()] = c
		}
	}
	out, index := []v1alpha1.PodStats{}, map[string]int{}
	var at []cgroup
	now := metav1.NewTime(s.cfg.Now())
	for _, c := range running {
		ref := v1alpha1.PodReference{Name: c.Labels[labels.PodName], Namespace: c.Labels[labels.PodNamespace], UID: c.Labels[labels.PodUID]}
		i, ok := index[ref.UID]
		if !ok {
			i = len(out)
			index[ref.UID] = i
			p := s.known(ref)
			at = append(at, cgroup{})
			if p != nil {
				at[i] = s.cgroupOf(p)
			}
			out = append(out, s.pod(ref, p, c, sandboxes[c.PodSandboxId], brief))
			at[i].add(out[i].CPU, out[i].Memory, &out[i].Swap, either(brief, nil, &out[i].IO), now)
		}
		k := container(c, containers[c.Id], brief)
		at[i].container(c.Id).add(k.CPU, k.Memory, &k.Swap, either(brief, nil, &k.IO), now)
		s.loads.fill(c.Id, k.CPU)
		out[i].Containers = append(out[i].Containers, k)
	}
	for i := range out {
		p := &out[i]
		slices.SortFunc(p.Containers, func(a, b v1alpha1.ContainerStats) int { return cmp.Compare(a.Name, b.Name) })
		if p.CPU == nil && p.Memory == nil {
			sum(p)
		}
		if p.Swap == nil {
			p.Swap = swapOf(p)
		}
		if !brief && s.cfg.Volumes != nil && s.cfg.Logs != nil {
			s.storage(ctx, p)
		}
	}
	slices.SortFunc(out, func(a, b v1alpha1.PodStats) int {
		return cmp.Or(cmp.Compare(a.PodRef.Namespace, b.PodRef.Namespace), cmp.Compare(a.PodRef.Name, b.PodRef.Name))
	})
	s.loads.keep(s.cfg.Now())
	return out, nil
}

// known is the pod of that reference, nil when the node does not know it.
func (s *Source) known(ref v1alpha1.PodReference) *v1.Pod {
	if pod := s.cfg.Pod(ref.Namespace, ref.Name); pod != nil && string(pod.UID) == ref.UID {
		return pod
	}
	return nil
}

// pod is what is measured for a pod as a whole: its cgroup's figures, its network and its processes.
func (s *Source) pod(ref v1alpha1.PodReference, pod *v1.Pod, first *runtimev1.Container, u *runtimev1.PodSandboxStats, brief bool) v1alpha1.PodStats {
	p := v1alpha1.PodStats{PodRef: ref, StartTime: stamp(first.CreatedAt)}
	if pod != nil && pod.Status.StartTime != nil {
		p.StartTime = *pod.Status.StartTime
	}
	l := u.GetLinux()
	p.CPU, p.Memory = cpuOf(l.GetCpu()), memoryOf(l.GetMemory())
	s.loads.fill(ref.UID, p.CPU)
	if brief {
		return p
	}
	if n := l.GetNetwork(); n != nil {
		p.Network = &v1alpha1.NetworkStats{Time: stamp(n.Timestamp), InterfaceStats: interfaceOf(n.GetDefaultInterface())}
		p.Network.Interfaces = append(p.Network.Interfaces, p.Network.InterfaceStats)
		for _, i := range n.GetInterfaces() {
			if i.GetName() != p.Network.Name { // some runtimes list the default interface again
				p.Network.Interfaces = append(p.Network.Interfaces, interfaceOf(i))
			}
		}
	}
	if n := l.GetProcess().GetProcessCount(); n != nil {
		p.ProcessStats = &v1alpha1.ProcessStats{ProcessCount: &n.Value}
	}
	p.IO = ioOf(l.GetIo())
	return p
}

func container(c *runtimev1.Container, u *runtimev1.ContainerStats, brief bool) v1alpha1.ContainerStats {
	out := v1alpha1.ContainerStats{
		Name: c.Labels[labels.ContainerName], StartTime: stamp(c.CreatedAt), CPU: cpuOf(u.GetCpu()), Memory: memoryOf(u.GetMemory()),
	}
	if w := u.GetSwap(); w != nil {
		out.Swap = &v1alpha1.SwapStats{Time: stamp(w.Timestamp), SwapUsageBytes: value(w.SwapUsageBytes), SwapAvailableBytes: value(w.SwapAvailableBytes)}
	}
	if brief {
		return out
	}
	out.IO = ioOf(u.GetIo())
	if fs := u.GetWritableLayer(); fs.GetTimestamp() > 0 { // zero: the runtime has not measured it yet
		out.Rootfs = &v1alpha1.FsStats{Time: stamp(fs.Timestamp), UsedBytes: value(fs.UsedBytes), InodesUsed: value(fs.InodesUsed)}
	}
	return out
}

func stamp(nanoseconds int64) metav1.Time { return metav1.NewTime(time.Unix(0, nanoseconds)) }

func value(v *runtimev1.UInt64Value) *uint64 {
	if v == nil {
		return nil
	}
	return &v.Value
}

func cpuOf(u *runtimev1.CpuUsage) *v1alpha1.CPUStats {
	if u == nil {
		return nil
	}
	out := &v1alpha1.CPUStats{Time: stamp(u.Timestamp), UsageCoreNanoSeconds: value(u.UsageCoreNanoSeconds), PSI: psiOf(u.Psi)}
	if load := value(u.UsageNanoCores); load != nil && *load > 0 {
		out.UsageNanoCores = load // a runtime that does not know the load says 0
	}
	return out
}

func memoryOf(u *runtimev1.MemoryUsage) *v1alpha1.MemoryStats {
	if u == nil {
		return nil
	}
	out := &v1alpha1.MemoryStats{
		Time: stamp(u.Timestamp), WorkingSetBytes: value(u.WorkingSetBytes), UsageBytes: value(u.UsageBytes), RSSBytes: value(u.RssBytes),
		PageFaults: value(u.PageFaults), MajorPageFaults: value(u.MajorPageFaults), PSI: psiOf(u.Psi),
	}
	if free := value(u.AvailableBytes); free != nil && *free > 0 {
		out.AvailableBytes = free // 0 where nothing limits it
	}
	return out
}

func ioOf(u *runtimev1.IoUsage) *v1alpha1.IOStats {
	if u.GetPsi() == nil {
		return nil
	}
	return &v1alpha1.IOStats{Time: stamp(u.Timestamp), PSI: psiOf(u.Psi)}
}

func psiOf(p *runtimev1.PsiStats) *v1alpha1.PSIStats {
	if p == nil {
		return nil
	}
	data := func(d *runtimev1.PsiData) v1alpha1.PSIData {
		return v1alpha1.PSIData{Total: d.GetTotal(), Avg10: d.GetAvg10(), Avg60: d.GetAvg60(), Avg300: d.GetAvg300()}
	}
	return &v1alpha1.PSIStats{Full: data(p.Full), Some: data(p.Some)}
}

func interfaceOf(i *runtimev1.NetworkInterfaceUsage) v1alpha1.InterfaceStats {
	return v1alpha1.InterfaceStats{
		Name: i.GetName(), RxBytes: value(i.GetRxBytes()), RxErrors: value(i.GetRxErrors()), TxBytes: value(i.GetTxBytes()), TxErrors: value(i.GetTxErrors()),
	}
}

// sum gives a pod what its containers use together, where the runtime does not tell about the pod.
func sum(p *v1alpha1.PodStats) {
	add := func(to **uint64, v *uint64) {
		if v == nil {
			return
		}
		if *to == nil {
			*to = new(uint64)
		}
		**to += *v
	}
	for _, c := range p.Containers {
		if c.CPU != nil {
			if p.CPU == nil {
				p.CPU = &v1alpha1.CPUStats{Time: c.CPU.Time}
			}
			add(&p.CPU.UsageCoreNanoSeconds, c.CPU.UsageCoreNanoSeconds)
			add(&p.CPU.UsageNanoCores, c.CPU.UsageNanoCores)
		}
		if c.Memory != nil {
			if p.Memory == nil {
				p.Memory = &v1alpha1.MemoryStats{Time: c.Memory.Time}
			}
			add(&p.Memory.WorkingSetBytes, c.Memory.WorkingSetBytes)
			add(&p.Memory.UsageBytes, c.Memory.UsageBytes)
			add(&p.Memory.RSSBytes, c.Memory.RSSBytes)
		}
	}
}

// swapOf is what a pod's containers have swapped out together, and may.
func swapOf(p *v1alpha1.PodStats) *v1alpha1.SwapStats {
	var out *v1alpha1.SwapStats
	for _, c := range p.Containers {
		if c.Swap == nil {
			continue
		}
		if out == nil {
			out = &v1alpha1.SwapStats{SwapUsageBytes: new(uint64), SwapAvailableBytes: new(uint64)}
		}
		out.Time = c.Swap.Time
		*out.SwapUsageBytes += ptr.Deref(c.Swap.SwapUsageBytes, 0)
		*out.SwapAvailableBytes += ptr.Deref(c.Swap.SwapAvailableBytes, 0)
	}
	return out
}

func either[T any](cond bool, a, b T) T {
	if cond {
		return a
	}
	return b
}

func uidOf(p *v1alpha1.PodStats) types.UID { return types.UID(p.PodRef.UID) }
