package registry

import (
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"podo.dev/podo/internal/registry/check"
)

func leaseKind() *Kind {
	return &Kind{
		GVK:        coordinationv1.SchemeGroupVersion.WithKind("Lease"),
		Resource:   "leases",
		Singular:   "lease",
		Namespaced: true,
		Dir:        "leases",
		Verbs:      allVerbs,
		New:        func() runtime.Object { return &coordinationv1.Lease{} },
		NewList:    func() runtime.Object { return &coordinationv1.LeaseList{} },
		ValidName:  apivalidation.NameIsDNSSubdomain,
		Default:    func(runtime.Object) {},
		// Coordinated leader election is behind a gate that is off.
		PrepareForCreate: func(obj runtime.Object) {
			l := obj.(*coordinationv1.Lease)
			l.Spec.Strategy, l.Spec.PreferredHolder = nil, nil
		},
		Validate: func(obj runtime.Object) field.ErrorList { return validateLease(obj.(*coordinationv1.Lease)) },
		Updates: map[string]Update{"": {
			Prepare: func(obj, old runtime.Object) {
				l, o := obj.(*coordinationv1.Lease), old.(*coordinationv1.Lease)
				if o.Spec.Strategy == nil {
					l.Spec.Strategy = nil
				}
				if o.Spec.PreferredHolder == nil {
					l.Spec.PreferredHolder = nil
				}
			},
			Validate:    func(obj, _ runtime.Object) field.ErrorList { return validateLease(obj.(*coordinationv1.Lease)) },
			AllowCreate: true,
		}},
		Selectable: metaFields,
		Columns: []metav1.TableColumnDefinition{
			nameColumn,
			{Name: "Holder", Type: "string", Description: coordinationv1.LeaseSpec{}.SwaggerDoc()["holderIdentity"]},
			ageColumn,
		},
		Row: func(obj runtime.Object, now time.Time) []any {
			l, holder := obj.(*coordinationv1.Lease), ""
			if l.Spec.HolderIdentity != nil {
				holder = *l.Spec.HolderIdentity
			}
			return []any{l.Name, holder, age(l.CreationTimestamp, now)}
		},
	}
}

func validateLease(l *coordinationv1.Lease) field.ErrorList {
	var e check.Errors
	s := &l.Spec
	if d := s.LeaseDurationSeconds; d != nil && *d <= 0 {
		e.Invalid(specPath.Child("leaseDurationSeconds"), d, "must be greater than 0")
	}
	if n := s.LeaseTransitions; n != nil && *n < 0 {
		e.Invalid(specPath.Child("leaseTransitions"), n, "must be greater than or equal to 0")
	}
	if s.Strategy != nil {
		p := specPath.Child("strategy", "strategy")
		if strings.Contains(string(*s.Strategy), "/") {
			e.Qualified(p, string(*s.Strategy))
		} else {
			check.OneOf(&e, p, *s.Strategy, coordinationv1.OldestEmulationVersion)
		}
	}
	if h := s.PreferredHolder; h != nil && *h != "" && (s.Strategy == nil || *s.Strategy == "") {
		e.Forbidden(specPath.Child("preferredHolder"), "may only be specified if `strategy` is defined")
	}
	return e.List()
}
