package registry

import (
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"podo.dev/podo/internal/registry/storageobject"
)

func storageClassKind() *Kind {
	of := func(obj runtime.Object) *storagev1.StorageClass { return obj.(*storagev1.StorageClass) }
	warnings := func(obj runtime.Object) []string { return storageobject.ClassWarnings(of(obj)) }
	doc := storagev1.StorageClass{}.SwaggerDoc()
	row := func(obj runtime.Object, now time.Time) []any {
		c := of(obj)
		return []any{
			c.Name, c.Provisioner, string(orElse(c.ReclaimPolicy, v1.PersistentVolumeReclaimDelete)),
			string(orElse(c.VolumeBindingMode, storagev1.VolumeBindingImmediate)), orElse(c.AllowVolumeExpansion, false),
			age(c.CreationTimestamp, now),
		}
	}
	return &Kind{
		GVK:              storagev1.SchemeGroupVersion.WithKind("StorageClass"),
		Resource:         "storageclasses",
		Singular:         "storageclass",
		ShortNames:       []string{"sc"},
		Dir:              "storageclasses",
		Verbs:            allVerbs,
		ReturnsDeleted:   true,
		New:              func() runtime.Object { return &storagev1.StorageClass{} },
		NewList:          func() runtime.Object { return &storagev1.StorageClassList{} },
		ValidName:        apivalidation.NameIsDNSSubdomain,
		Default:          func(obj runtime.Object) { storageobject.DefaultClass(of(obj)) },
		PrepareForCreate: func(runtime.Object) {},
		Validate:         func(obj runtime.Object) field.ErrorList { return storageobject.ValidateClass(of(obj)) },
		Warnings:         warnings,
		Updates: map[string]Update{"": {
			Prepare: func(runtime.Object, runtime.Object) {},
			Validate: func(obj, old runtime.Object) field.ErrorList {
				return storageobject.ValidateClassUpdate(of(obj), of(old))
			},
			Warnings:           func(obj, _ runtime.Object) []string { return warnings(obj) },
			AllowUnconditional: true,
		}},
		Selectable: clusterFields,
		Columns: []metav1.TableColumnDefinition{
			nameColumn,
			{Name: "Provisioner", Type: "string", Description: doc["provisioner"]},
			{Name: "ReclaimPolicy", Type: "string", Description: doc["reclaimPolicy"]},
			{Name: "VolumeBindingMode", Type: "string", Description: doc["volumeBindingMode"]},
			{Name: "AllowVolumeExpansion", Type: "string", Description: doc["allowVolumeExpansion"]},
			ageColumn,
		},
		Row: row,
		RowAmong: func(all []runtime.Object) func(runtime.Object, time.Time) []any {
			classes := make([]*storagev1.StorageClass, len(all))
			for i, obj := range all {
				classes[i] = of(obj)
			}
			def := storageobject.DefaultOf(classes)
			return func(obj runtime.Object, now time.Time) []any {
				cells := row(obj, now)
				if of(obj) == def {
					cells[0] = def.Name + " (default)"
				}
				return cells
			}
		},
	}
}

func volumeAttributesClassKind() *Kind {
	of := func(obj runtime.Object) *storagev1.VolumeAttributesClass {
		return obj.(*storagev1.VolumeAttributesClass)
	}
	return &Kind{
		GVK:              storagev1.SchemeGroupVersion.WithKind("VolumeAttributesClass"),
		Resource:         "volumeattributesclasses",
		Singular:         "volumeattributesclass",
		ShortNames:       []string{"vac"},
		Dir:              "volumeattributesclasses",
		Verbs:            allVerbs,
		ReturnsDeleted:   true,
		New:              func() runtime.Object { return &storagev1.VolumeAttributesClass{} },
		NewList:          func() runtime.Object { return &storagev1.VolumeAttributesClassList{} },
		ValidName:        apivalidation.NameIsDNSSubdomain,
		Default:          func(runtime.Object) {},
		PrepareForCreate: func(runtime.Object) {},
		Validate:         func(obj runtime.Object) field.ErrorList { return storageobject.ValidateAttributes(of(obj)) },
		Updates: map[string]Update{"": {
			Prepare: func(runtime.Object, runtime.Object) {},
			Validate: func(obj, old runtime.Object) field.ErrorList {
				return storageobject.ValidateAttributesUpdate(of(obj), of(old))
			},
			AllowUnconditional: true,
		}},
		Selectable: clusterFields,
		Columns: []metav1.TableColumnDefinition{
			nameColumn,
			{Name: "DriverName", Type: "string", Description: storagev1.VolumeAttributesClass{}.SwaggerDoc()["driverName"]},
			ageColumn,
		},
		Row: func(obj runtime.Object, now time.Time) []any {
			return []any{of(obj).Name, of(obj).DriverName, age(of(obj).CreationTimestamp, now)}
		},
	}
}

// orElse is what p points to, or what stands for nothing.
func orElse[T any](p *T, none T) T {
	if p == nil {
		return none
	}
	return *p
}
