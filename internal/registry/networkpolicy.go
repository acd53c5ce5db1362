package registry

import (
	"reflect"
	"time"

	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func networkPolicyKind() *Kind {
	of := func(obj runtime.Object) *networkingv1.NetworkPolicy { return obj.(*networkingv1.NetworkPolicy) }
	return &Kind{
		GVK:              networkingv1.SchemeGroupVersion.WithKind("NetworkPolicy"),
		Resource:         "networkpolicies",
		Singular:         "networkpolicy",
		ShortNames:       []string{"netpol"},
		Namespaced:       true,
		Dir:              "networkpolicies",
		Verbs:            allVerbs,
		New:              func() runtime.Object { return &networkingv1.NetworkPolicy{} },
		NewList:          func() runtime.Object { return &networkingv1.NetworkPolicyList{} },
		ValidName:        apivalidation.NameIsDNSSubdomain,
		Default:          func(obj runtime.Object) { defaultNetworkPolicy(&of(obj).Spec) },
		PrepareForCreate: func(obj runtime.Object) { of(obj).Generation = 1 },
		Validate:         func(obj runtime.Object) field.ErrorList { return validateNetworkPolicy(&of(obj).Spec, nil) },
		Warnings:         func(obj runtime.Object) []string { return networkPolicyWarnings(&of(obj).Spec) },
		Updates: map[string]Update{"": {
			Prepare: func(obj, old runtime.Object) {
				if !reflect.DeepEqual(of(obj).Spec, of(old).Spec) { // no peers are another thing than an empty list of them, as upstream
					of(obj).Generation = of(old).Generation + 1
				}
			},
			Validate: func(obj, old runtime.Object) field.ErrorList {
				return validateNetworkPolicy(&of(obj).Spec, &of(old).Spec)
			},
			Warnings:           func(obj, _ runtime.Object) []string { return networkPolicyWarnings(&of(obj).Spec) },
			AllowUnconditional: true,
		}},
		Selectable: metaFields,
		Columns: []metav1.TableColumnDefinition{
			nameColumn, {Name: "Pod-Selector", Type: "string", Description: networkingv1.NetworkPolicySpec{}.SwaggerDoc()["podSelector"]}, ageColumn,
		},
		Row: func(obj runtime.Object, now time.Time) []any {
			p := of(obj)
			return []any{p.Name, metav1.FormatLabelSelector(&p.Spec.PodSelector), age(p.CreationTimestamp, now)}
		},
	}
}

// defaultNetworkPolicy: a policy is about what comes in, and, when it says so, about what goes out.
func defaultNetworkPolicy(spec *networkingv1.NetworkPolicySpec) {
	if len(spec.PolicyTypes) == 0 {
		spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
		if len(spec.Egress) > 0 {
			spec.PolicyTypes = append(spec.PolicyTypes, networkingv1.PolicyTypeEgress)
		}
	}
	walkPolicy(spec, func(_ *field.Path, p *networkingv1.NetworkPolicyPort) {
		if p.Protocol == nil {
			p.Protocol = new(v1.ProtocolTCP)
		}
	}, nil)
}

// walkPolicy visits the ports and the peers of every rule, those of a rule together; either visitor may be nil.
func walkPolicy(spec *networkingv1.NetworkPolicySpec, port func(*field.Path, *networkingv1.NetworkPolicyPort), peer func(*field.Path, *networkingv1.NetworkPolicyPeer)) {
	rule := func(p *field.Path, ports []networkingv1.NetworkPolicyPort, side string, peers []networkingv1.NetworkPolicyPeer) {
		for i := range ports {
			if port != nil {
				port(p.Child("ports").Index(i), &ports[i])
			}
		}
		for i := range peers {
			if peer != nil {
				peer(p.Child(side).Index(i), &peers[i])
			}
		}
	}
	for i := range spec.Ingress {
		rule(specPath.Child("ingress").Index(i), spec.Ingress[i].Ports, "from", spec.Ingress[i].From)
	}
	for i := range spec.Egress {
		rule(specPath.Child("egress").Index(i), spec.Egress[i].Ports, "to", spec.Egress[i].To)
	}
}

// networkPolicyWarnings tells of ranges that are written oddly.
func networkPolicyWarnings(spec *networkingv1.NetworkPolicySpec) (out []string) {
	walkPolicy(spec, nil, func(p *field.Path, peer *networkingv1.NetworkPolicyPeer) {
		if peer.IPBlock == nil {
			return
		}
		p = p.Child("ipBlock")
		out = append(out, validation.GetWarningsForCIDR(p.Child("cidr"), peer.IPBlock.CIDR)...)
		for i, except := range peer.IPBlock.Except {
			out = append(out, validation.GetWarningsForCIDR(p.Child("except").Index(i), except)...)
		}
	})
	return out
}
