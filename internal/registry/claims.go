package registry

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-helpers/storage/ephemeral"
	storagehelpers "k8s.io/component-helpers/storage/volume"
)

// Indexes about claims of storage.
const (
	ClaimIndex   = "claim"   // of pods and PersistentVolumes: the claims that they name, as namespace/name
	VolumeIndex  = "volume"  // of claims: the volume that they name
	UnboundIndex = "unbound" // of claims that are not bound: their class, "" without one
	// AttributesIndex is of claims and PersistentVolumes: the classes of attributes that they name.
	AttributesIndex = "attributes"
)

// ClaimsOf are the names of the claims that a pod uses, those that are made for it included.
func ClaimsOf(pod *v1.Pod) (out []string) {
	for i := range pod.Spec.Volumes {
		switch v := &pod.Spec.Volumes[i]; {
		case v.PersistentVolumeClaim != nil:
			out = append(out, v.PersistentVolumeClaim.ClaimName)
		case v.Ephemeral != nil:
			out = append(out, ephemeral.VolumeClaimName(pod, v))
		}
	}
	return out
}

func claimsOfPod(obj runtime.Object) []string {
	pod := obj.(*v1.Pod)
	names := ClaimsOf(pod)
	for i, name := range names {
		names[i] = pod.Namespace + "/" + name
	}
	return names
}

func claimOfVolume(obj runtime.Object) []string {
	if ref := obj.(*v1.PersistentVolume).Spec.ClaimRef; ref != nil {
		return []string{ref.Namespace + "/" + ref.Name}
	}
	return nil
}

func volumeOfClaim(obj runtime.Object) []string {
	if name := obj.(*v1.PersistentVolumeClaim).Spec.VolumeName; name != "" {
		return []string{name}
	}
	return nil
}

func unboundClaim(obj runtime.Object) []string {
	c := obj.(*v1.PersistentVolumeClaim)
	if metav1.HasAnnotation(c.ObjectMeta, storagehelpers.AnnBindCompleted) {
		return nil
	}
	return []string{storagehelpers.GetPersistentVolumeClaimClass(c)}
}

// AttributesOfClaim are the classes of attributes that a claim names: what it asks for, has, and is being given.
func AttributesOfClaim(c *v1.PersistentVolumeClaim) (out []string) {
	for _, name := range []*string{c.Spec.VolumeAttributesClassName, c.Status.CurrentVolumeAttributesClassName} {
		if name != nil && *name != "" {
			out = append(out, *name)
		}
	}
	if m := c.Status.ModifyVolumeStatus; m != nil && m.TargetVolumeAttributesClassName != "" {
		out = append(out, m.TargetVolumeAttributesClassName)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// AttributesOfVolume are those that a volume names.
func AttributesOfVolume(pv *v1.PersistentVolume) []string {
	if name := pv.Spec.VolumeAttributesClassName; name != nil && *name != "" {
		return []string{*name}
	}
	return nil
}
