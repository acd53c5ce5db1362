//lint:file-ignore SA1019 Endpoints are deprecated, and old clients read them.

package controllers_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/record"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/controllers/endpoints"
	"podo.dev/podo/internal/controllers/endpointslicemirroring"
	"podo.dev/podo/internal/controllers/endpointslices"
	"podo.dev/podo/internal/view"
)

var (
	servicesOf       = client.Resource{Resource: "services"}
	endpointsOf      = client.Resource{Resource: "endpoints"}
	endpointSlicesOf = client.Resource{Group: "discovery.k8s.io", Resource: "endpointslices"}
)

// slicesOf are a Service's slices, each as "ports: address state ...", with the manager's name where it is not the usual one.
func (w *world) slicesOf(service string) string {
	synctest.Wait()
	var out []string
	for e := range w.view.Snapshot().All(endpointSlicesOf.At("", "").Resource, "default", view.Key{}) {
		s := e.Object.(*discoveryv1.EndpointSlice)
		if s.Labels[discoveryv1.LabelServiceName] != service {
			continue
		}
		var ports, addresses []string
		for _, p := range s.Ports {
			ports = append(ports, fmt.Sprintf("%s/%d", *p.Name, *p.Port))
		}
		for _, ep := range s.Endpoints {
			text := ep.Addresses[0]
			if ep.Hostname != nil {
				text += "(" + *ep.Hostname + ")"
			}
			for name, is := range map[string]*bool{"ready": ep.Conditions.Ready, "terminating": ep.Conditions.Terminating} {
				if is != nil && *is {
					text += " " + name
				}
			}
			addresses = append(addresses, text)
		}
		slices.Sort(addresses)
		out = append(out, strings.Join(ports, ",")+": "+strings.Join(addresses, ", "))
	}
	slices.Sort(out)
	return strings.Join(out, "; ")
}

// endpointsOf are a Service's Endpoints: ports: ready addresses - those that are not.
func (w *world) endpoints(service string) string {
	obj := w.get(endpointsOf.At("default", service))
	if obj == nil {
		return "none"
	}
	var out []string
	for _, s := range obj.(*v1.Endpoints).Subsets {
		var ports, ready, not []string
		for _, p := range s.Ports {
			ports = append(ports, fmt.Sprintf("%s/%d", p.Name, p.Port))
		}
		for _, a := range s.Addresses {
			ready = append(ready, a.IP)
		}
		for _, a := range s.NotReadyAddresses {
			not = append(not, a.IP)
		}
		text := strings.Join(ports, ",") + ": " + strings.Join(ready, " ")
		if len(not) > 0 {
			text += " - " + strings.Join(not, " ")
		}
		out = append(out, text)
	}
	return strings.Join(out, "; ")
}

// answering makes a pod that answers at an address, ready or not.
func (w *world) answering(name, ip string, ready bool) {
	ctx := context.Background()
	p := pod(name, "n")
	p.Labels = map[string]string{"app": "web"}
	p.Spec.Hostname, p.Spec.Subdomain = name, "deep"
	p.Spec.Containers[0].Ports = []v1.ContainerPort{{Name: "http", ContainerPort: 8080}}
	w.must(w.admin.Create(ctx, client.Pods.At("default", ""), p))
	w.state(name, ip, ready)
}

func (w *world) state(name, ip string, ready bool) {
	w.must(w.admin.Mutate(context.Background(), client.Pods.At("default", name).Sub("status"), func(o runtime.Object) (bool, error) {
		is := v1.ConditionFalse
		if ready {
			is = v1.ConditionTrue
		}
		o.(*v1.Pod).Status = v1.PodStatus{
			Phase: v1.PodRunning, PodIP: ip, PodIPs: []v1.PodIP{{IP: ip}},
			Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: is, LastTransitionTime: metav1.Now()}},
		}
		return true, nil
	}))
}

func (w *world) service(name string, edit func(*v1.ServiceSpec)) {
	s := &v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: v1.ServiceSpec{
		Selector: map[string]string{"app": "web"}, Ports: []v1.ServicePort{{Name: "web", Port: 80, TargetPort: intstr.FromString("http")}},
	}}
	if edit != nil {
		edit(&s.Spec)
	}
	w.must(w.admin.Create(context.Background(), servicesOf.At("default", ""), s))
}

