package registry

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"podo.dev/podo/internal/registry/check"
	"podo.dev/podo/internal/registry/podobject"
	"podo.dev/podo/internal/registry/podspec"
)

func validateStatefulSet(s *appsv1.StatefulSet) field.ErrorList {
	return statefulSetSpec(s, nil, false)
}

// validateStatefulSetUpdate judges a change: what identifies the pods and their volumes stays. A template that rules would refuse today
// does not keep the rest from being changed.
func validateStatefulSetUpdate(s, old *appsv1.StatefulSet) field.ErrorList {
	var e check.Errors
	e.Add(statefulSetSpec(s, old, len(statefulSetSpec(old, old, false)) > 0))
	same := func(name string, now, was any) {
		e.Add(apivalidation.ValidateImmutableField(check.Shown(now), check.Shown(was), specPath.Child(name)))
	}
	same("selector", s.Spec.Selector, old.Spec.Selector)
	if now, was := untyped(s.Spec.VolumeClaimTemplates), untyped(old.Spec.VolumeClaimTemplates); len(apivalidation.ValidateImmutableField(now, was, specPath)) > 0 {
		e.Invalid(specPath.Child("volumeClaimTemplates"), now, apivalidation.FieldImmutableErrorMsg)
	}
	same("serviceName", s.Spec.ServiceName, old.Spec.ServiceName)
	same("podManagementPolicy", s.Spec.PodManagementPolicy, old.Spec.PodManagementPolicy)
	return e.List()
}

// untyped are claims without their kind, as messages show them.
func untyped(claims []v1.PersistentVolumeClaim) []v1.PersistentVolumeClaim {
	var out []v1.PersistentVolumeClaim
	for _, c := range claims {
		c.TypeMeta = metav1.TypeMeta{}
		out = append(out, c)
	}
	return out
}

// statefulSetSpec judges a spec whole; old is nil on create. Of a lenient one the template's spec is not looked at.
func statefulSetSpec(s, old *appsv1.StatefulSet, lenient bool) field.ErrorList {
	var e check.Errors
	spec := &s.Spec
	switch p := specPath.Child("podManagementPolicy"); spec.PodManagementPolicy {
	case "":
		e.Required(p, "")
	case appsv1.OrderedReadyPodManagement, appsv1.ParallelPodManagement:
	default:
		e.Invalid(p, spec.PodManagementPolicy, fmt.Sprintf("must be '%s' or '%s'", appsv1.OrderedReadyPodManagement, appsv1.ParallelPodManagement))
	}
	statefulSetStrategy(&e, specPath.Child("updateStrategy"), &spec.UpdateStrategy)
	if r := spec.PersistentVolumeClaimRetentionPolicy; r != nil {
		p := specPath.Child("persistentVolumeClaimRetentionPolicy")
		check.OneOf(&e, p.Child("whenDeleted"), r.WhenDeleted,
			appsv1.RetainPersistentVolumeClaimRetentionPolicyType, appsv1.DeletePersistentVolumeClaimRetentionPolicyType)
		check.OneOf(&e, p.Child("whenScaled"), r.WhenScaled,
			appsv1.RetainPersistentVolumeClaimRetentionPolicyType, appsv1.DeletePersistentVolumeClaimRetentionPolicyType)
	}
	if old == nil {
		for i := range spec.VolumeClaimTemplates {
			e.Add(podspec.ClaimSpec(&spec.VolumeClaimTemplates[i].Spec, nil, specPath.Child("volumeClaimTemplates").Index(i).Child("spec")))
		}
	}
	if spec.Replicas != nil {
		e.NonNegative(specPath.Child("replicas"), int64(*spec.Replicas))
	}
	e.NonNegative(specPath.Child("minReadySeconds"), int64(spec.MinReadySeconds))
	if spec.Ordinals != nil {
		e.NonNegative(specPath.Child("ordinals.start"), int64(spec.Ordinals.Start))
	}
	if old == nil && spec.ServiceName != "" {
		e.DNSLabel(specPath.Child("serviceName"), spec.ServiceName)
	}
	statefulSetTemplate(&e, s, old, lenient)
	validateRunsOn(&e, &spec.Template, specPath.Child("template"), "StatefulSet")
	return e.List()
}

