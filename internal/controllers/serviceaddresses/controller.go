package serviceaddresses

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/record"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/controllers/loop"
	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/view"
)

// Config is what the controller is made of. All but Logger are required.
type Config struct {
	View   *view.View
	Client client.Client
	// Events are upstream's ipallocator-repair-controller, PortEvents its portallocator-repair-controller.
	Events, PortEvents record.EventRecorder
	FirstPort          int32
	LastPort           int32
	Logger             *slog.Logger
}

var (
	services  = schema.GroupResource(client.Services)
	addresses = schema.GroupResource{Group: networkingv1.GroupName, Resource: "ipaddresses"}
	ranges    = schema.GroupResource(client.ServiceCIDRs)
)

// address marks keys that are IPAddresses; no namespace has a ':'.
const address = "address:"

// New makes the controller, whose keys are Services and IPAddresses.
func New(c Config) (*loop.Loop, error) {
	if c.View == nil || c.Client == nil || c.Events == nil || c.PortEvents == nil || c.LastPort < c.FirstPort {
		return nil, errors.New("serviceaddresses: View, Client, Events, PortEvents and a range of ports are needed")
	}
	k := &controller{c}
	return loop.New(loop.Config{
		Name: "service-addresses", View: c.View, Reconcile: k.reconcile, Logger: c.Logger,
		Watches: []loop.Watch{
			{Resource: services, Keys: loop.Itself},
			{Resource: addresses, Keys: func(c view.Change) []view.Key {
				if c.New != nil {
					return []view.Key{{Namespace: address, Name: c.New.Key.Name}}
				}
				ref := c.Old.Object.(*networkingv1.IPAddress).Spec.ParentRef
				if ref == nil {
					return nil
				}
				return []view.Key{{Namespace: ref.Namespace, Name: ref.Name}} // somebody deleted it
			}},
		},
	})
}

type controller struct{ Config }

func (k *controller) cluster(s view.Snapshot) *Cluster {
	get := func(namespace, name string) *v1.Service {
		if e := s.Get(services, namespace, name); e != nil {
			return e.Object.(*v1.Service)
		}
		return nil
	}
	return &Cluster{
		First: k.FirstPort, Last: k.LastPort, Service: get,
		InRange: func(addr netip.Addr) bool {
			for e := range s.All(ranges, "", view.Key{}) {
				for _, text := range e.Object.(*networkingv1.ServiceCIDR).Spec.CIDRs {
					if prefix, err := netip.ParsePrefix(text); err == nil && prefix.Contains(addr) {
						return true
					}
				}
			}
			return false
		},
		Address: func(name string) *networkingv1.IPAddress {
			if e := s.Get(addresses, "", name); e != nil {
				return e.Object.(*networkingv1.IPAddress)
			}
			return nil
		},
		SamePort: func(port int32) (out []*v1.Service) {
			for e := range s.By(services, registry.NodePort, strconv.Itoa(int(port))) {
				out = append(out, e.Object.(*v1.Service))
			}
			return out
		},
	}
}

func (k *controller) reconcile(ctx context.Context, s view.Snapshot, key view.Key) (res loop.Result, err error) {
	if strings.HasPrefix(key.Namespace, address) {
		return k.address(ctx, s, key.Name)
	}
	e := s.Get(services, key.Namespace, key.Name)
	if e == nil {
		return res, nil
	}
	if first := s.Get(ranges, "", "kubernetes"); first == nil {
		return loop.Result{Again: time.Second}, nil // it is made at the start: without it nothing is in a range
	}
	svc, c := e.Object.(*v1.Service), k.cluster(s)
	for _, f := range c.Ports(svc) {
		k.PortEvents.Event(svc, v1.EventTypeWarning, f.Reason, f.Message)
	}
	faults, missing := c.Addresses(svc)
	for _, f := range faults {
		k.Events.Event(svc, v1.EventTypeWarning, f.Reason, f.Message)
	}
	for _, name := range missing {
		wrote, err := k.make(ctx, s, name, svc)
		if err != nil {
			return res, err
		}
		res.Wrote = max(res.Wrote, wrote)
	}
	return res, nil
}

// make writes the IPAddress of a Service in place of the one that is there, if there is one.
func (k *controller) make(ctx context.Context, s view.Snapshot, name string, svc *v1.Service) (int64, error) {
	ref := client.Resource(addresses).At("", name)
	if e := s.Get(addresses, "", name); e != nil {
		rv := e.Meta.GetResourceVersion()
		if err := k.Client.Delete(ctx, ref, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &rv}}); err != nil && !apierrors.IsNotFound(err) {
			return 0, err
		}
	}
	out, err := k.Client.Create(ctx, ref, IPAddress(name, svc))
	return loop.Revision(out), err
}

func (k *controller) address(ctx context.Context, s view.Snapshot, name string) (res loop.Result, err error) {
	e := s.Get(addresses, "", name)
	if e == nil {
		return res, nil
	}
	a := e.Object.(*networkingv1.IPAddress)
	f, goes, again := k.cluster(s).Leaked(a, time.Now())
	if !goes {
		return loop.Result{Again: again}, nil
	}
	k.Events.Event(a, v1.EventTypeWarning, f.Reason, f.Message)
	rv := a.ResourceVersion
	err = k.Client.Delete(ctx, client.Resource(addresses).At("", name), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &rv}})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		err = nil // it has gone, or comes again
	}
	return res, err
}
