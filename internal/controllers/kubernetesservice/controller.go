//lint:file-ignore SA1019 Endpoints are deprecated, and old clients read them.

package kubernetesservice

import (
	"context"
	"log/slog"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/controllers/loop"
	"podo.dev/podo/internal/view"
)

var (
	namespaces = schema.GroupResource(client.Namespaces)
	services   = schema.GroupResource{Resource: "services"}
	endpoints  = schema.GroupResource{Resource: "endpoints"}
	slices     = schema.GroupResource{Group: discoveryv1.GroupName, Resource: "endpointslices"}
)

// New makes the controller, which has one key. log may be nil.
func New(v *view.View, c client.Client, a Address, log *slog.Logger) (*loop.Loop, error) {
	if err := a.Validate(); err != nil {
		return nil, err
	}
	k := &controller{c, a}
	watch := func(r schema.GroupResource, is view.Key) loop.Watch {
		return loop.Watch{Resource: r, Keys: func(c view.Change) []view.Key {
			e := c.New
			if e == nil {
				e = c.Old
			}
			if e.Key != is {
				return nil
			}
			return []view.Key{{Namespace: metav1.NamespaceDefault, Name: Name}}
		}}
	}
	own := view.Key{Namespace: metav1.NamespaceDefault, Name: Name}
	return loop.New(loop.Config{
		Name: "kubernetes-service", View: v, Reconcile: k.reconcile, Logger: log,
		Watches: []loop.Watch{
			watch(namespaces, view.Key{Name: metav1.NamespaceDefault}), watch(services, own), watch(endpoints, own), watch(slices, own),
		},
	})
}

type controller struct {
	client client.Client
	Address
}

func (k *controller) reconcile(ctx context.Context, s view.Snapshot, _ view.Key) (res loop.Result, err error) {
	if s.Get(namespaces, "", metav1.NamespaceDefault) == nil {
		return res, nil // its creation tells
	}
	for _, step := range []func() (runtime.Object, error){
		func() (runtime.Object, error) {
			if s.Get(services, metav1.NamespaceDefault, Name) != nil {
				return nil, nil
			}
			return k.create(ctx, services, k.Service())
		},
		func() (runtime.Object, error) {
			e := s.Get(endpoints, metav1.NamespaceDefault, Name)
			if e == nil {
				return k.create(ctx, endpoints, k.Endpoints())
			}
			return k.repair(ctx, endpoints, e, func(o runtime.Object) bool { return k.repairEndpoints(o.(*v1.Endpoints)) })
		},
		func() (runtime.Object, error) {
			e := s.Get(slices, metav1.NamespaceDefault, Name)
			if e == nil {
				return k.create(ctx, slices, k.Slice())
			}
			if e.Object.(*discoveryv1.EndpointSlice).AddressType != k.family() { // it cannot change: made anew once it has gone
				return nil, k.client.Delete(ctx, ref(slices), metav1.DeleteOptions{})
			}
			return k.repair(ctx, slices, e, func(o runtime.Object) bool { return k.repairSlice(o.(*discoveryv1.EndpointSlice)) })
		},
	} {
		obj, err := step()
		if err != nil {
			return res, err
		}
		res.Wrote = max(res.Wrote, loop.Revision(obj))
	}
	return res, nil
}

func ref(r schema.GroupResource) client.Ref {
	return client.Resource(r).At(metav1.NamespaceDefault, Name)
}

func (k *controller) create(ctx context.Context, r schema.GroupResource, obj runtime.Object) (runtime.Object, error) {
	out, err := k.client.Create(ctx, ref(r), obj)
	if apierrors.IsAlreadyExists(err) {
		return nil, nil // comes as a change
	}
	return out, err
}

// repair writes when change would change what is there.
func (k *controller) repair(ctx context.Context, r schema.GroupResource, e *view.Entry, change func(runtime.Object) bool) (runtime.Object, error) {
	if !change(e.Object.DeepCopyObject()) {
		return nil, nil
	}
	return k.client.Mutate(ctx, ref(r), func(o runtime.Object) (bool, error) { return change(o), nil })
}
