package registry

import (
	"strings"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
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
		Validate:         func(obj runtime.Object) field.ErrorList { return parentRef(parent, of(obj).Spec.ParentRef, true) },
		Updates: map[string]Update{"": {
			Prepare: func(runtime.Object, runtime.Object) {},
			Validate: func(obj, old runtime.Object) field.ErrorList {
				errs := parentRef(parent, of(obj).Spec.ParentRef, false)
				if !equality.Semantic.DeepEqual(of(obj).Spec.ParentRef, of(old).Spec.ParentRef) {
					errs = append(errs, field.Invalid(parent, nil, apivalidation.FieldImmutableErrorMsg))
				}
				return errs
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

// parentRef: what a new object lacks is told last.
func parentRef(p *field.Path, r *networkingv1.ParentReference, created bool) field.ErrorList {
	var e check.Errors
	if r == nil {
		e.Required(p, "")
		return e.List()
	}
	if r.Group != "" {
		e.Each(p.Child("group"), r.Group, validation.IsDNS1123Subdomain(r.Group))
	}
	var missing check.Errors
	for _, s := range [][2]string{{"resource", r.Resource}, {"name", r.Name}, {"namespace", r.Namespace}} {
		switch to := &e; {
		case s[1] != "":
			e.Each(p.Child(s[0]), s[1], content.IsPathSegmentName(s[1]))
		case s[0] == "namespace":
		case created:
			to = &missing
			fallthrough
		default:
			to.Required(p.Child(s[0]), "")
		}
	}
	e.Add(missing.List())
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
