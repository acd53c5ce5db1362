// Package endpointslices keeps the EndpointSlices of Services with a selector: which pods answer for them, where, and in which state. What
// slices there should be, k8s.io/endpointslice decides, topology hints and traffic distribution included; this package feeds it from the view
// and tells it when to look. Services without a selector are their owners'.
package endpointslices

import (
	"context"
	"strings"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/endpointslice"
	"k8s.io/endpointslice/metrics"
	"k8s.io/endpointslice/topologycache"
	endpointsliceutil "k8s.io/endpointslice/util"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/controllers/loop"
	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/view"
)

const (
	// Name is whom slices say that they are managed by.
	Name = "endpointslice-controller.k8s.io"
	// most is how many endpoints a slice has.
	most    = 100
	workers = 5
)

var (
	// Pods are what Concerned is told of.
	Pods     = schema.GroupResource(client.Pods)
	nodes    = schema.GroupResource(client.Nodes)
	services = schema.GroupResource{Resource: "services"}
	slices   = client.Resource{Group: discoveryv1.GroupName, Resource: "endpointslices"}
)

// Config is what the controller is made of. All but Logger are required.
type Config = loop.Parts

type controller struct {
	Config
	writer     *writer
	reconciler *endpointslice.Reconciler
	tracker    *endpointsliceutil.EndpointSliceTracker
	triggers   *endpointsliceutil.TriggerTimeTracker
	topology   *topologycache.TopologyCache
}

// New makes the controller. Its keys are Services, and one without a name for the nodes' zones.
func New(c Config) (*loop.Loop, error) {
	if err := c.Check("endpointslices"); err != nil {
		return nil, err
	}
	k := &controller{
		Config: c, writer: &writer{client: c.Client},
		tracker: endpointsliceutil.NewEndpointSliceTracker(), triggers: endpointsliceutil.NewTriggerTimeTracker(), topology: topologycache.NewTopologyCache(),
	}
	k.reconciler = endpointslice.NewReconciler(
		clientset{writer: k.writer}, nodeLister{c.View}, most, k.tracker, k.topology, c.Events, Name,
		endpointslice.WithPreferSameTrafficDistributionEnabled(true),
	)
	metrics.RegisterMetrics() // before that they count nothing
	return loop.New(loop.Config{
		Name: "endpoint-slices", View: c.View, Reconcile: k.reconcile, Workers: workers, Logger: c.Logger,
		// The library's, which are the process's: they count on when the controller starts anew.
		Metrics: []prometheus.Collector{
			metrics.EndpointsAddedPerSync, metrics.EndpointsRemovedPerSync, metrics.EndpointsDesired, metrics.NumEndpointSlices,
			metrics.DesiredEndpointSlices, metrics.EndpointSliceChanges, metrics.EndpointSlicesChangedPerSync, metrics.EndpointSliceSyncs,
			metrics.ServicesCountByTrafficDistribution,
		},
		Watches: []loop.Watch{
			{Resource: nodes, Keys: nodeKeys},
			{Resource: services, Keys: func(ch view.Change) []view.Key {
				if ch.New == nil {
					return []view.Key{ch.Old.Key}
				}
				return []view.Key{ch.New.Key}
			}},
			{Resource: Pods, Keys: func(ch view.Change) []view.Key { return Concerned(c.View.Snapshot(), ch) }},
			{Resource: schema.GroupResource(slices), Keys: k.sliceKeys},
		},
	})
}

// Concerned are the Services whose endpoints a change of a pod may change.
func Concerned(s view.Snapshot, c view.Change) (out []view.Key) {
	var old, pod any
	if c.Old != nil {
		old = c.Old.Object
	}
	if c.New != nil {
		pod = c.New.Object
	}
	p := endpointsliceutil.GetPodUpdateProjectionKey(old, pod)
	if p == nil {
		return nil
	}
	for e := range s.All(services, p.Namespace, view.Key{}) {
		selector := e.Object.(*v1.Service).Spec.Selector
		if selector == nil { // an empty one selects all pods
			continue
		}
		is := labels.SelectorFromValidatedSet(selector)
		now := is.Matches(p.Labels)
		was := p.OldLabels == nil && now || p.OldLabels != nil && is.Matches(p.OldLabels)
		if now != was || now && (p.PodChanged || p.OldLabels == nil) {
			out = append(out, e.Key)
		}
	}
	return out
}

// nodeKeys: zones are looked at again when a node comes, goes, or changes its zone or whether it is ready.
func nodeKeys(c view.Change) []view.Key {
	if c.Old != nil && c.New != nil {
		old, now := c.Old.Object.(*v1.Node), c.New.Object.(*v1.Node)
		if nodeReady(old) == nodeReady(now) && old.Labels[v1.LabelTopologyZone] == now.Labels[v1.LabelTopologyZone] {
			return nil
		}
	}
	return []view.Key{{}}
}

