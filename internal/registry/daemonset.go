package registry

import (
	"maps"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"podo.dev/podo/internal/registry/check"
	"podo.dev/podo/internal/registry/podobject"
)

func daemonSetKind() *Kind {
	of := func(obj runtime.Object) *appsv1.DaemonSet { return obj.(*appsv1.DaemonSet) }
	template := specPath.Child("template")
	return &Kind{
		GVK:        appsv1.SchemeGroupVersion.WithKind("DaemonSet"),
		Resource:   "daemonsets",
		Singular:   "daemonset",
		ShortNames: []string{"ds"},
		Categories: []string{"all"},
		Namespaced: true,
		Dir:        "daemonsets",
		Verbs:      allVerbs,
		New:        func() runtime.Object { return &appsv1.DaemonSet{} },
		NewList:    func() runtime.Object { return &appsv1.DaemonSetList{} },
		ValidName:  apivalidation.NameIsDNSSubdomain,
		Unreadable: func(obj runtime.Object) error { _, err := templateGeneration(of(obj)); return err },
		Default:    func(obj runtime.Object) { defaultDaemonSet(of(obj)) },
		PrepareForCreate: func(obj runtime.Object) {
			d := of(obj)
			d.Status = appsv1.DaemonSetStatus{}
			d.Generation = 1
			podobject.DropTemplate(&d.Spec.Template, nil)
			setTemplateGeneration(d, max(templates(d), 1))
		},
		Validate: func(obj runtime.Object) field.ErrorList { return validateDaemonSet(of(obj), nil) },
		Warnings: func(obj runtime.Object) []string { return podobject.TemplateWarnings(&of(obj).Spec.Template, template) },
		Updates: map[string]Update{
			"": {
				Prepare: func(obj, old runtime.Object) { prepareDaemonSet(of(obj), of(old)) },
				Validate: func(obj, old runtime.Object) field.ErrorList {
					e := apivalidation.ValidateImmutableField(of(obj).Spec.Selector, of(old).Spec.Selector, specPath.Child("selector"))
					return append(e, validateDaemonSet(of(obj), of(old))...)
				},
				Warnings: func(obj, old runtime.Object) []string {
					if templates(of(obj)) == templates(of(old)) {
						return nil
					}
					return podobject.TemplateWarnings(&of(obj).Spec.Template, template)
				},
				Resets:             []string{"status"},
				AllowUnconditional: true,
			},
			"status": {
				Prepare: func(obj, old runtime.Object) {
					of(obj).Spec = *of(old).Spec.DeepCopy()
					setTemplateGeneration(of(obj), templates(of(old)))
				},
				Validate: func(obj, old runtime.Object) field.ErrorList {
					return validateDaemonSetStatus(&of(obj).Status, &of(old).Status)
				},
				Resets:             []string{"spec"},
				AllowUnconditional: true,
			},
		},
		Selectable: metaFields,
		Columns:    daemonSetColumns(),
		Row: func(obj runtime.Object, now time.Time) []any {
			d := of(obj)
			names, images := podobject.Containers(&d.Spec.Template.Spec)
			return []any{
				d.Name, int64(d.Status.DesiredNumberScheduled), int64(d.Status.CurrentNumberScheduled), int64(d.Status.NumberReady),
				int64(d.Status.UpdatedNumberScheduled), int64(d.Status.NumberAvailable), labels.FormatLabels(d.Spec.Template.Spec.NodeSelector),
				age(d.CreationTimestamp, now), names, images, metav1.FormatLabelSelector(d.Spec.Selector),
			}
		},
	}
}

func defaultDaemonSet(d *appsv1.DaemonSet) {
	podobject.DefaultTemplate(&d.Spec.Template)
	if n, err := templateGeneration(d); err == nil {
		setTemplateGeneration(d, n)
	}
	s := &d.Spec.UpdateStrategy
	if s.Type == "" {
		s.Type = appsv1.RollingUpdateDaemonSetStrategyType
	}
	unsaid := intstr.FromInt32(0) // of a strategy that has no use for it, as upstream's types have it
	if s.Type == appsv1.RollingUpdateDaemonSetStrategyType {
		unsaid = intstr.FromInt32(1)
		if s.RollingUpdate == nil {
			s.RollingUpdate = &appsv1.RollingUpdateDaemonSet{}
		}
	}
	if r := s.RollingUpdate; r != nil {
		if r.MaxUnavailable == nil {
			r.MaxUnavailable = new(unsaid)
		}
		if r.MaxSurge == nil {
			r.MaxSurge = new(intstr.FromInt32(0))
		}
	}
	if d.Spec.RevisionHistoryLimit == nil {
		d.Spec.RevisionHistoryLimit = new(int32(10))
	}
}

// templateGeneration counts the templates that a DaemonSet has had. It was a field once; now an annotation keeps it, which clients
// cannot change after the creation.
func templateGeneration(d *appsv1.DaemonSet) (int64, error) {
	text, ok := d.Annotations[appsv1.DeprecatedTemplateGeneration]
	if !ok {
		return 0, nil
	}
	return strconv.ParseInt(text, 10, 64)
}

// templates is templateGeneration of what can be read.
func templates(d *appsv1.DaemonSet) int64 {
	n, _ := templateGeneration(d)
	return n
}

func setTemplateGeneration(d *appsv1.DaemonSet, n int64) {
	d.Annotations = maps.Clone(d.Annotations)
	if d.Annotations == nil {
		d.Annotations = map[string]string{}
	}
	d.Annotations[appsv1.DeprecatedTemplateGeneration] = strconv.FormatInt(n, 10)
}

