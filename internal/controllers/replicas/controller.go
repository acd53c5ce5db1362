package replicas

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/record"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/controllers/loop"
	"podo.dev/podo/internal/controllers/podset"
	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/view"
)

const workers = 5

var pods = schema.GroupResource(client.Pods)

// Kind is how a kind of controller object is read and reported on.
type Kind struct {
	Resource client.Resource
	GVK      schema.GroupVersionKind
	Name     string // of the component, and of the events' source
	// Read says what an object asks for; ok is false when nothing can be done about it (a selector that cannot be read).
	Read func(obj runtime.Object) (Wanted, bool)
	// Report writes what there is into an object's status, and, when failure is not nil, what kept pods from being created or
	// deleted; false says that nothing changed. The object may be newer than the one that was looked at.
	Report func(obj runtime.Object, c Counts, failure *Failure, now time.Time) bool
}

// Failure is why pods could not be created or deleted.
type Failure struct{ Reason, Message string }

// Config is what a controller is made of. All but Logger are required.
type Config struct {
	Kind   Kind
	View   *view.View
	Client client.Client
	Events record.EventRecorder
	Logger *slog.Logger
}

type controller struct {
	Config
	pods podset.Kind
	ages prometheus.Histogram
}

// New makes the controller of one kind. Its keys are objects of the kind.
func New(c Config) (*loop.Loop, error) {
	if c.View == nil || c.Client == nil || c.Events == nil || c.Kind.Read == nil || c.Kind.Report == nil {
		return nil, errors.New("replicas: Kind, View, Client and Events are required")
	}
	k := &controller{Config: c, ages: newAges()}
	k.pods = podset.Kind{Resource: c.Kind.Resource, GVK: c.Kind.GVK, Selector: func(obj runtime.Object) (labels.Selector, bool) {
		w, ok := c.Kind.Read(obj)
		return w.Selector, ok
	}}
	var metrics []prometheus.Collector
	var skips *prometheus.CounterVec
	if c.Kind.GVK == ReplicaSets.GVK { // upstream has one for both kinds
		metrics, skips = append(metrics, k.ages), loop.SkippedLooks("replicaset_controller")
	}
	return loop.New(loop.Config{
		Name: c.Kind.Name, View: c.View, Reconcile: k.reconcile, Workers: workers, Logger: c.Logger, Watches: k.pods.Watches(c.View),
		Metrics: metrics, Skips: skips,
	})
}

func (k *controller) reconcile(ctx context.Context, s view.Snapshot, key view.Key) (loop.Result, error) {
	e := s.Get(schema.GroupResource(k.Kind.Resource), key.Namespace, key.Name)
	if e == nil {
		return loop.Result{}, nil
	}
	w, ok := k.Kind.Read(e.Object)
	if !ok {
		return loop.Result{}, nil
	}
	plan := Decide(w, podset.Candidates(s, w.Meta), k.siblings(s, w), time.Now())
	if podset.Ending(s, key.Namespace) {
		plan.Create = 0
	}
	rev, failure, err := k.apply(ctx, e.Object, w, plan)
	deleted := len(plan.Delete) > 0
	if failure == nil && err != nil {
		return loop.Result{Wrote: rev, Deleted: deleted}, err
	}
	obj, serr := k.Client.Mutate(ctx, k.Kind.Resource.At(key.Namespace, key.Name).Sub("status"), func(o runtime.Object) (bool, error) {
		now, err := meta.Accessor(o)
		if err != nil || now.GetUID() != w.Meta.GetUID() {
			return false, err // another one of its name, of which nothing is known yet
		}
		return k.Kind.Report(o, plan.Counts, failure, time.Now()), nil
	})
	switch {
	case apierrors.IsNotFound(serr):
		return loop.Result{}, nil
	case serr != nil:
		return loop.Result{Wrote: rev, Deleted: deleted}, errors.Join(err, serr)
	}
	return loop.Result{Wrote: max(rev, loop.Revision(obj)), Deleted: deleted, Again: plan.Again}, err
}

// siblings are the pods of the other objects that the same owner has: those of a Deployment's other revisions.
func (k *controller) siblings(s view.Snapshot, w Wanted) (out []*v1.Pod) {
	if w.Owner == "" {
		return nil
	}
	for o := range s.By(schema.GroupResource(k.Kind.Resource), registry.ControllerIndex, string(w.Owner)) {
		if o.Meta.GetUID() == w.Meta.GetUID() {
			continue
		}
		for e := range s.By(pods, registry.ControllerIndex, string(o.Meta.GetUID())) {
			out = append(out, e.Object.(*v1.Pod))
		}
	}
	return out
}

// apply does what the plan says and returns the revision of its last write. failure is what users are told in the status; err makes
// the key come again.
func (k *controller) apply(ctx context.Context, obj runtime.Object, w Wanted, p Plan) (rev int64, failure *Failure, err error) {
	rev, err = k.pods.Settle(ctx, k.Client, w.Meta, p.Adopt, p.Release)
	if err != nil {
		return rev, nil, err
	}
	var last atomic.Int64
	err = podset.Slowly(p.Create, func(int) error {
		out, err := k.pods.Create(ctx, k.Client, k.Events, obj, k.pods.New(w.Meta, w.Template))
		latest(&last, loop.Revision(out))
		return err
	})
	rev = max(rev, last.Load())
	if err != nil {
		return rev, &Failure{"FailedCreate", err.Error()}, err
	}
	for _, ratio := range p.Ages {
		k.ages.Observe(ratio)
	}
	if err := podset.Slowly(len(p.Delete), func(i int) error { return k.pods.Delete(ctx, k.Client, k.Events, obj, p.Delete[i]) }); err != nil {
		return rev, &Failure{"FailedDelete", err.Error()}, err
	}
	return rev, nil, nil
}

// latest makes v at least n.
func latest(v *atomic.Int64, n int64) {
	for old := v.Load(); old < n && !v.CompareAndSwap(old, n); old = v.Load() {
	}
}
