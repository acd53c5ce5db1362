// Package serviceaddresses looks after what Services hold, where somebody else wrote it: a cluster that was imported, a tool, a snapshot of
// half a cluster. Every cluster IP has an IPAddress that names its Service, no IPAddress of ours is left without one, and what cannot be
// mended (two Services with one address or port, one out of every range) is said in an event, in upstream's words. What the API itself
// writes is right as it is written.
package serviceaddresses

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	netutils "k8s.io/utils/net"
)

// grace is how long an IPAddress may be there before its Service: another server may write them one after the other.
const grace = time.Minute

const manager = "ipallocator.k8s.io"

// Fault is what is wrong, as an event says it.
type Fault struct{ Reason, Message string }

// Cluster is what a Service is judged by.
type Cluster struct {
	// InRange says that a ServiceCIDR has the address.
	InRange func(netip.Addr) bool
	Address func(name string) *networkingv1.IPAddress // nil: there is none
	Service func(namespace, name string) *v1.Service  // as above
	// SamePort are the Services with the node port.
	SamePort    func(port int32) []*v1.Service
	First, Last int32 // node ports
}

// Addresses judges a Service's cluster IPs: what is wrong, and which IPAddresses have to be made for it, anew where there is one.
func (c *Cluster) Addresses(s *v1.Service) (faults []Fault, make []string) {
	if s.Spec.Type == v1.ServiceTypeExternalName || s.Spec.ClusterIP == "" || s.Spec.ClusterIP == v1.ClusterIPNone {
		return nil, nil
	}
	fault := func(reason, format string, args ...any) {
		faults = append(faults, Fault{reason, fmt.Sprintf(format, args...)})
	}
	for _, text := range clusterIPs(s) {
		addr, ok := netip.AddrFromSlice(netutils.ParseIPSloppy(text))
		if !ok {
			fault("ClusterIPNotValid", "Cluster IP %s is not a valid IP; please recreate Service", text)
			continue
		}
		addr = addr.Unmap()
		family, name := familyOf(addr), addr.String()
		if !c.InRange(addr) {
			fault("ClusterIPOutOfRange", "Cluster IP [%v]: %s is not within any configured Service CIDR; please recreate service", family, name)
			continue
		}
		switch a := c.Address(name); {
		case a == nil:
			fault("ClusterIPNotAllocated", "Cluster IP [%v]: %s is not allocated; repairing", family, name)
			make = append(make, name)
		case !ofService(a):
			fault("ClusterIPNotAllocated", "the ClusterIP [%v]: %s for Service %s/%s has a wrong reference; repairing", family, name, s.Namespace, s.Name)
			make = append(make, name)
		case a.Spec.ParentRef.Namespace != s.Namespace || a.Spec.ParentRef.Name != s.Name:
			other := c.Service(a.Spec.ParentRef.Namespace, a.Spec.ParentRef.Name)
			if other != nil && slices.Contains(clusterIPs(other), text) {
				fault("ClusterIPAlreadyAllocated", "Cluster IP [%v]:%s was assigned to multiple services; please recreate service", family, name)
				continue
			}
			fault("ClusterIPNotAllocated", "the ClusterIP [%v]: %s for Service %s/%s has a wrong reference; repairing", family, name, s.Namespace, s.Name)
			make = append(make, name)
		case a.Labels[networkingv1.LabelManagedBy] != manager || a.Labels[networkingv1.LabelIPAddressFamily] != string(family):
			make = append(make, name)
		}
	}
	return faults, make
}

