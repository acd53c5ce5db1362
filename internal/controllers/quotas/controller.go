package quotas

import (
	"context"
	"iter"
	"log/slog"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/controllers/loop"
	"podo.dev/podo/internal/quota"
	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/view"
)

var resourceQuotas = client.Resource{Resource: "resourcequotas"}

// New makes the controller, whose keys are quotas. kinds are all that are served; log may be nil.
func New(v *view.View, c client.Client, kinds []*registry.Kind, log *slog.Logger) (*loop.Loop, error) {
	k := &controller{view: v, client: c}
	watches := []loop.Watch{{Resource: schema.GroupResource(resourceQuotas), Keys: quotaKeys}}
	for _, kind := range kinds {
		r := kind.GroupResource()
		if !kind.Namespaced || kind.NotCached || kind.Unstored || kind.Served != nil || !quota.Counted(r) {
			continue
		}
		k.resources = append(k.resources, r)
		watches = append(watches, loop.Watch{Resource: r, Keys: func(c view.Change) []view.Key { return k.freed(r, c) }})
	}
	return loop.New(loop.Config{Name: "resource-quotas", View: v, Watches: watches, Reconcile: k.reconcile, Workers: 4, Logger: log})
}

func quotaKeys(c view.Change) []view.Key {
	if c.New == nil {
		return nil
	}
	var old *v1.ResourceQuota
	if c.Old != nil {
		old = c.Old.Object.(*v1.ResourceQuota)
	}
	if !Due(c.New.Object.(*v1.ResourceQuota), old) {
		return nil
	}
	return []view.Key{c.New.Key}
}

type controller struct {
	view      *view.View
	client    client.Client
	resources []schema.GroupResource
}

// freed names the quotas that a change of an object may have given something back to.
func (k *controller) freed(r schema.GroupResource, c view.Change) (out []view.Key) {
	if c.Old == nil {
		return nil
	}
	var obj runtime.Object
	if c.New != nil {
		obj = c.New.Object
	}
	for e := range k.view.Snapshot().All(schema.GroupResource(resourceQuotas), c.Old.Key.Namespace, view.Key{}) {
		if quota.Bounds(e.Object.(*v1.ResourceQuota), r) {
			out = append(out, e.Key)
		}
	}
	if len(out) == 0 || !quota.Matters(r, obj, c.Old.Object, time.Now()) {
		return nil
	}
	return out
}

// reconcile counts, and writes what has changed. The count is of a moment at which the quota was as the write requires it to be: a
// creation since then has charged the quota, and the write does not happen but counts again.
func (k *controller) reconcile(ctx context.Context, _ view.Snapshot, key view.Key) (res loop.Result, err error) {
	ref := resourceQuotas.At(key.Namespace, key.Name).Sub("status")
	obj, err := k.client.Mutate(ctx, ref, func(obj runtime.Object) (bool, error) {
		q, now := obj.(*v1.ResourceQuota), time.Now()
		s, err := k.view.WaitFor(ctx, loop.Revision(q))
		if err != nil {
			return false, err
		}
		content := func(r schema.GroupResource) iter.Seq[runtime.Object] { return objects(s, r, key.Namespace) }
		status := quota.Count(q, k.resources, content, now)
		res.Again = Next(q, content(pods), now)
		changed := !Same(status, q.Status)
		q.Status = status
		return changed, nil
	})
	if apierrors.IsNotFound(err) {
		return loop.Result{}, nil
	}
	res.Wrote = loop.Revision(obj)
	return res, err
}

func objects(s view.Snapshot, r schema.GroupResource, namespace string) iter.Seq[runtime.Object] {
	return func(yield func(runtime.Object) bool) {
		for e := range s.All(r, namespace, view.Key{}) {
			if !yield(e.Object) {
				return
			}
		}
	}
}
