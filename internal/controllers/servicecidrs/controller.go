package servicecidrs

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"time"

	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/record"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/controllers/loop"
	"podo.dev/podo/internal/view"
)

var (
	addresses = schema.GroupResource{Group: networkingv1.GroupName, Resource: "ipaddresses"}
	whole     = view.Key{Name: "all"}
)

// New makes the controller. Its one key is all ranges: there are few, and what one may do depends on the others. log may be nil.
func New(v *view.View, c client.Client, events record.EventRecorder, log *slog.Logger) (*loop.Loop, error) {
	k := &controller{c, events}
	changed := func(view.Change) []view.Key { return []view.Key{whole} }
	return loop.New(loop.Config{
		Name: "service-cidrs", View: v, Reconcile: k.reconcile, Logger: log,
		Watches: []loop.Watch{
			{Resource: schema.GroupResource(client.ServiceCIDRs), Keys: changed},
			// One that comes may keep a range, one that goes may let it go.
			{Resource: addresses, Keys: func(c view.Change) []view.Key {
				if c.Old != nil && c.New != nil {
					return nil
				}
				return []view.Key{whole}
			}},
		},
	})
}

type controller struct {
	client client.Client
	events record.EventRecorder
}

func (k *controller) reconcile(ctx context.Context, s view.Snapshot, _ view.Key) (res loop.Result, err error) {
	var all []*networkingv1.ServiceCIDR
	for e := range s.All(schema.GroupResource(client.ServiceCIDRs), "", view.Key{}) {
		all = append(all, e.Object.(*networkingv1.ServiceCIDR))
	}
	taken := func(yield func(netip.Addr) bool) {
		for e := range s.All(addresses, "", view.Key{}) {
			// Those that somebody else keeps are none of ours.
			a, err := netip.ParseAddr(e.Key.Name)
			if err == nil && e.Meta.GetLabels()[networkingv1.LabelManagedBy] == "ipallocator.k8s.io" && !yield(a) {
				return
			}
		}
	}
	var errs []error
	for _, c := range all {
		todo := plan(c, all, taken, time.Now())
		if todo.again > 0 && (res.Again == 0 || todo.again < res.Again) {
			res.Again = todo.again
		}
		wrote, err := k.do(ctx, c, todo)
		res.Wrote = max(res.Wrote, wrote)
		errs = append(errs, err)
	}
	return res, errors.Join(errs...)
}

func (k *controller) do(ctx context.Context, c *networkingv1.ServiceCIDR, todo step) (wrote int64, err error) {
	mine := func(o runtime.Object) *networkingv1.ServiceCIDR {
		// One that came under its name meanwhile is looked at when the view has it.
		if r := o.(*networkingv1.ServiceCIDR); r.UID == c.UID {
			return r
		}
		return nil
	}
	for _, part := range []struct {
		ref    client.Ref
		change func(*networkingv1.ServiceCIDR) bool
	}{{client.ServiceCIDRs.At("", c.Name), todo.put}, {client.ServiceCIDRs.At("", c.Name).Sub("status"), todo.say}} {
		if !part.change(c.DeepCopy()) {
			continue
		}
		out, err := k.client.Mutate(ctx, part.ref, func(o runtime.Object) (bool, error) {
			r := mine(o)
			return r != nil && part.change(r), nil
		})
		if apierrors.IsNotFound(err) {
			return wrote, nil // comes as a change
		}
		if err != nil {
			if todo.ready != nil && part.ref.Subresource != "" && c.DeletionTimestamp == nil {
				k.events.Event(c, v1.EventTypeWarning, "KubernetesServiceCIDRError", "The ServiceCIDR Status can not be set to Ready=True")
			}
			return wrote, err
		}
		wrote = loop.Revision(out)
	}
	return wrote, nil
}
