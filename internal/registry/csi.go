package registry

import (
	"strings"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"podo.dev/podo/internal/registry/storageobject"
)

func csiDriverKind() *Kind {
	of := func(obj runtime.Object) *storagev1.CSIDriver { return obj.(*storagev1.CSIDriver) }
	doc := storagev1.CSIDriverSpec{}.SwaggerDoc()
	return &Kind{
		GVK:              storagev1.SchemeGroupVersion.WithKind("CSIDriver"),
		Resource:         "csidrivers",
		Singular:         "csidriver",
		Dir:              "csidrivers",
		Verbs:            allVerbs,
		ReturnsDeleted:   true,
		New:              func() runtime.Object { return &storagev1.CSIDriver{} },
		NewList:          func() runtime.Object { return &storagev1.CSIDriverList{} },
		ValidName:        apivalidation.NameIsDNSSubdomain,
		Default:          func(obj runtime.Object) { storageobject.DefaultDriver(&of(obj).Spec) },
		PrepareForCreate: func(runtime.Object) {},
		Validate:         func(obj runtime.Object) field.ErrorList { return storageobject.ValidateDriver(&of(obj).Spec) },
		Warnings:         func(obj runtime.Object) []string { return storageobject.DriverWarnings(&of(obj).Spec, nil) },
		Updates: map[string]Update{"": {
			Prepare: func(obj, old runtime.Object) { storageobject.PrepareDriver(of(obj), of(old)) },
			Validate: func(obj, old runtime.Object) field.ErrorList {
				return storageobject.ValidateDriverUpdate(&of(obj).Spec, &of(old).Spec)
			},
			Warnings: func(obj, old runtime.Object) []string {
				return storageobject.DriverWarnings(&of(obj).Spec, &of(old).Spec)
			},
		}},
		Selectable: clusterFields,
		Columns: []metav1.TableColumnDefinition{
			nameColumn,
			{Name: "AttachRequired", Type: "boolean", Description: doc["attachRequired"]},
			{Name: "PodInfoOnMount", Type: "boolean", Description: doc["podInfoOnMount"]},
			{Name: "StorageCapacity", Type: "boolean", Description: doc["storageCapacity"]},
			{Name: "TokenRequests", Type: "string", Description: doc["tokenRequests"]},
			{Name: "RequiresRepublish", Type: "boolean", Description: doc["requiresRepublish"]},
			{Name: "Modes", Type: "string", Description: doc["volumeLifecycleModes"]},
			ageColumn,
		},
		Row: func(obj runtime.Object, now time.Time) []any {
			s := &of(obj).Spec
			tokens, modes := "<unset>", "<none>"
			if s.TokenRequests != nil {
				tokens = joined(s.TokenRequests, func(r storagev1.TokenRequest) string { return r.Audience })
			}
			if all := joined(s.VolumeLifecycleModes, func(m storagev1.VolumeLifecycleMode) string { return string(m) }); all != "" {
				modes = all
			}
			return []any{
				of(obj).Name, orElse(s.AttachRequired, true), orElse(s.PodInfoOnMount, false), orElse(s.StorageCapacity, false),
				tokens, orElse(s.RequiresRepublish, false), modes, age(of(obj).CreationTimestamp, now),
			}
		},
	}
}

func joined[T any](list []T, text func(T) string) string {
	out := make([]string, len(list))
	for i, v := range list {
		out[i] = text(v)
	}
	return strings.Join(out, ",")
}

