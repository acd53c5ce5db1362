package storageobject

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"podo.dev/podo/internal/registry/check"
	"podo.dev/podo/internal/registry/gate"
	"podo.dev/podo/internal/registry/podspec"
)

func qualified(name string) []string { return validation.IsQualifiedName(name) }

func sameSelector(a, b *metav1.LabelSelector) bool { return equality.Semantic.DeepEqual(a, b) }

// DefaultDriver fills what a driver's author left out.
func DefaultDriver(s *storagev1.CSIDriverSpec) {
	set := func(p **bool, to bool) {
		if *p == nil {
			*p = new(to)
		}
	}
	set(&s.AttachRequired, true)
	set(&s.PodInfoOnMount, false)
	set(&s.StorageCapacity, false)
	set(&s.RequiresRepublish, false)
	set(&s.SELinuxMount, false)
	set(&s.PreventPodSchedulingIfMissing, false)
	if s.FSGroupPolicy == nil {
		s.FSGroupPolicy = new(storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy)
	}
	if len(s.VolumeLifecycleModes) == 0 {
		s.VolumeLifecycleModes = []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent}
	}
}

// PrepareDriver counts a change of what a driver says of itself.
func PrepareDriver(d, old *storagev1.CSIDriver) {
	if !equality.Semantic.DeepEqual(d.Spec, old.Spec) {
		d.Generation = old.Generation + 1
	}
}

// ValidateDriver judges what a driver says of itself.
func ValidateDriver(s *storagev1.CSIDriverSpec) field.ErrorList {
	var e check.Errors
	required := func(name string, v *bool) {
		if v == nil {
			e.Required(specPath.Child(name), "")
		}
	}
	required("attachedRequired", s.AttachRequired)
	required("podInfoOnMount", s.PodInfoOnMount)
	required("storageCapacity", s.StorageCapacity)
	if s.FSGroupPolicy != nil {
		check.OneOf(&e, specPath.Child("fsGroupPolicy"), *s.FSGroupPolicy,
			storagev1.FileFSGroupPolicy, storagev1.NoneFSGroupPolicy, storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy)
	}
	tokenRequests(&e, specPath.Child("tokenRequests"), s.TokenRequests)
	for _, m := range s.VolumeLifecycleModes {
		check.OneOf(&e, specPath.Child("volumeLifecycleModes"), m, storagev1.VolumeLifecyclePersistent, storagev1.VolumeLifecycleEphemeral)
	}
	required("seLinuxMount", s.SELinuxMount)
	if n := s.NodeAllocatableUpdatePeriodSeconds; n != nil && *n < 10 {
		e.Invalid(specPath.Child("nodeAllocatableUpdatePeriodSeconds"), *n, "must be greater than or equal to 10 seconds")
	}
	if v := s.ServiceAccountTokenInSecrets; v != nil && len(s.TokenRequests) == 0 {
		e.Invalid(specPath.Child("serviceAccountTokenInSecrets"), *v, "serviceAccountTokenInSecrets is set but no tokenRequests are specified")
	}
	required("preventPodSchedulingIfMissing", s.PreventPodSchedulingIfMissing)
	return e.List()
}

func tokenRequests(e *check.Errors, p *field.Path, requests []storagev1.TokenRequest) {
	seen := map[string]bool{}
	for i, r := range requests {
		if seen[r.Audience] {
			e.Duplicate(p.Index(i).Child("audience"), r.Audience)
			continue
		}
		seen[r.Audience] = true
		if n := r.ExpirationSeconds; n != nil {
			if at := p.Index(i).Child("expirationSeconds"); *n < 600 {
				e.Invalid(at, *n, "may not specify a duration less than 10 minutes")
			} else if *n > 1<<32 {
				e.Invalid(at, *n, "may not specify a duration larger than 2^32 seconds")
			}
		}
	}
}

// ValidateDriverUpdate judges a change: whether volumes are attached, and whose life they share, stays.
func ValidateDriverUpdate(s, old *storagev1.CSIDriverSpec) field.ErrorList {
	var e check.Errors
	e.Add(ValidateDriver(s))
	e.Add(apivalidation.ValidateImmutableField(s.AttachRequired, old.AttachRequired, specPath.Child("attachedRequired")))
	e.Add(apivalidation.ValidateImmutableField(s.VolumeLifecycleModes, old.VolumeLifecycleModes, specPath.Child("volumeLifecycleModes")))
	return e.List()
}