// Where a Service leads follows its pods, in slices and in Endpoints.
func TestEndpointsFollowPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.everyNamespace()
		w.node("n")
		told := record.NewFakeRecorder(1000)
		orphan := func(name string) {
			w.must(w.admin.Create(context.Background(), endpointsOf.At("default", ""), &v1.Endpoints{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}))
		}
		orphan("left")
		w.run(endpointslices.New(endpointslices.Config{View: w.view, Client: w.controllers, Events: told}))
		w.run(endpoints.New(endpoints.Config{View: w.view, Client: w.controllers, Events: told}))
		is := func(service, slices, endpoints string) {
			t.Helper()
			time.Sleep(2 * time.Second)
			if got := w.slicesOf(service); got != slices {
				t.Errorf("slices of %s: %q, want %q", service, got, slices)
			}
			if got := w.endpoints(service); got != endpoints {
				t.Errorf("Endpoints of %s: %q, want %q", service, got, endpoints)
			}
		}
		orphan("written")
		is("left", "", "none") // its Service went while nobody looked
		is("written", "", "")
		const slicing = "endpoint_slice_controller_"
		before := map[string]float64{} // they are the process's
		counts := map[string][]string{"syncs": {"success"}, "changes": {"create"}, "endpoints_added_per_sync": nil, "endpoints_removed_per_sync": nil}
		for name, labels := range counts {
			before[name] = w.metric(slicing+name, labels...)
		}
		w.service("web", nil)
		w.service("all", func(s *v1.ServiceSpec) { s.PublishNotReadyAddresses = true })
		w.service("deep", func(s *v1.ServiceSpec) { s.ClusterIP, s.Ports = v1.ClusterIPNone, nil })
		w.service("manual", func(s *v1.ServiceSpec) { s.Selector = nil })
		is("web", ": ", "")
		w.answering("a", "10.0.0.1", true)
		w.answering("b", "10.0.0.2", false)
		is("web", "web/8080: 10.0.0.1 ready, 10.0.0.2", "web/8080: 10.0.0.1 - 10.0.0.2")
		is("all", "web/8080: 10.0.0.1 ready, 10.0.0.2 ready", "web/8080: 10.0.0.1 10.0.0.2")
		is("deep", ": 10.0.0.1(a) ready, 10.0.0.2(b)", ": 10.0.0.1 - 10.0.0.2")
		is("manual", "", "none")
		for name, labels := range counts {
			if w.metric(slicing+name, labels...) <= before[name] {
				t.Errorf("%s does not count", name)
			}
		}
		for name, want := range map[string]float64{"endpoints_desired": 6, "num_endpoint_slices": 3, "desired_endpoint_slices": 3} {
			if got := w.metric(slicing + name); got != want {
				t.Errorf("%s is %v, want %v", name, got, want)
			}
		}
		w.state("b", "10.0.0.2", true)
		is("web", "web/8080: 10.0.0.1 ready, 10.0.0.2 ready", "web/8080: 10.0.0.1 10.0.0.2")
		// A pod that leaves is told as terminating, and is no more an address of the old kind.
		w.delete(client.Pods.At("default", "a"))
		is("web", "web/8080: 10.0.0.1 terminating, 10.0.0.2 ready", "web/8080: 10.0.0.2")
		// What has not changed is not written.
		seen := w.get(endpointsOf.At("default", "web")).(*v1.Endpoints).ResourceVersion
		w.must(w.admin.Mutate(context.Background(), client.Pods.At("default", "b"), func(o runtime.Object) (bool, error) {
			o.(*v1.Pod).Annotations = map[string]string{"a": "b"}
			return true, nil
		}))
		is("web", "web/8080: 10.0.0.1 terminating, 10.0.0.2 ready", "web/8080: 10.0.0.2")
		if after := w.get(endpointsOf.At("default", "web")).(*v1.Endpoints).ResourceVersion; after != seen {
			t.Error("an annotation of a pod had Endpoints written")
		}
		// Labels decide; what somebody else deletes is made again; what nobody needs goes.
		w.must(w.admin.Mutate(context.Background(), client.Pods.At("default", "b"), func(o runtime.Object) (bool, error) {
			o.(*v1.Pod).Labels = nil
			return true, nil
		}))
		is("web", "web/8080: 10.0.0.1 terminating", "")
		w.state("b", "10.0.0.2", true)
		w.must(w.admin.Mutate(context.Background(), client.Pods.At("default", "b"), func(o runtime.Object) (bool, error) {
			o.(*v1.Pod).Labels = map[string]string{"app": "web"}
			return true, nil
		}))
		time.Sleep(time.Second)
		w.delete(endpointsOf.At("default", "web"))
		for e := range w.view.Snapshot().All(endpointSlicesOf.At("", "").Resource, "default", view.Key{}) {
			w.delete(endpointSlicesOf.At("default", e.Key.Name))
		}
		is("web", "web/8080: 10.0.0.1 terminating, 10.0.0.2 ready", "web/8080: 10.0.0.2")
		w.delete(servicesOf.At("default", "web"))
		time.Sleep(time.Second)
		if got := w.endpoints("web"); got != "none" {
			t.Error("Endpoints outlive their Service: ", got)
		}
		for len(told.Events) > 0 {
			t.Error("told: ", <-told.Events)
		}
	})
}

