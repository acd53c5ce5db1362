//lint:file-ignore SA1019 Endpoints are deprecated, and their owners' slices are made here.

package endpointslicemirroring

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

func endpointsOf(subsets ...v1.EndpointSubset) *v1.Endpoints {
	return &v1.Endpoints{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: "web", UID: "e", Labels: map[string]string{"a": "b"},
		Annotations: map[string]string{"x": "y", v1.LastAppliedConfigAnnotation: "{}", v1.EndpointsLastChangeTriggerTime: "now"},
	}, Subsets: subsets}
}

func subset(port int32, ready []string, unready ...string) v1.EndpointSubset {
	s := v1.EndpointSubset{Ports: []v1.EndpointPort{{Name: "p", Port: port}}}
	for _, ip := range ready {
		s.Addresses = append(s.Addresses, v1.EndpointAddress{IP: ip})
	}
	for _, ip := range unready {
		s.NotReadyAddresses = append(s.NotReadyAddresses, v1.EndpointAddress{IP: ip})
	}
	return s
}

// apply does what a plan says to slices.
func apply(p Plan, have []*discoveryv1.EndpointSlice, n *int) (out []*discoveryv1.EndpointSlice) {
	replaced := map[string]*discoveryv1.EndpointSlice{}
	for _, s := range p.Update {
		replaced[s.Name] = s
	}
	for _, s := range p.Delete {
		replaced[s.Name] = nil
	}
	for _, s := range have {
		if next, changed := replaced[s.Name]; !changed {
			out = append(out, s)
		} else if next != nil {
			out = append(out, next)
		}
	}
	for _, s := range p.Create {
		*n++
		s.Name = fmt.Sprint("web-", *n)
		out = append(out, s)
	}
	return out
}

// Whatever Endpoints become, the slices say the same after one plan, and a second one changes nothing.
func TestSlicesSayWhatEndpointsSay(t *testing.T) {
	ips := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"10.0.0.1", "10.0.0.2", "10.0.0.3", "fd00::1", "fd00::2"}), 0, 4, func(s string) string { return s })
	rapid.Check(t, func(t *rapid.T) {
		var have []*discoveryv1.EndpointSlice
		n := 0
		for range rapid.IntRange(1, 4).Draw(t, "changes") {
			e, want := endpointsOf(), map[string]bool{}
			for port := range rapid.Int32Range(0, 3).Draw(t, "subsets") {
				ready, all := ips.Draw(t, "ready"), map[string]bool{}
				for _, ip := range ready {
					all[ip] = true
				}
				var unready []string
				for _, ip := range ips.Draw(t, "unready") {
					if !all[ip] {
						unready = append(unready, ip)
					}
				}
				for _, ip := range ready {
					want[fmt.Sprint(port, ip)] = true
				}
				for _, ip := range unready {
					want[fmt.Sprint(port, ip)] = false
				}
				e.Subsets = append(e.Subsets, subset(port, ready, unready...))
			}
			have = apply(Decide(e, have), have, &n)
			got := map[string]bool{}
			for _, s := range have {
				for _, ep := range s.Endpoints {
					for _, p := range s.Ports {
						got[fmt.Sprint(*p.Port, ep.Addresses[0])] = *ep.Conditions.Ready
					}
				}
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("%v, want %v", got, want)
			}
			if p := Decide(e, have); len(p.Create)+len(p.Update)+len(p.Delete) > 0 {
				t.Fatalf("a second plan: %+v", p)
			}
		}
	})
}

// What slices carry of their Endpoints, and what they leave out.
func TestMirror(t *testing.T) {
	ips := make([]string, 1003)
	for i := range ips {
		ips[i] = fmt.Sprintf("10.0.%d.%d", i/250, 1+i%250)
	}
	ips[1000] = "bad"
	p := Decide(endpointsOf(subset(80, ips)), nil)
	if len(p.Create) != 1 || len(p.Create[0].Endpoints) != 1000 || p.Skipped != 3 {
		t.Fatalf("%d slices, %d skipped", len(p.Create), p.Skipped)
	}
	s := p.Create[0]
	if s.GenerateName != "web-" || len(s.Annotations) != 1 || s.Labels["a"] != "b" || s.Labels[discoveryv1.LabelServiceName] != "web" ||
		s.Labels[discoveryv1.LabelManagedBy] != Name || s.OwnerReferences[0].Kind != "Endpoints" {
		t.Errorf("%+v", s.ObjectMeta)
	}
	// Endpoints that were deleted and made again are owners anew.
	s.Name = "web-1"
	again := endpointsOf(subset(80, ips[:1000]))
	again.UID = "other"
	if p := Decide(again, []*discoveryv1.EndpointSlice{s}); len(p.Update) != 1 || p.Update[0].OwnerReferences[0].UID != "other" {
		t.Errorf("%+v", p)
	}
	if p := Decide(endpointsOf(subset(80, []string{"x", "10.0.0.1"})), nil); p.Invalid != 1 || p.Skipped != 1 {
		t.Errorf("%+v", p)
	}
	if Mirrored(&metav1.ObjectMeta{Annotations: map[string]string{"control-plane.alpha.kubernetes.io/leader": "x"}}) ||
		Mirrored(&metav1.ObjectMeta{Labels: map[string]string{discoveryv1.LabelSkipMirror: "true"}}) || !Mirrored(&metav1.ObjectMeta{}) {
		t.Error("which Endpoints are mirrored")
	}
}
