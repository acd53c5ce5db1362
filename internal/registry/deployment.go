package registry

import (
	"fmt"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"podo.dev/podo/internal/registry/check"
	"podo.dev/podo/internal/registry/podobject"
)

func deploymentKind() *Kind {
	of := func(obj runtime.Object) *appsv1.Deployment { return obj.(*appsv1.Deployment) }
	return &Kind{
		GVK:        appsv1.SchemeGroupVersion.WithKind("Deployment"),
		Resource:   "deployments",
		Singular:   "deployment",
		ShortNames: []string{"deploy"},
		Categories: []string{"all"},
		Namespaced: true,
		Dir:        "deployments",
		Verbs:      allVerbs,
		New:        func() runtime.Object { return &appsv1.Deployment{} },
		NewList:    func() runtime.Object { return &appsv1.DeploymentList{} },
		ValidName:  apivalidation.NameIsDNSSubdomain,
		Unreadable: func(obj runtime.Object) error { _, err := rollbackTo(of(obj)); return err },
		Default:    func(obj runtime.Object) { defaultDeployment(of(obj)) },
		PrepareForCreate: func(obj runtime.Object) {
			of(obj).Status = appsv1.DeploymentStatus{}
			of(obj).Generation = 1
			podobject.DropTemplate(&of(obj).Spec.Template, nil)
		},
		Validate: func(obj runtime.Object) field.ErrorList { return validateDeployment(of(obj), nil) },
		Warnings: func(obj runtime.Object) []string {
			return append(warnPodNames(of(obj).Name), podobject.TemplateWarnings(&of(obj).Spec.Template, specPath.Child("template"))...)
		},
		Updates: map[string]Update{
			"": {
				Prepare: func(obj, old runtime.Object) {
					d, was := of(obj), of(old)
					d.Status = *was.Status.DeepCopy()
					podobject.DropTemplate(&d.Spec.Template, &was.Spec.Template)
					// Annotations count: its ReplicaSets have them too.
					if !equality.Semantic.DeepEqual(d.Spec, was.Spec) || !equality.Semantic.DeepEqual(d.Annotations, was.Annotations) {
						d.Generation = was.Generation + 1
					}
				},
				Validate: func(obj, old runtime.Object) field.ErrorList { return validateDeployment(of(obj), of(old)) },
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
				Prepare: func(obj, old runtime.Object) {
					d, was := of(obj), of(old).DeepCopy()
					d.Spec, d.Labels = was.Spec, was.Labels
					// What is rolled back to is of the spec, though it stands in an annotation.
					if to, ok := was.Annotations[appsv1.DeprecatedRollbackTo]; ok {
						metav1.SetMetaDataAnnotation(&d.ObjectMeta, appsv1.DeprecatedRollbackTo, to)
					} else {
						delete(d.Annotations, appsv1.DeprecatedRollbackTo)
					}
				},
				Validate: func(obj, old runtime.Object) field.ErrorList {
					return validateDeploymentStatus(&of(obj).Status, &of(old).Status)
				},
				Resets:             []string{"spec", "metadata.labels"},
				AllowUnconditional: true,
			},
		},
		Parts: map[string]Part{"scale": scalePart(
			func(d *appsv1.Deployment) (wanted, have int32, selector string) {
				return valueOr(d.Spec.Replicas, 0), d.Status.Replicas, selectorText(d.Spec.Selector)
			},
			func(d *appsv1.Deployment, wanted int32) { d.Spec.Replicas = &wanted },
		)},
		Selectable: metaFields,
		Columns:    deploymentColumns(),
		Row: func(obj runtime.Object, now time.Time) []any {
			d := of(obj)
			names, images := podobject.Containers(&d.Spec.Template.Spec)
			selected := "<invalid>"
			if s, err := metav1.LabelSelectorAsSelector(d.Spec.Selector); err == nil {
				selected = s.String()
			}
			return []any{
				d.Name, fmt.Sprintf("%d/%d", d.Status.ReadyReplicas, valueOr(d.Spec.Replicas, 0)), int64(d.Status.UpdatedReplicas),
				int64(d.Status.AvailableReplicas), age(d.CreationTimestamp, now), names, images, selected,
			}
		},
	}
}

// rollbackTo is the revision that an annotation of earlier times asks for; nil when it asks for none.
func rollbackTo(d *appsv1.Deployment) (*int64, error) {
	text := d.Annotations[appsv1.DeprecatedRollbackTo]
	if text == "" {
		return nil, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("failed to parse annotation[%s]=%s as int64: %w", appsv1.DeprecatedRollbackTo, text, err)
	}
	return &n, nil
}

func defaultDeployment(d *appsv1.Deployment) {
	s := &d.Spec
	// The annotation is a number or is not there.
	if to, err := rollbackTo(d); err == nil && to != nil {
		d.Annotations[appsv1.DeprecatedRollbackTo] = strconv.FormatInt(*to, 10)
	} else if err == nil {
		delete(d.Annotations, appsv1.DeprecatedRollbackTo)
	}
	if s.Replicas == nil {
		s.Replicas = new(int32(1))
	}
	if s.Strategy.Type == "" {
		s.Strategy.Type = appsv1.RollingUpdateDeploymentStrategyType
	}
	unsaid := intstr.FromInt32(0) // of a strategy that has no use for it, as upstream's types have it
	if s.Strategy.Type == appsv1.RollingUpdateDeploymentStrategyType {
		unsaid = intstr.FromString("25%")
		if s.Strategy.RollingUpdate == nil {
			s.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{}
		}
	}
	if r := s.Strategy.RollingUpdate; r != nil {
		if r.MaxUnavailable == nil {
			r.MaxUnavailable = new(unsaid)
		}
		if r.MaxSurge == nil {
			r.MaxSurge = new(unsaid)
		}
	}
	if s.RevisionHistoryLimit == nil {
		s.RevisionHistoryLimit = new(int32(10))
	}
	if s.ProgressDeadlineSeconds == nil {
		s.ProgressDeadlineSeconds = new(int32(600))
	}
	podobject.DefaultTemplate(&s.Template)
}

