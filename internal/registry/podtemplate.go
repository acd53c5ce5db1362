package registry

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"podo.dev/podo/internal/registry/podobject"
)

func podTemplateKind() *Kind {
	of := func(obj runtime.Object) *v1.PodTemplate { return obj.(*v1.PodTemplate) }
	template := field.NewPath("template")
	return &Kind{
		GVK:        v1.SchemeGroupVersion.WithKind("PodTemplate"),
		Resource:   "podtemplates",
		Singular:   "podtemplate",
		Namespaced: true,
		Dir:        "podtemplates",
		Verbs:      allVerbs,
		// As upstream: the answer to a deletion is the object.
		ReturnsDeleted: true,
		New:            func() runtime.Object { return &v1.PodTemplate{} },
		NewList:        func() runtime.Object { return &v1.PodTemplateList{} },
		ValidName:      apivalidation.NameIsDNSSubdomain,
		Default:        func(obj runtime.Object) { podobject.DefaultTemplate(&of(obj).Template) },
		PrepareForCreate: func(obj runtime.Object) {
			of(obj).Generation = 1
			podobject.DropTemplate(&of(obj).Template, nil)
		},
		Validate: func(obj runtime.Object) field.ErrorList {
			return podobject.ValidateTemplate(&of(obj).Template, nil, template)
		},
		Warnings: func(obj runtime.Object) []string { return podobject.TemplateWarnings(&of(obj).Template, template) },
		Updates: map[string]Update{"": {
			Prepare: func(obj, old runtime.Object) {
				t, was := of(obj), of(old)
				podobject.DropTemplate(&t.Template, &was.Template)
				if !equality.Semantic.DeepEqual(t.Template, was.Template) {
					t.Generation = was.Generation + 1
				}
			},
			Validate: func(obj, old runtime.Object) field.ErrorList {
				return podobject.ValidateTemplate(&of(obj).Template, &of(old).Template, template)
			},
			Warnings: func(obj, old runtime.Object) []string {
				if of(obj).Generation == of(old).Generation {
					return nil
				}
				return podobject.TemplateWarnings(&of(obj).Template, template)
			},
			AllowUnconditional: true,
		}},
		Selectable: metaFields,
		Columns: []metav1.TableColumnDefinition{
			nameColumn,
			{Name: "Containers", Type: "string", Description: "Names of each container in the template."},
			{Name: "Images", Type: "string", Description: "Images referenced by each container in the template."},
			{Name: "Pod Labels", Type: "string", Description: "The labels for the pod template."},
		},
		Row: func(obj runtime.Object, _ time.Time) []any {
			names, images := podobject.Containers(&of(obj).Template.Spec)
			return []any{of(obj).Name, names, images, labels.FormatLabels(of(obj).Template.Labels)}
		},
	}
}
