//lint:file-ignore SA1019 Endpoints are deprecated, and old clients read them.

package endpoints

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"
)

// said is what subsets say, one address and port at a time: the obvious form.
func said(subsets []v1.EndpointSubset) map[string]bool {
	out, offers := map[string]bool{}, map[string]bool{}
	note := func(a v1.EndpointAddress, port string, ready bool) {
		uid := types.UID("")
		if a.TargetRef != nil {
			uid = a.TargetRef.UID
		}
		who := fmt.Sprint(a.IP, " ", uid, " ")
		offers[who] = offers[who] || port != "none"
		key := who + port
		if was, known := out[key]; !known || was {
			out[key] = ready
		}
	}
	for _, s := range subsets {
		ports := []string{"none"}
		if len(s.Ports) > 0 {
			ports = nil
		}
		for i := range s.Ports {
			ports = append(ports, portText(&s.Ports[i]))
		}
		for _, port := range ports {
			for _, a := range s.Addresses {
				note(a, port, true)
			}
			for _, a := range s.NotReadyAddresses {
				note(a, port, false)
			}
		}
	}
	for who, port := range offers {
		if port { // that it has none elsewhere may be left out, as with upstream
			delete(out, who+"none")
		}
	}
	return out
}

// Repacked subsets say the same, are repacked to themselves, and do not depend on the order in which they were said.
func TestRepack(t *testing.T) {
	addresses := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) v1.EndpointAddress {
		a := v1.EndpointAddress{IP: rapid.SampledFrom([]string{"10.0.0.1", "10.0.0.2", "10.0.0.10"}).Draw(t, "ip")}
		if uid := rapid.SampledFrom([]types.UID{"", "a", "b"}).Draw(t, "uid"); uid != "" {
			a.TargetRef = &v1.ObjectReference{Kind: "Pod", UID: uid}
		}
		return a
	}), 0, 4)
	ports := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) v1.EndpointPort {
		return v1.EndpointPort{Name: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "name"), Port: rapid.Int32Range(1, 3).Draw(t, "port")}
	}), 0, 3)
	rapid.Check(t, func(t *rapid.T) {
		var subsets []v1.EndpointSubset
		for range rapid.IntRange(0, 4).Draw(t, "subsets") {
			subsets = append(subsets, v1.EndpointSubset{
				Addresses: addresses.Draw(t, "ready"), NotReadyAddresses: addresses.Draw(t, "unready"), Ports: ports.Draw(t, "ports"),
			})
		}
		once := Repack(subsets)
		if got, want := said(once), said(subsets); !reflect.DeepEqual(got, want) {
			t.Fatalf("%v\nbecame %v", want, got)
		}
		if again := Repack(once); !reflect.DeepEqual(again, once) {
			t.Fatalf("%v\nbecame %v", once, again)
		}
		slices.Reverse(subsets)
		if turned := Repack(subsets); !reflect.DeepEqual(turned, once) {
			t.Fatalf("in another order %v\nbecame %v", once, turned)
		}
	})
}

// A Service of more than a thousand addresses shows a thousand, the ready ones first, and says so; with fewer it says so no more.
func TestCapacity(t *testing.T) {
	service := &v1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", Labels: map[string]string{"a": "b"}},
		Spec:       v1.ServiceSpec{ClusterIP: "10.96.0.1", IPFamilies: []v1.IPFamily{v1.IPv4Protocol}, Ports: []v1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(80)}}},
	}
	pods := func(ready, unready int) (out []*v1.Pod) {
		for i := range ready + unready {
			is := v1.ConditionTrue
			if i >= ready {
				is = v1.ConditionFalse
			}
			ip := fmt.Sprintf("10.1.%d.%d", i/250, 1+i%250)
			out = append(out, &v1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint(i), UID: types.UID(fmt.Sprint(i))},
				Status: v1.PodStatus{
					Phase: v1.PodRunning, PodIP: ip, PodIPs: []v1.PodIP{{IP: ip}}, Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: is}},
				},
			})
		}
		return out
	}
	shown := func(e *v1.Endpoints) string {
		ready, unready := 0, 0
		for _, s := range e.Subsets {
			ready, unready = ready+len(s.Addresses), unready+len(s.NotReadyAddresses)
		}
		return fmt.Sprintf("%d ready, %d not, %q", ready, unready, e.Annotations[v1.EndpointsOverCapacity])
	}
	var current *v1.Endpoints
	for _, c := range []struct {
		ready, unready int
		want           string
	}{
		{1200, 10, `1000 ready, 0 not, "truncated"`},
		{900, 300, `900 ready, 100 not, "truncated"`},
		{900, 100, `900 ready, 100 not, ""`},
		{1, 0, `1 ready, 0 not, ""`},
	} {
		all := pods(c.ready, c.unready)
		next, changed := Desired(service, all, current, time.Time{})
		if got := shown(next); got != c.want || !changed {
			t.Errorf("%d ready, %d not: %s, changed %t", c.ready, c.unready, got, changed)
		}
		if _, again := Desired(service, all, next, time.Time{}); again && c.ready+c.unready <= capacity {
			t.Errorf("%d ready, %d not: never settled", c.ready, c.unready)
		}
		if next.Labels["a"] != "b" || next.Labels[managedBy] != Name {
			t.Errorf("labels %v", next.Labels)
		}
		current = next
	}
}

// The family is the Service's first; a pod without an address of it has none.
func TestFamily(t *testing.T) {
	pod := &v1.Pod{Status: v1.PodStatus{PodIP: "10.0.0.1", PodIPs: []v1.PodIP{{IP: "10.0.0.1"}, {IP: "fd00:0::1"}}}}
	for _, c := range []struct {
		families []v1.IPFamily
		ip       string
		want     string
	}{
		{[]v1.IPFamily{v1.IPv4Protocol, v1.IPv6Protocol}, "10.96.0.1", "10.0.0.1"},
		{[]v1.IPFamily{v1.IPv6Protocol}, "fd00::2", "fd00::1"},
		{nil, "fd00::2", "fd00::1"},
		{nil, "", "10.0.0.1"},
	} {
		a := addressOf(&v1.Service{Spec: v1.ServiceSpec{IPFamilies: c.families, ClusterIP: c.ip}}, pod)
		if a == nil || a.IP != c.want {
			t.Errorf("%v %s: %v", c.families, c.ip, a)
		}
	}
	pod.Status.PodIPs = pod.Status.PodIPs[:1]
	if a := addressOf(&v1.Service{Spec: v1.ServiceSpec{IPFamilies: []v1.IPFamily{v1.IPv6Protocol}}}, pod); a != nil {
		t.Error(a)
	}
}

// The order of ports is upstream's: that of what their fields hash to.
func TestOrderOfPorts(t *testing.T) {
	tcp := func(name string, n int32) v1.EndpointPort {
		return v1.EndpointPort{Name: name, Port: n, Protocol: v1.ProtocolTCP}
	}
	s := Repack([]v1.EndpointSubset{{Addresses: []v1.EndpointAddress{{IP: "1.1.1.1"}}, Ports: []v1.EndpointPort{tcp("a", 1000), tcp("https", 8443)}}})
	if len(s) != 1 || len(s[0].Ports) != 2 || s[0].Ports[0].Name != "https" {
		t.Error(s)
	}
}
