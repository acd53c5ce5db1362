package namespaces

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/controllers/loop"
	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/view"
)

var namespaces = schema.GroupResource(client.Namespaces)

// Config is what the controller is made of. View, Client and Kinds are required.
type Config struct {
	View   *view.View
	Client client.Client
	Kinds  []*registry.Kind
	// DeleteCollection removes all objects of a kind that the view does not hold (events). Without it such objects stay until
	// their time is over.
	DeleteCollection func(ctx context.Context, r schema.GroupResource, namespace string) error
	Logger           *slog.Logger
}

// New makes the controller.
func New(c Config) (*loop.Loop, error) {
	if c.View == nil || c.Client == nil || len(c.Kinds) == 0 {
		return nil, errors.New("namespaces: View, Client and Kinds are required")
	}
	k := &controller{c}
	watches := []loop.Watch{{Resource: namespaces, Keys: func(c view.Change) []view.Key {
		if c.New != nil {
			return []view.Key{c.New.Key}
		}
		return []view.Key{c.Old.Key}
	}}}
	for _, kind := range c.Kinds {
		if kind.Namespaced && !kind.NotCached && !kind.Unstored && kind.Served == nil {
			watches = append(watches, loop.Watch{Resource: kind.GroupResource(), Keys: contentKeys})
		}
	}
	return loop.New(loop.Config{
		Name: "namespaces", View: c.View, Watches: watches, Reconcile: k.reconcile, Workers: 4, Logger: c.Logger,
		Start: k.createSystem,
	})
}

// contentKeys names the namespace of content that went, or that holds up its deletion.
func contentKeys(c view.Change) []view.Key {
	if c.New == nil {
		return []view.Key{{Name: c.Old.Key.Namespace}}
	}
	if c.Old != nil && c.New.Meta.GetDeletionTimestamp() != nil && len(c.Old.Meta.GetFinalizers()) != len(c.New.Meta.GetFinalizers()) {
		return []view.Key{{Name: c.New.Key.Namespace}}
	}
	return nil
}

type controller struct{ c Config }

