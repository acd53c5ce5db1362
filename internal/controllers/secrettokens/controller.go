package secrettokens

import (
	"context"
	"errors"
	"log/slog"
	"strings"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/controllers/loop"
	"podo.dev/podo/internal/view"
)

// Config is what the controller is made of. All but Logger are required.
type Config struct {
	View   *view.View
	Client client.Client
	CA     []byte // the authority's certificate, in PEM
	// Sign makes the token that a Secret holds.
	Sign   func(account *v1.ServiceAccount, secret *v1.Secret) (string, error)
	Logger *slog.Logger
}

var (
	accounts = schema.GroupResource(client.ServiceAccounts)
	secrets  = schema.GroupResource(client.Secrets)
)

// The marks of keys that are no Secrets; no name has a ':'.
const (
	account = "account:" // an account that has gone
	unlist  = "unlist:"  // a Secret that has gone, and behind another ':' its account
)

// New makes the controller, whose keys are Secrets, accounts that have gone, and accounts that list a Secret that has gone.
func New(c Config) (*loop.Loop, error) {
	if c.View == nil || c.Client == nil || len(c.CA) == 0 || c.Sign == nil {
		return nil, errors.New("secrettokens: View, Client, CA and Sign are needed")
	}
	k := &controller{c}
	return loop.New(loop.Config{
		Name: "secret-tokens", View: c.View, Reconcile: k.reconcile, Workers: 2, Logger: c.Logger,
		Watches: []loop.Watch{
			{Resource: secrets, Keys: func(c view.Change) []view.Key {
				switch {
				case c.New != nil && ours(c.New):
					return []view.Key{c.New.Key}
				case c.New == nil && ours(c.Old):
					name, _ := Owner(c.Old.Object.(*v1.Secret))
					return []view.Key{{Namespace: c.Old.Key.Namespace, Name: unlist + c.Old.Key.Name + ":" + name}}
				}
				return nil
			}},
			{Resource: accounts, Keys: func(c view.Change) []view.Key {
				// A Secret never waits for its account: without one it goes.
				if c.Old == nil || c.New != nil && c.New.Meta.GetUID() == c.Old.Meta.GetUID() {
					return nil
				}
				return []view.Key{{Namespace: c.Old.Key.Namespace, Name: account + c.Old.Key.Name}}
			}},
		},
	})
}

func ours(e *view.Entry) bool { return e.Object.(*v1.Secret).Type == v1.SecretTypeServiceAccountToken }

type controller struct{ Config }

func (k *controller) reconcile(ctx context.Context, s view.Snapshot, key view.Key) (loop.Result, error) {
	if name, is := strings.CutPrefix(key.Name, account); is {
		return k.account(ctx, s, key.Namespace, name)
	}
	if rest, is := strings.CutPrefix(key.Name, unlist); is {
		secret, name, _ := strings.Cut(rest, ":")
		return k.unlist(ctx, s, key.Namespace, secret, name)
	}
	e := s.Get(secrets, key.Namespace, key.Name)
	if e == nil || !ours(e) || e.Meta.GetDeletionTimestamp() != nil {
		return loop.Result{}, nil
	}
	return k.secret(ctx, s, e)
}

func accountOf(s view.Snapshot, namespace, name string) *v1.ServiceAccount {
	if e := s.Get(accounts, namespace, name); e != nil {
		return e.Object.(*v1.ServiceAccount)
	}
	return nil
}

// secret fills one, or deletes it when its account has gone. What the view may not have yet is asked for once more.
func (k *controller) secret(ctx context.Context, s view.Snapshot, e *view.Entry) (res loop.Result, err error) {
	secret := e.Object.(*v1.Secret)
	name, _ := Owner(secret)
	owner := accountOf(s, secret.Namespace, name)
	if Orphan(secret, owner) {
		fresh, err := k.View.Fresh(ctx)
		if err != nil {
			return res, err
		}
		if owner = accountOf(fresh, secret.Namespace, name); Orphan(secret, owner) {
			uid := secret.UID
			err := k.Client.Delete(ctx, client.Secrets.At(secret.Namespace, secret.Name), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
			if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
				err = nil
			}
			return res, err
		}
	}
	if Complete(secret, k.CA) {
		return res, nil
	}
	out, err := k.Client.Mutate(ctx, client.Secrets.At(secret.Namespace, secret.Name), func(o runtime.Object) (bool, error) {
		now := o.(*v1.Secret)
		if now.UID != secret.UID || Orphan(now, owner) || Complete(now, k.CA) {
			return false, nil
		}
		return true, Fill(now, owner, k.CA, k.Sign)
	})
	if apierrors.IsNotFound(err) {
		return res, nil
	}
	res.Wrote = loop.Revision(out)
	return res, err
}

// account looks at the Secrets of an account that has gone.
func (k *controller) account(ctx context.Context, s view.Snapshot, namespace, name string) (res loop.Result, err error) {
	for e := range s.All(secrets, namespace, view.Key{}) {
		if owner, _ := Owner(e.Object.(*v1.Secret)); owner != name || !ours(e) || e.Meta.GetDeletionTimestamp() != nil {
			continue
		}
		one, err := k.secret(ctx, s, e)
		if err != nil {
			return res, err
		}
		res.Wrote = max(res.Wrote, one.Wrote)
	}
	return res, nil
}

// unlist makes an account forget a Secret that has gone.
func (k *controller) unlist(ctx context.Context, s view.Snapshot, namespace, secret, name string) (res loop.Result, err error) {
	owner := accountOf(s, namespace, name)
	if s.Get(secrets, namespace, secret) != nil || owner == nil || !Unlist(owner.DeepCopy(), secret) {
		return res, nil
	}
	out, err := k.Client.Mutate(ctx, client.ServiceAccounts.At(namespace, name), func(o runtime.Object) (bool, error) {
		return Unlist(o.(*v1.ServiceAccount), secret), nil
	})
	if apierrors.IsNotFound(err) {
		return res, nil
	}
	res.Wrote = loop.Revision(out)
	return res, err
}
