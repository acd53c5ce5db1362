// Package remote is the client port over HTTP, for a program that is not the API server's own process: protobuf both ways, one
// connection, and no limit on this side, since the API server is the one to say when it has too much to do.
package remote

import (
	"context"
	"fmt"
	"sync"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/registry"
)

// Client acts as the user of its transport's credentials.
type Client struct {
	rest    *rest.RESTClient
	kinds   map[schema.GroupResource]*registry.Kind
	manager string
}

var _ client.Client = (*Client)(nil)

// protobuf is what is asked for; a server that has none of a kind answers in JSON.
const protobuf = "application/vnd.kubernetes.protobuf"

// New makes a client of the kinds with c's host and credentials. manager owns the fields that it writes, in metadata.managedFields.
func New(c *rest.Config, kinds []*registry.Kind, manager string) (*Client, error) {
	c = rest.CopyConfig(c)
	c.ContentType, c.AcceptContentTypes = protobuf, protobuf+",application/json"
	c.NegotiatedSerializer = serializer.WithoutConversionCodecFactory{CodecFactory: scheme.Codecs}
	c.RateLimiter = flowcontrol.NewFakeAlwaysRateLimiter()
	c.UserAgent = manager
	rc, err := rest.UnversionedRESTClientFor(c)
	if err != nil {
		return nil, fmt.Errorf("the API server's client: %w", err)
	}
	out := &Client{rest: rc, kinds: map[schema.GroupResource]*registry.Kind{}, manager: manager}
	for _, k := range kinds {
		if k.Served == nil {
			out.kinds[k.GroupResource()] = k
		}
	}
	return out, nil
}

// HTTP is the transport for what is no API object.
func (c *Client) HTTP() *rest.RESTClient { return c.rest }

// path leads to what ref names, or without a name to all of the kind.
func (c *Client) path(ref client.Ref) ([]string, *registry.Kind, error) {
	k := c.kinds[ref.Resource]
	if k == nil {
		return nil, nil, apierrors.NewNotFound(ref.Resource, ref.Name)
	}
	p := []string{"/apis", k.GVK.Group, k.GVK.Version}
	if k.GVK.Group == "" {
		p = []string{"/api", k.GVK.Version}
	}
	if k.Namespaced && ref.Namespace != "" {
		p = append(p, "namespaces", ref.Namespace)
	}
	p = append(p, k.Resource)
	if ref.Name != "" {
		p = append(p, ref.Name)
	}
	if ref.Subresource != "" {
		p = append(p, ref.Subresource)
	}
	return p, k, nil
}

// do sends a request and reads the answer into a new object of the kind.
func (c *Client) do(ctx context.Context, verb string, ref client.Ref, body any, o runtime.Object) (runtime.Object, error) {
	return c.send(ctx, c.rest.Verb(verb), ref, body, o)
}

func (c *Client) send(ctx context.Context, r *rest.Request, ref client.Ref, body any, o runtime.Object) (runtime.Object, error) {
	p, k, err := c.path(ref)
	if err != nil {
		return nil, err
	}
	r.AbsPath(p...)
	if o != nil {
		r.SpecificallyVersionedParams(o, scheme.ParameterCodec, metaVersion)
	}
	if body != nil {
		r.Body(body)
	}
	out := k.New()
	if err := r.Do(ctx).Into(out); err != nil {
		return nil, err
	}
	out.GetObjectKind().SetGroupVersionKind(k.GVK)
	return out, nil
}

// metaVersion is the version of the options in a query.
var metaVersion = schema.GroupVersion{Version: "v1"}

// Get implements client.Client.
func (c *Client) Get(ctx context.Context, ref client.Ref) (runtime.Object, error) {
	ref.Subresource = ""
	return c.do(ctx, "GET", ref, nil, nil)
}

