package service

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"podo.dev/podo/internal/registry/check"
)

const onceSet = "may not change once set"

// PrepareUpdate keeps the status and clears what the Service's new type has no use for, where the author did not touch it.
func PrepareUpdate(s, old *v1.Service) {
	s.Status = *old.Status.DeepCopy()
	spec, was := &s.Spec, &old.Spec
	if NeedsClusterIP(old) && !NeedsClusterIP(s) {
		if was.ClusterIP == spec.ClusterIP && slices.Equal(was.ClusterIPs, spec.ClusterIPs) {
			spec.ClusterIP, spec.ClusterIPs = "", nil
		}
		if slices.Equal(was.IPFamilies, spec.IPFamilies) {
			spec.IPFamilies = nil
		}
		if same(was.IPFamilyPolicy, spec.IPFamilyPolicy) {
			spec.IPFamilyPolicy = nil
		}
	}
	if UsesNodePorts(old) && !UsesNodePorts(s) && !newNodePorts(s, old) {
		for i := range spec.Ports {
			spec.Ports[i].NodePort = 0
		}
	}
	if NeedsHealthCheck(old) && !NeedsHealthCheck(s) && was.HealthCheckNodePort == spec.HealthCheckNodePort {
		spec.HealthCheckNodePort = 0
	}
	if was.Type == v1.ServiceTypeLoadBalancer && spec.Type != v1.ServiceTypeLoadBalancer {
		if same(was.AllocateLoadBalancerNodePorts, spec.AllocateLoadBalancerNodePorts) {
			spec.AllocateLoadBalancerNodePorts = nil
		}
		if same(was.LoadBalancerClass, spec.LoadBalancerClass) {
			spec.LoadBalancerClass = nil
		}
	}
	if externallyAccessible(old) && !externallyAccessible(s) && was.ExternalTrafficPolicy == spec.ExternalTrafficPolicy {
		spec.ExternalTrafficPolicy = ""
	}
	if spec.Type != v1.ServiceTypeLoadBalancer {
		s.Status.LoadBalancer = v1.LoadBalancerStatus{}
	}
}

func same[T comparable](a, b *T) bool {
	var zero T
	value := func(p *T) T {
		if p == nil {
			return zero
		}
		return *p
	}
	return (a == nil) == (b == nil) && value(a) == value(b)
}

// newNodePorts says that a node port is asked for which the stored Service does not have.
func newNodePorts(s, old *v1.Service) bool {
	had := map[int32]bool{0: true}
	for i := range old.Spec.Ports {
		had[old.Spec.Ports[i].NodePort] = true
	}
	return slices.ContainsFunc(s.Spec.Ports, func(p v1.ServicePort) bool { return !had[p.NodePort] })
}

// ValidateUpdate judges a change. A second address may come and go; the first changes only by way of ExternalName.
func ValidateUpdate(s, old *v1.Service) field.ErrorList {
	var e check.Errors
	if NeedsClusterIP(s) && NeedsClusterIP(old) {
		changedIPs(&e, s, old)
		changedFamilies(&e, s, old)
	}
	balanced := s.Spec.Type == v1.ServiceTypeLoadBalancer
	if c := s.Spec.LoadBalancerClass; balanced && old.Spec.Type == s.Spec.Type && !same(c, old.Spec.LoadBalancerClass) {
		e.Invalid(specPath.Child("loadBalancerClass"), c, onceSet)
	}
	class(&e, s)
	if NeedsHealthCheck(s) && NeedsHealthCheck(old) && s.Spec.HealthCheckNodePort != old.Spec.HealthCheckNodePort {
		e.Forbidden(specPath.Child("healthCheckNodePort"), "field is immutable")
	}
	e.Add(Validate(s, old))
	return e.List()
}