// Ports judges a Service's node ports. Of several Services with one port, all but the oldest are at fault.
func (c *Cluster) Ports(s *v1.Service) (faults []Fault) {
	var seen []int32
	for _, n := range nodePorts(s) {
		if slices.Contains(seen, n) {
			continue
		}
		seen = append(seen, n)
		if n < c.First || n > c.Last {
			faults = append(faults, Fault{"PortOutOfRange", fmt.Sprintf("Port %d is not within the port range %d-%d; please recreate service", n, c.First, c.Last)})
			continue
		}
		if slices.ContainsFunc(c.SamePort(n), func(o *v1.Service) bool { return older(o, s) }) {
			faults = append(faults, Fault{"PortAlreadyAllocated", fmt.Sprintf("Port %d was assigned to multiple services; please recreate service", n)})
		}
	}
	return faults
}

// Leaked judges an IPAddress: whether it goes, and why, or when it has to be looked at again.
func (c *Cluster) Leaked(a *networkingv1.IPAddress, now time.Time) (f Fault, goes bool, again time.Duration) {
	if a.Labels[networkingv1.LabelManagedBy] != manager {
		return f, false, 0
	}
	ref := a.Spec.ParentRef
	if !ofService(a) {
		return Fault{"IPAddressNotAllocated", fmt.Sprintf("IPAddress %s appears to have been modified, not referencing a Service %v: cleaning up", a.Name, ref)}, true, 0
	}
	s := c.Service(ref.Namespace, ref.Name)
	if s != nil && slices.ContainsFunc(clusterIPs(s), func(ip string) bool { return sameIP(ip, a.Name) }) {
		return f, false, 0
	}
	if left := a.CreationTimestamp.Add(grace).Sub(now); left > 0 {
		return f, false, left
	}
	if s == nil {
		return Fault{"IPAddressNotAllocated", fmt.Sprintf("IPAddress: %s for Service %s/%s appears to have leaked: cleaning up", a.Name, ref.Namespace, ref.Name)}, true, 0
	}
	return Fault{"IPAddressWrongReference", fmt.Sprintf("IPAddress: %s for Service %s/%s has a wrong reference; cleaning up", a.Name, s.Namespace, s.Name)}, true, 0
}

// IPAddress is what says that the Service has the address.
func IPAddress(name string, s *v1.Service) *networkingv1.IPAddress {
	addr, _ := netip.ParseAddr(name)
	return &networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			networkingv1.LabelIPAddressFamily: string(familyOf(addr)), networkingv1.LabelManagedBy: manager,
		}},
		Spec: networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Resource: "services", Namespace: s.Namespace, Name: s.Name}},
	}
}

func ofService(a *networkingv1.IPAddress) bool {
	return a.Spec.ParentRef != nil && a.Spec.ParentRef.Group == "" && a.Spec.ParentRef.Resource == "services"
}

// clusterIPs also knows old Services, which have one address.
func clusterIPs(s *v1.Service) []string {
	if len(s.Spec.ClusterIPs) == 0 && s.Spec.ClusterIP != "" {
		return []string{s.Spec.ClusterIP}
	}
	return s.Spec.ClusterIPs
}

func sameIP(text, name string) bool {
	addr, ok := netip.AddrFromSlice(netutils.ParseIPSloppy(text))
	return ok && addr.Unmap().String() == name
}

func familyOf(addr netip.Addr) v1.IPFamily {
	if addr.Is6() {
		return v1.IPv6Protocol
	}
	return v1.IPv4Protocol
}

func nodePorts(s *v1.Service) (out []int32) {
	for i := range s.Spec.Ports {
		if n := s.Spec.Ports[i].NodePort; n != 0 {
			out = append(out, n)
		}
	}
	if n := s.Spec.HealthCheckNodePort; n != 0 {
		out = append(out, n)
	}
	return out
}

// older says that o was there before s.
func older(o, s *v1.Service) bool {
	if o.UID == s.UID && o.Namespace == s.Namespace && o.Name == s.Name {
		return false
	}
	if !o.CreationTimestamp.Equal(&s.CreationTimestamp) {
		return o.CreationTimestamp.Before(&s.CreationTimestamp)
	}
	return o.Namespace+"/"+o.Name < s.Namespace+"/"+s.Name
}
