package quota

import (
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
)

const (
	claimCount   = v1.ResourceName("count/persistentvolumeclaims")
	storageClass = ".storageclass.storage.k8s.io/" // between a class's name and what of it is bounded
)

// claims of storage count in all and by their storage class.
var claims = measure{
	tracks: func(name v1.ResourceName) bool {
		if _, of, byClass := strings.Cut(string(name), storageClass); byClass {
			name = v1.ResourceName(of)
			return name == v1.ResourcePersistentVolumeClaims || name == v1.ResourceRequestsStorage
		}
		return name == claimCount || name == v1.ResourcePersistentVolumeClaims || name == v1.ResourceRequestsStorage
	},
	usage: func(obj runtime.Object, _ time.Time) v1.ResourceList {
		return claimUsage(obj.(*v1.PersistentVolumeClaim))
	},
	charged: func(subresource string, _, old runtime.Object) bool {
		return subresource == "" || subresource == "status" && old != nil
	},
	moved: claimMoved,
	inScope: func(s v1.ScopedResourceSelectorRequirement, obj runtime.Object) bool {
		if s.ScopeName != v1.ResourceQuotaScopeVolumeAttributesClass {
			return false
		}
		return selects(s, attributesClasses(obj.(*v1.PersistentVolumeClaim))...)
	},
}

// claimMoved says whether the status of a claim differs in what quotas see of it.
func claimMoved(obj, before runtime.Object) bool {
	c, old := obj.(*v1.PersistentVolumeClaim), before.(*v1.PersistentVolumeClaim)
	allocated, was := c.Status.AllocatedResources[v1.ResourceStorage], old.Status.AllocatedResources[v1.ResourceStorage]
	return allocated.Cmp(was) != 0 || !slices.Equal(attributesClasses(c), attributesClasses(old))
}

// attributesClasses are the classes that the claim has, wants or is on its way to.
func attributesClasses(c *v1.PersistentVolumeClaim) []string {
	names := map[string]bool{}
	for _, name := range []*string{c.Spec.VolumeAttributesClassName, c.Status.CurrentVolumeAttributesClassName} {
		if name != nil && *name != "" {
			names[*name] = true
		}
	}
	if m := c.Status.ModifyVolumeStatus; m != nil && m.TargetVolumeAttributesClassName != "" {
		names[m.TargetVolumeAttributesClassName] = true
	}
	return slices.Sorted(maps.Keys(names))
}

func claimUsage(c *v1.PersistentVolumeClaim) v1.ResourceList {
	out := v1.ResourceList{claimCount: one, v1.ResourcePersistentVolumeClaims: one}
	if size, ok := claimSize(c); ok {
		out[v1.ResourceRequestsStorage] = size
	}
	class, ok := c.Annotations[v1.BetaStorageClassAnnotation]
	if !ok && c.Spec.StorageClassName != nil {
		class = *c.Spec.StorageClassName
	}
	if class == "" {
		return out
	}
	for _, name := range []v1.ResourceName{v1.ResourcePersistentVolumeClaims, v1.ResourceRequestsStorage} {
		if q, ok := out[name]; ok {
			out[v1.ResourceName(class)+storageClass+name] = q
		}
	}
	return out
}

// claimSize is what the claim asks for, or what it was given already if that is more, in whole bytes.
func claimSize(c *v1.PersistentVolumeClaim) (resource.Quantity, bool) {
	size, ok := c.Spec.Resources.Requests[v1.ResourceStorage]
	if !ok {
		return size, false
	}
	if given, ok := c.Status.AllocatedResources[v1.ResourceStorage]; ok && given.Cmp(size) > 0 {
		size = given
	}
	size = size.DeepCopy()
	size.RoundUp(0)
	return size, true
}