// validateDeployment judges a Deployment whole; old is nil on create.
func validateDeployment(d, old *appsv1.Deployment) field.ErrorList {
	var e check.Errors
	s := &d.Spec
	e.NonNegative(specPath.Child("replicas"), int64(valueOr(s.Replicas, 0)))
	if old == nil {
		validateReplicated(&e, s.Selector, &s.Template, nil)
	} else {
		validateReplicated(&e, s.Selector, &s.Template, &old.Spec.Template)
	}
	validateStrategy(&e, &s.Strategy, specPath.Child("strategy"))
	e.NonNegative(specPath.Child("minReadySeconds"), int64(s.MinReadySeconds))
	e.NonNegative(specPath.Child("revisionHistoryLimit"), int64(valueOr(s.RevisionHistoryLimit, 0)))
	if to, err := rollbackTo(d); err == nil && to != nil {
		e.NonNegative(specPath.Child("rollback", "version"), *to)
	}
	if n := s.ProgressDeadlineSeconds; n != nil {
		e.NonNegative(specPath.Child("progressDeadlineSeconds"), int64(*n))
		if *n <= s.MinReadySeconds {
			e.Invalid(specPath.Child("progressDeadlineSeconds"), *n, "must be greater than minReadySeconds")
		}
	}
	if old != nil {
		e.Add(apivalidation.ValidateImmutableField(s.Selector, old.Spec.Selector, specPath.Child("selector")))
	}
	return e.List()
}

func validateStrategy(e *check.Errors, s *appsv1.DeploymentStrategy, p *field.Path) {
	r := s.RollingUpdate
	switch s.Type {
	case appsv1.RecreateDeploymentStrategyType:
		if r != nil {
			e.Forbidden(p.Child("rollingUpdate"), "may not be specified when strategy `type` is 'Recreate'")
		}
	case appsv1.RollingUpdateDeploymentStrategyType:
		p = p.Child("rollingUpdate")
		unavailable, surge := *r.MaxUnavailable, *r.MaxSurge
		e.IntOrPercent(p.Child("maxUnavailable"), unavailable)
		e.IntOrPercent(p.Child("maxSurge"), surge)
		if isNone(unavailable) && isNone(surge) {
			e.Invalid(p.Child("maxUnavailable"), unavailable, "may not be 0 when `maxSurge` is 0")
		}
		e.AtMostAll(p.Child("maxUnavailable"), unavailable)
	default:
		e.Put(field.NotSupported(p, check.Shown(s), []string{string(appsv1.RecreateDeploymentStrategyType), string(appsv1.RollingUpdateDeploymentStrategyType)}))
	}
}

// isNone says that a number or a percentage is zero.
func isNone(v intstr.IntOrString) bool {
	if n, is := check.Percent(v); is {
		return n == 0
	}
	return v.IntValue() == 0
}

func validateDeploymentStatus(s, old *appsv1.DeploymentStatus) field.ErrorList {
	var e check.Errors
	e.NonNegative(statusPath.Child("observedGeneration"), s.ObservedGeneration)
	e.NonNegative(statusPath.Child("replicas"), int64(s.Replicas))
	e.NonNegative(statusPath.Child("updatedReplicas"), int64(s.UpdatedReplicas))
	e.NonNegative(statusPath.Child("readyReplicas"), int64(s.ReadyReplicas))
	e.NonNegative(statusPath.Child("availableReplicas"), int64(s.AvailableReplicas))
	e.NonNegative(statusPath.Child("unavailableReplicas"), int64(s.UnavailableReplicas))
	e.NonNegative(statusPath.Child("terminatingReplicas"), int64(valueOr(s.TerminatingReplicas, 0)))
	e.NonNegative(statusPath.Child("collisionCount"), int64(valueOr(s.CollisionCount, 0)))
	atMost(&e, "updatedReplicas", s.UpdatedReplicas, s.Replicas, noMoreThanAll)
	atMost(&e, "readyReplicas", s.ReadyReplicas, s.Replicas, noMoreThanAll)
	atMost(&e, "availableReplicas", s.AvailableReplicas, s.Replicas, noMoreThanAll)
	atMost(&e, "availableReplicas", s.AvailableReplicas, s.ReadyReplicas, noMoreThanReady)
	notLess(&e, "collisionCount", s.CollisionCount, old.CollisionCount)
	return e.List()
}

func deploymentColumns() []metav1.TableColumnDefinition {
	spec, status := appsv1.DeploymentSpec{}.SwaggerDoc(), appsv1.DeploymentStatus{}.SwaggerDoc()
	return append([]metav1.TableColumnDefinition{
		nameColumn,
		{Name: "Ready", Type: "string", Description: "Number of the pod with ready state"},
		{Name: "Up-to-date", Type: "string", Description: status["updatedReplicas"]},
		{Name: "Available", Type: "string", Description: status["availableReplicas"]},
		ageColumn,
	}, wideColumns(spec["selector"])...)
}
