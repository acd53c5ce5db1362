package registry

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"podo.dev/podo/internal/registry/check"
)

// The bounds of a slice.
const (
	maxEndpoints         = 1000
	maxEndpointAddresses = 100
	maxSlicePorts        = 20000
	maxTopologyLabels    = 16
	maxHints             = 8
)

// validateEndpointSlice judges a slice whole; endpoints that are as they were (old is nil on create) may break today's rules.
func validateEndpointSlice(s, old *discoveryv1.EndpointSlice) field.ErrorList {
	var e check.Errors
	if old != nil && s.AddressType != old.AddressType && s.AddressType != "" {
		addressTypes(&e, s.AddressType)
	}
	slicePortRules(&e, field.NewPath("ports"), s.Ports)
	p := field.NewPath("endpoints")
	changed := old == nil || !equality.Semantic.DeepEqual(s.Endpoints, old.Endpoints)
	if changed {
		sliceEndpoints(&e, p, s)
	}
	sliceAddressType(&e, s, old)
	for i := range s.Endpoints {
		if !changed {
			break
		}
		if n, at := len(s.Endpoints[i].Addresses), p.Index(i).Child("addresses"); n == 0 {
			e.Required(at, "")
		} else if n > maxEndpointAddresses {
			e.Put(field.TooMany(at, n, maxEndpointAddresses))
		}
	}
	return e.List()
}

// sliceAddressType is said once and for all.
func sliceAddressType(e *check.Errors, s, old *discoveryv1.EndpointSlice) {
	p := field.NewPath("addressType")
	changed := old == nil || s.AddressType != old.AddressType
	switch {
	case changed && s.AddressType == "":
		e.Required(p, "")
	case old == nil:
		addressTypes(e, s.AddressType)
	}
	if changed && old != nil {
		e.Invalid(p, nil, apivalidation.FieldImmutableErrorMsg)
	}
}

func addressTypes(e *check.Errors, t discoveryv1.AddressType) {
	check.OneOf(e, field.NewPath("addressType"), t, discoveryv1.AddressTypeFQDN, discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6)
}

func slicePortRules(e *check.Errors, p *field.Path, ports []discoveryv1.EndpointPort) {
	if len(ports) > maxSlicePorts {
		e.Put(field.TooMany(p, len(ports), maxSlicePorts))
		return
	}
	var names []string
	for i, port := range ports {
		at := p.Index(i)
		if *port.Name != "" {
			e.DNSLabel(at.Child("name"), *port.Name)
		}
		if slices.Contains(names, *port.Name) {
			e.Duplicate(at.Child("name"), *port.Name)
		}
		names = append(names, *port.Name)
		if port.Protocol == nil {
			e.Required(at.Child("protocol"), "")
		} else {
			check.OneOf(e, at.Child("protocol"), *port.Protocol, v1.ProtocolSCTP, v1.ProtocolTCP, v1.ProtocolUDP)
		}
		if port.AppProtocol != nil {
			e.Qualified(at.Child("appProtocol"), *port.AppProtocol)
		}
	}
}

func sliceEndpoints(e *check.Errors, p *field.Path, s *discoveryv1.EndpointSlice) {
	if len(s.Endpoints) > maxEndpoints {
		e.Put(field.TooMany(p, len(s.Endpoints), maxEndpoints))
		return
	}
	for i := range s.Endpoints {
		ep, at := &s.Endpoints[i], p.Index(i)
		sliceAddressRules(e, at.Child("addresses"), s.AddressType, ep.Addresses)
		if ep.NodeName != nil {
			e.ObjectName(at.Child("nodeName"), *ep.NodeName, false)
		}
		topology := at.Child("deprecatedTopology")
		if n := len(ep.DeprecatedTopology); n > maxTopologyLabels {
			e.Put(field.TooMany(topology, n, maxTopologyLabels))
		}
		e.Add(metav1validation.ValidateLabels(ep.DeprecatedTopology, topology))
		if _, found := ep.DeprecatedTopology[v1.LabelTopologyZone]; found {
			e.Put(field.InternalError(topology.Key(v1.LabelTopologyZone), fmt.Errorf("reserved key was not removed in conversion")))
		}
		if ep.Hostname != nil {
			e.DNSLabel(at.Child("hostname"), *ep.Hostname)
		}
		if ep.Hints != nil {
			sliceHints(e, at.Child("hints"), ep.Hints)
		}
	}
}

func sliceAddressRules(e *check.Errors, p *field.Path, kind discoveryv1.AddressType, list []string) {
	for i, a := range list {
		at, before := p.Index(i), len(e.List())
		switch kind {
		case discoveryv1.AddressTypeIPv4:
			if e.IP(at, a, nil); len(e.List()) > before {
				continue
			}
			if !netutils.IsIPv4String(a) {
				e.Invalid(p, a, "must be an IPv4 address")
			}
			e.EndpointIP(at, a)
		case discoveryv1.AddressTypeIPv6:
			if errs := validation.IsValidIP(at, a); len(errs) > 0 {
				e.Add(errs)
				continue
			}
			if !netutils.IsIPv6String(a) {
				e.Invalid(p, a, "must be an IPv6 address")
			}
			e.EndpointIP(at, a)
		case discoveryv1.AddressTypeFQDN:
			e.Add(validation.IsFullyQualifiedDomainName(at, a))
		}
	}
}

func sliceHints(e *check.Errors, p *field.Path, h *discoveryv1.EndpointHints) {
	hints(e, p.Child("forZones"), len(h.ForZones), func(i int) string { return h.ForZones[i].Name }, validation.IsValidLabelValue)
	if len(h.ForZones) > maxHints {
		return
	}
	hints(e, p.Child("forNodes"), len(h.ForNodes), func(i int) string { return h.ForNodes[i].Name }, validation.IsDNS1123Subdomain)
}

func hints(e *check.Errors, p *field.Path, n int, name func(int) string, valid func(string) []string) {
	if n > maxHints {
		e.Put(field.TooMany(p, n, maxHints))
		return
	}
	var seen []string
	for i := range n {
		at, v := p.Index(i).Child("name"), name(i)
		if slices.Contains(seen, v) {
			e.Duplicate(at, v)
		}
		seen = append(seen, v)
		e.Each(at, v, valid(v))
	}
}