// createSystem makes the namespaces that must be there before anything else.
func (k *controller) createSystem(ctx context.Context) error {
	for _, name := range System {
		if err := k.create(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

func (k *controller) create(ctx context.Context, name string) error {
	_, err := k.c.Client.Create(ctx, client.Namespaces.At("", ""), &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

func (k *controller) reconcile(ctx context.Context, s view.Snapshot, key view.Key) (res loop.Result, err error) {
	e := s.Get(namespaces, "", key.Name)
	if e == nil {
		if slices.Contains(System, key.Name) {
			return res, k.create(ctx, key.Name)
		}
		return res, nil
	}
	ns := e.Object.(*v1.Namespace)
	if ns.DeletionTimestamp == nil || !slices.Contains(ns.Spec.Finalizers, v1.FinalizerKubernetes) {
		return res, nil
	}
	failed := k.empty(ctx, ns.Name, Next(k.content(s, ns.Name)))
	// What the deletions left is in a snapshot that has them all.
	if s, err = k.c.View.Fresh(ctx); err != nil {
		return res, err
	}
	content := k.content(s, ns.Name)
	left := Left(content)
	stuck, until := Stuck(podsIn(s, ns.Name), ns.DeletionTimestamp.Time, time.Now())
	if stuck {
		failed = append(failed, fmt.Errorf("unexpected items still remain in namespace: %s for gvr: /v1, Resource=pods", ns.Name))
	}
	if left == 0 && len(failed) == 0 {
		failed = k.uncached(ctx, ns.Name)
	}
	if res.Wrote, err = k.tell(ctx, ns, content, failed); err != nil {
		return res, err
	}
	if len(failed) > 0 {
		return res, errors.Join(failed...)
	}
	if left == 0 {
		wrote, err := k.finalize(ctx, ns)
		res.Wrote = max(res.Wrote, wrote)
		return res, err
	}
	if !until.IsZero() {
		res.Again = time.Until(until) + time.Second // to tell of pods that should have gone
	}
	if slices.ContainsFunc(Next(content), func(c Content) bool {
		return slices.ContainsFunc(c.Objects, func(o Object) bool { return !o.Deleting })
	}) {
		res.Again = time.Millisecond // pods are gone, the rest's turn has come
	}
	return res, nil
}

// content lists what the view holds of a namespace.
func (k *controller) content(s view.Snapshot, namespace string) (out []Content) {
	for _, kind := range k.c.Kinds {
		if !kind.Namespaced || kind.NotCached || kind.Unstored || kind.Served != nil {
			continue
		}
		c := Content{Resource: kind.GroupResource()}
		for e := range s.All(c.Resource, namespace, view.Key{}) {
			c.Objects = append(c.Objects, Object{
				Name: e.Key.Name, Deleting: e.Meta.GetDeletionTimestamp() != nil, Finalizers: e.Meta.GetFinalizers(),
			})
		}
		out = append(out, c)
	}
	return out
}

func podsIn(s view.Snapshot, namespace string) (out []*v1.Pod) {
	for e := range s.All(podsResource, namespace, view.Key{}) {
		out = append(out, e.Object.(*v1.Pod))
	}
	return out
}

// deleters delete side by side: the store commits them in groups.
const deleters = 32

// empty asks for the deletion of everything that is not being deleted yet. One error a kind says enough.
func (k *controller) empty(ctx context.Context, namespace string, content []Content) (failed []error) {
	background := metav1.DeletePropagationBackground
	for _, c := range content {
		g, gctx := errgroup.WithContext(ctx)
		g.SetLimit(deleters)
		for _, o := range c.Objects {
			if o.Deleting {
				continue
			}
			g.Go(func() error {
				if gctx.Err() != nil {
					return nil // another one's error is told
				}
				err := k.c.Client.Delete(ctx, client.Resource(c.Resource).At(namespace, o.Name), metav1.DeleteOptions{PropagationPolicy: &background})
				if apierrors.IsNotFound(err) {
					return nil
				}
				return err
			})
		}
		if err := g.Wait(); err != nil {
			failed = append(failed, err)
		}
	}
	return failed
}

func (k *controller) uncached(ctx context.Context, namespace string) (failed []error) {
	if k.c.DeleteCollection == nil {
		return nil
	}
	for _, kind := range k.c.Kinds {
		if kind.Namespaced && kind.NotCached && kind.Served == nil {
			if err := k.c.DeleteCollection(ctx, kind.GroupResource(), namespace); err != nil {
				failed = append(failed, fmt.Errorf("%s: %w", kind.Resource, err))
			}
		}
	}
	return failed
}

func (k *controller) tell(ctx context.Context, ns *v1.Namespace, content []Content, failed []error) (wrote int64, err error) {
	now := time.Now()
	obj, err := k.c.Client.Mutate(ctx, client.Namespaces.At("", ns.Name).Sub("status"), func(o runtime.Object) (bool, error) {
		fresh := o.(*v1.Namespace)
		if fresh.UID != ns.UID {
			return false, nil
		}
		set := Conditions(fresh.Status.Conditions, content, failed, now)
		changed := !slices.Equal(set, fresh.Status.Conditions)
		fresh.Status.Conditions = set
		return changed, nil
	})
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	return loop.Revision(obj), err
}

// finalize gives the namespace up. The API server removes it with its last finalizer.
func (k *controller) finalize(ctx context.Context, ns *v1.Namespace) (wrote int64, err error) {
	obj, err := k.c.Client.Mutate(ctx, client.Namespaces.At("", ns.Name).Sub("finalize"), func(o runtime.Object) (bool, error) {
		fresh := o.(*v1.Namespace)
		if fresh.UID != ns.UID {
			return false, nil
		}
		fresh.Spec.Finalizers = slices.DeleteFunc(fresh.Spec.Finalizers, func(f v1.FinalizerName) bool { return f == v1.FinalizerKubernetes })
		return true, nil
	})
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	return loop.Revision(obj), err
}
