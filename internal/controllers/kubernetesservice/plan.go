//lint:file-ignore SA1019 Endpoints are deprecated, and old clients read them.

// Package kubernetesservice publishes the API server inside the cluster: the Service "kubernetes" in the namespace "default", at the first
// address of services, with Endpoints and an EndpointSlice that say where it is. The Service is made when it is missing and then its
// owner's; where it leads is kept right. One API server is published: this one.
package kubernetesservice

import (
	"errors"
	"net/netip"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Name is that of all three objects.
const Name = "kubernetes"

const (
	portName = "https"
	port     = 443
)

// Address says where the API server is.
type Address struct {
	Inside netip.Addr     // of the Service
	Server netip.AddrPort // of the server itself
}

// Validate says what is wrong.
func (a Address) Validate() error {
	if !a.Inside.IsValid() || !a.Server.IsValid() || a.Inside.Is4() != a.Server.Addr().Is4() {
		return errors.New("kubernetesservice: a service's address and a server's of the same family are needed")
	}
	return nil
}

func meta(labels map[string]string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: Name, Labels: labels}
}

// Service is the Service.
func (a Address) Service() *v1.Service {
	single := v1.IPFamilyPolicySingleStack
	return &v1.Service{
		ObjectMeta: meta(map[string]string{"provider": "kubernetes", "component": "apiserver"}),
		Spec: v1.ServiceSpec{
			Type: v1.ServiceTypeClusterIP, ClusterIP: a.Inside.String(), IPFamilyPolicy: &single, SessionAffinity: v1.ServiceAffinityNone,
			Ports: []v1.ServicePort{{Name: portName, Protocol: v1.ProtocolTCP, Port: port, TargetPort: intstr.FromInt32(int32(a.Server.Port()))}},
		},
	}
}

// Endpoints are the Endpoints. Nobody mirrors them: the EndpointSlice is made beside them.
func (a Address) Endpoints() *v1.Endpoints {
	e := &v1.Endpoints{ObjectMeta: meta(nil)}
	a.repairEndpoints(e)
	return e
}

func (a Address) repairEndpoints(e *v1.Endpoints) (changed bool) {
	want := []v1.EndpointSubset{{
		Addresses: []v1.EndpointAddress{{IP: a.Server.Addr().String()}},
		Ports:     []v1.EndpointPort{{Name: portName, Port: int32(a.Server.Port()), Protocol: v1.ProtocolTCP}},
	}}
	if e.Labels[discoveryv1.LabelSkipMirror] == "true" && equality.Semantic.DeepEqual(e.Subsets, want) {
		return false
	}
	if e.Labels == nil {
		e.Labels = map[string]string{}
	}
	e.Labels[discoveryv1.LabelSkipMirror] = "true"
	e.Subsets = want
	return true
}

// Slice is the EndpointSlice.
func (a Address) Slice() *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{ObjectMeta: meta(nil), AddressType: a.family()}
	a.repairSlice(s)
	return s
}

func (a Address) family() discoveryv1.AddressType {
	if a.Server.Addr().Is4() {
		return discoveryv1.AddressTypeIPv4
	}
	return discoveryv1.AddressTypeIPv6
}

func (a Address) repairSlice(s *discoveryv1.EndpointSlice) (changed bool) {
	name, number, protocol, ready := portName, int32(a.Server.Port()), v1.ProtocolTCP, true
	endpoints := []discoveryv1.Endpoint{{Addresses: []string{a.Server.Addr().String()}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}}}
	ports := []discoveryv1.EndpointPort{{Name: &name, Port: &number, Protocol: &protocol}}
	if s.Labels[discoveryv1.LabelServiceName] == Name && equality.Semantic.DeepEqual(s.Endpoints, endpoints) && equality.Semantic.DeepEqual(s.Ports, ports) {
		return false
	}
	if s.Labels == nil {
		s.Labels = map[string]string{}
	}
	s.Labels[discoveryv1.LabelServiceName] = Name
	s.Endpoints, s.Ports = endpoints, ports
	return true
}
