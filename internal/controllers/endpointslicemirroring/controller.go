//lint:file-ignore SA1019 Endpoints are deprecated, and their owners' slices are made here.

package endpointslicemirroring

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/controllers/loop"
	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/view"
)

const workers = 5

var (
	services     = schema.GroupResource{Resource: "services"}
	allEndpoints = schema.GroupResource{Resource: "endpoints"}
	allSlices    = client.Resource{Group: discoveryv1.GroupName, Resource: "endpointslices"}
)

// Config is what the controller is made of. All but Logger are required.
type Config = loop.Parts

type controller struct {
	Config
	meter meter
}

// New makes the controller. Its keys are Endpoints, which have their Service's name.
func New(c Config) (*loop.Loop, error) {
	if err := c.Check("endpointslicemirroring"); err != nil {
		return nil, err
	}
	k := &controller{c, newMeter()}
	return loop.New(loop.Config{
		Name: "endpoint-slice-mirroring", View: c.View, Reconcile: k.reconcile, Workers: workers, Logger: c.Logger, Metrics: k.meter.all(),
		Watches: []loop.Watch{
			{Resource: services, Keys: serviceKeys},
			{Resource: allEndpoints, Keys: endpointsKeys},
			{Resource: schema.GroupResource(allSlices), Keys: sliceKeys},
		},
	})
}

// serviceKeys: Services that have no selector, or had none.
func serviceKeys(c view.Change) []view.Key {
	manual := func(e *view.Entry) bool { return e != nil && e.Object.(*v1.Service).Spec.Selector == nil }
	was, is := manual(c.Old), manual(c.New)
	switch {
	case c.Old != nil && c.New != nil && was == is, !was && !is:
		return nil
	case c.New != nil:
		return []view.Key{c.New.Key}
	}
	return []view.Key{c.Old.Key}
}

func endpointsKeys(c view.Change) []view.Key {
	for _, e := range []*view.Entry{c.New, c.Old} {
		if e != nil && Mirrored(e.Meta) {
			return []view.Key{e.Key}
		}
	}
	return nil
}

// sliceKeys: slices of this controller, and those that become so or cease to be.
func sliceKeys(c view.Change) (out []view.Key) {
	for _, e := range []*view.Entry{c.Old, c.New} {
		if e == nil {
			continue
		}
		if labels := e.Meta.GetLabels(); labels[discoveryv1.LabelManagedBy] == Name && labels[discoveryv1.LabelServiceName] != "" {
			out = append(out, view.Key{Namespace: e.Key.Namespace, Name: labels[discoveryv1.LabelServiceName]})
		}
	}
	return out
}

func (k *controller) reconcile(ctx context.Context, s view.Snapshot, key view.Key) (loop.Result, error) {
	began := time.Now()
	defer func() { k.meter.took.Observe(time.Since(began).Seconds()) }()
	have := own(s, key)
	e, service := s.Get(allEndpoints, key.Namespace, key.Name), s.Get(services, key.Namespace, key.Name)
	if e == nil || service == nil || !Mirrored(e.Meta) || service.Object.(*v1.Service).Spec.Selector != nil {
		k.meter.sizes.set(key, size{})
		return loop.Result{}, k.remove(ctx, key, have)
	}
	ep := e.Object.(*v1.Endpoints)
	p := Decide(ep, have)
	k.meter.planned(key, p)
	if len(p.Create)+len(p.Update)+len(p.Delete) > 0 {
		k.tell(ep, p)
	}
	return k.apply(ctx, ep, p)
}

// own are the slices that mirror the Endpoints of that name.
func own(s view.Snapshot, key view.Key) (out []*discoveryv1.EndpointSlice) {
	for e := range s.By(schema.GroupResource(allSlices), registry.SliceService, key.Namespace+"/"+key.Name) {
		if slice := e.Object.(*discoveryv1.EndpointSlice); slice.Labels[discoveryv1.LabelManagedBy] == Name && slice.DeletionTimestamp == nil {
			out = append(out, slice)
		}
	}
	return out
}

func (k *controller) tell(e *v1.Endpoints, p Plan) {
	if p.Invalid > 0 {
		k.Events.Eventf(e, v1.EventTypeWarning, "InvalidIPAddress", "Skipped %d invalid IP addresses when mirroring to EndpointSlices", p.Invalid)
	}
	if p.Skipped > p.Invalid {
		k.Events.Eventf(e, v1.EventTypeWarning, "TooManyAddressesToMirror",
			"A max of %d addresses can be mirrored to EndpointSlices per Endpoints subset. %d addresses were skipped", most, p.Skipped)
	}
}

func (k *controller) apply(ctx context.Context, e *v1.Endpoints, p Plan) (res loop.Result, err error) {
	if e.DeletionTimestamp == nil {
		for _, s := range p.Create {
			obj, err := k.Client.Create(ctx, allSlices.At(s.Namespace, ""), s)
			if apierrors.HasStatusCause(err, v1.NamespaceTerminatingCause) {
				return res, nil // everything here is on its way out
			}
			if err != nil {
				return res, fmt.Errorf("failed to create EndpointSlice for Endpoints %s/%s: %w", e.Namespace, e.Name, err)
			}
			k.meter.changes.WithLabelValues("create").Inc()
			res.Wrote = max(res.Wrote, loop.Revision(obj))
		}
	}
	for _, s := range p.Update {
		obj, err := k.Client.Update(ctx, allSlices.At(s.Namespace, s.Name), s)
		if err != nil {
			return res, fmt.Errorf("failed to update %s EndpointSlice for Endpoints %s/%s: %w", s.Name, e.Namespace, e.Name, err)
		}
		k.meter.changes.WithLabelValues("update").Inc()
		res.Wrote = max(res.Wrote, loop.Revision(obj))
	}
	return res, k.remove(ctx, view.Key{Namespace: e.Namespace, Name: e.Name}, p.Delete)
}

func (k *controller) remove(ctx context.Context, key view.Key, list []*discoveryv1.EndpointSlice) error {
	var errs []error
	for _, s := range list {
		o := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &s.UID}}
		if err := k.Client.Delete(ctx, allSlices.At(s.Namespace, s.Name), o); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			errs = append(errs, err)
		} else if err == nil {
			k.meter.changes.WithLabelValues("delete").Inc()
		}
	}
	if len(errs) > 0 {
		return fmt.Errorf("error(s) deleting %d/%d EndpointSlices for %s/%s Endpoints, including: %w", len(errs), len(list), key.Namespace, key.Name, errs[0])
	}
	return nil
}