// What people write for a Service without a selector is there as slices too.
func TestEndpointsAreMirrored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.everyNamespace()
		told := record.NewFakeRecorder(1000)
		w.run(endpointslicemirroring.New(endpointslicemirroring.Config{View: w.view, Client: w.controllers, Events: told}))
		is := func(want string) {
			t.Helper()
			time.Sleep(time.Second)
			if got := w.slicesOf("web"); got != want {
				t.Errorf("%q, want %q", got, want)
			}
		}
		change := func(edit func(*v1.Endpoints)) {
			w.must(w.admin.Mutate(context.Background(), endpointsOf.At("default", "web"), func(o runtime.Object) (bool, error) {
				edit(o.(*v1.Endpoints))
				return true, nil
			}))
		}
		w.must(w.admin.Create(context.Background(), endpointsOf.At("default", ""), &v1.Endpoints{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
			Subsets: []v1.EndpointSubset{{
				Addresses: []v1.EndpointAddress{{IP: "10.1.2.3"}, {IP: "fd00::7"}}, NotReadyAddresses: []v1.EndpointAddress{{IP: "10.1.2.4"}},
				Ports: []v1.EndpointPort{{Name: "x", Port: 80}},
			}},
		}))
		is("") // no Service yet
		w.service("web", func(s *v1.ServiceSpec) { s.Selector = nil })
		is("x/80: 10.1.2.3 ready, 10.1.2.4; x/80: fd00::7 ready")
		change(func(e *v1.Endpoints) {
			e.Subsets[0].Addresses = e.Subsets[0].Addresses[:1]
			e.Subsets[0].Ports[0].Port = 81
		})
		is("x/81: 10.1.2.3 ready, 10.1.2.4")
		change(func(e *v1.Endpoints) { e.Labels = map[string]string{discoveryv1.LabelSkipMirror: "true"} })
		is("")
		change(func(e *v1.Endpoints) { e.Labels = nil })
		is("x/81: 10.1.2.3 ready, 10.1.2.4")
		const mirroring = "endpoint_slice_mirroring_controller_"
		figure := func(name string, want float64, labels ...string) {
			t.Helper()
			if got := w.metric(mirroring+name, labels...); got != want {
				t.Errorf("%s%v is %v, want %v", name, labels, got, want)
			}
		}
		figure("endpoints_desired", 2)
		figure("num_endpoint_slices", 1)
		figure("desired_endpoint_slices", 1)
		w.delete(endpointsOf.At("default", "web"))
		is("")
		figure("endpoints_desired", 0)
		figure("num_endpoint_slices", 0)
		// Two are made, one of them becomes that of another port, the other goes; both times that there is no slice it goes.
		figure("changes", 3, "create")
		figure("changes", 1, "update")
		figure("changes", 3, "delete")
		looks := w.metric(mirroring + "endpoints_sync_duration")
		for _, name := range []string{"endpoints_added_per_sync", "endpoints_updated_per_sync", "endpoints_removed_per_sync", "addresses_skipped_per_sync"} {
			if n := w.metric(mirroring + name); n == 0 || n >= looks {
				t.Errorf("%s is told %v times, of %v looks", name, n, looks)
			}
		}
		for len(told.Events) > 0 {
			t.Error("told: ", <-told.Events)
		}
	})
}
