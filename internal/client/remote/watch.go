package remote

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"

	"podo.dev/podo/internal/client"
)

// List reads the objects of ref's kind and namespace (none: all) that o selects.
func (c *Client) List(ctx context.Context, ref client.Ref, o metav1.ListOptions) (runtime.Object, error) {
	p, k, err := c.path(ref)
	if err != nil {
		return nil, err
	}
	out := k.NewList()
	return out, c.rest.Get().AbsPath(p...).SpecificallyVersionedParams(&o, scheme.ParameterCodec, metaVersion).Do(ctx).Into(out)
}

// Watch tells the changes of what List reads.
func (c *Client) Watch(ctx context.Context, ref client.Ref, o metav1.ListOptions) (watch.Interface, error) {
	p, _, err := c.path(ref)
	if err != nil {
		return nil, err
	}
	o.Watch = true
	return c.rest.Get().AbsPath(p...).SpecificallyVersionedParams(&o, scheme.ParameterCodec, metaVersion).Watch(ctx)
}
