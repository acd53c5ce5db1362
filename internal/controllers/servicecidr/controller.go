package servicecidr

import (
	"context"
	"log/slog"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/controllers/loop"
	"podo.dev/podo/internal/view"
)

// New makes the controller, which has one key. log may be nil.
func New(v *view.View, c client.Client, cidr string, log *slog.Logger) (*loop.Loop, error) {
	k := &controller{c, cidr}
	return loop.New(loop.Config{
		Name: "service-cidr", View: v, Reconcile: k.reconcile, Logger: log, Start: k.create,
		Watches: []loop.Watch{{Resource: client.ServiceCIDRs.At("", "").Resource, Keys: func(c view.Change) []view.Key {
			e := c.New
			if e == nil {
				e = c.Old
			}
			if e.Key.Name != Name {
				return nil
			}
			return []view.Key{{Name: Name}}
		}}},
	})
}

type controller struct {
	client client.Client
	cidr   string
}

func (k *controller) create(ctx context.Context) error {
	_, err := k.client.Create(ctx, client.ServiceCIDRs.At("", ""), Wanted(k.cidr))
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

func (k *controller) reconcile(ctx context.Context, s view.Snapshot, _ view.Key) (res loop.Result, err error) {
	e := s.Get(client.ServiceCIDRs.At("", "").Resource, "", Name)
	if e == nil {
		return res, k.create(ctx)
	}
	if !MakeReady(e.Object.DeepCopyObject().(*networkingv1.ServiceCIDR), k.cidr, time.Now()) {
		return res, nil
	}
	obj, err := k.client.Mutate(ctx, client.ServiceCIDRs.At("", Name).Sub("status"), func(o runtime.Object) (bool, error) {
		return MakeReady(o.(*networkingv1.ServiceCIDR), k.cidr, time.Now()), nil
	})
	if apierrors.IsNotFound(err) {
		return res, nil // comes as a change
	}
	if err == nil {
		res.Wrote = loop.Revision(obj)
	}
	return res, err
}
