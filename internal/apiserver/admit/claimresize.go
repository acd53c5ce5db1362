package admit

import (
	"context"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"podo.dev/podo/internal/view"
)

// ClaimResize lets a claim of storage grow only when it is bound and its storage class says that its volumes can.
type ClaimResize struct{ View *view.View }

var storageClasses = schema.GroupResource{Group: storagev1.GroupName, Resource: "storageclasses"}

// Name implements Named.
func (*ClaimResize) Name() string { return "PersistentVolumeClaimResize" }

// Validate implements Validator.
func (c *ClaimResize) Validate(_ context.Context, a *Attributes) error {
	claim, ok := a.Object.(*v1.PersistentVolumeClaim)
	if !ok || a.Op != Update || a.Ref.Subresource != "" {
		return nil
	}
	old := a.Old.(*v1.PersistentVolumeClaim)
	size, was := claim.Spec.Resources.Requests[v1.ResourceStorage], old.Spec.Resources.Requests[v1.ResourceStorage]
	switch {
	case size.Cmp(was) <= 0:
		return nil
	case old.Status.Phase != v1.ClaimBound:
		return forbidden(a, "Only bound persistent volume claims can be expanded")
	case !c.grows(classOf(claim), classOf(old)):
		return forbidden(a, "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize")
	}
	return nil
}

// grows says whether volumes of the class can.
func (c *ClaimResize) grows(class, was string) bool {
	if class == "" || class != was {
		return false
	}
	e := c.View.Snapshot().Get(storageClasses, "", class)
	if e == nil {
		return false
	}
	allowed := e.Object.(*storagev1.StorageClass).AllowVolumeExpansion
	return allowed != nil && *allowed
}

func classOf(c *v1.PersistentVolumeClaim) string {
	if class, ok := c.Annotations[v1.BetaStorageClassAnnotation]; ok {
		return class
	}
	if c.Spec.StorageClassName != nil {
		return *c.Spec.StorageClassName
	}
	return ""
}
