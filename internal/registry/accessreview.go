package registry

import (
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	unversioned "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"podo.dev/podo/internal/registry/check"
)

// accessReviewKind is a kind of authorization.k8s.io: a question about who may do what, answered and not kept.
func accessReviewKind(name, singular string, object func() runtime.Object, validate func(runtime.Object) field.ErrorList) *Kind {
	return &Kind{
		GVK: authorizationv1.SchemeGroupVersion.WithKind(name), Resource: singular + "s", Singular: singular, Unstored: true, Verbs: []string{"create"},
		New: object, NewList: func() runtime.Object { return &metav1.List{} }, Default: func(runtime.Object) {}, Validate: validate,
	}
}

func localSubjectAccessReviewKind() *Kind {
	k := accessReviewKind("LocalSubjectAccessReview", "localsubjectaccessreview",
		func() runtime.Object { return &authorizationv1.LocalSubjectAccessReview{} },
		func(obj runtime.Object) field.ErrorList {
			return validateLocalReview(obj.(*authorizationv1.LocalSubjectAccessReview))
		})
	k.Namespaced = true
	return k
}

func selfSubjectAccessReviewKind() *Kind {
	return accessReviewKind("SelfSubjectAccessReview", "selfsubjectaccessreview",
		func() runtime.Object { return &authorizationv1.SelfSubjectAccessReview{} },
		func(obj runtime.Object) field.ErrorList {
			r := obj.(*authorizationv1.SelfSubjectAccessReview)
			var e check.Errors
			validateAttributes(&e, r.Spec.ResourceAttributes, r.Spec.NonResourceAttributes)
			validateSelectors(&e, r.Spec.ResourceAttributes)
			emptyMeta(&e, r.ObjectMeta, r.ObjectMeta, "must be empty")
			return e.List()
		})
}

func selfSubjectRulesReviewKind() *Kind {
	return accessReviewKind("SelfSubjectRulesReview", "selfsubjectrulesreview",
		func() runtime.Object { return &authorizationv1.SelfSubjectRulesReview{} },
		func(runtime.Object) field.ErrorList { return nil })
}

func subjectAccessReviewKind() *Kind {
	return accessReviewKind("SubjectAccessReview", "subjectaccessreview",
		func() runtime.Object { return &authorizationv1.SubjectAccessReview{} },
		func(obj runtime.Object) field.ErrorList {
			r := obj.(*authorizationv1.SubjectAccessReview)
			var e check.Errors
			validateReviewSpec(&e, &r.Spec)
			emptyMeta(&e, r.ObjectMeta, r.ObjectMeta, "must be empty")
			return e.List()
		})
}

func validateAttributes(e *check.Errors, r *authorizationv1.ResourceAttributes, n *authorizationv1.NonResourceAttributes) {
	if (r == nil) == (n == nil) {
		e.Invalid(specPath, n, "exactly one of nonResourceAttributes or resourceAttributes must be specified")
	}
}

func validateReviewSpec(e *check.Errors, s *authorizationv1.SubjectAccessReviewSpec) {
	validateAttributes(e, s.ResourceAttributes, s.NonResourceAttributes)
	if s.User == "" && len(s.Groups) == 0 {
		e.Invalid(specPath.Child("user"), s.User, "at least one of user or group must be specified")
	}
	validateSelectors(e, s.ResourceAttributes)
}

func validateLocalReview(r *authorizationv1.LocalSubjectAccessReview) field.ErrorList {
	var e check.Errors
	validateReviewSpec(&e, &r.Spec)
	m := r.ObjectMeta
	m.Namespace = ""
	emptyMeta(&e, m, r.ObjectMeta, "must be empty except for namespace")
	if a := r.Spec.ResourceAttributes; a != nil && a.Namespace != r.Namespace {
		e.Invalid(field.NewPath("spec.resourceAttributes.namespace"), a.Namespace, "must match metadata.namespace")
	}
	if n := r.Spec.NonResourceAttributes; n != nil {
		e.Invalid(field.NewPath("spec.nonResourceAttributes"), n, "disallowed on this kind of request")
	}
	return e.List()
}

// emptyMeta refuses metadata of which something is set that may not be, but for who set it. shown is all of it.
func emptyMeta(e *check.Errors, m, shown metav1.ObjectMeta, detail string) {
	m.ManagedFields = nil
	if !equality.Semantic.DeepEqual(metav1.ObjectMeta{}, m) {
		e.Invalid(metaPath, shown, detail)
	}
}

// validateSelectors: operators that are not known here may be known to newer clients, and only make the question broader.
func validateSelectors(e *check.Errors, a *authorizationv1.ResourceAttributes) {
	if a == nil {
		return
	}
	p := field.NewPath("spec.resourceAttributes")
	if s := a.FieldSelector; s != nil {
		fp := p.Child("fieldSelector")
		rawOrRequirements(e, fp, s.RawSelector, len(s.Requirements))
		for i, r := range s.Requirements {
			o := unversioned.FieldSelectorValidationOptions{AllowUnknownOperatorInRequirement: true}
			e.Add(unversioned.ValidateFieldSelectorRequirement(r, o, fp.Child("requirements").Index(i)))
		}
	}
	if s := a.LabelSelector; s != nil {
		lp := p.Child("labelSelector")
		rawOrRequirements(e, lp, s.RawSelector, len(s.Requirements))
		for i, r := range s.Requirements {
			o := unversioned.LabelSelectorValidationOptions{AllowUnknownOperatorInRequirement: true}
			e.Add(unversioned.ValidateLabelSelectorRequirement(r, o, lp.Child("requirements").Index(i)))
		}
	}
}

func rawOrRequirements(e *check.Errors, p *field.Path, raw string, requirements int) {
	if raw != "" && requirements > 0 {
		e.Invalid(p.Child("rawSelector"), raw, "may not specified at the same time as requirements")
	}
	if raw == "" && requirements == 0 {
		e.Required(p.Child("requirements"), fmt.Sprintf("when %s is specified, requirements or rawSelector is required", p))
	}
}
