package registry

import (
	"maps"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"podo.dev/podo/internal/registry/check"
	"podo.dev/podo/internal/registry/podobject"
)

func replicationControllerKind() *Kind {
	of := func(obj runtime.Object) *v1.ReplicationController { return obj.(*v1.ReplicationController) }
	template := specPath.Child("template")
	return &Kind{
		GVK:        v1.SchemeGroupVersion.WithKind("ReplicationController"),
		Resource:   "replicationcontrollers",
		Singular:   "replicationcontroller",
		ShortNames: []string{"rc"},
		Categories: []string{"all"},
		Namespaced: true,
		Dir:        "controllers",
		Verbs:      allVerbs,
		New:        func() runtime.Object { return &v1.ReplicationController{} },
		NewList:    func() runtime.Object { return &v1.ReplicationControllerList{} },
		ValidName:  func(string, bool) []string { return nil }, // see validateController
		Default:    func(obj runtime.Object) { defaultController(of(obj)) },
		PrepareForCreate: func(obj runtime.Object) {
			of(obj).Status = v1.ReplicationControllerStatus{}
			of(obj).Generation = 1
			podobject.DropTemplate(of(obj).Spec.Template, nil)
		},
		Validate: func(obj runtime.Object) field.ErrorList { return validateController(of(obj), nil) },
		Warnings: func(obj runtime.Object) []string {
			return append(warnPodNames(of(obj).Name), podobject.TemplateWarnings(of(obj).Spec.Template, template)...)
		},
		Updates: map[string]Update{
			"": {
				Prepare: func(obj, old runtime.Object) {
					c, was := of(obj), of(old)
					c.Status = *was.Status.DeepCopy()
					podobject.DropTemplate(c.Spec.Template, was.Spec.Template)
					if !equality.Semantic.DeepEqual(c.Spec, was.Spec) {
						c.Generation = was.Generation + 1
					}
				},
				Validate: func(obj, old runtime.Object) field.ErrorList {
					return append(validateController(of(obj), of(old)), unconvertible(of(obj), of(old))...)
				},
				// As upstream, of the template that is replaced.
				Warnings: func(obj, old runtime.Object) []string {
					if of(obj).Generation == of(old).Generation {
						return nil
					}
					return podobject.TemplateWarnings(of(old).Spec.Template, template)
				},
				Resets:             []string{"status"},
				AllowUnconditional: true,
			},
			"status": {
				Prepare:            func(obj, old runtime.Object) { of(obj).Spec = *of(old).Spec.DeepCopy() },
				Validate:           func(obj, _ runtime.Object) field.ErrorList { return validateControllerStatus(&of(obj).Status) },
				Resets:             []string{"spec"},
				AllowUnconditional: true,
			},
		},
		Dependents: OrphanDependents,
		Parts: map[string]Part{"scale": scalePart(
			func(c *v1.ReplicationController) (wanted, have int32, selector string) {
				return valueOr(c.Spec.Replicas, 0), c.Status.Replicas, labels.SelectorFromSet(c.Spec.Selector).String()
			},
			func(c *v1.ReplicationController, wanted int32) { c.Spec.Replicas = &wanted },
		)},
		Selectable: func(obj runtime.Object) fields.Set {
			return with(metaFields(obj), "status.replicas", strconv.Itoa(int(of(obj).Status.Replicas)))
		},
		Columns: controllerColumns(),
		Row: func(obj runtime.Object, now time.Time) []any {
			c := of(obj)
			names, images := "", ""
			if c.Spec.Template != nil {
				names, images = podobject.Containers(&c.Spec.Template.Spec)
			}
			return []any{
				c.Name, int64(valueOr(c.Spec.Replicas, 0)), int64(c.Status.Replicas), int64(c.Status.ReadyReplicas), age(c.CreationTimestamp, now),
				names, images, labels.FormatLabels(c.Spec.Selector),
			}
		},
	}
}

