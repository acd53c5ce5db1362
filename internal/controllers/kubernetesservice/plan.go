//lint:file-ignore SA1019 Endpoints are deprecated, and old clients read them.

// Package kubernetesservice publishes the API server inside the cluster: the Service "kubernetes" in the namespace "default", at the first
// address of services, with Endpoints and an EndpointSlice that say where it is. The Service is made when it is missing and then its
// owner's; where it leads is kept right.
//
// One server is published by itself. Several on one etcd tell each other of themselves, as upstream's do: each keeps a key with a lease
// that it renews, and each publishes whom it finds there. A server that dies is gone when its lease is over, one that stops takes itself
// away.
package kubernetesservice

import (
	"errors"
	"net/netip"
	"slices"

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

// servers are those that are published: all have one port, since the objects say it of all.
type servers struct {
	addrs []netip.Addr // in order
	port  uint16
}

// alone is this server by itself.
func (a Address) alone() servers { return servers{[]netip.Addr{a.Server.Addr()}, a.Server.Port()} }

// together are all that can be published together: of this server's family, and with the port of the first that tells its port. That all come to the same
// result keeps them from writing against each other.
func (a Address) together(all []netip.AddrPort) (out servers) {
	all = slices.DeleteFunc(slices.Clone(all), func(s netip.AddrPort) bool { return s.Addr().Is4() != a.Server.Addr().Is4() })
	slices.SortFunc(all, netip.AddrPort.Compare)
	for _, s := range all {
		if out.port == 0 {
			out.port = s.Port()
		}
	}
	if out.port == 0 {
		out.port = a.Server.Port()
	}
	for _, s := range all {
		if s.Port() == out.port || s.Port() == 0 {
			out.addrs = append(out.addrs, s.Addr())
		}
	}
	return out
}

// Endpoints are the Endpoints. Nobody mirrors them: the EndpointSlice is made beside them.
func (s servers) Endpoints() *v1.Endpoints {
	e := &v1.Endpoints{ObjectMeta: meta(nil)}
	s.repairEndpoints(e)
	return e
}

func (s servers) repairEndpoints(e *v1.Endpoints) (changed bool) {
	want := []v1.EndpointSubset{{Ports: []v1.EndpointPort{{Name: portName, Port: int32(s.port), Protocol: v1.ProtocolTCP}}}}
	for _, addr := range s.addrs {
		want[0].Addresses = append(want[0].Addresses, v1.EndpointAddress{IP: addr.String()})
	}
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
func (s servers) Slice() *discoveryv1.EndpointSlice {
	out := &discoveryv1.EndpointSlice{ObjectMeta: meta(nil), AddressType: s.family()}
	s.repairSlice(out)
	return out
}

func (s servers) family() discoveryv1.AddressType {
	if s.addrs[0].Is4() {
		return discoveryv1.AddressTypeIPv4
	}
	return discoveryv1.AddressTypeIPv6
}

func (s servers) repairSlice(slice *discoveryv1.EndpointSlice) (changed bool) {
	name, number, protocol, ready := portName, int32(s.port), v1.ProtocolTCP, true
	var endpoints []discoveryv1.Endpoint
	for _, addr := range s.addrs {
		endpoints = append(endpoints, discoveryv1.Endpoint{Addresses: []string{addr.String()}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}})
	}
	ports := []discoveryv1.EndpointPort{{Name: &name, Port: &number, Protocol: &protocol}}
	if slice.Labels[discoveryv1.LabelServiceName] == Name && equality.Semantic.DeepEqual(slice.Endpoints, endpoints) && equality.Semantic.DeepEqual(slice.Ports, ports) {
		return false
	}
	if slice.Labels == nil {
		slice.Labels = map[string]string{}
	}
	slice.Labels[discoveryv1.LabelServiceName] = Name
	slice.Endpoints, slice.Ports = endpoints, ports
	return true
}
