package service

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"podo.dev/podo/internal/registry/check"
)

// Complete fills a stored Service's newer fields from its older ones, as reading it through upstream's API would: those written
// before addresses came in lists, and before they had families.
func Complete(s *v1.Service, family v1.IPFamily) {
	spec := &s.Spec
	if !NeedsClusterIP(s) {
		spec.InternalTrafficPolicy = nil
		return
	}
	if spec.ClusterIP != "" && len(spec.ClusterIPs) == 0 {
		spec.ClusterIPs = []string{spec.ClusterIP}
	}
	if len(spec.IPFamilies) > 0 {
		return
	}
	switch {
	case spec.ClusterIP != v1.ClusterIPNone:
		for _, ip := range spec.ClusterIPs {
			spec.IPFamilies = append(spec.IPFamilies, familyOf(ip))
		}
	case len(spec.Selector) == 0:
		spec.IPFamilies = []v1.IPFamily{family, other(family)}
	default:
		spec.IPFamilies = []v1.IPFamily{family}
	}
	switch len(spec.IPFamilies) {
	case 1:
		spec.IPFamilyPolicy = new(v1.IPFamilyPolicySingleStack)
	case 2:
		spec.IPFamilyPolicy = new(v1.IPFamilyPolicyRequireDualStack)
	}
}

// Shown drops what upstream keeps of a Service and does not show: one that is a name elsewhere has no policy for traffic within, be it left over
// from when it had an address. A policy that there is not is left for the rules to refuse.
func Shown(s *v1.Service) {
	if p := s.Spec.InternalTrafficPolicy; p != nil && !NeedsClusterIP(s) &&
		(*p == v1.ServiceInternalTrafficPolicyCluster || *p == v1.ServiceInternalTrafficPolicyLocal) {
		s.Spec.InternalTrafficPolicy = nil
	}
}

// Inherit gives a changed Service what was chosen for the stored one and is not said again, so that a client may send the same
// manifest twice, and makes clusterIP and clusterIPs agree as far as it is clear what is meant. old is nil on create.
func Inherit(s, old *v1.Service) {
	spec := &s.Spec
	if old == nil {
		if spec.ClusterIP != "" && len(spec.ClusterIPs) == 0 {
			spec.ClusterIPs = []string{spec.ClusterIP}
		}
		return
	}
	was := &old.Spec
	if NeedsClusterIP(s) && NeedsClusterIP(old) {
		setIfZero(&spec.ClusterIP, was.ClusterIP)
		if len(spec.ClusterIPs) == 0 {
			spec.ClusterIPs = slices.Clone(was.ClusterIPs)
		}
	}
	if NeedsNodePorts(s) && NeedsNodePorts(old) {
		inheritNodePorts(spec, was)
	}
	if NeedsHealthCheck(s) && NeedsHealthCheck(old) {
		setIfZero(&spec.HealthCheckNodePort, was.HealthCheckNodePort)
	}
	switch unchanged := slices.Equal(spec.ClusterIPs, was.ClusterIPs); {
	case spec.ClusterIP == was.ClusterIP:
		if len(spec.ClusterIPs) == 0 {
			spec.ClusterIPs = slices.Clone(was.ClusterIPs)
		}
	case !unchanged:
	case spec.ClusterIP == "":
		spec.ClusterIPs = nil
	default:
		spec.ClusterIPs = []string{spec.ClusterIP}
	}
}

// inheritNodePorts goes by the ports' names; a number that another port claims is not inherited.
func inheritNodePorts(spec, was *v1.ServiceSpec) {
	byName, had := map[string]int32{}, map[int32]bool{}
	for _, p := range was.Ports {
		byName[p.Name] = p.NodePort
		had[p.NodePort] = p.NodePort != 0
	}
	used := map[int32]bool{}
	for _, p := range spec.Ports {
		used[p.NodePort] = had[p.NodePort]
	}
	for i := range spec.Ports {
		if p := &spec.Ports[i]; p.NodePort == 0 && !used[byName[p.Name]] {
			p.NodePort = byName[p.Name]
		}
	}
}

