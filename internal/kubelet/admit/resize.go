package admit

import (
	v1 "k8s.io/api/core/v1"

	"podo.dev/podo/internal/kubelet/worker"
	"podo.dev/podo/internal/podlife"
)

// Resize implements worker.Admission: what never can be is told first, what else keeps a pod out keeps it from growing too.
func (c Checker) Resize(pod, granted *v1.Pod, active []*v1.Pod) *worker.Rejection {
	if r := infeasible(pod, granted, c.Rules); r != nil {
		return r
	}
	return c.Admit(pod, active)
}

// infeasible are the resizes that no freed resource makes possible: those of what was pinned for the pod when it was admitted.
func infeasible(pod, granted *v1.Pod, rules Rules) *worker.Rejection {
	never := func(message string) *worker.Rejection {
		return &worker.Rejection{Reason: v1.PodReasonInfeasible, Message: message}
	}
	if podlife.QOS(pod) != v1.PodQOSGuaranteed {
		return nil
	}
	if rules.StaticCPUs && differs(pod, granted, v1.ResourceCPU) {
		return never(`Resize is infeasible for Guaranteed Pods alongside CPU Manager policy "static"`)
	}
	if rules.StaticMemory && differs(pod, granted, v1.ResourceMemory) {
		return never(`Resize is infeasible for Guaranteed Pods alongside Memory Manager policy "Static"`)
	}
	return nil
}

// differs compares what two forms of a pod request of a resource, container by container.
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
