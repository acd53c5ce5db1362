package admit

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/volume"

	"podo.dev/podo/internal/registry/storageobject"
	"podo.dev/podo/internal/view"
)

// DefaultStorageClass gives a new claim of storage that names no class the default one, if there is one.
type DefaultStorageClass struct{ View *view.View }

// Name implements Named.
func (*DefaultStorageClass) Name() string { return "DefaultStorageClass" }

// Mutate implements Mutator.
func (d *DefaultStorageClass) Mutate(_ context.Context, a *Attributes) error {
	claim, ok := a.Object.(*v1.PersistentVolumeClaim)
	if !ok || a.Op != Create || a.Ref.Subresource != "" || volume.PersistentVolumeClaimHasClass(claim) {
		return nil
	}
	var all []*storagev1.StorageClass
	for e := range d.View.Snapshot().All(storageClasses, "", view.Key{}) {
		all = append(all, e.Object.(*storagev1.StorageClass))
	}
	if c := storageobject.DefaultOf(all); c != nil {
		claim.Spec.StorageClassName = &c.Name
	}
	return nil
}

// StorageInUse puts on new claims, volumes and classes of volumes' attributes the finalizers that keep them while they are in use.
type StorageInUse struct{}

// Name implements Named.
func (StorageInUse) Name() string { return "StorageObjectInUseProtection" }

// Mutate implements Mutator.
func (StorageInUse) Mutate(_ context.Context, a *Attributes) error {
	if a.Op != Create || a.Ref.Subresource != "" {
		return nil
	}
	var finalizer string
	switch a.Object.(type) {
	case *v1.PersistentVolumeClaim:
		finalizer = "kubernetes.io/pvc-protection"
	case *v1.PersistentVolume:
		finalizer = "kubernetes.io/pv-protection"
	case *storagev1.VolumeAttributesClass:
		finalizer = "kubernetes.io/vac-protection"
	default:
		return nil
	}
	if m := a.Object.(metav1.Object); !slices.Contains(m.GetFinalizers(), finalizer) {
		m.SetFinalizers(append(m.GetFinalizers(), finalizer))
	}
	return nil
}
