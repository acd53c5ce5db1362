package registry

import (
	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"podo.dev/podo/internal/registry/check"
)

// validateNetworkPolicy judges a policy whole; old is nil on create. Ranges that were stored before may be written as they were, wherever
// they are now, and so may a selector's values.
func validateNetworkPolicy(spec, old *networkingv1.NetworkPolicySpec) field.ErrorList {
	var e check.Errors
	var options metav1validation.LabelSelectorValidationOptions
	var stored []string
	if old != nil {
		options.AllowInvalidLabelValueInSelector = !validSelector(&old.PodSelector)
		walkPolicy(old, nil, func(_ *field.Path, peer *networkingv1.NetworkPolicyPeer) {
			if peer.IPBlock != nil {
				stored = append(append(stored, peer.IPBlock.CIDR), peer.IPBlock.Except...)
			}
		})
	}
	e.Add(metav1validation.ValidateLabelSelector(&spec.PodSelector, options, specPath.Child("podSelector")))
	walkPolicy(spec,
		func(p *field.Path, port *networkingv1.NetworkPolicyPort) { policyPort(&e, p, port) },
		func(p *field.Path, peer *networkingv1.NetworkPolicyPeer) { policyPeer(&e, p, peer, options, stored) },
	)
	policyTypes(&e, specPath.Child("policyTypes"), spec.PolicyTypes)
	walkPolicy(spec, nil, func(p *field.Path, peer *networkingv1.NetworkPolicyPeer) { // upstream's generated rule, which comes last
		if peer.IPBlock != nil && peer.IPBlock.CIDR == "" {
			e.Required(p.Child("ipBlock", "cidr"), "")
		}
	})
	return e.List()
}

func policyTypes(e *check.Errors, p *field.Path, types []networkingv1.PolicyType) {
	if len(types) > 2 {
		e.Invalid(p, types, "may not specify more than two policyTypes")
		return
	}
	for i, t := range types {
		check.OneOf(e, p.Index(i), t, networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress)
	}
}

func policyPort(e *check.Errors, p *field.Path, port *networkingv1.NetworkPolicyPort) {
	if port.Protocol != nil {
		check.OneOf(e, p.Child("protocol"), *port.Protocol, v1.ProtocolTCP, v1.ProtocolUDP, v1.ProtocolSCTP)
	}
	end := p.Child("endPort")
	switch {
	case port.Port == nil:
		if port.EndPort != nil {
			e.Invalid(end, *port.EndPort, "may not be specified when `port` is not specified")
		}
	case port.Port.Type == intstr.Int:
		e.Port(p.Child("port"), *port.Port)
		if port.EndPort == nil {
			return
		}
		if *port.EndPort < port.Port.IntVal {
			e.Invalid(end, *port.EndPort, "must be greater than or equal to `port`")
		}
		e.Each(end, *port.EndPort, validation.IsValidPortNum(int(*port.EndPort)))
	default:
		if port.EndPort != nil {
			e.Invalid(end, *port.EndPort, "may not be specified when `port` is non-numeric")
		}
		e.Port(p.Child("port"), *port.Port)
	}
}

func policyPeer(e *check.Errors, p *field.Path, peer *networkingv1.NetworkPolicyPeer, options metav1validation.LabelSelectorValidationOptions, stored []string) {
	selected := peer.PodSelector != nil || peer.NamespaceSelector != nil
	if peer.PodSelector != nil {
		e.Add(metav1validation.ValidateLabelSelector(peer.PodSelector, options, p.Child("podSelector")))
	}
	if peer.NamespaceSelector != nil {
		e.Add(metav1validation.ValidateLabelSelector(peer.NamespaceSelector, options, p.Child("namespaceSelector")))
	}
	if peer.IPBlock != nil {
		ipBlock(e, p.Child("ipBlock"), peer.IPBlock, stored)
	}
	switch {
	case !selected && peer.IPBlock == nil:
		e.Required(p, "must specify a peer")
	case selected && peer.IPBlock != nil:
		e.Forbidden(p, "may not specify both ipBlock and another peer")
	}
}

// ipBlock: what is left out of a range lies within it, and is smaller. That there is none is told elsewhere.
func ipBlock(e *check.Errors, p *field.Path, b *networkingv1.IPBlock, stored []string) {
	if b.CIDR == "" {
		return
	}
	e.CIDR(p.Child("cidr"), b.CIDR, stored)
	_, whole, err := netutils.ParseCIDRSloppy(b.CIDR)
	if err != nil {
		return
	}
	for i, text := range b.Except {
		at := p.Child("except").Index(i)
		e.CIDR(at, text, stored)
		_, part, err := netutils.ParseCIDRSloppy(text)
		if err != nil {
			continue
		}
		wholeBits, _ := whole.Mask.Size()
		partBits, _ := part.Mask.Size()
		if !whole.Contains(part.IP) || wholeBits >= partBits {
			e.Invalid(at, text, "must be a strict subset of `cidr`")
		}
	}
}