func csiNodeKind() *Kind {
	of := func(obj runtime.Object) *storagev1.CSINode { return obj.(*storagev1.CSINode) }
	return &Kind{
		GVK:              storagev1.SchemeGroupVersion.WithKind("CSINode"),
		Resource:         "csinodes",
		Singular:         "csinode",
		Dir:              "csinodes",
		Verbs:            allVerbs,
		ReturnsDeleted:   true,
		New:              func() runtime.Object { return &storagev1.CSINode{} },
		NewList:          func() runtime.Object { return &storagev1.CSINodeList{} },
		ValidName:        apivalidation.NameIsDNSSubdomain,
		Default:          func(runtime.Object) {},
		PrepareForCreate: func(obj runtime.Object) { of(obj).Status = storagev1.CSINodeStatus{} },
		Validate:         func(obj runtime.Object) field.ErrorList { return storageobject.ValidateNode(&of(obj).Spec) },
		Updates: map[string]Update{
			"": {
				Prepare: func(obj, old runtime.Object) { of(obj).Status = *of(old).Status.DeepCopy() },
				Validate: func(obj, old runtime.Object) field.ErrorList {
					return storageobject.ValidateNodeUpdate(&of(obj).Spec, &of(old).Spec)
				},
				Resets: []string{"status"},
			},
			"status": {
				Prepare: func(obj, old runtime.Object) {
					of(obj).Spec = *of(old).Spec.DeepCopy()
					metav1.ResetObjectMetaForStatus(&of(obj).ObjectMeta, of(old).ObjectMeta.DeepCopy())
					storageobject.PrepareNodeStatus(&of(obj).Status, &of(old).Status)
				},
				Validate: func(obj, _ runtime.Object) field.ErrorList { return storageobject.ValidateNodeStatus(&of(obj).Status) },
				Resets:   []string{"metadata", "spec"},
			},
		},
		Selectable: clusterFields,
		Columns: []metav1.TableColumnDefinition{
			nameColumn, {Name: "Drivers", Type: "integer", Description: "Drivers indicates the number of CSI drivers registered on the node"}, ageColumn,
		},
		Row: func(obj runtime.Object, now time.Time) []any {
			return []any{of(obj).Name, int64(len(of(obj).Spec.Drivers)), age(of(obj).CreationTimestamp, now)}
		},
	}
}

func csiStorageCapacityKind() *Kind {
	of := func(obj runtime.Object) *storagev1.CSIStorageCapacity { return obj.(*storagev1.CSIStorageCapacity) }
	warnings := func(obj runtime.Object) []string { return storageobject.CapacityWarnings(of(obj)) }
	doc := storagev1.CSIStorageCapacity{}.SwaggerDoc()
	return &Kind{
		GVK:              storagev1.SchemeGroupVersion.WithKind("CSIStorageCapacity"),
		Resource:         "csistoragecapacities",
		Singular:         "csistoragecapacity",
		Namespaced:       true,
		Dir:              "csistoragecapacities",
		Verbs:            allVerbs,
		New:              func() runtime.Object { return &storagev1.CSIStorageCapacity{} },
		NewList:          func() runtime.Object { return &storagev1.CSIStorageCapacityList{} },
		ValidName:        apivalidation.NameIsDNSSubdomain,
		Default:          func(runtime.Object) {},
		PrepareForCreate: func(runtime.Object) {},
		Validate:         func(obj runtime.Object) field.ErrorList { return storageobject.ValidateCapacity(of(obj), nil) },
		Warnings:         warnings,
		Updates: map[string]Update{"": {
			Prepare: func(runtime.Object, runtime.Object) {},
			Validate: func(obj, old runtime.Object) field.ErrorList {
				return storageobject.ValidateCapacity(of(obj), of(old))
			},
			Warnings: func(obj, _ runtime.Object) []string { return warnings(obj) },
		}},
		Selectable: metaFields,
		Columns: []metav1.TableColumnDefinition{
			nameColumn,
			{Name: "StorageClassName", Type: "string", Description: doc["storageClassName"]},
			{Name: "Capacity", Type: "string", Description: doc["capacity"]},
		},
		Row: func(obj runtime.Object, _ time.Time) []any {
			capacity := "<unset>"
			if q := of(obj).Capacity; q != nil {
				capacity = q.String()
			}
			return []any{of(obj).Name, of(obj).StorageClassName, capacity}
		},
	}
}