func statefulSetTemplate(e *check.Errors, s, old *appsv1.StatefulSet, lenient bool) {
	p := specPath.Child("selector")
	if sel := s.Spec.Selector; sel == nil {
		e.Required(p, "")
	} else {
		e.Add(metav1validation.ValidateLabelSelector(sel, metav1validation.LabelSelectorValidationOptions{}, p))
		if len(sel.MatchLabels)+len(sel.MatchExpressions) == 0 {
			e.Invalid(p, sel, "empty selector is invalid for statefulset")
		}
	}
	selector, err := metav1.LabelSelectorAsSelector(s.Spec.Selector)
	if err != nil {
		e.Invalid(p, s.Spec.Selector, "")
		return
	}
	t, at := claimVolumes(s), specPath.Child("template")
	if !selector.Empty() && !selector.Matches(labels.Set(t.Labels)) {
		e.Invalid(at.Child("metadata", "labels"), t.Labels, "`selector` does not match template `labels`")
	}
	var was *v1.PodTemplateSpec
	if old != nil {
		was = &old.Spec.Template
	}
	if lenient {
		e.Add(podobject.ValidateTemplateMeta(t, was, at))
		return
	}
	e.Add(podobject.ValidateTemplate(t, was, at))
}

func statefulSetStrategy(e *check.Errors, p *field.Path, u *appsv1.StatefulSetUpdateStrategy) {
	switch {
	case u.Type == "":
		e.Required(p, "")
	case u.Type == appsv1.OnDeleteStatefulSetStrategyType:
		if u.RollingUpdate != nil {
			e.Invalid(p.Child("rollingUpdate"), u.RollingUpdate, fmt.Sprintf("only allowed for updateStrategy '%s'", appsv1.RollingUpdateStatefulSetStrategyType))
		}
	case u.Type != appsv1.RollingUpdateStatefulSetStrategyType:
		e.Invalid(p, *u, fmt.Sprintf("must be '%s' or '%s'", appsv1.RollingUpdateStatefulSetStrategyType, appsv1.OnDeleteStatefulSetStrategyType))
	case u.RollingUpdate != nil:
		p = p.Child("rollingUpdate")
		e.NonNegative(p.Child("partition"), int64(valueOr(u.RollingUpdate.Partition, 0)))
		if n := u.RollingUpdate.MaxUnavailable; n != nil {
			p = p.Child("maxUnavailable")
			e.IntOrPercent(p, *n)
			if isNone(*n) {
				e.Invalid(p, *n, "cannot be 0")
			}
			e.AtMostAll(p, *n)
		}
	}
}

func validateStatefulSetStatus(s, old *appsv1.StatefulSetStatus) field.ErrorList {
	var e check.Errors
	counts := []struct {
		name  string
		value int32
	}{
		{"replicas", s.Replicas},
		{"readyReplicas", s.ReadyReplicas},
		{"currentReplicas", s.CurrentReplicas},
		{"updatedReplicas", s.UpdatedReplicas},
		{"availableReplicas", s.AvailableReplicas},
	}
	for _, c := range counts {
		e.NonNegative(statusPath.Child(c.name), int64(c.value))
	}
	e.NonNegative(statusPath.Child("observedGeneration"), s.ObservedGeneration)
	e.NonNegative(statusPath.Child("collisionCount"), int64(valueOr(s.CollisionCount, 0)))
	for _, c := range counts[1:] {
		atMost(&e, c.name, c.value, s.Replicas, noMoreThanAll)
	}
	atMost(&e, "availableReplicas", s.AvailableReplicas, s.ReadyReplicas, "cannot be greater than status.readyReplicas")
	notLess(&e, "collisionCount", s.CollisionCount, old.CollisionCount)
	return e.List()
}
