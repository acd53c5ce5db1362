package registry

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"podo.dev/podo/internal/registry/check"
	"podo.dev/podo/internal/registry/podobject"
)

func replicaSetKind() *Kind {
	of := func(obj runtime.Object) *appsv1.ReplicaSet { return obj.(*appsv1.ReplicaSet) }
	return &Kind{
		GVK:        appsv1.SchemeGroupVersion.WithKind("ReplicaSet"),
		Resource:   "replicasets",
		Singular:   "replicaset",
		ShortNames: []string{"rs"},
		Categories: []string{"all"},
		Namespaced: true,
		Dir:        "replicasets",
		Verbs:      allVerbs,
		New:        func() runtime.Object { return &appsv1.ReplicaSet{} },
		NewList:    func() runtime.Object { return &appsv1.ReplicaSetList{} },
		ValidName:  apivalidation.NameIsDNSSubdomain,
		Default: func(obj runtime.Object) {
			if of(obj).Spec.Replicas == nil {
				of(obj).Spec.Replicas = new(int32(1))
			}
			podobject.DefaultTemplate(&of(obj).Spec.Template)
		},
		PrepareForCreate: func(obj runtime.Object) {
			of(obj).Status = appsv1.ReplicaSetStatus{}
			of(obj).Generation = 1
			podobject.DropTemplate(&of(obj).Spec.Template, nil)
		},
		Validate: func(obj runtime.Object) field.ErrorList { return validateReplicaSet(of(obj), nil) },
		Warnings: func(obj runtime.Object) []string {
			return append(warnPodNames(of(obj).Name), podobject.TemplateWarnings(&of(obj).Spec.Template, specPath.Child("template"))...)
		},
		Updates: map[string]Update{
			"": {
				Prepare: func(obj, old runtime.Object) {
					r, was := of(obj), of(old)
					r.Status = *was.Status.DeepCopy()
					podobject.DropTemplate(&r.Spec.Template, &was.Spec.Template)
					if !equality.Semantic.DeepEqual(r.Spec, was.Spec) {
						r.Generation = was.Generation + 1
					}
				},
				Validate: func(obj, old runtime.Object) field.ErrorList { return validateReplicaSet(of(obj), of(old)) },
				Warnings: func(obj, old runtime.Object) []string {
					if of(obj).Generation == of(old).Generation {
						return nil
					}
					return podobject.TemplateWarnings(&of(obj).Spec.Template, specPath.Child("template"))
				},
				Resets:             []string{"status"},
				AllowUnconditional: true,
			},
			"status": {
				Prepare:            func(obj, old runtime.Object) { of(obj).Spec = *of(old).Spec.DeepCopy() },
				Validate:           func(obj, _ runtime.Object) field.ErrorList { return validateReplicaSetStatus(&of(obj).Status) },
				Resets:             []string{"spec"},
				AllowUnconditional: true,
			},
		},
		Parts: map[string]Part{"scale": scalePart(
			func(r *appsv1.ReplicaSet) (wanted, have int32, selector string) {
				return valueOr(r.Spec.Replicas, 0), r.Status.Replicas, selectorText(r.Spec.Selector)
			},
			func(r *appsv1.ReplicaSet, wanted int32) { r.Spec.Replicas = &wanted },
		)},
		Selectable: metaFields,
		Indexes:    map[string]func(runtime.Object) []string{ControllerIndex: controlledBy},
		Columns:    replicaSetColumns(),
		Row: func(obj runtime.Object, now time.Time) []any {
			r := of(obj)
			names, images := podobject.Containers(&r.Spec.Template.Spec)
			return []any{
				r.Name, int64(valueOr(r.Spec.Replicas, 0)), int64(r.Status.Replicas), int64(r.Status.ReadyReplicas), age(r.CreationTimestamp, now),
				names, images, metav1.FormatLabelSelector(r.Spec.Selector),
			}
		},
	}
}

// validateReplicaSet judges a ReplicaSet whole; old is nil on create.
func validateReplicaSet(r, old *appsv1.ReplicaSet) field.ErrorList {
	var e check.Errors
	e.NonNegative(specPath.Child("replicas"), int64(valueOr(r.Spec.Replicas, 0)))
	e.NonNegative(specPath.Child("minReadySeconds"), int64(r.Spec.MinReadySeconds))
	if old == nil {
		validateReplicated(&e, r.Spec.Selector, &r.Spec.Template, nil)
		return e.List()
	}
	validateReplicated(&e, r.Spec.Selector, &r.Spec.Template, &old.Spec.Template)
	e.Add(apivalidation.ValidateImmutableField(r.Spec.Selector, old.Spec.Selector, specPath.Child("selector")))
	return e.List()
}

func validateReplicaSetStatus(s *appsv1.ReplicaSetStatus) field.ErrorList {
	var e check.Errors
	e.NonNegative(statusPath.Child("replicas"), int64(s.Replicas))
	e.NonNegative(statusPath.Child("fullyLabeledReplicas"), int64(s.FullyLabeledReplicas))
	e.NonNegative(statusPath.Child("readyReplicas"), int64(s.ReadyReplicas))
	e.NonNegative(statusPath.Child("availableReplicas"), int64(s.AvailableReplicas))
	e.NonNegative(statusPath.Child("observedGeneration"), s.ObservedGeneration)
	e.NonNegative(statusPath.Child("terminatingReplicas"), int64(valueOr(s.TerminatingReplicas, 0)))
	atMost(&e, "fullyLabeledReplicas", s.FullyLabeledReplicas, s.Replicas, noMoreThanAll)
	atMost(&e, "readyReplicas", s.ReadyReplicas, s.Replicas, noMoreThanAll)
	atMost(&e, "availableReplicas", s.AvailableReplicas, s.Replicas, noMoreThanAll)
	atMost(&e, "availableReplicas", s.AvailableReplicas, s.ReadyReplicas, noMoreThanReady)
	return e.List()
}

func replicaSetColumns() []metav1.TableColumnDefinition {
	spec, status := appsv1.ReplicaSetSpec{}.SwaggerDoc(), appsv1.ReplicaSetStatus{}.SwaggerDoc()
	return append([]metav1.TableColumnDefinition{
		nameColumn,
		{Name: "Desired", Type: "integer", Description: spec["replicas"]},
		{Name: "Current", Type: "integer", Description: status["replicas"]},
		{Name: "Ready", Type: "integer", Description: status["readyReplicas"]},
		ageColumn,
	}, wideColumns(spec["selector"])...)
}
