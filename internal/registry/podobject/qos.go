package podobject

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/resource"

	"podo.dev/podo/internal/registry/podspec"
)

// QOS is the pod's quality of service: as recorded, else computed from its resources.
func QOS(pod *v1.Pod) v1.PodQOSClass {
	if pod.Status.QOSClass != "" {
		return pod.Status.QOSClass
	}
	return ComputeQOS(pod)
}

// ComputeQOS says how a pod shares cpu and memory: Guaranteed when every container limits both and requests as much,
// BestEffort when none asks for anything, Burstable otherwise. The pod's own resources, when set, decide alone.
func ComputeQOS(pod *v1.Pod) v1.PodQOSClass {
	if resource.IsPodLevelResourcesSet(pod) {
		return qosOf(pod.Spec.Resources)
	}
	var class v1.PodQOSClass
	for c, kind := range podspec.Containers(&pod.Spec) {
		if kind == podspec.Ephemeral {
			continue
		}
		one := qosOf(&c.Resources)
		if one == v1.PodQOSBurstable || class != "" && class != one {
			return v1.PodQOSBurstable
		}
		class = one
	}
	if class == "" {
		return v1.PodQOSBestEffort
	}
	return class
}

func qosOf(r *v1.ResourceRequirements) v1.PodQOSClass {
	guaranteed := 0
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
		request, limit := r.Requests[name], r.Limits[name]
		switch {
		case !request.Equal(limit):
			return v1.PodQOSBurstable
		case !limit.IsZero():
			guaranteed++
		}
	}
	switch guaranteed {
	case 0:
		return v1.PodQOSBestEffort
	case 1:
		return v1.PodQOSBurstable
	}
	return v1.PodQOSGuaranteed
}
