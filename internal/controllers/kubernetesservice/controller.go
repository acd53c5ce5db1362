//lint:file-ignore SA1019 Endpoints are deprecated, and old clients read them.

package kubernetesservice

import (
	"context"
	"errors"
	"log/slog"
	"time"

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
	namespaces     = schema.GroupResource(client.Namespaces)
	services       = schema.GroupResource{Resource: "services"}
	endpoints      = schema.GroupResource{Resource: "endpoints"}
	endpointSlices = schema.GroupResource{Group: discoveryv1.GroupName, Resource: "endpointslices"}
)

// Controller is a component.
type Controller struct {
	*loop.Loop
	k *controller
}

// New makes the controller, which has one key. leases is nil where no other server can be on the store; log may be nil.
func New(v *view.View, c client.Client, a Address, leases *Leases, log *slog.Logger) (*Controller, error) {
	if err := a.Validate(); err != nil {
		return nil, err
	}
	if leases != nil {
		leases.self = a.Server
	}
	k := &controller{client: c, Address: a, leases: leases}
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
	l, err := loop.New(loop.Config{
		Name: "kubernetes-service", View: v, Reconcile: k.reconcile, Logger: log,
		Watches: []loop.Watch{
			watch(namespaces, view.Key{Name: metav1.NamespaceDefault}), watch(services, own), watch(endpoints, own), watch(endpointSlices, own),
		},
	})
	return &Controller{l, k}, err
}

// stopTime is how long a server that stops may take to take itself away.
const stopTime = 2 * time.Second

// Run implements component.Component.
func (c *Controller) Run(ctx context.Context, ready func()) error {
	err := c.Loop.Run(ctx, ready)
	if c.k.leases == nil || ctx.Err() == nil {
		return err
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
	defer cancel()
	if c.k.leases.remove(end) == nil { // else it goes when its time is over
		_ = c.k.leave(end) // as above: the others do it
	}
	return err
}

type controller struct {
	client client.Client
	Address
	leases  *Leases // nil: this server is the only one
	renewed time.Time
}

// published are the servers that are there.
func (k *controller) published(ctx context.Context) (servers, error) {
	if k.leases == nil {
		return k.alone(), nil
	}
	if time.Since(k.renewed) > renewal/2 {
		if err := k.leases.renew(ctx); err != nil {
			return servers{}, err
		}
		k.renewed = time.Now()
	}
	all, err := k.leases.list(ctx)
	if err != nil {
		return servers{}, err
	}
	out := k.together(all)
	if len(out.addrs) == 0 { // its own lease was lost at once: never publish nobody
		out = k.alone()
	}
	return out, nil
}

// leave publishes the others, when there are any.
func (k *controller) leave(ctx context.Context) error {
	all, err := k.leases.list(ctx)
	if err != nil {
		return err
	}
	out := k.together(all)
	if len(out.addrs) == 0 {
		return nil // nobody else: whoever starts next finds its address where it was
	}
	_, err1 := k.client.Mutate(ctx, ref(endpoints), func(o runtime.Object) (bool, error) { return out.repairEndpoints(o.(*v1.Endpoints)), nil })
	_, err2 := k.client.Mutate(ctx, ref(endpointSlices), func(o runtime.Object) (bool, error) { return out.repairSlice(o.(*discoveryv1.EndpointSlice)), nil })
	return errors.Join(err1, err2)
}

func (k *controller) reconcile(ctx context.Context, s view.Snapshot, _ view.Key) (res loop.Result, err error) {
	if s.Get(namespaces, "", metav1.NamespaceDefault) == nil {
		return res, nil // its creation tells
	}
	at, err := k.published(ctx)
	if err != nil {
		return res, err
	}
	if k.leases != nil {
		res.Again = renewal
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
				return k.create(ctx, endpoints, at.Endpoints())
			}
			return k.repair(ctx, endpoints, e, func(o runtime.Object) bool { return at.repairEndpoints(o.(*v1.Endpoints)) })
		},
		func() (runtime.Object, error) {
			e := s.Get(endpointSlices, metav1.NamespaceDefault, Name)
			if e == nil {
				return k.create(ctx, endpointSlices, at.Slice())
			}
			if e.Object.(*discoveryv1.EndpointSlice).AddressType != at.family() { // it cannot change: made anew once it has gone
				return nil, k.client.Delete(ctx, ref(endpointSlices), metav1.DeleteOptions{})
			}
			return k.repair(ctx, endpointSlices, e, func(o runtime.Object) bool { return at.repairSlice(o.(*discoveryv1.EndpointSlice)) })
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
