package tokencleaner

import (
	"context"
	"log/slog"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/controllers/loop"
	"podo.dev/podo/internal/jointoken"
	"podo.dev/podo/internal/view"
)

var secrets = schema.GroupResource(client.Secrets)

// New makes the controller, whose keys are Secrets of kube-system. log may be nil.
func New(v *view.View, c client.Client, log *slog.Logger) (*loop.Loop, error) {
	k := &controller{c}
	return loop.New(loop.Config{
		Name: "token-cleaner", View: v, ByClock: true, Reconcile: k.reconcile, Logger: log,
		Watches: []loop.Watch{{Resource: secrets, Keys: func(c view.Change) []view.Key {
			if c.New == nil || c.New.Key.Namespace != metav1.NamespaceSystem || c.New.Object.(*v1.Secret).Type != jointoken.SecretType {
				return nil
			}
			return []view.Key{c.New.Key}
		}}},
	})
}

type controller struct{ client client.Client }

func (k *controller) reconcile(ctx context.Context, s view.Snapshot, key view.Key) (res loop.Result, err error) {
	e := s.Get(secrets, key.Namespace, key.Name)
	if e == nil {
		return res, nil
	}
	left, ends := Left(e.Object.(*v1.Secret), time.Now())
	if !ends || left > 0 {
		return loop.Result{Again: left}, nil
	}
	uid := e.Meta.GetUID()
	err = k.client.Delete(ctx, client.Secrets.At(key.Namespace, key.Name), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		err = nil // it has gone, or is another
	}
	return res, err
}
