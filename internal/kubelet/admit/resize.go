package admit

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"podo.dev/podo/internal/kubelet/cm"
	"podo.dev/podo/internal/kubelet/eviction"
	"podo.dev/podo/internal/kubelet/worker"
	"podo.dev/podo/internal/podlife"
)

// Resize implements worker.Admission. What can never be granted is reported first; whatever keeps a pod out also keeps it from
// growing. A resize never evicts another pod.
func (c Checker) Resize(pod, granted *v1.Pod, active []*v1.Pod) *worker.Rejection {
	if r := infeasible(pod, granted, c.Rules); r != nil {
		return r
	}
	return c.verdict(pod, active).told()
}

// infeasible reports resizes that no freed resource can make possible: those of cpus or memory pinned for the pod at admission.
func infeasible(pod, granted *v1.Pod, rules Rules) *worker.Rejection {
	never := func(detail, message string) *worker.Rejection {
		return &worker.Rejection{Reason: v1.PodReasonInfeasible, Message: message, Detail: detail}
	}
	if rules.Swap && swaps(pod, granted) {
		return never("swap_limitation", "In-place resize of containers with swap is not supported.")
	}
	if podlife.QOS(pod) != v1.PodQOSGuaranteed {
		return nil
	}
	if rules.StaticCPUs && differs(pod, granted, v1.ResourceCPU) {
		return never("guaranteed_pod_cpu_manager_static_policy", `Resize is infeasible for Guaranteed Pods alongside CPU Manager policy "static"`)
	}
	if rules.StaticMemory && differs(pod, granted, v1.ResourceMemory) {
		return never("guaranteed_pod_memory_manager_static_policy", `Resize is infeasible for Guaranteed Pods alongside Memory Manager policy "Static"`)
	}
	return nil
}

// swaps tells whether a container that may swap, before or after, gets another memory request without a restart.
func swaps(pod, granted *v1.Pod) bool {
	critical := eviction.Critical(pod)
	is := func(asks, has []v1.Container) bool {
		for i := range asks {
			a, h := &asks[i], &has[i]
			anew := slices.ContainsFunc(h.ResizePolicy, func(p v1.ContainerResizePolicy) bool {
				return p.ResourceName == v1.ResourceMemory && p.RestartPolicy == v1.RestartContainer
			})
			if !anew && a.Resources.Requests.Memory().Cmp(*h.Resources.Requests.Memory()) != 0 && (cm.Swaps(pod, a, critical) || cm.Swaps(granted, h, critical)) {
				return true
			}
		}
		return false
	}
	return is(pod.Spec.Containers, granted.Spec.Containers) || is(pod.Spec.InitContainers, granted.Spec.InitContainers)
}

// differs tells whether two forms of a pod request different amounts of a resource in any container.
func differs(a, b *v1.Pod, name v1.ResourceName) bool {
	same := func(x, y []v1.Container) bool {
		for i := range x {
			p, q := x[i].Resources.Requests[name], y[i].Resources.Requests[name]
			if !p.Equal(q) {
				return false
			}
		}
		return true
	}
	return !same(a.Spec.Containers, b.Spec.Containers) || !same(a.Spec.InitContainers, b.Spec.InitContainers)
}
