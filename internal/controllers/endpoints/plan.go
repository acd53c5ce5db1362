//lint:file-ignore SA1019 Endpoints are deprecated, and old clients read them.

// Package endpoints keeps the Endpoints of Services with a selector, for clients that do not read EndpointSlices: one object a Service, of
// one address family, and of at most a thousand addresses.
package endpoints

import (
	"maps"
	"math"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/endpointslice"
	endpointsliceutil "k8s.io/endpointslice/util"
	netutils "k8s.io/utils/net"
)

const (
	managedBy = "endpoints.kubernetes.io/managed-by"
	// Name is whom Endpoints say that they are managed by.
	Name     = "endpoint-controller"
	capacity = 1000
)

// Desired are the Endpoints of a Service, made of those that there are (nil for none), and whether they differ from them in what counts.
// trigger is when the change happened that they follow, zero when that is not known.
func Desired(service *v1.Service, pods []*v1.Pod, current *v1.Endpoints, trigger time.Time) (*v1.Endpoints, bool) {
	subsets := subsetsOf(service, pods)
	if current != nil && sameSubsets(current.Subsets, subsets) && sameLabels(current.Labels, service) && withinCapacity(current) {
		return current, false
	}
	next := &v1.Endpoints{}
	if current != nil {
		next = current.DeepCopy()
	}
	next.Namespace, next.Name, next.Subsets, next.Labels = service.Namespace, service.Name, subsets, labelsOf(service)
	if next.Annotations == nil {
		next.Annotations = map[string]string{}
	}
	annotate := func(key, value string) {
		if value == "" {
			delete(next.Annotations, key)
			return
		}
		next.Annotations[key] = value
	}
	changed, over := "", ""
	if !trigger.IsZero() {
		changed = trigger.UTC().Format(time.RFC3339Nano)
	}
	if truncate(next.Subsets) {
		over = "truncated"
	}
	annotate(v1.EndpointsLastChangeTriggerTime, changed)
	annotate(v1.EndpointsOverCapacity, over)
	return next, true
}

// subsetsOf says where a Service's pods answer.
func subsetsOf(service *v1.Service, pods []*v1.Pod) []v1.EndpointSubset {
	var out []v1.EndpointSubset
	for _, pod := range pods {
		if !endpointsliceutil.ShouldPodBeInEndpoints(pod, service.Spec.PublishNotReadyAddresses) {
			continue
		}
		address := addressOf(service, pod)
		if address == nil {
			continue
		}
		add := func(ports ...v1.EndpointPort) {
			if service.Spec.PublishNotReadyAddresses || endpointsliceutil.IsPodReady(pod) {
				out = append(out, v1.EndpointSubset{Addresses: []v1.EndpointAddress{*address}, Ports: ports})
			} else {
				out = append(out, v1.EndpointSubset{NotReadyAddresses: []v1.EndpointAddress{*address}, Ports: ports})
			}
		}
		if len(service.Spec.Ports) == 0 && service.Spec.ClusterIP == v1.ClusterIPNone {
			add()
		}
		for i := range service.Spec.Ports {
			p := &service.Spec.Ports[i]
			if number, err := endpointslice.FindPort(pod, p); err == nil {
				add(v1.EndpointPort{Name: p.Name, Port: int32(number), Protocol: p.Protocol, AppProtocol: p.AppProtocol})
			}
		}
	}
	return Repack(out)
}

// addressOf is a pod's address of the family that a Service has first; nil when the pod has none.
func addressOf(service *v1.Service, pod *v1.Pod) *v1.EndpointAddress {
	want6 := netutils.IsIPv6String(pod.Status.PodIP)
	if ip := service.Spec.ClusterIP; ip != "" && ip != v1.ClusterIPNone {
		want6 = netutils.IsIPv6String(ip)
	}
	if f := service.Spec.IPFamilies; len(f) > 0 {
		want6 = f[0] == v1.IPv6Protocol
	}
	for _, has := range pod.Status.PodIPs {
		ip := netutils.ParseIPSloppy(has.IP)
		if ip == nil || netutils.IsIPv6(ip) != want6 {
			continue
		}
		a := &v1.EndpointAddress{
			IP: ip.String(), NodeName: new(pod.Spec.NodeName),
			TargetRef: &v1.ObjectReference{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		}
		if endpointsliceutil.ShouldSetHostname(pod, service) {
			a.Hostname = pod.Spec.Hostname
		}
		return a
	}
	return nil
}

func headless(s *v1.Service) bool {
	return s.Spec.ClusterIP == v1.ClusterIPNone || s.Spec.ClusterIP == ""
}

func labelsOf(s *v1.Service) map[string]string {
	out := maps.Clone(s.Labels)
	if out == nil {
		out = map[string]string{}
	}
	delete(out, v1.IsHeadlessService)
	if headless(s) {
		out[v1.IsHeadlessService] = ""
	}
	out[managedBy] = Name
	return out
}

// sameLabels leaves aside whether the Service is headless.
func sameLabels(has map[string]string, s *v1.Service) bool {
	want, is := labelsOf(s), maps.Clone(has)
	delete(want, v1.IsHeadlessService)
	delete(is, v1.IsHeadlessService)
	return maps.Equal(want, is)
}

func withinCapacity(e *v1.Endpoints) bool {
	n := 0
	for i := range e.Subsets {
		n += len(e.Subsets[i].Addresses) + len(e.Subsets[i].NotReadyAddresses)
	}
	_, marked := e.Annotations[v1.EndpointsOverCapacity]
	return n <= capacity && !marked
}

// likeRevisions compares all but the revisions of the pods that are referred to.
var likeRevisions = conversion.EqualitiesOrDie(func(a, b v1.ObjectReference) bool {
	a.ResourceVersion, b.ResourceVersion = "", ""
	return a == b
})

// sameSubsets compares what is stored, in whichever order its writer had, with what is wanted.
func sameSubsets(has, want []v1.EndpointSubset) bool {
	return likeRevisions.DeepEqual(has, want) || likeRevisions.DeepEqual(Repack(has), want)
}

// truncate cuts subsets down to the capacity, each by its share of what is cut: those that are not ready first.
func truncate(subsets []v1.EndpointSubset) bool {
	ready, unready := 0, 0
	for i := range subsets {
		ready += len(subsets[i].Addresses)
		unready += len(subsets[i].NotReadyAddresses)
	}
	if ready+unready <= capacity {
		return false
	}
	cutReady := ready > capacity
	room, total := capacity-ready, unready
	if cutReady {
		room, total = capacity, ready
	}
	left := room
	cut := func(list []v1.EndpointAddress) []v1.EndpointAddress {
		n := min(int(math.Ceil(float64(len(list))/float64(total)*float64(room))), left, len(list))
		left -= n
		return list[:n]
	}
	for i := range subsets {
		s := &subsets[i]
		if cutReady {
			s.Addresses, s.NotReadyAddresses = cut(s.Addresses), nil
		} else {
			s.NotReadyAddresses = cut(s.NotReadyAddresses)
		}
	}
	return true
}
