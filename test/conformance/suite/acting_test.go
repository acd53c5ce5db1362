package suite

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
)

// Of two workloads that are served, one has a controller; services have one that makes slices, and nobody who forwards.
func TestProbeTellsWhoActs(t *testing.T) {
	served := map[string]bool{"pods": true, "replicationcontrollers": true, "replicasets.apps": true, "services": true, "endpointslices.discovery.k8s.io": true}
	c := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
		pods: "PodList", services: "ServiceList", slicesGVR: "EndpointSliceList", core.WithResource("endpoints"): "EndpointsList", core.WithResource("events"): "EventList",
	})
	p := newProber(c, served)
	makes := func(resource string, gvr schema.GroupVersionResource, o map[string]any) {
		c.PrependReactor("create", resource, func(clienttesting.Action) (bool, runtime.Object, error) {
			u := &unstructured.Unstructured{Object: o}
			u.SetNamespace(p.namespace)
			return false, nil, c.Tracker().Create(gvr, u, p.namespace)
		})
	}
	makes("replicationcontrollers", pods, object(core, "Pod", "probe-replicationcontrollers-x", nil))
	makes("services", slicesGVR, object(slicesGVR.GroupVersion(), "EndpointSlice", "probe-y", nil))
	if p.round(t.Context()) {
		t.Error("nothing to wait for, though nobody acts on replicasets")
	}
	p.conclude(t.Context(), true)
	for r, want := range map[string]bool{
		"replicationcontrollers!": true, "replicasets.apps!": false, "endpointslices.discovery.k8s.io!": true, "endpoints!": false, "services!": false, "names-in-dns": true,
	} {
		if served[r] != want {
			t.Errorf("%s: %v, want %v", r, served[r], want)
		}
	}
	if p.conclude(t.Context(), false); !served["services!"] {
		t.Error("from afar the address of a service cannot be tried")
	}
}
