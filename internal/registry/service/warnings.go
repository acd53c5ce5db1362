package service

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	netutils "k8s.io/utils/net"
)

// Warnings tells what is accepted and unwise, or has no effect.
func Warnings(s *v1.Service) []string {
	var out []string
	warn := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	spec := &s.Spec
	if _, ok := s.Annotations[v1.DeprecatedAnnotationTopologyAwareHints]; ok {
		warn("annotation %s is deprecated, please use %s instead", v1.DeprecatedAnnotationTopologyAwareHints, v1.AnnotationTopologyMode)
	}
	if spec.ClusterIP != "" && spec.ClusterIP != v1.ClusterIPNone {
		for i, ip := range spec.ClusterIPs {
			out = append(out, validation.GetWarningsForIP(ipsPath.Index(i), ip)...)
		}
	}
	headless := spec.Type == v1.ServiceTypeClusterIP && spec.ClusterIP == v1.ClusterIPNone
	balancerIP := spec.LoadBalancerIP
	if headless {
		if balancerIP != "" {
			warn("spec.loadBalancerIP is ignored for headless services")
		}
		if len(spec.ExternalIPs) > 0 {
			warn("spec.externalIPs is ignored for headless services")
		}
		if spec.SessionAffinity != v1.ServiceAffinityNone {
			warn("spec.SessionAffinity is ignored for headless services")
		}
	}
	for i, ip := range spec.ExternalIPs {
		out = append(out, validation.GetWarningsForIP(specPath.Child("externalIPs").Index(i), ip)...)
	}
	named := spec.Type == v1.ServiceTypeExternalName
	if len(spec.ExternalIPs) > 0 && !headless && !named {
		warn("spec.externalIPs is deprecated and may no longer be implemented in some clusters")
	}
	if netutils.ParseIPSloppy(balancerIP) != nil {
		out = append(out, validation.GetWarningsForIP(specPath.Child("loadBalancerIP"), balancerIP)...)
	}
	for i, cidr := range spec.LoadBalancerSourceRanges {
		out = append(out, validation.GetWarningsForCIDR(specPath.Child("loadBalancerSourceRanges").Index(i), cidr)...)
	}
	if named && len(spec.ExternalIPs) > 0 {
		warn("spec.externalIPs is ignored when spec.type is %q", v1.ServiceTypeExternalName)
	}
	if !named && spec.ExternalName != "" {
		warn("spec.externalName is ignored when spec.type is not %q", v1.ServiceTypeExternalName)
	}
	if d := spec.TrafficDistribution; d != nil && *d == v1.ServiceTrafficDistributionPreferClose {
		warn("spec.trafficDistribution: %q is deprecated; use %q", v1.ServiceTrafficDistributionPreferClose, v1.ServiceTrafficDistributionPreferSameZone)
	}
	return out
}
