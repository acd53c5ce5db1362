package service

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"podo.dev/podo/internal/registry/check"
)

const (
	onlyLoadBalancer  = "may only be used when `type` is 'LoadBalancer'"
	notOnExternalName = "may not be set for ExternalName services"
)

// Validate judges a Service whole; old is nil on create.
func Validate(s, old *v1.Service) field.ErrorList {
	var e check.Errors
	topology(&e, s)
	spec := &s.Spec
	if len(spec.Ports) == 0 && !IsHeadless(s) && spec.Type != v1.ServiceTypeExternalName {
		e.Required(specPath.Child("ports"), "")
	}
	byType(&e, s)
	names := sets.New[string]()
	for i := range spec.Ports {
		port(&e, specPath.Child("ports").Index(i), &spec.Ports[i], len(spec.Ports) > 1, names)
	}
	if spec.Selector != nil {
		e.Add(metav1validation.ValidateLabels(spec.Selector, specPath.Child("selector")))
	}
	affinity(&e, spec)
	e.Add(ClusterIPs(s, old))
	var known []string
	if old != nil {
		known = old.Spec.ExternalIPs
	}
	for i, ip := range spec.ExternalIPs {
		e.LegacyEndpointIP(specPath.Child("externalIPs").Index(i), ip, known)
	}
	check.RequiredOneOf(&e, specPath.Child("type"), spec.Type,
		v1.ServiceTypeClusterIP, v1.ServiceTypeExternalName, v1.ServiceTypeLoadBalancer, v1.ServiceTypeNodePort)
	uniquePorts(&e, s)
	sourceRanges(&e, s, old)
	loadBalancerOnly(&e, s)
	traffic(&e, s)
	return e.List()
}

// topology: the annotation for hints has two spellings, which must not disagree.
func topology(e *check.Errors, s *v1.Service) {
	mode, hasMode := s.Annotations[v1.AnnotationTopologyMode]
	hints, hasHints := s.Annotations[v1.DeprecatedAnnotationTopologyAwareHints]
	if hasMode && hasHints && mode != hints {
		e.Invalid(metaPath.Child("annotations").Key(v1.AnnotationTopologyMode), mode,
			fmt.Sprintf("must match annotations[%s] when both are specified", v1.DeprecatedAnnotationTopologyAwareHints))
	}
}

func byType(e *check.Errors, s *v1.Service) {
	spec := &s.Spec
	switch spec.Type {
	case v1.ServiceTypeLoadBalancer, v1.ServiceTypeNodePort:
		if IsHeadless(s) {
			e.Invalid(specPath.Child("clusterIPs").Index(0), spec.ClusterIPs[0], fmt.Sprintf("may not be set to 'None' for %s services", spec.Type))
		}
	case v1.ServiceTypeExternalName:
		if len(spec.ClusterIPs) > 0 {
			e.Forbidden(specPath.Child("clusterIPs"), notOnExternalName)
		}
		if len(spec.IPFamilies) > 0 {
			e.Forbidden(specPath.Child("ipFamilies"), notOnExternalName)
		}
		if spec.IPFamilyPolicy != nil {
			e.Forbidden(specPath.Child("ipFamilyPolicy"), notOnExternalName)
		}
		// A trailing dot says that the name is complete.
		if name := strings.TrimSuffix(spec.ExternalName, "."); name != "" {
			e.Subdomain(specPath.Child("externalName"), name)
		} else {
			e.Required(specPath.Child("externalName"), "")
		}
	}
}

func port(e *check.Errors, p *field.Path, sp *v1.ServicePort, needsName bool, names sets.Set[string]) {
	if sp.Name != "" {
		e.DNSLabel(p.Child("name"), sp.Name)
		if names.Has(sp.Name) {
			e.Duplicate(p.Child("name"), sp.Name)
		}
		names.Insert(sp.Name)
	} else if needsName {
		e.Required(p.Child("name"), "")
	}
	e.Each(p.Child("port"), sp.Port, validation.IsValidPortNum(int(sp.Port)))
	check.RequiredOneOf(e, p.Child("protocol"), sp.Protocol, v1.ProtocolSCTP, v1.ProtocolTCP, v1.ProtocolUDP)
	e.Port(p.Child("targetPort"), sp.TargetPort)
	if sp.AppProtocol != nil {
		e.Qualified(p.Child("appProtocol"), *sp.AppProtocol)
	}
}

func affinity(e *check.Errors, spec *v1.ServiceSpec) {
	check.RequiredOneOf(e, specPath.Child("sessionAffinity"), spec.SessionAffinity, v1.ServiceAffinityClientIP, v1.ServiceAffinityNone)
	p := specPath.Child("sessionAffinityConfig")
	switch spec.SessionAffinity {
	case v1.ServiceAffinityNone:
		if spec.SessionAffinityConfig != nil {
			e.Forbidden(p, "must not be set when session affinity is None")
		}
	case v1.ServiceAffinityClientIP:
		const why = "when session affinity type is ClientIP"
		switch c := spec.SessionAffinityConfig; {
		case c == nil:
			e.Required(p, why)
		case c.ClientIP == nil:
			e.Required(p.Child("clientIP"), why)
		case c.ClientIP.TimeoutSeconds == nil:
			e.Required(p.Child("clientIP", "timeoutSeconds"), why)
		default:
			if t := *c.ClientIP.TimeoutSeconds; t <= 0 || t > maxAffinitySeconds {
				e.Invalid(p.Child("clientIP", "timeoutSeconds"), t, fmt.Sprintf("must be greater than 0 and less than %d", maxAffinitySeconds))
			}
		}
	}
}

