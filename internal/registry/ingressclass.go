package registry

import (
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validate/content"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"podo.dev/podo/internal/registry/check"
)

func ingressClassKind() *Kind {
	of := func(obj runtime.Object) *networkingv1.IngressClass { return obj.(*networkingv1.IngressClass) }
	return &Kind{
		GVK:       networkingv1.SchemeGroupVersion.WithKind("IngressClass"),
		Resource:  "ingressclasses",
		Singular:  "ingressclass",
		Dir:       "ingressclasses",
		Verbs:     allVerbs,
		New:       func() runtime.Object { return &networkingv1.IngressClass{} },
		NewList:   func() runtime.Object { return &networkingv1.IngressClassList{} },
		ValidName: apivalidation.NameIsDNSSubdomain,
		Default: func(obj runtime.Object) {
			if p := of(obj).Spec.Parameters; p != nil && p.Scope == nil {
				p.Scope = new(networkingv1.IngressClassParametersReferenceScopeCluster)
			}
		},
		PrepareForCreate: func(obj runtime.Object) { of(obj).Generation = 1 },
		Validate:         func(obj runtime.Object) field.ErrorList { return validateIngressClass(&of(obj).Spec) },
		Updates: map[string]Update{"": {
			Prepare: func(obj, old runtime.Object) {
				if !equality.Semantic.DeepEqual(of(obj).Spec, of(old).Spec) {
					of(obj).Generation = of(old).Generation + 1
				}
			},
			Validate: func(obj, old runtime.Object) field.ErrorList {
				controller, was := of(obj).Spec.Controller, of(old).Spec.Controller
				return append(apivalidation.ValidateImmutableField(controller, was, specPath.Child("controller")), validateIngressClass(&of(obj).Spec)...)
			},
			AllowUnconditional: true,
		}},
		Selectable: clusterFields,
		Columns: []metav1.TableColumnDefinition{
			nameColumn,
			{Name: "Controller", Type: "string", Description: "Controller that is responsible for handling this class"},
			{Name: "Parameters", Type: "string", Description: "A reference to a resource with additional parameters"},
			ageColumn,
		},
		Row: func(obj runtime.Object, now time.Time) []any {
			c := of(obj)
			name, parameters := c.Name, "<none>"
			if DefaultIngressClass(c) {
				name += " (default)"
			}
			if p := c.Spec.Parameters; p != nil {
				parameters = p.Kind
				if p.APIGroup != nil {
					parameters += "." + *p.APIGroup
				}
				parameters += "/" + p.Name
			}
			return []any{name, c.Spec.Controller, parameters, age(c.CreationTimestamp, now)}
		},
	}
}

// DefaultIngressClass says whether a class is that of the Ingresses that name none.
func DefaultIngressClass(c *networkingv1.IngressClass) bool {
	return c.Annotations[networkingv1.AnnotationIsDefaultIngressClass] == "true"
}

// maxIngressController is how long a controller's name can be.
const maxIngressController = 250

func validateIngressClass(spec *networkingv1.IngressClassSpec) field.ErrorList {
	var e, missing check.Errors
	p := specPath.Child("controller")
	if len(spec.Controller) > maxIngressController {
		e.TooLong(p, maxIngressController)
	}
	e.Add(validation.IsDomainPrefixedPath(p, spec.Controller))
	if spec.Parameters != nil {
		ingressParameters(&e, &missing, specPath.Child("parameters"), spec.Parameters)
	}
	e.Add(missing.List()) // upstream's generated rules come last
	return e.List()
}

func ingressParameters(e, missing *check.Errors, p *field.Path, ref *networkingv1.IngressClassParametersReference) {
	ingressReference(e, missing, p, ref.APIGroup, ref.Kind, ref.Name)
	const cluster, namespace = networkingv1.IngressClassParametersReferenceScopeCluster, networkingv1.IngressClassParametersReferenceScopeNamespace
	if ref.Scope == nil {
		e.Required(p.Child("scope"), "")
		return
	}
	check.OneOf(e, p.Child("scope"), *ref.Scope, cluster, namespace)
	switch p := p.Child("namespace"); {
	case *ref.Scope == cluster && ref.Namespace != nil:
		e.Forbidden(p, "`parameters.scope` is set to 'Cluster'")
	case *ref.Scope == namespace && ref.Namespace == nil:
		e.Required(p, "`parameters.scope` is set to 'Namespace'")
	case *ref.Scope == namespace:
		e.Each(p, *ref.Namespace, apivalidation.ValidateNamespaceName(*ref.Namespace, false))
	}
}

// ingressReference checks what names an object of a kind that need not be known. What of it is missing may be told apart.
func ingressReference(e, missing *check.Errors, p *field.Path, group *string, kind, name string) {
	if group != nil {
		e.Subdomain(p.Child("apiGroup"), *group)
	}
	segment := func(p *field.Path, v string) {
		if v == "" {
			missing.Required(p, "")
			return
		}
		e.Each(p, v, content.IsPathSegmentName(v))
	}
	segment(p.Child("kind"), kind)
	segment(p.Child("name"), name)
}
