// Package client is the port through which controllers, the scheduler and the kubelet write to the API as a user. Reads of
// shared state go through `view`; what is here is for writes, and for the rare read that must be consistent by itself.
// Adapters: client/local calls the API server's verbs in process (no encoding); client/remote speaks HTTP.
//
// Errors are Kubernetes API status errors (k8s.io/apimachinery/pkg/api/errors tells them apart) in both adapters.
package client

import (
	"context"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Ref names an object, or with Subresource a part of it.
type Ref struct {
	Resource    schema.GroupResource
	Namespace   string
	Name        string
	Subresource string
	// Version, when set, is the API version that the caller speaks, where a resource is served in several: patches are made to that form,
	// and what is written is owned under its names. Without it the version that is stored counts.
	Version string
}

// The resources of the core group that components write, for readable calls: client.Pods.At("ns", "name").Sub("status").
var (
	Pods            = Resource{Resource: "pods"}
	Nodes           = Resource{Resource: "nodes"}
	Namespaces      = Resource{Resource: "namespaces"}
	Events          = Resource{Resource: "events"}
	ConfigMaps      = Resource{Resource: "configmaps"}
	Secrets         = Resource{Resource: "secrets"}
	Services        = Resource{Resource: "services"}
	ServiceCIDRs    = Resource{Group: "networking.k8s.io", Resource: "servicecidrs"}
	ServiceAccounts = Resource{Resource: "serviceaccounts"}
	Claims          = Resource{Resource: "persistentvolumeclaims"}
	Volumes         = Resource{Resource: "persistentvolumes"}
	StorageClasses  = Resource{Group: "storage.k8s.io", Resource: "storageclasses"}
	Leases          = Resource{Group: "coordination.k8s.io", Resource: "leases"}
)

// Resource is a kind of object.
type Resource schema.GroupResource

// At names an object of the resource; cluster-scoped ones have namespace "".
func (r Resource) At(namespace, name string) Ref {
	return Ref{Resource: schema.GroupResource(r), Namespace: namespace, Name: name}
}

// Sub names a subresource of the object.
func (r Ref) Sub(subresource string) Ref { r.Subresource = subresource; return r }

// Client is the port. Objects handed in are not kept or changed; objects handed out are the caller's to change, except
// those of Get, which may be shared and must not be.
type Client interface {
	// Get reads consistently: it reflects every write acknowledged before the call.
	Get(ctx context.Context, ref Ref) (runtime.Object, error)
	// Create takes the name from the object (generateName is honoured); ref.Name may be empty.
	Create(ctx context.Context, ref Ref, obj runtime.Object) (runtime.Object, error)
	// Update replaces; the object's resourceVersion, when set, is a precondition.
	Update(ctx context.Context, ref Ref, obj runtime.Object) (runtime.Object, error)
	// Mutate reads, lets change edit a private copy, and writes with the read's resourceVersion as precondition, again on
	// conflict. change returning false, or changing nothing, writes nothing. It may be called several times.
	Mutate(ctx context.Context, ref Ref, change func(runtime.Object) (bool, error)) (runtime.Object, error)
	// Apply is a server-side apply of config (JSON or YAML) in the name of manager, who takes the fields that it has from others. A uid
	// and a resourceVersion in it are preconditions.
	Apply(ctx context.Context, ref Ref, config []byte, manager string) (runtime.Object, error)
	Delete(ctx context.Context, ref Ref, o metav1.DeleteOptions) error
	// Bind assigns pods to nodes (the pods/binding subresource): each by itself, as if it were alone. They are asked for at once; the answer to each
	// is told as it comes, on any goroutine, and Bind returns when all are told.
	Bind(ctx context.Context, bindings []*v1.Binding, told func(i int, err error))
	// RequestToken makes a token for the ServiceAccount that ref names (the serviceaccounts/token subresource).
	RequestToken(ctx context.Context, ref Ref, r *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error)
}

// Bind assigns one pod to its node.
func Bind(ctx context.Context, c Client, b *v1.Binding) (err error) {
	c.Bind(ctx, []*v1.Binding{b}, func(_ int, answer error) { err = answer })
	return err
}
