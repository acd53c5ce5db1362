package volumes

import (
	"reflect"
	"slices"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"podo.dev/podo/internal/registry"
)

// What may help the pods that each plug-in has rejected. Changes of nodes and of pods on them wake pods without this.

// Kinds are those whose changes can help.
func (*Binding) Kinds() []schema.GroupResource {
	return []schema.GroupResource{claims, volumes, classes, csiDrivers, capacities}
}

// Helps: a claim of the pod's, any volume, a class that is new or allows more nodes, more room.
func (*Binding) Helps(pod *v1.Pod, kind schema.GroupResource, was, is runtime.Object) bool {
	if is == nil {
		return false
	}
	switch kind {
	case claims:
		return uses(pod, is)
	case volumes:
		return true
	case classes:
		return was == nil || !equality.Semantic.DeepEqual(was.(*storagev1.StorageClass).AllowedTopologies, is.(*storagev1.StorageClass).AllowedTopologies)
	case csiDrivers:
		told := func(o runtime.Object) bool { s := o.(*storagev1.CSIDriver).Spec.StorageCapacity; return s != nil && *s }
		return was != nil && told(was) && !told(is)
	case capacities:
		if was == nil {
			return true
		}
		before, after := limitOf(was.(*storagev1.CSIStorageCapacity)), limitOf(is.(*storagev1.CSIStorageCapacity))
		return after != nil && (before == nil || after.Value() > before.Value())
	}
	return false
}

// Kinds are those whose changes can help.
func (*Restrictions) Kinds() []schema.GroupResource { return []schema.GroupResource{claims, pods} }

// Helps: a claim of the pod's that is new, or that some other pod no longer uses.
func (*Restrictions) Helps(pod *v1.Pod, kind schema.GroupResource, was, is runtime.Object) bool {
	if kind == pods {
		return is == nil && share(pod, was.(*v1.Pod))
	}
	return was == nil && is != nil && uses(pod, is)
}

// share tells whether two pods have a claim in common.
func share(a, b *v1.Pod) bool {
	has := registry.ClaimsOf(b)
	return a.Namespace == b.Namespace && slices.ContainsFunc(registry.ClaimsOf(a), func(c string) bool { return slices.Contains(has, c) })
}

// Kinds are those whose changes can help.
func (*Zone) Kinds() []schema.GroupResource { return []schema.GroupResource{claims, volumes, classes} }

// Helps: a claim of the pod's, a volume that is new or elsewhere than before, a class that waits for pods.
func (*Zone) Helps(pod *v1.Pod, kind schema.GroupResource, was, is runtime.Object) bool {
	if is == nil {
		return false
	}
	switch kind {
	case claims:
		return uses(pod, is)
	case volumes:
		return was == nil || !reflect.DeepEqual(zonesOf(was.(*v1.PersistentVolume)), zonesOf(is.(*v1.PersistentVolume)))
	case classes:
		mode := is.(*storagev1.StorageClass).VolumeBindingMode
		return was == nil && mode != nil && *mode == storagev1.VolumeBindingWaitForFirstConsumer
	}
	return false
}

// Kinds are those whose changes can help.
func (*Limits) Kinds() []schema.GroupResource {
	return []schema.GroupResource{claims, csiNodes, attachments}
}

// Helps: a new claim of the pod's, a driver that takes more, a volume that is detached.
func (*Limits) Helps(pod *v1.Pod, kind schema.GroupResource, was, is runtime.Object) bool {
	switch kind {
	case claims:
		return was == nil && is != nil && uses(pod, is)
	case csiNodes:
		return is != nil && (was == nil || takesMore(was.(*storagev1.CSINode), is.(*storagev1.CSINode)))
	case attachments:
		return is == nil && slices.ContainsFunc(pod.Spec.Volumes, func(v v1.Volume) bool { return claimOf(pod, &v) != "" })
	}
	return false
}

func takesMore(was, is *storagev1.CSINode) bool {
	most := func(d storagev1.CSINodeDriver) int32 {
		if d.Allocatable == nil || d.Allocatable.Count == nil {
			return 0
		}
		return *d.Allocatable.Count
	}
	return slices.ContainsFunc(is.Spec.Drivers, func(d storagev1.CSINodeDriver) bool {
		i := slices.IndexFunc(was.Spec.Drivers, func(o storagev1.CSINodeDriver) bool { return o.Name == d.Name })
		// A driver that is new on the node may be the one that the pod waits for.
		return i < 0 || most(d) > most(was.Spec.Drivers[i])
	})
}
