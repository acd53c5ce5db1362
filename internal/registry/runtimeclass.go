package registry

import (
	"time"

	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"podo.dev/podo/internal/registry/check"
	"podo.dev/podo/internal/registry/podobject"
	"podo.dev/podo/internal/registry/podspec"
)

func runtimeClassKind() *Kind {
	of := func(obj runtime.Object) *nodev1.RuntimeClass { return obj.(*nodev1.RuntimeClass) }
	warnings := func(obj runtime.Object) []string { return runtimeClassWarnings(of(obj)) }
	return &Kind{
		GVK:              nodev1.SchemeGroupVersion.WithKind("RuntimeClass"),
		Resource:         "runtimeclasses",
		Singular:         "runtimeclass",
		Dir:              "runtimeclasses",
		Verbs:            allVerbs,
		New:              func() runtime.Object { return &nodev1.RuntimeClass{} },
		NewList:          func() runtime.Object { return &nodev1.RuntimeClassList{} },
		ValidName:        apivalidation.NameIsDNSSubdomain,
		Default:          func(runtime.Object) {},
		PrepareForCreate: func(runtime.Object) {},
		Validate:         func(obj runtime.Object) field.ErrorList { return validateRuntimeClass(of(obj)) },
		Warnings:         warnings,
		Updates: map[string]Update{"": {
			Prepare:     func(runtime.Object, runtime.Object) {},
			Validate:    func(obj, old runtime.Object) field.ErrorList { return validateRuntimeClassUpdate(of(obj), of(old)) },
			Warnings:    func(obj, _ runtime.Object) []string { return warnings(obj) },
			AllowCreate: true,
		}},
		Selectable: clusterFields,
		Columns: []metav1.TableColumnDefinition{
			nameColumn, {Name: "Handler", Type: "string", Description: metaDoc["handler"]}, ageColumn,
		},
		Row: func(obj runtime.Object, now time.Time) []any {
			return []any{of(obj).Name, of(obj).Handler, age(of(obj).CreationTimestamp, now)}
		},
	}
}

func validateRuntimeClass(c *nodev1.RuntimeClass) field.ErrorList {
	var e check.Errors
	e.Add(runtimeClassRules(c))
	// Upstream counts a handler in bytes on a creation, and in characters on an update.
	if p := field.NewPath("handler"); c.Handler == "" {
		e.Required(p, "")
	} else {
		e.Each(p, c.Handler, content.IsDNS1123Label(c.Handler))
	}
	return e.List()
}

func validateRuntimeClassUpdate(c, old *nodev1.RuntimeClass) field.ErrorList {
	var e check.Errors
	p := field.NewPath("handler")
	if c.Handler != "" {
		e.Each(p, c.Handler, apivalidation.NameIsDNSLabel(c.Handler, false))
	}
	e.Add(runtimeClassRules(c))
	if c.Handler == "" {
		e.Required(p, "")
	}
	if c.Handler != old.Handler {
		e.Invalid(p, nil, apivalidation.FieldImmutableErrorMsg)
	}
	return e.List()
}

func runtimeClassRules(c *nodev1.RuntimeClass) field.ErrorList {
	var e check.Errors
	if c.Overhead != nil {
		e.Add(podspec.Resources(field.NewPath("overhead"), &v1.ResourceRequirements{Limits: c.Overhead.PodFixed}, podspec.Options{}))
	}
	if s := c.Scheduling; s != nil {
		p := field.NewPath("scheduling")
		e.Add(metav1validation.ValidateLabels(s.NodeSelector, p.Child("nodeSelector")))
		p = p.Child("tolerations")
		e.Add(podspec.Tolerations(p, s.Tolerations, podspec.Options{}))
		seen := map[v1.Toleration]bool{}
		for i, t := range s.Tolerations {
			key := v1.Toleration{Key: t.Key, Operator: t.Operator, Value: t.Value, Effect: t.Effect}
			if seen[key] {
				e.Duplicate(p.Index(i), t)
			}
			seen[key] = true
		}
	}
	return e.List()
}

// runtimeClassWarnings tells of labels of nodes that were renamed or dropped.
func runtimeClassWarnings(c *nodev1.RuntimeClass) (out []string) {
	if c.Scheduling == nil {
		return nil
	}
	for _, key := range check.Sorted(c.Scheduling.NodeSelector) {
		if msg, old := podobject.OldNodeLabel(key); old {
			out = append(out, field.NewPath("scheduling", "nodeSelector").String()+": "+msg)
		}
	}
	return out
}