// InitFamilies decides on ipFamilyPolicy and ipFamilies on a cluster whose Services have one family of addresses. old is nil on
// create.
func InitFamilies(s, old *v1.Service, family v1.IPFamily) field.ErrorList {
	spec := &s.Spec
	if !NeedsClusterIP(s) || old != nil && preferredAndSame(s, old) {
		return nil
	}
	selectorless := spec.ClusterIP == v1.ClusterIPNone && len(spec.Selector) == 0
	if spec.IPFamilyPolicy == nil {
		switch {
		case old != nil && old.Spec.IPFamilyPolicy != nil:
			spec.IPFamilyPolicy = new(*old.Spec.IPFamilyPolicy)
		case selectorless:
			spec.IPFamilyPolicy = new(v1.IPFamilyPolicyRequireDualStack)
		default:
			spec.IPFamilyPolicy = new(v1.IPFamilyPolicySingleStack)
		}
	}
	if errs := ClusterIPs(s, old); len(errs) > 0 {
		return errs
	}
	var e check.Errors
	if old != nil {
		reduce(&e, s, old)
	}
	inferFamilies(&e, s, family)
	if len(e.List()) > 0 {
		return e.List()
	}
	if selectorless {
		// Its endpoints are the user's own: they may be of any family.
		if len(spec.IPFamilies) == 0 {
			spec.IPFamilies = []v1.IPFamily{family}
		}
		if len(spec.IPFamilies) < 2 && !single(s) {
			spec.IPFamilies = append(spec.IPFamilies, other(spec.IPFamilies[0]))
		}
		return nil
	}
	if *spec.IPFamilyPolicy == v1.IPFamilyPolicyRequireDualStack {
		e.Invalid(policyPath, spec.IPFamilyPolicy, "this cluster is not configured for dual-stack services")
	}
	for i, f := range spec.IPFamilies {
		if f != family {
			e.Invalid(familiesPath.Index(i), f, "not configured on this cluster")
		}
	}
	if len(e.List()) == 0 && len(spec.IPFamilies) == 0 {
		spec.IPFamilies = []v1.IPFamily{family}
	}
	return e.List()
}

// reduce: a policy of one family lets the second address go; fewer addresses without that policy are refused.
func reduce(e *check.Errors, s, old *v1.Service) {
	spec, was := &s.Spec, &old.Spec
	if single(s) {
		if slices.Equal(spec.ClusterIPs, was.ClusterIPs) && len(spec.ClusterIPs) > 1 {
			spec.ClusterIPs = spec.ClusterIPs[:1]
		}
		if slices.Equal(spec.IPFamilies, was.IPFamilies) && len(spec.IPFamilies) > 1 {
			spec.IPFamilies = spec.IPFamilies[:1]
		}
		return
	}
	if n := len(spec.ClusterIPs); n > 0 && n < len(was.ClusterIPs) {
		e.Invalid(policyPath, spec.IPFamilyPolicy, "must be 'SingleStack' to release the secondary cluster IP")
	}
	if n := len(spec.IPFamilies); n > 0 && n < len(was.IPFamilies) {
		e.Invalid(policyPath, spec.IPFamilyPolicy, "must be 'SingleStack' to release the secondary IP family")
	}
}

func inferFamilies(e *check.Errors, s *v1.Service, family v1.IPFamily) {
	spec := &s.Spec
	if single(s) {
		const more = "must be 'RequireDualStack' or 'PreferDualStack' when multiple "
		if len(spec.ClusterIPs) == 2 {
			e.Invalid(policyPath, spec.IPFamilyPolicy, more+"cluster IPs are specified")
		}
		if len(spec.IPFamilies) == 2 {
			e.Invalid(policyPath, spec.IPFamilyPolicy, more+"IP families are specified")
		}
	}
	for i, ip := range spec.ClusterIPs {
		if ip == v1.ClusterIPNone {
			return
		}
		if i < len(spec.IPFamilies) {
			continue
		}
		if f := familyOf(ip); f != family {
			e.Invalid(ipsPath.Index(i), spec.ClusterIPs, fmt.Sprintf("%s is not configured on this cluster", f))
		} else {
			spec.IPFamilies = append(spec.IPFamilies, f)
		}
	}
}

// preferredAndSame: a Service that prefers two families is not touched because the cluster has gained or lost one.
func preferredAndSame(s, old *v1.Service) bool {
	prefers := func(p *v1.IPFamilyPolicy) bool { return p != nil && *p == v1.IPFamilyPolicyPreferDualStack }
	return prefers(s.Spec.IPFamilyPolicy) && (old.Spec.IPFamilyPolicy == nil || prefers(old.Spec.IPFamilyPolicy)) &&
		s.Spec.Type == old.Spec.Type && slices.Equal(s.Spec.ClusterIPs, old.Spec.ClusterIPs) &&
		slices.Equal(s.Spec.IPFamilies, old.Spec.IPFamilies)
}

func single(s *v1.Service) bool {
	return s.Spec.IPFamilyPolicy != nil && *s.Spec.IPFamilyPolicy == v1.IPFamilyPolicySingleStack
}

func familyOf(ip string) v1.IPFamily {
	if netutils.IsIPv6String(ip) {
		return v1.IPv6Protocol
	}
	return v1.IPv4Protocol
}

func other(f v1.IPFamily) v1.IPFamily {
	if f == v1.IPv4Protocol {
		return v1.IPv6Protocol
	}
	return v1.IPv4Protocol
}