// Create implements client.Client.
func (c *Client) Create(ctx context.Context, ref client.Ref, obj runtime.Object) (runtime.Object, error) {
	ref.Name = ""
	return c.do(ctx, "POST", ref, c.typed(ref, obj), &metav1.CreateOptions{FieldManager: c.manager})
}

// Update implements client.Client.
func (c *Client) Update(ctx context.Context, ref client.Ref, obj runtime.Object) (runtime.Object, error) {
	return c.do(ctx, "PUT", ref, c.typed(ref, obj), &metav1.UpdateOptions{FieldManager: c.manager})
}

// typed is the object with the type that its encoding needs. What is handed in is not changed.
func (c *Client) typed(ref client.Ref, obj runtime.Object) runtime.Object {
	if k := c.kinds[ref.Resource]; k != nil && obj.GetObjectKind().GroupVersionKind().Empty() {
		obj = obj.DeepCopyObject()
		obj.GetObjectKind().SetGroupVersionKind(k.GVK)
	}
	return obj
}

// Mutate implements client.Client.
func (c *Client) Mutate(ctx context.Context, ref client.Ref, change func(runtime.Object) (bool, error)) (runtime.Object, error) {
	for {
		obj, err := c.Get(ctx, ref)
		if err != nil {
			return nil, err
		}
		before := obj.DeepCopyObject()
		write, err := change(obj)
		if err != nil {
			return nil, err
		}
		if !write {
			return before, nil
		}
		if err := sameVersion(obj, before); err != nil {
			return nil, err
		}
		out, err := c.Update(ctx, ref, obj)
		if !apierrors.IsConflict(err) || ctx.Err() != nil {
			return out, err
		}
	}
}

// sameVersion makes the write conditional on what was read.
func sameVersion(obj, read runtime.Object) error {
	m, err := meta.Accessor(obj)
	if err != nil {
		return err
	}
	r, err := meta.Accessor(read)
	if err != nil {
		return err
	}
	m.SetResourceVersion(r.GetResourceVersion())
	return nil
}

// Apply implements client.Client.
func (c *Client) Apply(ctx context.Context, ref client.Ref, config []byte, manager string) (runtime.Object, error) {
	return c.send(ctx, c.rest.Patch(types.ApplyYAMLPatchType), ref, config, &metav1.PatchOptions{FieldManager: manager, Force: new(true)})
}

// Delete implements client.Client.
func (c *Client) Delete(ctx context.Context, ref client.Ref, o metav1.DeleteOptions) error {
	p, _, err := c.path(ref)
	if err != nil {
		return err
	}
	return c.rest.Delete().AbsPath(p...).Body(&o).Do(ctx).Error()
}

// Bind implements client.Client: the API has a request for each.
func (c *Client) Bind(ctx context.Context, bindings []*v1.Binding, told func(i int, err error)) {
	var all sync.WaitGroup
	for i, b := range bindings {
		all.Go(func() { told(i, c.bind(ctx, b)) })
	}
	all.Wait()
}

func (c *Client) bind(ctx context.Context, b *v1.Binding) error {
	p, _, err := c.path(client.Pods.At(b.Namespace, b.Name).Sub("binding"))
	if err != nil {
		return err
	}
	return c.rest.Post().AbsPath(p...).Body(b).Do(ctx).Error()
}

// RequestToken implements client.Client.
func (c *Client) RequestToken(ctx context.Context, ref client.Ref, r *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error) {
	p, _, err := c.path(ref.Sub("token"))
	if err != nil {
		return nil, err
	}
	out := &authenticationv1.TokenRequest{}
	return out, c.rest.Post().AbsPath(p...).Body(r).Do(ctx).Into(out)
}

// Review asks the API server about somebody: a TokenReview or a SubjectAccessReview, which the answer is read into.
func (c *Client) Review(ctx context.Context, resource schema.GroupResource, review runtime.Object) error {
	p, _, err := c.path(client.Ref{Resource: resource})
	if err != nil {
		return err
	}
	return c.rest.Post().AbsPath(p...).Body(review).Do(ctx).Into(review)
}
