package registry

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"podo.dev/podo/internal/registry/check"
)

func controllerRevisionKind() *Kind {
	of := func(obj runtime.Object) *appsv1.ControllerRevision { return obj.(*appsv1.ControllerRevision) }
	return &Kind{
		GVK:              appsv1.SchemeGroupVersion.WithKind("ControllerRevision"),
		Resource:         "controllerrevisions",
		Singular:         "controllerrevision",
		Namespaced:       true,
		Dir:              "controllerrevisions",
		Verbs:            allVerbs,
		New:              func() runtime.Object { return &appsv1.ControllerRevision{} },
		NewList:          func() runtime.Object { return &appsv1.ControllerRevisionList{} },
		ValidName:        apivalidation.NameIsDNSSubdomain,
		Default:          func(runtime.Object) {},
		PrepareForCreate: func(runtime.Object) {},
		Validate: func(obj runtime.Object) field.ErrorList {
			var e check.Errors
			e.NonNegative(field.NewPath("revision"), of(obj).Revision)
			revisionData(&e, of(obj).Data.Raw)
			return e.List()
		},
		Updates: map[string]Update{"": {
			Prepare: func(runtime.Object, runtime.Object) {},
			Validate: func(obj, old runtime.Object) field.ErrorList {
				var e check.Errors
				e.NonNegative(field.NewPath("revision"), of(obj).Revision)
				e.Add(apivalidation.ValidateImmutableField(of(obj).Data, of(old).Data, field.NewPath("data")))
				return e.List()
			},
			AllowUnconditional: true,
		}},
		Selectable: metaFields,
		Columns: []metav1.TableColumnDefinition{
			nameColumn,
			{Name: "Controller", Type: "string", Description: "Controller of the object"},
			{Name: "Revision", Type: "string", Description: appsv1.ControllerRevision{}.SwaggerDoc()["revision"]},
			ageColumn,
		},
		Row: func(obj runtime.Object, now time.Time) []any {
			r := of(obj)
			return []any{r.Name, controllerName(r), r.Revision, age(r.CreationTimestamp, now)}
		},
		Indexes: map[string]func(obj runtime.Object) []string{ControllerIndex: controlledBy},
	}
}

// revisionData: a revision holds a JSON object, whatever is in it.
func revisionData(e *check.Errors, raw []byte) {
	p := field.NewPath("data")
	var v any
	if raw == nil {
		e.Required(p, "data is mandatory")
		return
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		e.Invalid(p, "<value omitted>", fmt.Sprintf("error parsing data: %v", err))
		return
	}
	if v == nil {
		e.Required(p, "data is mandatory")
	} else if _, ok := v.(map[string]any); !ok {
		e.Required(p, "data must be a valid JSON object")
	}
}

// controllerName is an object's controller as columns show it: "daemonset.apps/agent".
func controllerName(m metav1.Object) string {
	ref := metav1.GetControllerOf(m)
	if ref == nil {
		return "<none>"
	}
	gv, _ := schema.ParseGroupVersion(ref.APIVersion)
	if ref.Kind == "" && gv.Group == "" {
		return ref.Name
	}
	return strings.ToLower(gv.WithKind(ref.Kind).GroupKind().String()) + "/" + ref.Name
}