func nodeReady(n *v1.Node) bool {
	for i := range n.Status.Conditions {
		if c := &n.Status.Conditions[i]; c.Type == v1.NodeReady {
			return c.Status == v1.ConditionTrue
		}
	}
	return false
}

// sliceKeys: slices that somebody else changed, deleted, or gave another Service or manager.
func (k *controller) sliceKeys(c view.Change) []view.Key {
	var old, now *discoveryv1.EndpointSlice
	if c.Old != nil {
		old = c.Old.Object.(*discoveryv1.EndpointSlice)
	}
	if c.New != nil {
		now = c.New.Object.(*discoveryv1.EndpointSlice)
	}
	switch {
	case now == nil:
		if k.reconciler.ManagedByController(old) && k.tracker.Has(old) && !k.tracker.HandleDeletion(old) {
			return owner(old)
		}
	case old == nil:
		if k.reconciler.ManagedByController(now) && k.tracker.ShouldSync(now) {
			return owner(now)
		}
	case old.Labels[discoveryv1.LabelServiceName] != now.Labels[discoveryv1.LabelServiceName]:
		return append(owner(old), owner(now)...)
	case k.reconciler.ManagedByChanged(old, now), k.reconciler.ManagedByController(now) && k.tracker.ShouldSync(now):
		return owner(now)
	}
	return nil
}

func owner(s *discoveryv1.EndpointSlice) []view.Key {
	name := s.Labels[discoveryv1.LabelServiceName]
	if name == "" {
		return nil
	}
	return []view.Key{{Namespace: s.Namespace, Name: name}}
}

func (k *controller) reconcile(_ context.Context, s view.Snapshot, key view.Key) (loop.Result, error) {
	if key == (view.Key{}) {
		return loop.Result{Also: k.zones(s)}, nil
	}
	e := s.Get(services, key.Namespace, key.Name)
	if e == nil {
		k.triggers.DeleteService(key.Namespace, key.Name)
		k.reconciler.DeleteService(key.Namespace, key.Name)
		k.tracker.DeleteService(key.Namespace, key.Name)
		return loop.Result{}, nil
	}
	service := e.Object.(*v1.Service)
	if service.Spec.Type == v1.ServiceTypeExternalName || service.Spec.Selector == nil {
		return loop.Result{}, nil
	}
	have := own(s, key)
	if k.tracker.StaleSlices(service, have) {
		metrics.EndpointSliceSyncs.WithLabelValues("stale").Inc()
		return loop.Result{}, errBehind
	}
	selected := Selected(s, service)
	trigger := k.triggers.ComputeEndpointLastChangeTriggerTime(key.Namespace, service, selected)
	if err := k.reconciler.Reconcile(logr.Discard(), service, selected, have, trigger); err != nil {
		k.Events.Eventf(service, v1.EventTypeWarning, "FailedToUpdateEndpointSlices",
			"Error updating Endpoint Slices for Service %s/%s: %v", service.Namespace, service.Name, err)
		metrics.EndpointSliceSyncs.WithLabelValues("error").Inc()
		return loop.Result{Wrote: k.writer.wrote.Load()}, err
	}
	metrics.EndpointSliceSyncs.WithLabelValues("success").Inc()
	return loop.Result{Wrote: k.writer.wrote.Load()}, nil
}

// Selected are the pods that a Service selects.
func Selected(s view.Snapshot, service *v1.Service) (out []*v1.Pod) {
	selector := labels.SelectorFromValidatedSet(service.Spec.Selector)
	for e := range s.All(Pods, service.Namespace, view.Key{}) {
		if selector.Matches(labels.Set(e.Meta.GetLabels())) {
			out = append(out, e.Object.(*v1.Pod))
		}
	}
	return out
}

// own are the slices of a Service that this controller manages, those that are on their way out excepted. The library edits copies of its own.
func own(s view.Snapshot, key view.Key) (out []*discoveryv1.EndpointSlice) {
	for e := range s.By(schema.GroupResource(slices), registry.SliceService, key.Namespace+"/"+key.Name) {
		slice := e.Object.(*discoveryv1.EndpointSlice)
		if slice.DeletionTimestamp == nil && slice.Labels[discoveryv1.LabelManagedBy] == Name {
			out = append(out, slice)
		}
	}
	return out
}

// zones tells the library of the nodes and answers with the Services whose zones are no longer fair.
func (k *controller) zones(s view.Snapshot) (out []view.Key) {
	var all []*v1.Node
	for e := range s.All(nodes, "", view.Key{}) {
		all = append(all, e.Object.(*v1.Node))
	}
	k.topology.SetNodes(logr.Discard(), all)
	for _, key := range k.topology.GetOverloadedServices() {
		if ns, name, ok := strings.Cut(key, "/"); ok {
			out = append(out, view.Key{Namespace: ns, Name: name})
		}
	}
	return out
}