// maxAffinitySeconds is a day.
const maxAffinitySeconds = 86400

// uniquePorts: a port and a node port are each given once for a protocol; a ClusterIP Service has no node ports.
func uniquePorts(e *check.Errors, s *v1.Service) {
	at := func(i int) *field.Path { return specPath.Child("ports").Index(i) }
	type pair struct {
		protocol v1.Protocol
		number   int32
	}
	for i := range s.Spec.Ports {
		if s.Spec.Type == v1.ServiceTypeClusterIP && s.Spec.Ports[i].NodePort != 0 {
			e.Forbidden(at(i).Child("nodePort"), "may not be used when `type` is 'ClusterIP'")
		}
	}
	seen := sets.New[pair]()
	for i, p := range s.Spec.Ports {
		if p.NodePort == 0 {
			continue
		}
		if key := (pair{p.Protocol, p.NodePort}); seen.Has(key) {
			e.Duplicate(at(i).Child("nodePort"), p.NodePort)
		} else {
			seen.Insert(key)
		}
	}
	seen = sets.New[pair]()
	for i, p := range s.Spec.Ports {
		if key := (pair{p.Protocol, p.Port}); seen.Has(key) {
			e.Duplicate(at(i), v1.ServicePort{Protocol: p.Protocol, Port: p.Port})
		} else {
			seen.Insert(key)
		}
	}
}

// sourceRanges come from the field or, without it, from an annotation. White space around a range is a part of the API.
func sourceRanges(e *check.Errors, s, old *v1.Service) {
	balanced := s.Spec.Type == v1.ServiceTypeLoadBalancer
	if len(s.Spec.LoadBalancerSourceRanges) > 0 {
		p := specPath.Child("LoadBalancerSourceRanges")
		if !balanced {
			e.Forbidden(p, onlyLoadBalancer)
		}
		var known []string
		if old != nil {
			for _, r := range old.Spec.LoadBalancerSourceRanges {
				known = append(known, strings.TrimSpace(r))
			}
		}
		for i, r := range s.Spec.LoadBalancerSourceRanges {
			e.CIDR(p.Index(i), strings.TrimSpace(r), known)
		}
		return
	}
	text, set := s.Annotations[v1.AnnotationLoadBalancerSourceRangesKey]
	if !set {
		return
	}
	p := metaPath.Child("annotations").Key(v1.AnnotationLoadBalancerSourceRangesKey)
	if !balanced {
		e.Forbidden(p, onlyLoadBalancer)
	}
	if old != nil && old.Annotations[v1.AnnotationLoadBalancerSourceRangesKey] == text {
		return
	}
	if text = strings.TrimSpace(text); text == "" {
		return
	}
	for r := range strings.SplitSeq(text, ",") {
		e.CIDR(p, strings.TrimSpace(r), nil)
	}
}

func loadBalancerOnly(e *check.Errors, s *v1.Service) {
	balanced := s.Spec.Type == v1.ServiceTypeLoadBalancer
	if a := s.Spec.AllocateLoadBalancerNodePorts; a != nil && !balanced {
		e.Forbidden(specPath.Child("allocateLoadBalancerNodePorts"), onlyLoadBalancer)
	} else if a == nil && balanced {
		e.Required(field.NewPath("allocateLoadBalancerNodePorts"), "")
	}
	class(e, s)
}

func class(e *check.Errors, s *v1.Service) {
	switch c := s.Spec.LoadBalancerClass; {
	case c == nil:
	case s.Spec.Type == v1.ServiceTypeLoadBalancer:
		e.Qualified(specPath.Child("loadBalancerClass"), *c)
	default:
		e.Forbidden(specPath.Child("loadBalancerClass"), onlyLoadBalancer)
	}
}

func traffic(e *check.Errors, s *v1.Service) {
	spec := &s.Spec
	external := specPath.Child("externalTrafficPolicy")
	if externallyAccessible(s) {
		check.RequiredOneOf(e, external, spec.ExternalTrafficPolicy, v1.ServiceExternalTrafficPolicyCluster, v1.ServiceExternalTrafficPolicyLocal)
	} else if spec.ExternalTrafficPolicy != "" {
		e.Invalid(external, spec.ExternalTrafficPolicy, "may only be set for externally-accessible services")
	}
	health := specPath.Child("healthCheckNodePort")
	switch n := spec.HealthCheckNodePort; {
	case !NeedsHealthCheck(s) && n != 0:
		e.Invalid(health, n, "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'")
	case NeedsHealthCheck(s) && n == 0:
		e.Required(health, "")
	case NeedsHealthCheck(s):
		e.Each(health, n, validation.IsValidPortNum(int(n)))
	}
	internal := specPath.Child("internalTrafficPolicy")
	if spec.InternalTrafficPolicy != nil {
		check.OneOf(e, internal, *spec.InternalTrafficPolicy, v1.ServiceInternalTrafficPolicyCluster, v1.ServiceInternalTrafficPolicyLocal)
	} else if usesInternalPolicy(s) {
		e.Required(internal, "")
	}
	if d := spec.TrafficDistribution; d != nil {
		check.OneOf(e, specPath.Child("trafficDistribution"), *d,
			v1.ServiceTrafficDistributionPreferClose, v1.ServiceTrafficDistributionPreferSameZone, v1.ServiceTrafficDistributionPreferSameNode)
	}
}
