package podfill

import (
	v1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/component-helpers/resource"

	"podo.dev/podo/internal/registry/check"
	"podo.dev/podo/internal/registry/gate"
	"podo.dev/podo/internal/registry/podspec"
)

// requestsFromLimits: who limits a resource and asks for none of it asks for the limit.
func requestsFromLimits(r *v1.ResourceRequirements) {
	if r.Limits == nil {
		return
	}
	if r.Requests == nil {
		r.Requests = make(v1.ResourceList, len(r.Limits))
	}
	for name, q := range r.Limits {
		if _, ok := r.Requests[name]; !ok {
			r.Requests[name] = q.DeepCopy()
		}
	}
}

// LevelResources completes the pod's own requests and limits from each other and from its containers, if the author has set some
// of them. It belongs after admission, which may add containers, and so is no part of DefaultPod. It is idempotent.
func LevelResources(pod *v1.Pod) {
	own := pod.Spec.Resources
	if !gate.PodLevelResources || own == nil || len(own.Limits)+len(own.Requests) == 0 {
		return
	}
	hugePagesLimits(pod)
	podRequests(pod)
	podLimits(pod)
}

// hugePagesLimits: huge pages that containers limit are limited for the pod to their sum, unless the pod asks for some itself.
func hugePagesLimits(pod *v1.Pod) {
	for name, q := range resource.AggregateContainerLimits(pod, resource.PodResourcesOptions{}) {
		if !check.IsHugePages(name) || has(pod.Spec.Resources.Requests, name) {
			continue
		}
		fill(&pod.Spec.Resources.Limits, name, q)
	}
}

// podRequests: what containers request in sum is what the pod requests; what none of them requests, the pod's limit.
func podRequests(pod *v1.Pod) {
	own := pod.Spec.Resources
	for name, q := range resource.AggregateContainerRequests(pod, resource.PodResourcesOptions{}) {
		if resource.IsSupportedPodLevelResource(name) && check.CanOvercommit(name) {
			fill(&own.Requests, name, q)
		}
	}
	for name, q := range own.Limits {
		if resource.IsSupportedPodLevelResource(name) {
			fill(&own.Requests, name, q)
		}
	}
}

// podLimits: what the pod requests and every container limits, the pod limits: to the sum of those limits, or to its request
// where that is more.
func podLimits(pod *v1.Pod) {
	own := pod.Spec.Resources
	var limits v1.ResourceList
	for name, request := range own.Requests {
		if !resource.IsSupportedPodLevelResource(name) || has(own.Limits, name) || !allLimit(&pod.Spec, name) {
			continue
		}
		if limits == nil {
			limits = resource.AggregateContainerLimits(pod, resource.PodResourcesOptions{})
		}
		limit, ok := limits[name]
		if !ok {
			continue
		}
		if request.Cmp(limit) > 0 {
			limit = request
		}
		fill(&own.Limits, name, limit)
	}
}

func allLimit(spec *v1.PodSpec, name v1.ResourceName) bool {
	return !podspec.AnyContainer(func(c *v1.Container) bool { return !has(c.Resources.Limits, name) })(spec)
}

func has(list v1.ResourceList, name v1.ResourceName) bool {
	_, ok := list[name]
	return ok
}

// fill sets the amount unless there is one.
func fill(list *v1.ResourceList, name v1.ResourceName, q apiresource.Quantity) {
	if has(*list, name) {
		return
	}
	if *list == nil {
		*list = v1.ResourceList{}
	}
	(*list)[name] = q.DeepCopy()
}
