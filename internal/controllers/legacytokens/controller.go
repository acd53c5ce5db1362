package legacytokens

import (
	"context"
	"errors"
	"log/slog"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/controllers/loop"
	"podo.dev/podo/internal/registry/podspec"
	"podo.dev/podo/internal/view"
)

const (
	// Period is upstream's for how long a token may be unused, and then marked.
	Period = 365 * 24 * time.Hour
	every  = 24 * time.Hour
)

var (
	configMaps = schema.GroupResource(client.ConfigMaps)
	namespaces = schema.GroupResource(client.Namespaces)
	secrets    = schema.GroupResource(client.Secrets)
	accounts   = schema.GroupResource(client.ServiceAccounts)
	pods       = schema.GroupResource(client.Pods)

	tracking = view.Key{Namespace: metav1.NamespaceSystem, Name: Tracking}
)

// New makes the controller, whose one key is the ConfigMap: it is kept, and once a day all Secrets are looked at. log may be nil.
func New(v *view.View, c client.Client, period time.Duration, log *slog.Logger) (*loop.Loop, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	k := &controller{c, period, log.With("component", "legacy-tokens")}
	return loop.New(loop.Config{
		Name: "legacy-tokens", View: v, ByClock: true, Reconcile: k.reconcile, Logger: log,
		Watches: []loop.Watch{
			{Resource: configMaps, Keys: func(c view.Change) []view.Key {
				if c.New != nil && c.New.Key == tracking || c.Old != nil && c.Old.Key == tracking {
					return []view.Key{tracking}
				}
				return nil
			}},
			{Resource: namespaces, Keys: func(c view.Change) []view.Key { // at the start, and when it can be made
				if c.Old == nil && c.New.Key.Name == metav1.NamespaceSystem {
					return []view.Key{tracking}
				}
				return nil
			}},
		},
	})
}

type controller struct {
	client client.Client
	period time.Duration
	log    *slog.Logger
}

func (k *controller) reconcile(ctx context.Context, s view.Snapshot, key view.Key) (res loop.Result, err error) {
	now := time.Now().UTC()
	e := s.Get(configMaps, key.Namespace, key.Name)
	if e == nil || !isDay(e.Object.(*v1.ConfigMap).Data[since]) {
		res.Wrote, err = k.track(ctx, e != nil, now)
		return res, err
	}
	res.Again = every
	if !Tracked(e.Object.(*v1.ConfigMap), now, k.period) {
		return res, nil
	}
	var failed []error
	for e := range s.All(secrets, "", view.Key{}) {
		wrote, err := k.secret(ctx, s, e, now)
		failed = append(failed, err) // one that cannot be written keeps no other
		res.Wrote = max(res.Wrote, wrote)
	}
	return res, errors.Join(failed...)
}

// track notes that uses are noted from today.
func (k *controller) track(ctx context.Context, there bool, now time.Time) (int64, error) {
	ref, day := client.ConfigMaps.At(tracking.Namespace, tracking.Name), now.Format(time.DateOnly)
	if !there {
		out, err := k.client.Create(ctx, ref, &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ref.Namespace, Name: ref.Name}, Data: map[string]string{since: day}})
		if apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) {
			return 0, nil // another server was first, or there is no kube-system yet
		}
		return loop.Revision(out), err
	}
	out, err := k.client.Mutate(ctx, ref, func(o runtime.Object) (bool, error) {
		c := o.(*v1.ConfigMap)
		if isDay(c.Data[since]) {
			return false, nil
		}
		if c.Data == nil {
			c.Data = map[string]string{}
		}
		c.Data[since] = day
		return true, nil
	})
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	return loop.Revision(out), err
}

func (k *controller) secret(ctx context.Context, s view.Snapshot, e *view.Entry, now time.Time) (int64, error) {
	secret := e.Object.(*v1.Secret)
	if secret.Type != v1.SecretTypeServiceAccountToken {
		return 0, nil
	}
	var account *v1.ServiceAccount
	if e := s.Get(accounts, secret.Namespace, secret.Annotations[v1.ServiceAccountNameKey]); e != nil {
		account = e.Object.(*v1.ServiceAccount)
	}
	judge := func(secret *v1.Secret) Verdict {
		return Judge(secret, account, now, k.period, func() bool { return mounted(s, secret) })
	}
	ref := client.Secrets.At(secret.Namespace, secret.Name)
	switch judge(secret) {
	case Mark:
		day := now.Format(time.DateOnly)
		k.log.Info("a token that nobody uses is refused from now on", "secret", e.Key, "invalidSince", day)
		out, err := k.client.Mutate(ctx, ref, func(o runtime.Object) (bool, error) {
			is := o.(*v1.Secret)
			if is.UID != secret.UID || judge(is) != Mark {
				return false, nil
			}
			if is.Labels == nil {
				is.Labels = map[string]string{}
			}
			is.Labels[InvalidSince] = day
			return true, nil
		})
		if apierrors.IsNotFound(err) {
			return 0, nil
		}
		return loop.Revision(out), err
	case Remove:
		k.log.Info("a token that nobody uses is deleted", "secret", e.Key, "lastUsed", secret.Labels[LastUsed], "invalidSince", secret.Labels[InvalidSince])
		err := k.client.Delete(ctx, ref, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &secret.ResourceVersion}})
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			err = nil // it has gone, or was used just now
		}
		return 0, err
	}
	return 0, nil
}

func mounted(s view.Snapshot, secret *v1.Secret) bool {
	for e := range s.All(pods, secret.Namespace, view.Key{}) {
		if podspec.UsesSecret(e.Object.(*v1.Pod), secret.Name) {
			return true
		}
	}
	return false
}
