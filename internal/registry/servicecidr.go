package registry

import (
	"strings"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"podo.dev/podo/internal/registry/check"
)

// serviceCIDRKind: ranges that Services get their addresses from.
func serviceCIDRKind() *Kind {
	of := func(obj runtime.Object) *networkingv1.ServiceCIDR { return obj.(*networkingv1.ServiceCIDR) }
	return &Kind{
		GVK:              networkingv1.SchemeGroupVersion.WithKind("ServiceCIDR"),
		Resource:         "servicecidrs",
		Singular:         "servicecidr",
		Dir:              "servicecidrs",
		Verbs:            allVerbs,
		New:              func() runtime.Object { return &networkingv1.ServiceCIDR{} },
		NewList:          func() runtime.Object { return &networkingv1.ServiceCIDRList{} },
		ValidName:        apivalidation.NameIsDNSSubdomain,
		Default:          func(runtime.Object) {},
		PrepareForCreate: func(obj runtime.Object) { of(obj).Status = networkingv1.ServiceCIDRStatus{} },
		Validate:         func(obj runtime.Object) field.ErrorList { return serviceCIDRs(&of(obj).Spec) },
		Updates: map[string]Update{
			"": {
				Prepare:            func(obj, old runtime.Object) { of(obj).Status = *of(old).Status.DeepCopy() },
				Validate:           func(obj, old runtime.Object) field.ErrorList { return changedCIDRs(&of(obj).Spec, &of(old).Spec) },
				Resets:             []string{"status"},
				AllowUnconditional: true,
			},
			"status": {
				Prepare: func(obj, old runtime.Object) {
					of(obj).Spec = *of(old).Spec.DeepCopy()
					metav1.ResetObjectMetaForStatus(&of(obj).ObjectMeta, of(old).ObjectMeta.DeepCopy())
				},
				Resets:             []string{"metadata", "spec"},
				AllowUnconditional: true,
			},
		},
		Selectable: clusterFields,
		Columns: []metav1.TableColumnDefinition{
			nameColumn, {Name: "CIDRs", Type: "string", Description: networkingv1.ServiceCIDRSpec{}.SwaggerDoc()["cidrs"]}, ageColumn,
		},
		Row: func(obj runtime.Object, now time.Time) []any {
			return []any{of(obj).Name, strings.Join(of(obj).Spec.CIDRs, ","), age(of(obj).CreationTimestamp, now)}
		},
	}
}

var cidrsPath = specPath.Child("cidrs")

// serviceCIDRs: one range, or one of each family.
func serviceCIDRs(spec *networkingv1.ServiceCIDRSpec) field.ErrorList {
	var e check.Errors
	switch cidrs := spec.CIDRs; {
	case len(cidrs) == 0:
		e.Required(cidrsPath, "at least one CIDR required")
	case len(cidrs) > 2:
		e.Invalid(cidrsPath, spec, "may only hold up to 2 values")
	default:
		for i, c := range cidrs {
			e.Add(validation.IsValidCIDR(cidrsPath.Index(i), c))
		}
		if len(cidrs) == 1 {
			break
		}
		if f := netutils.IPFamilyOfCIDRString(cidrs[0]); f == netutils.IPFamilyOfCIDRString(cidrs[1]) && f != netutils.IPFamilyUnknown {
			e.Invalid(cidrsPath, cidrs, "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64")
		}
	}
	return e.List()
}

// changedCIDRs: a range of the other family may be added, and that is all.
func changedCIDRs(spec, old *networkingv1.ServiceCIDRSpec) field.ErrorList {
	var e check.Errors
	grows := len(old.CIDRs) == 1 && len(spec.CIDRs) == 2
	if len(old.CIDRs) != len(spec.CIDRs) && !grows {
		e.Invalid(cidrsPath, spec.CIDRs, apivalidation.FieldImmutableErrorMsg)
		return e.List()
	}
	for i, c := range old.CIDRs {
		if c != spec.CIDRs[i] {
			e.Invalid(cidrsPath.Index(i), spec.CIDRs[i], apivalidation.FieldImmutableErrorMsg)
		}
	}
	if grows {
		e.Add(serviceCIDRs(spec))
	}
	return e.List()
}