// DriverWarnings tells of tokens that a driver gets where they are easily logged; old is nil on create.
func DriverWarnings(s, old *storagev1.CSIDriverSpec) []string {
	if len(s.TokenRequests) == 0 || s.ServiceAccountTokenInSecrets != nil || old != nil && equality.Semantic.DeepEqual(s.TokenRequests, old.TokenRequests) {
		return nil
	}
	return []string{"spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible logging of tokens in volume attributes"}
}

const longestNodeID = 256

// ValidateNode judges which drivers a node has.
func ValidateNode(s *storagev1.CSINodeSpec) field.ErrorList {
	var e check.Errors
	seen := map[string]bool{}
	for i, d := range s.Drivers {
		p := specPath.Child("drivers").Index(i)
		e.Add(podspec.DriverName(p.Child("name"), d.Name))
		if d.NodeID == "" {
			e.Required(p.Child("nodeID"), "")
		}
		if len(d.NodeID) > longestNodeID {
			e.Invalid(p.Child("nodeID"), d.NodeID, fmt.Sprintf("must be %d characters or less", longestNodeID))
		}
		if d.Allocatable != nil && d.Allocatable.Count != nil {
			e.NonNegative(p.Child("allocatable", "count"), int64(*d.Allocatable.Count))
		}
		if seen[d.Name] {
			e.Duplicate(p.Child("name"), d.Name)
		}
		seen[d.Name] = true
		keys := map[string]bool{}
		for _, key := range d.TopologyKeys {
			if key == "" {
				e.Required(p, "")
			}
			if keys[key] {
				e.Duplicate(p, key)
			}
			keys[key] = true
			e.Qualified(p, key)
		}
	}
	return e.List()
}

// ValidateNodeUpdate judges a change: a driver stays what it said it is, except for how many volumes it takes.
func ValidateNodeUpdate(s, old *storagev1.CSINodeSpec) field.ErrorList {
	var e check.Errors
	e.Add(ValidateNode(s))
	for _, was := range old.Drivers {
		for _, is := range s.Drivers {
			if was.Name == is.Name {
				was.Allocatable, is.Allocatable = nil, nil
				if !equality.Semantic.DeepEqual(is, was) {
					e.Invalid(specPath.Child("drivers"), is, apivalidation.FieldImmutableErrorMsg)
				}
			}
		}
	}
	return e.List()
}

// PrepareNodeStatus drops what a switched-off gate guards.
func PrepareNodeStatus(s, old *storagev1.CSINodeStatus) {
	if !gate.CSIVolumeHealth && len(old.StorageHealth) == 0 {
		s.StorageHealth = nil
	}
}

const mostHealthConditions = 16

// ValidateNodeStatus judges how drivers say their storage is.
func ValidateNodeStatus(s *storagev1.CSINodeStatus) field.ErrorList {
	var e check.Errors
	seen := map[string]bool{}
	for i, h := range s.StorageHealth {
		p := statusPath.Child("storageHealth").Index(i)
		if seen[h.Name] {
			e.Duplicate(p, h.Name)
		}
		seen[h.Name] = true
		e.Add(podspec.DriverName(p.Child("name"), h.Name))
		if len(h.HealthConditions) > mostHealthConditions {
			e.Put(field.TooMany(p.Child("healthConditions"), len(h.HealthConditions), mostHealthConditions))
			continue
		}
		for j, c := range h.HealthConditions {
			healthCondition(&e, p.Child("healthConditions").Index(j), c)
		}
	}
	return e.List()
}

func healthCondition(e *check.Errors, p *field.Path, c storagev1.StorageHealthCondition) {
	check.OneOf(e, p.Child("status"), c.Status, storagev1.StorageDegraded, storagev1.StorageUnreachable)
	if at := p.Child("reason"); c.Reason == "" {
		e.Required(at, "")
	} else {
		e.Each(at, c.Reason, metav1validation.IsValidConditionReason(c.Reason))
		if len(c.Reason) > 256 {
			e.TooLong(at, 256)
		}
	}
	if len(c.Message) > mostOfAnError {
		e.TooLong(p.Child("message"), mostOfAnError)
	}
	if c.AccessMode != nil {
		check.OneOf(e, p.Child("accessMode"), *c.AccessMode, v1.ReadOnlyMany, v1.ReadWriteMany, v1.ReadWriteOnce, v1.ReadWriteOncePod)
	}
	if c.VolumeMode != nil {
		check.OneOf(e, p.Child("volumeMode"), *c.VolumeMode, v1.PersistentVolumeFilesystem, v1.PersistentVolumeBlock)
	}
}