// defaultController: a controller selects, and is labelled, as its template says.
func defaultController(c *v1.ReplicationController) {
	if c.Spec.Replicas == nil {
		c.Spec.Replicas = new(int32(1))
	}
	t := c.Spec.Template
	if t == nil {
		return
	}
	if t.Labels != nil {
		if len(c.Spec.Selector) == 0 {
			c.Spec.Selector = maps.Clone(t.Labels)
		}
		if len(c.Labels) == 0 {
			c.Labels = maps.Clone(t.Labels)
		}
	}
	podobject.DefaultTemplate(t)
}

// validateController judges a controller whole; old is nil on create. The name and the numbers are judged when they are new, and told last.
func validateController(c, old *v1.ReplicationController) field.ErrorList {
	var e check.Errors
	p, was := specPath.Child("template"), &v1.ReplicationControllerSpec{}
	if old != nil {
		was = &old.Spec
	}
	if len(c.Spec.Selector) == 0 {
		e.Required(specPath.Child("selector"), "")
	}
	if t := c.Spec.Template; t == nil {
		e.Required(p, "")
	} else {
		if len(c.Spec.Selector) > 0 && !labels.SelectorFromSet(c.Spec.Selector).Matches(labels.Set(t.Labels)) {
			e.Invalid(p.Child("metadata", "labels"), t.Labels, "`selector` does not match template `labels`")
		}
		e.Add(podobject.ValidateTemplate(t, was.Template, p))
		validateRunsOn(&e, t, p, "ReplicationController")
	}
	if old == nil && c.Name != "" {
		for _, text := range content.IsDNS1123Subdomain(c.Name) {
			e.Invalid(metaPath.Child("name"), c.Name, text)
		}
	}
	if n := c.Spec.Replicas; n == nil {
		e.Required(specPath.Child("replicas"), "")
	} else if old == nil || was.Replicas == nil || *n != *was.Replicas {
		e.NonNegative(specPath.Child("replicas"), int64(*n))
	}
	if n := c.Spec.MinReadySeconds; old == nil || n != was.MinReadySeconds {
		e.NonNegative(specPath.Child("minReadySeconds"), int64(n))
	}
	return e.List()
}

// unconvertible: annotations of earlier times say which fields another version of the kind could not hold.
func unconvertible(c, old *v1.ReplicationController) field.ErrorList {
	var e check.Errors
	for _, key := range check.Sorted(old.Annotations) {
		name, ok := strings.CutPrefix(key, "non-convertible.kubernetes.io")
		parts := strings.Split(name, "/")
		if !ok || len(parts) != 2 {
			continue
		}
		if !strings.Contains(parts[1], "selector") {
			e.Put(&field.Error{Type: field.ErrorTypeNotFound, BadValue: old.Annotations[key], Field: parts[1], Detail: "unknown non-convertible field"})
		} else if !equality.Semantic.DeepEqual(c.Spec.Selector, old.Spec.Selector) {
			e.Invalid(specPath.Child("selector"), c.Spec.Selector, "cannot update non-convertible selector")
		}
	}
	return e.List()
}

// validateControllerStatus: it has the counts of a ReplicaSet's status but one, and the same holds for them.
func validateControllerStatus(s *v1.ReplicationControllerStatus) field.ErrorList {
	return validateReplicaSetStatus(&appsv1.ReplicaSetStatus{
		Replicas: s.Replicas, FullyLabeledReplicas: s.FullyLabeledReplicas, ReadyReplicas: s.ReadyReplicas, AvailableReplicas: s.AvailableReplicas,
		ObservedGeneration: s.ObservedGeneration,
	})
}

func controllerColumns() []metav1.TableColumnDefinition {
	spec, status := v1.ReplicationControllerSpec{}.SwaggerDoc(), v1.ReplicationControllerStatus{}.SwaggerDoc()
	return append([]metav1.TableColumnDefinition{
		nameColumn,
		{Name: "Desired", Type: "integer", Description: spec["replicas"]},
		{Name: "Current", Type: "integer", Description: status["replicas"]},
		{Name: "Ready", Type: "integer", Description: status["readyReplicas"]},
		ageColumn,
	}, wideColumns(spec["selector"])...)
}
