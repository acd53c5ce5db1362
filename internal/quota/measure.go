package quota

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
)

// measure is how objects of one resource use quotas.
type measure struct {
	// tracks says whether a bound of that name concerns the resource.
	tracks func(name v1.ResourceName) bool
	// usage is what an object uses, as of now.
	usage func(obj runtime.Object, now time.Time) v1.ResourceList
	// charged says which writes can use more: of the object itself ("") or of a subresource; old is nil on a creation.
	charged func(subresource string, obj, old runtime.Object) bool
	// inScope, when set, says whether a scope selects the object. Without it no scope does.
	inScope func(s v1.ScopedResourceSelectorRequirement, obj runtime.Object) bool
	// moved, when set, says whether a change brings the object into other scopes.
	moved func(obj, old runtime.Object) bool
	// lacks, when set, says what the object must specify, because a quota bounds it, and does not.
	lacks func(obj runtime.Object, bounded []v1.ResourceName) string
}

// of finds the measure of a resource; those that are nothing special are counted.
func of(r schema.GroupResource) *measure {
	if r.Group == "" {
		switch r.Resource {
		case "pods":
			return &pods
		case "services":
			return &services
		case "persistentvolumeclaims":
			return &claims
		}
	}
	return counted(r)
}

// oldCountNames are names of counts from before there was "count/".
var oldCountNames = map[schema.GroupResource]v1.ResourceName{
	{Resource: "configmaps"}:             v1.ResourceConfigMaps,
	{Resource: "resourcequotas"}:         v1.ResourceQuotas,
	{Resource: "replicationcontrollers"}: v1.ResourceReplicationControllers,
	{Resource: "secrets"}:                v1.ResourceSecrets,
}

func counted(r schema.GroupResource) *measure {
	names := []v1.ResourceName{CountName(r)}
	if old, ok := oldCountNames[r]; ok {
		names = append(names, old)
	}
	return &measure{
		tracks: func(name v1.ResourceName) bool { return slices.Contains(names, name) },
		usage: func(runtime.Object, time.Time) v1.ResourceList {
			out := v1.ResourceList{}
			for _, name := range names {
				out[name] = one
			}
			return out
		},
		charged: func(subresource string, _, old runtime.Object) bool { return subresource == "" && old == nil },
	}
}

// selects evaluates a scope with values against the names that an object has in it.
func selects(s v1.ScopedResourceSelectorRequirement, names ...string) bool {
	op, ok := map[v1.ScopeSelectorOperator]selection.Operator{
		v1.ScopeSelectorOpIn: selection.In, v1.ScopeSelectorOpNotIn: selection.NotIn,
		v1.ScopeSelectorOpExists: selection.Exists, v1.ScopeSelectorOpDoesNotExist: selection.DoesNotExist,
	}[s.Operator]
	if !ok {
		return false
	}
	r, err := labels.NewRequirement(string(s.ScopeName), op, s.Values)
	if err != nil {
		return false // validation lets none of these through
	}
	if len(names) == 0 {
		return r.Matches(labels.Set{})
	}
	return slices.ContainsFunc(names, func(name string) bool { return r.Matches(labels.Set{string(s.ScopeName): name}) })
}

// scopes are all that a quota asks of the objects it bounds.
func scopes(q *v1.ResourceQuota) []v1.ScopedResourceSelectorRequirement {
	var out []v1.ScopedResourceSelectorRequirement
	for _, s := range q.Spec.Scopes {
		out = append(out, v1.ScopedResourceSelectorRequirement{ScopeName: s, Operator: v1.ScopeSelectorOpExists})
	}
	if q.Spec.ScopeSelector != nil {
		out = append(out, q.Spec.ScopeSelector.MatchExpressions...)
	}
	return out
}

// selected are those of the scopes that select the object.
func (m *measure) selected(list []v1.ScopedResourceSelectorRequirement, obj runtime.Object) (out []v1.ScopedResourceSelectorRequirement) {
	if m.inScope == nil {
		return nil
	}
	for _, s := range list {
		if m.inScope(s, obj) {
			out = append(out, s)
		}
	}
	return out
}

// inScopes says whether the quota is about the object: all of its scopes select it.
func (m *measure) inScopes(q *v1.ResourceQuota, obj runtime.Object) bool {
	all := scopes(q)
	return len(m.selected(all, obj)) == len(all)
}

var serviceNames = []v1.ResourceName{"count/services", v1.ResourceServices, v1.ResourceServicesNodePorts, v1.ResourceServicesLoadBalancers}

// services: one that other than a cluster address has uses ports of the nodes, or a balancer.
var services = measure{
	tracks:  func(name v1.ResourceName) bool { return slices.Contains(serviceNames, name) },
	charged: func(subresource string, _, _ runtime.Object) bool { return subresource == "" },
	usage: func(obj runtime.Object, _ time.Time) v1.ResourceList {
		s := obj.(*v1.Service)
		var balancers, ports int
		switch s.Spec.Type {
		case v1.ServiceTypeNodePort:
			ports = len(s.Spec.Ports)
		case v1.ServiceTypeLoadBalancer:
			balancers, ports = 1, len(s.Spec.Ports)
			if allocate := s.Spec.AllocateLoadBalancerNodePorts; allocate != nil && !*allocate {
				ports = 0
				for _, p := range s.Spec.Ports {
					if p.NodePort != 0 {
						ports++
					}
				}
			}
		}
		return v1.ResourceList{
			"count/services": one, v1.ResourceServices: one,
			v1.ResourceServicesLoadBalancers: *resource.NewQuantity(int64(balancers), resource.DecimalSI),
			v1.ResourceServicesNodePorts:     *resource.NewQuantity(int64(ports), resource.DecimalSI),
		}
	},
}
