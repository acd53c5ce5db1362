package rootca

import (
	"context"
	"errors"
	"log/slog"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/controllers/loop"
	"podo.dev/podo/internal/view"
)

var (
	namespaces = schema.GroupResource(client.Namespaces)
	configMaps = schema.GroupResource(client.ConfigMaps)
)

// New makes the controller, whose keys are namespaces. ca is the authority's certificate in PEM. log may be nil.
func New(v *view.View, c client.Client, ca []byte, log *slog.Logger) (*loop.Loop, error) {
	if len(ca) == 0 {
		return nil, errors.New("rootca: the authority's certificate is required")
	}
	k := &controller{c, string(ca), loop.NewPublications("root_ca_cert_publisher", "a namespace")}
	return loop.New(loop.Config{
		Name: "root-ca", View: v, Reconcile: k.reconcile, Workers: 4, Logger: log, Metrics: k.publications.All(),
		Watches: []loop.Watch{
			{Resource: namespaces, Keys: func(c view.Change) []view.Key {
				if c.New == nil {
					return nil
				}
				return []view.Key{{Name: c.New.Key.Name}}
			}},
			{Resource: configMaps, Keys: func(c view.Change) []view.Key {
				e := c.New
				if e == nil {
					e = c.Old
				}
				if e.Key.Name != Name {
					return nil
				}
				return []view.Key{{Name: e.Key.Namespace}}
			}},
		},
	})
}

type controller struct {
	client client.Client
	ca     string

	publications loop.Publications
}

func (k *controller) reconcile(ctx context.Context, s view.Snapshot, key view.Key) (loop.Result, error) {
	began := time.Now()
	res, err := k.publish(ctx, s, key)
	k.publications.Done(err, time.Since(began))
	return res, err
}

func (k *controller) publish(ctx context.Context, s view.Snapshot, key view.Key) (res loop.Result, err error) {
	var ns *v1.Namespace
	if e := s.Get(namespaces, "", key.Name); e != nil {
		ns = e.Object.(*v1.Namespace)
	}
	var has *v1.ConfigMap
	if e := s.Get(configMaps, key.Name, Name); e != nil {
		has = e.Object.(*v1.ConfigMap)
	}
	var obj runtime.Object
	switch Decide(ns, has, k.ca) {
	case Leave:
		return res, nil
	case Create:
		obj, err = k.client.Create(ctx, client.ConfigMaps.At(key.Name, ""), Wanted(key.Name, k.ca))
	case Change:
		obj, err = k.client.Mutate(ctx, client.ConfigMaps.At(key.Name, Name), func(o runtime.Object) (bool, error) {
			return Repair(o.(*v1.ConfigMap), k.ca), nil
		})
	}
	switch {
	case err == nil:
		res.Wrote = loop.Revision(obj)
	case apierrors.IsAlreadyExists(err), apierrors.IsNotFound(err), apierrors.HasStatusCause(err, v1.NamespaceTerminatingCause):
		// Somebody was faster, or the namespace is going or has gone. What comes after that comes as a change.
		err = nil
	}
	return res, err
}
