// Package service is what the API accepts as a Service: its defaults, its rules, what an update inherits from the stored object, and
// how it is shown. It is pure. Addresses and node ports are chosen elsewhere (admit.ServiceAddresses); Inherit and InitFamilies are
// the part of that which needs no choosing.
package service

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var (
	metaPath = field.NewPath("metadata")
	specPath = field.NewPath("spec")
)

// Default fills what a Service's author left out. It is idempotent.
func Default(s *v1.Service) {
	spec := &s.Spec
	setIfZero(&spec.SessionAffinity, v1.ServiceAffinityNone)
	switch spec.SessionAffinity {
	case v1.ServiceAffinityNone:
		spec.SessionAffinityConfig = nil
	case v1.ServiceAffinityClientIP:
		if c := spec.SessionAffinityConfig; c == nil || c.ClientIP == nil || c.ClientIP.TimeoutSeconds == nil {
			spec.SessionAffinityConfig = &v1.SessionAffinityConfig{
				ClientIP: &v1.ClientIPConfig{TimeoutSeconds: new(v1.DefaultClientIPServiceAffinitySeconds)},
			}
		}
	}
	setIfZero(&spec.Type, v1.ServiceTypeClusterIP)
	for i := range spec.Ports {
		p := &spec.Ports[i]
		setIfZero(&p.Protocol, v1.ProtocolTCP)
		if p.TargetPort == intstr.FromInt32(0) || p.TargetPort == intstr.FromString("") {
			p.TargetPort = intstr.FromInt32(p.Port)
		}
	}
	if externallyAccessible(s) {
		setIfZero(&spec.ExternalTrafficPolicy, v1.ServiceExternalTrafficPolicyCluster)
	}
	if usesInternalPolicy(s) && spec.InternalTrafficPolicy == nil {
		spec.InternalTrafficPolicy = new(v1.ServiceInternalTrafficPolicyCluster)
	}
	if spec.Type != v1.ServiceTypeLoadBalancer {
		return
	}
	if spec.AllocateLoadBalancerNodePorts == nil {
		spec.AllocateLoadBalancerNodePorts = new(true)
	}
	for i := range s.Status.LoadBalancer.Ingress {
		if in := &s.Status.LoadBalancer.Ingress[i]; in.IP != "" && in.IPMode == nil {
			in.IPMode = new(v1.LoadBalancerIPModeVIP)
		}
	}
}

func setIfZero[T comparable](f *T, v T) {
	var zero T
	if *f == zero {
		*f = v
	}
}

// IsHeadless says that the Service has no address of its own, on purpose.
func IsHeadless(s *v1.Service) bool {
	return len(s.Spec.ClusterIPs) == 1 && s.Spec.ClusterIPs[0] == v1.ClusterIPNone
}

// NeedsClusterIP says that the type goes with a cluster IP; "None" counts as one.
func NeedsClusterIP(s *v1.Service) bool { return s.Spec.Type != v1.ServiceTypeExternalName }

// UsesNodePorts says that the type may have node ports at all.
func UsesNodePorts(s *v1.Service) bool {
	return s.Spec.Type == v1.ServiceTypeNodePort || s.Spec.Type == v1.ServiceTypeLoadBalancer
}

// NeedsNodePorts says that each port gets a node port of its own when none is asked for.
func NeedsNodePorts(s *v1.Service) bool {
	if s.Spec.Type == v1.ServiceTypeLoadBalancer {
		a := s.Spec.AllocateLoadBalancerNodePorts
		return a == nil || *a
	}
	return s.Spec.Type == v1.ServiceTypeNodePort
}

// NeedsHealthCheck says that load balancers ask every node whether it has endpoints, at a port of its own.
func NeedsHealthCheck(s *v1.Service) bool {
	return s.Spec.Type == v1.ServiceTypeLoadBalancer && s.Spec.ExternalTrafficPolicy == v1.ServiceExternalTrafficPolicyLocal
}

// NodePorts are the numbers of the node that the Service holds: those of its ports, each once, and the health check's.
func NodePorts(s *v1.Service) []int32 {
	var out []int32
	add := func(n int32) {
		if n != 0 && !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	for i := range s.Spec.Ports {
		add(s.Spec.Ports[i].NodePort)
	}
	add(s.Spec.HealthCheckNodePort)
	return out
}

func externallyAccessible(s *v1.Service) bool {
	return UsesNodePorts(s) || s.Spec.Type == v1.ServiceTypeClusterIP && len(s.Spec.ExternalIPs) > 0
}

// usesInternalPolicy: all types but ExternalName (and what is no type).
func usesInternalPolicy(s *v1.Service) bool {
	return UsesNodePorts(s) || s.Spec.Type == v1.ServiceTypeClusterIP
}