func prepareDaemonSet(d, old *appsv1.DaemonSet) {
	podobject.DropTemplate(&d.Spec.Template, &old.Spec.Template)
	d.Status = *old.Status.DeepCopy()
	n := templates(old)
	if !equality.Semantic.DeepEqual(d.Spec.Template, old.Spec.Template) {
		n++
	}
	setTemplateGeneration(d, n)
	if !equality.Semantic.DeepEqual(d.Spec, old.Spec) {
		d.Generation = old.Generation + 1
	}
}

// validateDaemonSet judges a DaemonSet whole; old is nil on create.
func validateDaemonSet(d, old *appsv1.DaemonSet) field.ErrorList {
	var e check.Errors
	p, t := specPath.Child("template"), &d.Spec.Template
	var was *v1.PodTemplateSpec
	lenient := metav1validation.LabelSelectorValidationOptions{}
	if old != nil {
		was = &old.Spec.Template
		lenient.AllowInvalidLabelValueInSelector = metav1validation.LabelSelectorHasInvalidLabelValue(old.Spec.Selector)
	}
	e.Add(metav1validation.ValidateLabelSelector(d.Spec.Selector, lenient, specPath.Child("selector")))
	if s, err := metav1.LabelSelectorAsSelector(d.Spec.Selector); err == nil && !s.Matches(labels.Set(t.Labels)) {
		e.Invalid(p.Child("metadata", "labels"), t.Labels, "`selector` does not match template `labels`")
	}
	if s := d.Spec.Selector; s != nil && len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
		e.Invalid(specPath.Child("selector"), s, "empty selector is invalid for daemonset")
	}
	e.Add(podobject.ValidateTemplate(t, was, p))
	validateRunsOn(&e, t, p, "DaemonSet")
	e.NonNegative(specPath.Child("minReadySeconds"), int64(d.Spec.MinReadySeconds))
	e.NonNegative(specPath.Child("templateGeneration"), templates(d))
	daemonSetStrategy(&e, specPath.Child("updateStrategy"), &d.Spec.UpdateStrategy)
	if n := d.Spec.RevisionHistoryLimit; n != nil {
		e.NonNegative(specPath.Child("revisionHistoryLimit"), int64(*n))
	}
	return e.List()
}

func daemonSetStrategy(e *check.Errors, p *field.Path, s *appsv1.DaemonSetUpdateStrategy) {
	switch s.Type {
	case appsv1.OnDeleteDaemonSetStrategyType:
		return
	case appsv1.RollingUpdateDaemonSetStrategyType:
	default:
		e.Put(field.NotSupported(p, check.Shown(s), []appsv1.DaemonSetUpdateStrategyType{appsv1.RollingUpdateDaemonSetStrategyType, appsv1.OnDeleteDaemonSetStrategyType}))
		return
	}
	p = p.Child("rollingUpdate")
	if s.RollingUpdate == nil {
		e.Required(p, "")
		return
	}
	unavailable, surge := valueOr(s.RollingUpdate.MaxUnavailable, intstr.IntOrString{}), valueOr(s.RollingUpdate.MaxSurge, intstr.IntOrString{})
	e.IntOrPercent(p.Child("maxUnavailable"), unavailable)
	e.IntOrPercent(p.Child("maxSurge"), surge)
	e.AtMostAll(p.Child("maxUnavailable"), unavailable)
	e.AtMostAll(p.Child("maxSurge"), surge)
	switch none, noSurge := isNone(unavailable), isNone(surge); {
	case !none && !noSurge:
		e.Invalid(p.Child("maxSurge"), surge, "may not be set when maxUnavailable is non-zero")
	case none && noSurge:
		e.Required(p.Child("maxUnavailable"), "cannot be 0 when maxSurge is 0")
	}
}

func validateDaemonSetStatus(s, old *appsv1.DaemonSetStatus) field.ErrorList {
	var e check.Errors
	for _, f := range []struct {
		name  string
		value int64
	}{
		{"currentNumberScheduled", int64(s.CurrentNumberScheduled)},
		{"numberMisscheduled", int64(s.NumberMisscheduled)},
		{"desiredNumberScheduled", int64(s.DesiredNumberScheduled)},
		{"numberReady", int64(s.NumberReady)},
		{"observedGeneration", s.ObservedGeneration},
		{"updatedNumberScheduled", int64(s.UpdatedNumberScheduled)},
		{"numberAvailable", int64(s.NumberAvailable)},
		{"numberUnavailable", int64(s.NumberUnavailable)},
	} {
		e.NonNegative(statusPath.Child(f.name), f.value)
	}
	e.NonNegative(statusPath.Child("collisionCount"), int64(valueOr(s.CollisionCount, 0)))
	notLess(&e, "collisionCount", s.CollisionCount, old.CollisionCount)
	return e.List()
}

func daemonSetColumns() []metav1.TableColumnDefinition {
	status := appsv1.DaemonSetStatus{}.SwaggerDoc()
	return append([]metav1.TableColumnDefinition{
		nameColumn,
		{Name: "Desired", Type: "integer", Description: status["desiredNumberScheduled"]},
		{Name: "Current", Type: "integer", Description: status["currentNumberScheduled"]},
		{Name: "Ready", Type: "integer", Description: status["numberReady"]},
		{Name: "Up-to-date", Type: "integer", Description: status["updatedNumberScheduled"]},
		{Name: "Available", Type: "integer", Description: status["numberAvailable"]},
		{Name: "Node Selector", Type: "string", Description: v1.PodSpec{}.SwaggerDoc()["nodeSelector"]},
		ageColumn,
	}, wideColumns(appsv1.DaemonSetSpec{}.SwaggerDoc()["selector"])...)
}
