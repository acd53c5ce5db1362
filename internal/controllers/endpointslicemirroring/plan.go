//lint:file-ignore SA1019 Endpoints are deprecated, and their owners' slices are made here.

// Package endpointslicemirroring makes EndpointSlices of the Endpoints that people write for Services without a selector, so that whoever
// reads slices alone finds all there is: for each subset and address family one slice, of at most a thousand addresses.
package endpointslicemirroring

import (
	"cmp"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	endpointsliceutil "k8s.io/endpointslice/util"
	netutils "k8s.io/utils/net"

	"podo.dev/podo/internal/controllers/endpoints"
)

const (
	// Name is whom slices say that they are managed by.
	Name = "endpointslicemirroring-controller.k8s.io"
	// most is how many addresses of a subset are mirrored.
	most = 1000
)

// Mirrored says whether Endpoints are to be mirrored, their Service aside.
func Mirrored(m metav1.Object) bool {
	_, elects := m.GetAnnotations()[resourcelock.LeaderElectionRecordAnnotationKey]
	return !elects && m.GetLabels()[discoveryv1.LabelSkipMirror] != "true"
}

// Plan is what brings the slices to where they should be.
type Plan struct {
	Create, Update, Delete []*discoveryv1.EndpointSlice
	Invalid                int // addresses that are none
	Skipped                int // addresses that are not mirrored, invalid ones included

	Mirrored, Slices        int // how many endpoints there are to be, in how many slices
	Added, Updated, Removed int // endpoints of slices that stay or come
}

// group is a slice to be: an address family and ports.
type group struct {
	family discoveryv1.AddressType
	ports  endpointsliceutil.PortMapKey
}

func (g group) compare(o group) int {
	return cmp.Or(cmp.Compare(g.family, o.family), cmp.Compare(g.ports, o.ports))
}

// Decide compares what Endpoints say with the slices that mirror them now. A slice that is not wanted any more becomes one that is, before
// one is deleted and another made.
func Decide(e *v1.Endpoints, have []*discoveryv1.EndpointSlice) Plan {
	var p Plan
	wanted := p.wanted(e)
	left := map[group][]*discoveryv1.EndpointSlice{}
	for _, s := range have {
		g := group{s.AddressType, endpointsliceutil.NewPortMapKey(s.Ports)}
		left[g] = append(left[g], s)
	}
	for _, g := range slices.SortedFunc(maps.Keys(wanted), group.compare) {
		next := wanted[g]
		p.Mirrored, p.Slices = p.Mirrored+len(next.Endpoints), p.Slices+1
		if len(left[g]) == 0 {
			p.Added += len(next.Endpoints)
			p.Create = append(p.Create, next)
			continue
		}
		is := left[g][0]
		p.compare(is, next)
		left[g] = left[g][1:]
		if !same(e, is, next) {
			next.Name, next.GenerateName = is.Name, ""
			p.Update = append(p.Update, next)
		}
	}
	for _, g := range slices.SortedFunc(maps.Keys(left), group.compare) {
		p.Delete = append(p.Delete, left[g]...)
	}
	p.recycle()
	return p
}

// compare counts what a slice gets, loses and changes.
func (p *Plan) compare(is, next *discoveryv1.EndpointSlice) {
	set := endpointsliceutil.EndpointSet{}
	for i := range is.Endpoints {
		set.Insert(&is.Endpoints[i])
	}
	for i := range next.Endpoints {
		switch was := set.Get(&next.Endpoints[i]); {
		case was == nil:
			p.Added++
			continue
		case !endpointsliceutil.EndpointsEqualBeyondHash(was, &next.Endpoints[i]):
			p.Updated++
		}
		set.Delete(&next.Endpoints[i])
	}
	p.Removed += set.Len()
}

func (p *Plan) recycle() {
	for i := 0; i < len(p.Create); i++ {
		s := p.Create[i]
		j := slices.IndexFunc(p.Delete, func(d *discoveryv1.EndpointSlice) bool { return d.AddressType == s.AddressType })
		if j < 0 {
			continue
		}
		s.Name, s.GenerateName = p.Delete[j].Name, ""
		p.Update = append(p.Update, s)
		p.Create, p.Delete = slices.Delete(p.Create, i, i+1), slices.Delete(p.Delete, j, j+1)
		i--
	}
}

