//lint:file-ignore SA1019 Endpoints are deprecated, and old clients read them.

package endpoints

import (
	"context"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	endpointsliceutil "k8s.io/endpointslice/util"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/controllers/endpointslices"
	"podo.dev/podo/internal/controllers/loop"
	"podo.dev/podo/internal/view"
)

const workers = 5

var (
	services = schema.GroupResource{Resource: "services"}
	all      = client.Resource{Resource: "endpoints"}
)

// Config is what the controller is made of. All but Logger are required.
type Config = loop.Parts

type controller struct {
	Config
	triggers *endpointsliceutil.TriggerTimeTracker
	started  atomic.Int64 // the store's revision then
}

// New makes the controller. Its keys are Services, those of which only the Endpoints are left included.
func New(c Config) (*loop.Loop, error) {
	if err := c.Check("endpoints"); err != nil {
		return nil, err
	}
	k := &controller{Config: c, triggers: endpointsliceutil.NewTriggerTimeTracker()}
	return loop.New(loop.Config{
		Name: "endpoints", View: c.View, Start: k.start, Reconcile: k.reconcile, Workers: workers, Logger: c.Logger,
		Watches: []loop.Watch{
			{Resource: services, Keys: func(ch view.Change) []view.Key {
				if ch.New == nil {
					return []view.Key{ch.Old.Key}
				}
				return []view.Key{ch.New.Key}
			}},
			{Resource: endpointslices.Pods, Keys: func(ch view.Change) []view.Key { return endpointslices.Concerned(c.View.Snapshot(), ch) }},
			{Resource: schema.GroupResource(all), Keys: k.keys},
		},
	})
}

func (k *controller) start(ctx context.Context) error {
	s, err := k.View.Fresh(ctx)
	k.started.Store(s.Rev())
	return err
}

// keys: Endpoints that were there at the start may have lost their Service meanwhile; those that are deleted are made again. Those that
// somebody writes without a Service are his.
func (k *controller) keys(c view.Change) []view.Key {
	switch {
	case c.New == nil:
		return []view.Key{c.Old.Key}
	case c.Old == nil && c.New.Rev <= k.started.Load() && !elects(c.New.Meta):
		return []view.Key{c.New.Key}
	}
	return nil
}

// elects says that Endpoints are used to elect a leader, as was done once: they have no Service, and stay.
func elects(m metav1.Object) bool {
	_, is := m.GetAnnotations()[resourcelock.LeaderElectionRecordAnnotationKey]
	return is
}

func (k *controller) reconcile(ctx context.Context, s view.Snapshot, key view.Key) (loop.Result, error) {
	e := s.Get(services, key.Namespace, key.Name)
	if e == nil {
		k.triggers.DeleteService(key.Namespace, key.Name)
		has := s.Get(schema.GroupResource(all), key.Namespace, key.Name)
		if has == nil || elects(has.Meta) {
			return loop.Result{}, nil
		}
		// Not those that somebody has written since for a Service of his.
		uid, seen := has.Meta.GetUID(), has.Meta.GetResourceVersion()
		err := k.Client.Delete(ctx, all.At(key.Namespace, key.Name), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &seen}})
		if apierrors.IsNotFound(err) {
			err = nil
		}
		return loop.Result{}, err
	}
	service := e.Object.(*v1.Service)
	if service.Spec.Type == v1.ServiceTypeExternalName || service.Spec.Selector == nil {
		return loop.Result{}, nil
	}
	pods := endpointslices.Selected(s, service)
	trigger := k.triggers.ComputeEndpointLastChangeTriggerTime(key.Namespace, service, pods)
	var current *v1.Endpoints
	if has := s.Get(schema.GroupResource(all), key.Namespace, key.Name); has != nil {
		current = has.Object.(*v1.Endpoints)
	}
	next, changed := Desired(service, pods, current, trigger)
	if !changed {
		return loop.Result{}, nil
	}
	return k.write(ctx, service, current, next)
}

func (k *controller) write(ctx context.Context, service *v1.Service, current, next *v1.Endpoints) (loop.Result, error) {
	var obj runtime.Object
	var err error
	if current == nil {
		obj, err = k.Client.Create(ctx, all.At(next.Namespace, next.Name), next)
	} else {
		obj, err = k.Client.Update(ctx, all.At(next.Namespace, next.Name), next)
	}
	switch {
	case err == nil:
		return loop.Result{Wrote: loop.Revision(obj)}, nil
	case current == nil && apierrors.HasStatusCause(err, v1.NamespaceTerminatingCause):
		return loop.Result{}, nil // everything here is on its way out
	case current == nil:
		k.Events.Eventf(next, v1.EventTypeWarning, "FailedToCreateEndpoint", "Failed to create endpoint for service %v/%v: %v", service.Namespace, service.Name, err)
	default:
		k.Events.Eventf(next, v1.EventTypeWarning, "FailedToUpdateEndpoint", "Failed to update endpoint %v/%v: %v", service.Namespace, service.Name, err)
	}
	return loop.Result{}, err
}
