package podobject

import (
	v1 "k8s.io/api/core/v1"

	"podo.dev/podo/internal/registry/gate"
	"podo.dev/podo/internal/registry/podfill"
)

// oldInitAnnotations were fields before there was spec.initContainers.
var oldInitAnnotations = []string{
	"pod.beta.kubernetes.io/init-containers", "pod.alpha.kubernetes.io/init-containers",
	"pod.beta.kubernetes.io/init-container-statuses", "pod.alpha.kubernetes.io/init-container-statuses",
}

// unused is a pod that uses nothing; it is only read.
var unused v1.Pod

// drop removes what a switched-off gate guards and old, nil on create, does not use.
func drop(pod, old *v1.Pod) {
	if old == nil {
		old = &unused
	}
	for _, k := range oldInitAnnotations {
		delete(pod.Annotations, k)
	}
	podfill.Drop(&pod.Spec, &old.Spec)
	if !gate.CSIVolumeHealth && len(old.Status.VolumeHealth) == 0 {
		pod.Status.VolumeHealth = nil
	}
	if !gate.DRANodeAllocatableResources && len(old.Status.NodeAllocatableResourceClaimStatuses) == 0 {
		pod.Status.NodeAllocatableResourceClaimStatuses = nil
	}
	if !gate.ImageVolumeWithDigest && !volumeStatuses(&old.Status, func(*v1.VolumeMountStatus) {}) {
		volumeStatuses(&pod.Status, func(m *v1.VolumeMountStatus) { m.VolumeStatus = nil })
	}
}

// volumeStatuses calls do for every mount with a volume status, and says whether there was one.
//
// A pod that shares its status's lists with the stored one is never edited through this: drop edits only when the stored one
// has no such mount, and then neither has a shared list.
func volumeStatuses(s *v1.PodStatus, do func(*v1.VolumeMountStatus)) bool {
	found := false
	for _, list := range []*[]v1.ContainerStatus{&s.InitContainerStatuses, &s.ContainerStatuses, &s.EphemeralContainerStatuses} {
		for i := range *list {
			for j := range (*list)[i].VolumeMounts {
				if m := &(*list)[i].VolumeMounts[j]; m.VolumeStatus != nil {
					found = true
					do(m)
				}
			}
		}
	}
	return found
}
