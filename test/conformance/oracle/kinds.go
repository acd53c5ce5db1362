package oracle

import (
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/rest"

	_ "k8s.io/kubernetes/pkg/apis/coordination/install"
	_ "k8s.io/kubernetes/pkg/apis/core/install"

	"k8s.io/kubernetes/pkg/registry/coordination/lease"
	"k8s.io/kubernetes/pkg/registry/core/configmap"
	"k8s.io/kubernetes/pkg/registry/core/event"
	"k8s.io/kubernetes/pkg/registry/core/namespace"
	"k8s.io/kubernetes/pkg/registry/core/node"
	"k8s.io/kubernetes/pkg/registry/core/pod"
	"k8s.io/kubernetes/pkg/registry/core/secret"
	"k8s.io/kubernetes/pkg/registry/core/serviceaccount"

	"podo.dev/podo/internal/registry"
)

// Kind is one kind on both sides. A new kind is a line in Kinds and a file in corpus/.
type Kind struct {
	Podo   *registry.Kind
	Create rest.RESTCreateStrategy
	Update map[string]rest.RESTUpdateStrategy
	// Attrs are the selectable fields; nil where upstream takes the metadata's only.
	Attrs func(obj runtime.Object) (labels.Set, fields.Set, error)
	// Grace, when set, decides the grace of a deletion.
	Grace rest.RESTGracefulDeleteStrategy
}

// updates is the table of a kind without subresources.
func updates(s rest.RESTUpdateStrategy) map[string]rest.RESTUpdateStrategy {
	return map[string]rest.RESTUpdateStrategy{"": s}
}

func podo(group, resource string) *registry.Kind {
	k := registry.Lookup(schema.GroupResource{Group: group, Resource: resource})
	if k == nil {
		panic("not served: " + resource)
	}
	return k
}

// Kinds are the kinds that are compared.
var Kinds = []Kind{
	{Podo: podo("", "pods"), Create: pod.Strategy, Attrs: pod.GetAttrs, Grace: pod.Strategy, Update: map[string]rest.RESTUpdateStrategy{
		"": pod.Strategy, "status": pod.StatusStrategy, "ephemeralcontainers": pod.EphemeralContainersStrategy, "resize": pod.ResizeStrategy,
	}},
	{Podo: podo("", "nodes"), Create: node.Strategy, Attrs: node.GetAttrs, Update: map[string]rest.RESTUpdateStrategy{
		"": node.Strategy, "status": node.StatusStrategy,
	}},
	{Podo: podo("", "namespaces"), Create: namespace.Strategy, Attrs: namespace.GetAttrs, Update: map[string]rest.RESTUpdateStrategy{
		"": namespace.Strategy, "status": namespace.StatusStrategy, "finalize": namespace.FinalizeStrategy,
	}},
	{Podo: podo("", "events"), Create: event.Strategy, Update: updates(event.Strategy), Attrs: event.GetAttrs},
	{Podo: podo("", "configmaps"), Create: configmap.Strategy, Update: updates(configmap.Strategy), Attrs: configmap.GetAttrs},
	{Podo: podo("", "secrets"), Create: secret.Strategy, Update: updates(secret.Strategy), Attrs: secret.GetAttrs},
	{Podo: podo("", "serviceaccounts"), Create: serviceaccount.Strategy, Update: updates(serviceaccount.Strategy)},
	{Podo: podo("coordination.k8s.io", "leases"), Create: lease.Strategy, Update: updates(lease.Strategy)},
}
