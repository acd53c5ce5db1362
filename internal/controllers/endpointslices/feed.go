package endpointslices

import (
	"context"
	"errors"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	discovery "k8s.io/client-go/kubernetes/typed/discovery/v1"
	corelisters "k8s.io/client-go/listers/core/v1"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/controllers/loop"
	"podo.dev/podo/internal/view"
)

// nodeLister reads nodes from the view.
type nodeLister struct{ view *view.View }

var _ corelisters.NodeLister = nodeLister{}

func (l nodeLister) Get(name string) (*v1.Node, error) {
	e := l.view.Snapshot().Get(nodes, "", name)
	if e == nil {
		return nil, apierrors.NewNotFound(nodes, name)
	}
	return e.Object.(*v1.Node), nil
}

func (l nodeLister) List(selector labels.Selector) (out []*v1.Node, err error) {
	for e := range l.view.Snapshot().All(nodes, "", view.Key{}) {
		if selector.Matches(labels.Set(e.Meta.GetLabels())) {
			out = append(out, e.Object.(*v1.Node))
		}
	}
	return out, nil
}

// The library writes through as much of client-go's interface as is below: it creates, updates and deletes slices. All else of these
// interfaces is nil, and would panic.
type (
	clientset struct {
		kubernetes.Interface
		writer *writer
	}
	group struct {
		discovery.DiscoveryV1Interface
		writer *writer
	}
	namespaced struct {
		discovery.EndpointSliceInterface
		writer    *writer
		namespace string
	}
	// writer writes as the controller's user and remembers its newest write.
	writer struct {
		client client.Client
		wrote  atomic.Int64
	}
)

func (c clientset) DiscoveryV1() discovery.DiscoveryV1Interface { return group{writer: c.writer} }

func (g group) EndpointSlices(namespace string) discovery.EndpointSliceInterface {
	return namespaced{writer: g.writer, namespace: namespace}
}

func (n namespaced) Create(ctx context.Context, s *discoveryv1.EndpointSlice, _ metav1.CreateOptions) (*discoveryv1.EndpointSlice, error) {
	obj, err := n.writer.client.Create(ctx, slices.At(n.namespace, s.Name), s)
	if err != nil {
		return nil, err
	}
	n.writer.told(loop.Revision(obj))
	return obj.(*discoveryv1.EndpointSlice), nil
}

func (n namespaced) Update(ctx context.Context, s *discoveryv1.EndpointSlice, _ metav1.UpdateOptions) (*discoveryv1.EndpointSlice, error) {
	obj, err := n.writer.client.Update(ctx, slices.At(n.namespace, s.Name), s)
	if err != nil {
		return nil, err
	}
	n.writer.told(loop.Revision(obj))
	return obj.(*discoveryv1.EndpointSlice), nil
}

func (n namespaced) Delete(ctx context.Context, name string, o metav1.DeleteOptions) error {
	return n.writer.client.Delete(ctx, slices.At(n.namespace, name), o)
}

func (w *writer) told(rev int64) {
	for {
		is := w.wrote.Load()
		if rev <= is || w.wrote.CompareAndSwap(is, rev) {
			return
		}
	}
}

// errBehind says that the view does not have yet what this controller wrote; it comes again.
var errBehind = errors.New("the view is behind the slices that were written")
