package serviceaccounts

import (
	"context"
	"log/slog"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/controllers/loop"
	"podo.dev/podo/internal/view"
)

var (
	namespaces = schema.GroupResource(client.Namespaces)
	accounts   = schema.GroupResource(client.ServiceAccounts)
)

// New makes the controller, whose keys are namespaces. log may be nil.
func New(v *view.View, c client.Client, log *slog.Logger) (*loop.Loop, error) {
	k := &controller{c}
	return loop.New(loop.Config{
		Name: "service-accounts", View: v, Reconcile: k.reconcile, Workers: 4, Logger: log,
		Watches: []loop.Watch{
			{Resource: namespaces, Keys: func(c view.Change) []view.Key {
				if c.New == nil {
					return nil
				}
				return []view.Key{{Name: c.New.Key.Name}}
			}},
			{Resource: accounts, Keys: func(c view.Change) []view.Key {
				if c.New != nil {
					return nil
				}
				return []view.Key{{Name: c.Old.Key.Namespace}}
			}},
		},
	})
}

type controller struct{ client client.Client }

func (k *controller) reconcile(ctx context.Context, s view.Snapshot, key view.Key) (res loop.Result, err error) {
	var ns *v1.Namespace
	if e := s.Get(namespaces, "", key.Name); e != nil {
		ns = e.Object.(*v1.Namespace)
	}
	has := func(name string) bool { return s.Get(accounts, key.Name, name) != nil }
	for _, account := range Missing(ns, has) {
		obj, err := k.client.Create(ctx, client.ServiceAccounts.At(key.Name, ""), account)
		switch {
		case err == nil:
			res.Wrote = max(res.Wrote, loop.Revision(obj))
		case apierrors.IsAlreadyExists(err), apierrors.IsNotFound(err), apierrors.HasStatusCause(err, v1.NamespaceTerminatingCause):
			// Somebody was faster, or the namespace is going or has gone. What comes after that comes as a change.
		default:
			return res, err
		}
	}
	return res, nil
}
