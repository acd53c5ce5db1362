package registry

import (
	"time"

	v1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"podo.dev/podo/internal/registry/storageobject"
)

func persistentVolumeKind() *Kind {
	of := func(obj runtime.Object) *v1.PersistentVolume { return obj.(*v1.PersistentVolume) }
	warnings := func(obj runtime.Object) []string { return storageobject.VolumeWarnings(of(obj)) }
	return &Kind{
		GVK:              v1.SchemeGroupVersion.WithKind("PersistentVolume"),
		Resource:         "persistentvolumes",
		Singular:         "persistentvolume",
		ShortNames:       []string{"pv"},
		Dir:              "persistentvolumes",
		Verbs:            allVerbs,
		ReturnsDeleted:   true,
		New:              func() runtime.Object { return &v1.PersistentVolume{} },
		NewList:          func() runtime.Object { return &v1.PersistentVolumeList{} },
		ValidName:        apivalidation.NameIsDNSSubdomain,
		Default:          func(obj runtime.Object) { storageobject.DefaultVolume(of(obj)) },
		PrepareForCreate: func(obj runtime.Object) { storageobject.PrepareVolume(of(obj)) },
		Validate:         func(obj runtime.Object) field.ErrorList { return storageobject.ValidateVolume(of(obj), nil) },
		Warnings:         warnings,
		Updates: map[string]Update{
			"": {
				Prepare: func(obj, old runtime.Object) { of(obj).Status = *of(old).Status.DeepCopy() },
				Validate: func(obj, old runtime.Object) field.ErrorList {
					return storageobject.ValidateVolumeUpdate(of(obj), of(old))
				},
				Warnings:           func(obj, _ runtime.Object) []string { return warnings(obj) },
				Resets:             []string{"status"},
				AllowUnconditional: true,
			},
			"status": {
				Prepare:            func(obj, old runtime.Object) { of(obj).Spec = *of(old).Spec.DeepCopy() },
				Stamp:              func(obj, old runtime.Object, now time.Time) { storageobject.StampPhase(of(obj), of(old), now) },
				Resets:             []string{"spec"},
				AllowUnconditional: true,
			},
		},
		Selectable: clusterFields,
		Indexes: map[string]func(runtime.Object) []string{
			ClaimIndex:      claimOfVolume,
			AttributesIndex: func(obj runtime.Object) []string { return AttributesOfVolume(of(obj)) },
		},
		Columns: storageobject.VolumeColumns(nameColumn, ageColumn),
		Row: func(obj runtime.Object, now time.Time) []any {
			return storageobject.VolumeRow(of(obj), age(of(obj).CreationTimestamp, now))
		},
	}
}

func persistentVolumeClaimKind() *Kind {
	of := func(obj runtime.Object) *v1.PersistentVolumeClaim { return obj.(*v1.PersistentVolumeClaim) }
	warnings := func(obj runtime.Object) []string { return storageobject.ClaimWarnings(of(obj)) }
	return &Kind{
		GVK:            v1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"),
		Resource:       "persistentvolumeclaims",
		Singular:       "persistentvolumeclaim",
		ShortNames:     []string{"pvc"},
		Namespaced:     true,
		Dir:            "persistentvolumeclaims",
		Verbs:          allVerbs,
		ReturnsDeleted: true,
		New:            func() runtime.Object { return &v1.PersistentVolumeClaim{} },
		NewList:        func() runtime.Object { return &v1.PersistentVolumeClaimList{} },
		ValidName:      apivalidation.NameIsDNSSubdomain,
		Default:        func(obj runtime.Object) { storageobject.DefaultClaim(of(obj)) },
		PrepareForCreate: func(obj runtime.Object) {
			of(obj).Status = v1.PersistentVolumeClaimStatus{Phase: v1.ClaimPending}
			storageobject.PrepareClaim(&of(obj).Spec, nil)
		},
		Validate: func(obj runtime.Object) field.ErrorList { return storageobject.ValidateClaim(of(obj)) },
		Warnings: warnings,
		Updates: map[string]Update{
			"": {
				Prepare: func(obj, old runtime.Object) {
					of(obj).Status = *of(old).Status.DeepCopy()
					storageobject.PrepareClaim(&of(obj).Spec, &of(old).Spec)
				},
				Validate: func(obj, old runtime.Object) field.ErrorList {
					return storageobject.ValidateClaimUpdate(of(obj), of(old))
				},
				Warnings:           func(obj, _ runtime.Object) []string { return warnings(obj) },
				Resets:             []string{"status"},
				AllowUnconditional: true,
			},
			"status": {
				Prepare:            func(obj, old runtime.Object) { storageobject.PrepareClaimStatus(of(obj), of(old)) },
				Validate:           func(obj, _ runtime.Object) field.ErrorList { return storageobject.ValidateClaimStatus(of(obj)) },
				Resets:             []string{"spec"},
				AllowUnconditional: true,
			},
		},
		Selectable: metaFields,
		Indexes: map[string]func(runtime.Object) []string{
			VolumeIndex: volumeOfClaim, UnboundIndex: unboundClaim,
			AttributesIndex: func(obj runtime.Object) []string { return AttributesOfClaim(of(obj)) },
		},
		Columns: storageobject.ClaimColumns(nameColumn, ageColumn),
		Row: func(obj runtime.Object, now time.Time) []any {
			return storageobject.ClaimRow(of(obj), age(of(obj).CreationTimestamp, now))
		},
	}
}
