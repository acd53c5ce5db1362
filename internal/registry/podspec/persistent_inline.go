package podspec

import (
	"path"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// InlineVolumeSpec checks the spec of a volume that a VolumeAttachment describes itself, at p: one of a CSI driver, which nobody claims
// and nobody reclaims.
func InlineVolumeSpec(spec *v1.PersistentVolumeSpec, p *field.Path) field.ErrorList {
	const inline = "in the context of inline volumes"
	v := &validator{}
	forbidden := func(name string, is bool) {
		if is {
			v.Forbidden(child(p, name), "may not be specified "+inline)
		}
	}
	forbidden("claimRef", spec.ClaimRef != nil)
	forbidden("capacity", len(spec.Capacity) > 0)
	if spec.CSI == nil {
		v.Required(child(p, "csi"), "has to be specified "+inline)
	}
	v.accessModes(child(p, "accessModes"), spec.AccessModes, "")
	r := spec.PersistentVolumeReclaimPolicy
	if r != "" && r != v1.PersistentVolumeReclaimRetain {
		v.Forbidden(child(p, "persistentVolumeReclaimPolicy"), "may only be "+string(v1.PersistentVolumeReclaimRetain)+" "+inline)
	}
	forbidden("nodeAffinity", spec.NodeAffinity != nil)
	v.persistentSource(p, spec, "")
	if h := spec.HostPath; h != nil && path.Clean(h.Path) == "/" && r == v1.PersistentVolumeReclaimRecycle {
		v.Forbidden(child(p, "persistentVolumeReclaimPolicy"), "may not be 'recycle' for a hostPath mount of '/'")
	}
	forbidden("storageClassName", spec.StorageClassName != "")
	if m := spec.VolumeMode; m != nil && *m != v1.PersistentVolumeFilesystem {
		v.Forbidden(child(p, "volumeMode"), "may not specify volumeMode other than "+string(v1.PersistentVolumeFilesystem)+" "+inline)
	}
	return v.List()
}
