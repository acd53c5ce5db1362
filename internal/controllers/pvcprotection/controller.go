package pvcprotection

import (
	"context"
	"log/slog"
	"slices"
	"time"

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

var (
	pods   = schema.GroupResource(client.Pods)
	claims = schema.GroupResource(client.Claims)
)

type controller struct {
	view   *view.View
	client client.Client
}

// New makes the controller. log may be nil. Its keys are claims.
func New(v *view.View, c client.Client, log *slog.Logger) (*loop.Loop, error) {
	k := &controller{v, c}
	return loop.New(loop.Config{
		Name: "pvc-protection", View: v, Reconcile: k.reconcile, Workers: 4, Logger: log,
		Watches: []loop.Watch{
			{Resource: claims, Keys: loop.Itself},
			{Resource: pods, Keys: podKeys},
		},
	})
}

// podKeys are the claims of a pod that comes, goes, gets a node or ends.
func podKeys(c view.Change) (out []view.Key) {
	var was, is *v1.Pod
	if c.Old != nil {
		was = c.Old.Object.(*v1.Pod)
	}
	if c.New != nil {
		is = c.New.Object.(*v1.Pod)
	}
	if was != nil && is != nil && was.UID == is.UID && was.Spec.NodeName == is.Spec.NodeName && ended(was) == ended(is) && shutDown(was) == shutDown(is) {
		return nil
	}
	for _, pod := range []*v1.Pod{was, is} {
		if pod == nil {
			continue
		}
		for _, name := range registry.ClaimsOf(pod) {
			out = append(out, view.Key{Namespace: pod.Namespace, Name: name})
		}
	}
	return out
}

func (k *controller) reconcile(ctx context.Context, s view.Snapshot, key view.Key) (loop.Result, error) {
	p, c := decide(s, key)
	if p.Release {
		// Not from what may be old: a claim that goes while a pod has it mounted takes the pod's data with it.
		fresh, err := k.view.Fresh(ctx)
		if err != nil {
			return loop.Result{}, err
		}
		p, c = decide(fresh, key)
	}
	if c == nil {
		return loop.Result{}, nil
	}
	var wrote int64
	write := func(ref client.Ref, change func(*v1.PersistentVolumeClaim) bool) error {
		out, err := k.client.Mutate(ctx, ref, func(o runtime.Object) (bool, error) {
			fresh := o.(*v1.PersistentVolumeClaim)
			return fresh.UID == c.UID && change(fresh), nil
		})
		if err != nil {
			return err
		}
		wrote = max(wrote, loop.Revision(out))
		return nil
	}
	ref := client.Claims.At(key.Namespace, key.Name)
	var err error
	if p.Protect || p.Release {
		err = write(ref, p.finalize)
	}
	if err == nil && p.Unused != nil {
		err = write(ref.Sub("status"), p.say)
	}
	if apierrors.IsNotFound(err) {
		err = nil
	}
	return loop.Result{Wrote: wrote}, err
}

func decide(s view.Snapshot, key view.Key) (Plan, *v1.PersistentVolumeClaim) {
	e := s.Get(claims, key.Namespace, key.Name)
	if e == nil {
		return Plan{}, nil
	}
	var using []*v1.Pod
	for p := range s.By(pods, registry.ClaimIndex, key.Namespace+"/"+key.Name) {
		using = append(using, p.Object.(*v1.Pod))
	}
	c := e.Object.(*v1.PersistentVolumeClaim)
	return Decide(c, using), c
}

func (p Plan) finalize(c *v1.PersistentVolumeClaim) bool {
	has := slices.Contains(c.Finalizers, Finalizer)
	switch {
	case p.Protect && !has && c.DeletionTimestamp == nil:
		c.Finalizers = append(c.Finalizers, Finalizer)
	case p.Release && has:
		c.Finalizers = slices.DeleteFunc(c.Finalizers, func(f string) bool { return f == Finalizer })
	default:
		return false
	}
	return true
}

func (p Plan) say(c *v1.PersistentVolumeClaim) bool {
	p.Unused.LastTransitionTime = metav1.NewTime(time.Now())
	if is := condition(c); is != nil {
		*is = *p.Unused
	} else {
		c.Status.Conditions = append(c.Status.Conditions, *p.Unused)
	}
	return true
}