// wanted makes the slices of Endpoints.
func (p *Plan) wanted(e *v1.Endpoints) map[group]*discoveryv1.EndpointSlice {
	out := map[group]*discoveryv1.EndpointSlice{}
	for _, subset := range endpoints.Repack(e.Subsets) {
		ports, mirrored := portsOf(subset.Ports), 0
		add := func(addresses []v1.EndpointAddress, ready bool) {
			for i := range addresses {
				if mirrored >= most {
					return
				}
				endpoint, family := endpointOf(&addresses[i], ready)
				if endpoint == nil {
					p.Invalid++
					continue
				}
				mirrored++
				g := group{family, endpointsliceutil.NewPortMapKey(ports)}
				if out[g] == nil {
					out[g] = newSlice(e, ports, family)
				}
				out[g].Endpoints = append(out[g].Endpoints, *endpoint)
			}
		}
		add(subset.Addresses, true)
		add(subset.NotReadyAddresses, false)
		p.Skipped += len(subset.Addresses) + len(subset.NotReadyAddresses) - mirrored
	}
	return out
}

func portsOf(ports []v1.EndpointPort) []discoveryv1.EndpointPort {
	out := []discoveryv1.EndpointPort{}
	for i := range ports {
		p := ports[i].DeepCopy()
		out = append(out, discoveryv1.EndpointPort{Name: &p.Name, Port: &p.Port, Protocol: &p.Protocol, AppProtocol: p.AppProtocol})
	}
	return out
}

func endpointOf(a *v1.EndpointAddress, ready bool) (*discoveryv1.Endpoint, discoveryv1.AddressType) {
	ip := netutils.ParseIPSloppy(a.IP)
	if ip == nil {
		return nil, ""
	}
	out := &discoveryv1.Endpoint{
		Addresses: []string{ip.String()}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}, TargetRef: a.TargetRef, NodeName: a.NodeName,
	}
	if a.Hostname != "" {
		out.Hostname = new(a.Hostname)
	}
	if ip.To4() == nil {
		return out, discoveryv1.AddressTypeIPv6
	}
	return out, discoveryv1.AddressTypeIPv4
}

func newSlice(e *v1.Endpoints, ports []discoveryv1.EndpointPort, family discoveryv1.AddressType) *discoveryv1.EndpointSlice {
	labels := maps.Clone(e.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[discoveryv1.LabelServiceName], labels[discoveryv1.LabelManagedBy] = e.Name, Name
	prefix := e.Name + "-"
	if len(apivalidation.NameIsDNSSubdomain(prefix, true)) > 0 {
		prefix = e.Name
	}
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: e.Namespace, GenerateName: prefix, Labels: labels, Annotations: annotationsOf(e),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(e, v1.SchemeGroupVersion.WithKind("Endpoints"))},
		},
		AddressType: family, Ports: ports, Endpoints: []discoveryv1.Endpoint{},
	}
}

// annotationsOf are those that are mirrored: what the Endpoints' own writers keep there is not.
func annotationsOf(e *v1.Endpoints) map[string]string {
	out := map[string]string{}
	for key, value := range e.Annotations {
		if key != v1.EndpointsLastChangeTriggerTime && key != v1.LastAppliedConfigAnnotation {
			out[key] = value
		}
	}
	return out
}

// same says that a slice is what it should be; the order of its endpoints does not matter.
func same(e *v1.Endpoints, is, next *discoveryv1.EndpointSlice) bool {
	if len(is.Endpoints) != len(next.Endpoints) || !maps.Equal(is.Labels, next.Labels) || !equality.Semantic.DeepEqual(is.Annotations, next.Annotations) {
		return false
	}
	for i := range is.OwnerReferences {
		if o := &is.OwnerReferences[i]; o.Kind == "Endpoints" && o.Name == e.Name && o.UID != e.UID {
			return false
		}
	}
	set := endpointsliceutil.EndpointSet{}
	for i := range next.Endpoints {
		set.Insert(&next.Endpoints[i])
	}
	for i := range is.Endpoints {
		if want := set.Get(&is.Endpoints[i]); want == nil || !endpointsliceutil.EndpointsEqualBeyondHash(want, &is.Endpoints[i]) {
			return false
		}
	}
	return true
}
