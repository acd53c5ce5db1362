package service

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"podo.dev/podo/internal/registry/check"
)

var (
	ipsPath      = specPath.Child("clusterIPs")
	familiesPath = specPath.Child("ipFamilies")
	policyPath   = specPath.Child("ipFamilyPolicy")
)

// ClusterIPs judges the fields that say which addresses a Service has, among themselves; old is nil on create.
func ClusterIPs(s, old *v1.Service) field.ErrorList {
	if s.Spec.Type == v1.ServiceTypeExternalName {
		return nil // they must be unset, which is judged elsewhere
	}
	var e check.Errors
	spec := &s.Spec
	switch {
	case spec.ClusterIP != "" && len(spec.ClusterIPs) == 0:
		e.Required(ipsPath, "")
	case spec.ClusterIP != "" && spec.ClusterIPs[0] != spec.ClusterIP:
		e.Invalid(ipsPath, spec.ClusterIPs, "first value must match `clusterIP`")
	case spec.ClusterIP == "" && len(spec.ClusterIPs) > 0:
		e.Invalid(ipsPath, spec.ClusterIPs, "must be empty when `clusterIP` is not specified")
	}
	seen := sets.New[v1.IPFamily]()
	for i, f := range spec.IPFamilies {
		check.OneOf(&e, familiesPath.Index(i), f, v1.IPv4Protocol, v1.IPv6Protocol)
		if seen.Has(f) {
			e.Duplicate(familiesPath.Index(i), f)
		}
		seen.Insert(f)
	}
	if spec.IPFamilyPolicy != nil {
		check.OneOf(&e, policyPath, *spec.IPFamilyPolicy,
			v1.IPFamilyPolicyPreferDualStack, v1.IPFamilyPolicyRequireDualStack, v1.IPFamilyPolicySingleStack)
	}
	wellFormed := addresses(&e, s, old)
	if len(spec.ClusterIPs) > 2 {
		e.Invalid(ipsPath, spec.ClusterIPs, "may only hold up to 2 values")
	}
	if !wellFormed {
		return e.List()
	}
	if len(spec.ClusterIPs) > 1 {
		dual, err := netutils.IsDualStackIPStrings(spec.ClusterIPs)
		if err != nil {
			e.Put(field.InternalError(ipsPath, fmt.Errorf("failed to check for dual stack with error:%w", err)))
		}
		if !dual {
			e.Invalid(ipsPath, spec.ClusterIPs, "may specify no more than one IP for each IP family")
		}
	}
	if !IsHeadless(s) {
		matchFamilies(&e, spec)
	}
	return e.List()
}

// addresses checks each for itself and says whether all are well-formed.
func addresses(e *check.Errors, s, old *v1.Service) bool {
	var known []string
	if old != nil {
		known = old.Spec.ClusterIPs
	}
	ok := true
	for i, ip := range s.Spec.ClusterIPs {
		if i == 0 && ip == v1.ClusterIPNone {
			if len(s.Spec.ClusterIPs) > 1 {
				e.Invalid(ipsPath, s.Spec.ClusterIPs, "'None' must be the first and only value")
				ok = false
			}
			continue
		}
		before := len(e.List())
		e.IP(ipsPath.Index(i), ip, known)
		ok = ok && len(e.List()) == before
	}
	return ok
}

func matchFamilies(e *check.Errors, spec *v1.ServiceSpec) {
	for i, ip := range spec.ClusterIPs {
		if i >= len(spec.IPFamilies) {
			return
		}
		if f, six := spec.IPFamilies[i], netutils.IsIPv6String(ip); f == v1.IPv4Protocol && six || f == v1.IPv6Protocol && !six {
			e.Invalid(ipsPath.Index(i), ip, fmt.Sprintf("expected an %s value as indicated by `ipFamilies[%v]`", f, i))
		}
	}
}