func changedIPs(e *check.Errors, s, old *v1.Service) {
	if IsHeadless(s) && IsHeadless(old) {
		return
	}
	ips, was := s.Spec.ClusterIPs, old.Spec.ClusterIPs
	switch {
	case len(ips) == len(was):
		for i := range was {
			if was[i] != ips[i] {
				e.Invalid(ipsPath.Index(i), ips, onceSet)
			}
		}
		return
	case len(ips) == 0:
		e.Invalid(ipsPath.Index(0), ips, "primary clusterIP can not be unset")
		return
	case len(was) > 0 && ips[0] != was[0]:
		e.Invalid(ipsPath.Index(0), ips, onceSet)
	}
	if len(was) > len(ips) && len(ips) == 1 && !single(s) {
		e.Invalid(policyPath, s.Spec.IPFamilyPolicy, "must be set to 'SingleStack' when releasing the secondary clusterIP")
	}
}

func changedFamilies(e *check.Errors, s, old *v1.Service) {
	if IsHeadless(s) || IsHeadless(old) {
		return
	}
	families, was := s.Spec.IPFamilies, old.Spec.IPFamilies
	first := familiesPath.Index(0)
	switch {
	case len(families) == len(was):
		for i := range was {
			if was[i] != families[i] {
				e.Invalid(first, families, onceSet)
			}
		}
		return
	case len(was) > len(families) && len(s.Spec.ClusterIPs) == 0:
		e.Invalid(first, families, "primary ipFamily can not be unset")
	}
	if len(families) > 0 && len(was) > 0 && families[0] != was[0] {
		e.Invalid(first, s.Spec.ClusterIPs, onceSet)
	}
	if len(was) > len(families) && len(families) == 1 && !single(s) {
		e.Invalid(policyPath, s.Spec.IPFamilyPolicy, "must be set to 'SingleStack' when releasing the secondary ipFamily")
	}
}

// ValidateStatus judges what a load balancer has been given.
func ValidateStatus(s, old *v1.Service) field.ErrorList {
	var e check.Errors
	p := field.NewPath("status", "loadBalancer", "ingress")
	in := s.Status.LoadBalancer.Ingress
	if s.Spec.Type != v1.ServiceTypeLoadBalancer && len(in) > 0 {
		e.Forbidden(p, "may only be used when `spec.type` is 'LoadBalancer'")
		return e.List()
	}
	var known []string
	for i := range old.Status.LoadBalancer.Ingress {
		if ip := old.Status.LoadBalancer.Ingress[i].IP; ip != "" {
			known = append(known, ip)
		}
	}
	for i := range in {
		ingress(&e, p.Index(i), &in[i], known)
	}
	return e.List()
}

func ingress(e *check.Errors, p *field.Path, in *v1.LoadBalancerIngress, known []string) {
	if in.IP != "" {
		e.IP(p.Child("ip"), in.IP, known)
	}
	switch mode := in.IPMode; {
	case mode == nil && in.IP != "":
		e.Required(p.Child("ipMode"), "must be specified when `ip` is set")
	case mode == nil:
	case in.IP == "":
		e.Forbidden(p.Child("ipMode"), "may not be specified when `ip` is not set")
	default:
		check.OneOf(e, p.Child("ipMode"), *mode, v1.LoadBalancerIPModeProxy, v1.LoadBalancerIPModeVIP)
	}
	if in.Hostname != "" {
		e.Subdomain(p.Child("hostname"), in.Hostname)
		if netutils.ParseIPSloppy(in.Hostname) != nil {
			e.Invalid(p.Child("hostname"), in.Hostname, "must be a DNS name, not an IP address")
		}
	}
}

// StatusWarnings tells of addresses that are written oddly.
func StatusWarnings(s *v1.Service) []string {
	var out []string
	for i, in := range s.Status.LoadBalancer.Ingress {
		if in.IP != "" {
			out = append(out, validation.GetWarningsForIP(field.NewPath("status", "loadBalancer", "ingress").Index(i), in.IP)...)
		}
	}
	return out
}
