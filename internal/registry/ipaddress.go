package registry

import (
	"strings"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"podo.dev/podo/internal/registry/check"
)

// ipAddressKind: an IPAddress says by its name that an address is taken, and by parentRef by whom.
func ipAddressKind() *Kind {
	of := func(obj runtime.Object) *networkingv1.IPAddress { return obj.(*networkingv1.IPAddress) }
	parent := specPath.Child("parentRef")
	return &Kind{
		GVK:              networkingv1.SchemeGroupVersion.WithKind("IPAddress"),
		Resource:         "ipaddresses",
		Singular:         "ipaddress",
		ShortNames:       []string{"ip"},
		Dir:              "ipaddresses",
		Verbs:            allVerbs,
		New:              func() runtime.Object { return &networkingv1.IPAddress{} },
		NewList:          func() runtime.Object { return &networkingv1.IPAddressList{} },
		ValidName:        ipAddressName,
		Default:          func(runtime.Object) {},
		PrepareForCreate: func(runtime.Object) {},
		Validate:         func(obj runtime.Object) field.ErrorList { return parentRef(parent, of(obj).Spec.ParentRef) },
		Updates: map[string]Update{"": {
			Prepare: func(runtime.Object, runtime.Object) {},
			Validate: func(obj, old runtime.Object) field.ErrorList {
				errs := parentRef(parent, of(obj).Spec.ParentRef)
				return append(errs, immutable(of(obj).Spec.ParentRef, of(old).Spec.ParentRef, parent)...)
			},
			AllowUnconditional: true,
		}},
		Selectable: clusterFields,
		Columns: []metav1.TableColumnDefinition{
			nameColumn, {Name: "ParentRef", Type: "string", Description: networkingv1.IPAddressSpec{}.SwaggerDoc()["parentRef"]},
		},
		Row: func(obj runtime.Object, now time.Time) []any {
			// As upstream: a cell more than there are columns.
			return []any{of(obj).Name, parentName(of(obj).Spec.ParentRef), age(of(obj).CreationTimestamp, now)}
		},
	}
}

func ipAddressName(name string, _ bool) []string {
	var out []string
	for _, err := range validation.IsValidIP(nil, name) {
		out = append(out, err.Detail)
	}
	return out
}

func parentRef(p *field.Path, r *networkingv1.ParentReference) field.ErrorList {
	var e check.Errors
	if r == nil {
		e.Required(p, "")
		return e.List()
	}
	if r.Group != "" {
		e.Each(p.Child("group"), r.Group, validation.IsDNS1123Subdomain(r.Group))
	}
	segment := func(name, value string, required bool) {
		if value != "" {
			e.Each(p.Child(name), value, content.IsPathSegmentName(value))
		} else if required {
			e.Required(p.Child(name), "")
		}
	}
	segment("resource", r.Resource, true)
	segment("name", r.Name, true)
	segment("namespace", r.Namespace, false)
	return e.List()
}

func parentName(r *networkingv1.ParentReference) string {
	if r == nil {
		return "<none>"
	}
	name := strings.ToLower(schema.GroupResource{Group: r.Group, Resource: r.Resource}.String())
	if r.Namespace != "" {
		name += "/" + r.Namespace
	}
	return name + "/" + r.Name
}

// immutable refuses a changed value, which is shown as upstream shows its own types.
func immutable(value, old any, p *field.Path) field.ErrorList {
	errs := apivalidation.ValidateImmutableField(value, old, p)
	for _, err := range errs {
		err.BadValue = check.Shown(err.BadValue)
	}
	return errs
}
