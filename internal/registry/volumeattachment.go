package registry

import (
	"time"

	storagev1 "k8s.io/api/storage/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"podo.dev/podo/internal/registry/storageobject"
)

func volumeAttachmentKind() *Kind {
	of := func(obj runtime.Object) *storagev1.VolumeAttachment { return obj.(*storagev1.VolumeAttachment) }
	validate := func(obj, old runtime.Object) field.ErrorList {
		return storageobject.ValidateAttachmentUpdate(of(obj), of(old))
	}
	spec, status := storagev1.VolumeAttachmentSpec{}.SwaggerDoc(), storagev1.VolumeAttachmentStatus{}.SwaggerDoc()
	return &Kind{
		GVK:              storagev1.SchemeGroupVersion.WithKind("VolumeAttachment"),
		Resource:         "volumeattachments",
		Singular:         "volumeattachment",
		Dir:              "volumeattachments",
		Verbs:            allVerbs,
		ReturnsDeleted:   true,
		New:              func() runtime.Object { return &storagev1.VolumeAttachment{} },
		NewList:          func() runtime.Object { return &storagev1.VolumeAttachmentList{} },
		ValidName:        apivalidation.NameIsDNSSubdomain,
		Default:          func(obj runtime.Object) { storageobject.DefaultAttachment(of(obj)) },
		PrepareForCreate: func(obj runtime.Object) { of(obj).Status = storagev1.VolumeAttachmentStatus{} },
		Validate:         func(obj runtime.Object) field.ErrorList { return storageobject.ValidateAttachment(of(obj)) },
		Updates: map[string]Update{
			"": {
				Prepare:  func(obj, old runtime.Object) { of(obj).Status = *of(old).Status.DeepCopy() },
				Validate: validate,
				Resets:   []string{"status"},
			},
			"status": {
				Prepare: func(obj, old runtime.Object) {
					of(obj).Spec = *of(old).Spec.DeepCopy()
					metav1.ResetObjectMetaForStatus(&of(obj).ObjectMeta, of(old).ObjectMeta.DeepCopy())
				},
				Validate: validate,
				Resets:   []string{"metadata", "spec"},
			},
		},
		Selectable: clusterFields,
		Columns: []metav1.TableColumnDefinition{
			nameColumn,
			{Name: "Attacher", Type: "string", Format: "name", Description: spec["attacher"]},
			{Name: "PV", Type: "string", Description: storagev1.VolumeAttachmentSource{}.SwaggerDoc()["persistentVolumeName"]},
			{Name: "Node", Type: "string", Description: spec["nodeName"]},
			{Name: "Attached", Type: "boolean", Description: status["attached"]},
			ageColumn,
		},
		Row: func(obj runtime.Object, now time.Time) []any {
			a := of(obj)
			return []any{
				a.Name, a.Spec.Attacher, orElse(a.Spec.Source.PersistentVolumeName, ""), a.Spec.NodeName, a.Status.Attached,
				age(a.CreationTimestamp, now),
			}
		},
	}
}
