package cm

import (
	v1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
)

// QOS is a pod's quality of service class. The API server's word counts; a static pod has none yet, and its class follows from
// its requests and limits of cpu and memory:
//
//   - Guaranteed: every container has both limits, and its requests are the same;
//   - BestEffort: no container has a request or a limit;
//   - Burstable: anything else.
func QOS(pod *v1.Pod) v1.PodQOSClass {
	if pod.Status.QOSClass != "" {
		return pod.Status.QOSClass
	}
	if resourcehelper.IsPodLevelResourcesSet(pod) {
		return classOf([]v1.ResourceRequirements{*pod.Spec.Resources})
	}
	all := make([]v1.ResourceRequirements, 0, len(pod.Spec.Containers)+len(pod.Spec.InitContainers))
	for i := range pod.Spec.InitContainers {
		all = append(all, pod.Spec.InitContainers[i].Resources)
	}
	for i := range pod.Spec.Containers {
		all = append(all, pod.Spec.Containers[i].Resources)
	}
	return classOf(all)
}

func classOf(all []v1.ResourceRequirements) v1.PodQOSClass {
	guaranteed, any := true, false
	for _, r := range all {
		for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
			request, limit := r.Requests[name], r.Limits[name]
			any = any || !request.IsZero() || !limit.IsZero()
			if limit.IsZero() || (!request.IsZero() && request.Cmp(limit) != 0) {
				guaranteed = false
			}
		}
	}
	switch {
	case !any:
		return v1.PodQOSBestEffort
	case guaranteed:
		return v1.PodQOSGuaranteed
	}
	return v1.PodQOSBurstable
}
