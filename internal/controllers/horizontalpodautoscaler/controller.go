package horizontalpodautoscaler

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/retry"
	"k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/controllers/loop"
	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/view"
)

// Name is the component in events, as upstream's.
const Name = "horizontal-pod-autoscaler"

// period is how often an autoscaler looks. Nothing tells when a load changes: it has to be measured.
const period = 15 * time.Second

var (
	autoscalers = client.Resource{Group: autoscalingv2.GroupName, Resource: "horizontalpodautoscalers"}
	pods        = schema.GroupResource(client.Pods)
)

// Metrics tells what pods use.
type Metrics interface {
	// Pods tells it of those of a namespace that have the labels. It leaves out pods that are not known yet.
	Pods(ctx context.Context, namespace string, selector labels.Selector) ([]v1beta1.PodMetrics, error)
}

// Config is what the controller is made of. All but Logger are required.
type Config struct {
	View    *view.View
	Client  client.Client
	Metrics Metrics
	Events  record.EventRecorder
	Logger  *slog.Logger
}

type controller struct {
	Config
	meter meter
	mu    sync.Mutex
	known map[view.Key]*memory
}

// memory is what is known of an autoscaler beside what is stored: what it wished for and did, and whose pods it scales.
type memory struct {
	history
	selector labels.Selector
}

// New makes the controller. Its keys are autoscalers.
func New(c Config) (*loop.Loop, error) {
	if c.View == nil || c.Client == nil || c.Metrics == nil || c.Events == nil {
		return nil, fmt.Errorf("%s: View, Client, Metrics and Events are required", Name)
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	k := &controller{Config: c, known: map[view.Key]*memory{}}
	k.meter = newMeter(func() int { return c.View.Snapshot().Len(schema.GroupResource(autoscalers)) })
	return loop.New(loop.Config{
		Name: Name, View: c.View, Logger: c.Logger, Workers: 5, Reconcile: k.reconcile, Metrics: k.meter.all(), Skips: loop.SkippedLooks(subsystem),
		Watches: []loop.Watch{{Resource: schema.GroupResource(autoscalers), Keys: func(ch view.Change) []view.Key {
			switch {
			case ch.New == nil:
				return []view.Key{ch.Old.Key}
			case ch.Old != nil && ch.Old.Meta.GetGeneration() == ch.New.Meta.GetGeneration():
				return nil // of a status nothing follows
			}
			return []view.Key{ch.New.Key}
		}}},
	})
}

// reconcile looks at one autoscaler, and asks for its next turn whatever happens: what fails now is tried again then.
func (k *controller) reconcile(ctx context.Context, s view.Snapshot, key view.Key) (loop.Result, error) {
	began, e := time.Now(), s.Get(schema.GroupResource(autoscalers), key.Namespace, key.Name)
	if e == nil {
		k.forget(key)
		return loop.Result{}, nil
	}
	hpa, m := e.Object.(*autoscalingv2.HorizontalPodAutoscaler), k.recall(key)
	ref, scale, err := k.target(ctx, hpa)
	var d *decision
	if err != nil {
		d = unreachable(hpa, err, time.Now())
	} else {
		d = decide(k.look(ctx, s, hpa, scale), &m.history)
	}
	if d.rescale {
		d.done(k.rescale(ctx, ref, scale, d.to), &m.history)
	}
	if d.failed != nil {
		k.Logger.Debug("an autoscaler cannot do all that it should", "key", key.Namespace+"/"+key.Name, "error", d.failed)
	}
	wrote, err := k.report(ctx, hpa, &d.status)
	if err != nil && !apierrors.IsNotFound(err) && ctx.Err() == nil {
		d.warn("FailedUpdateStatus", err.Error())
	}
	k.meter.looked(key, d, time.Since(began))
	for _, t := range d.events {
		k.Events.Event(hpa, t.kind, t.reason, t.text)
	}
	return loop.Result{Wrote: wrote, Again: period}, nil
}

func (k *controller) recall(key view.Key) *memory {
	k.mu.Lock()
	defer k.mu.Unlock()
	m := k.known[key]
	if m == nil {
		m = &memory{}
		k.known[key] = m
	}
	return m
}

func (k *controller) forget(key view.Key) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.known, key)
	k.meter.desired.DeleteLabelValues(key.Namespace, key.Name)
}

// target reads the scale of what is scaled. Any version of a kind will do.
func (k *controller) target(ctx context.Context, hpa *autoscalingv2.HorizontalPodAutoscaler) (client.Ref, *autoscalingv1.Scale, error) {
	to := hpa.Spec.ScaleTargetRef
	gv, err := schema.ParseGroupVersion(to.APIVersion)
	if err != nil {
		return client.Ref{}, nil, err
	}
	group := gv.WithKind(to.Kind).GroupKind()
	for _, kind := range registry.All() {
		if kind.GVK.GroupKind() != group || kind.Served != nil {
			continue
		}
		ref := client.Ref{Resource: kind.GroupResource(), Namespace: hpa.Namespace, Name: to.Name, Subresource: "scale"}
		obj, err := k.Client.Get(ctx, ref)
		if err != nil {
			return ref, nil, err
		}
		scale, ok := obj.(*autoscalingv1.Scale)
		if !ok {
			return ref, nil, fmt.Errorf("%s has no scale", ref.Resource)
		}
		return ref, scale, nil
	}
	return client.Ref{}, nil, &meta.NoKindMatchError{GroupKind: group}
}

// look gathers what a decision is made of.
func (k *controller) look(ctx context.Context, s view.Snapshot, hpa *autoscalingv2.HorizontalPodAutoscaler, scale *autoscalingv1.Scale) *world {
	w := &world{hpa: hpa, scale: scale, now: time.Now(), clock: time.Now}
	text := scale.Status.Selector
	if text == "" {
		w.selector = &wrong{"SelectorRequired", "InvalidSelector", "selector is required", "the HPA target's scale is missing a selector"}
		return w
	}
	selector, err := labels.Parse(text)
	if err != nil {
		says := fmt.Sprintf("couldn't convert selector into a corresponding internal selector object: %v", err)
		w.selector = &wrong{"InvalidSelector", "InvalidSelector", says, says}
		return w
	}
	for e := range s.All(pods, hpa.Namespace, view.Key{}) {
		if p := e.Object.(*v1.Pod); selector.Matches(labels.Set(p.Labels)) {
			w.pods = append(w.pods, p)
		}
	}
	if both := k.rivals(view.Key{Namespace: hpa.Namespace, Name: hpa.Name}, selector, w.pods); both != nil {
		says := fmt.Sprintf("pods by selector %v are controlled by more than one HPA (e.g. %v)", text, both)
		w.selector = &wrong{"AmbiguousSelector", "AmbiguousSelector", says, says}
		return w
	}
	w.usage, w.usageErr = k.Metrics.Pods(ctx, hpa.Namespace, selector)
	return w
}

// named is an autoscaler as a message shows it.
type named struct{ Name, Namespace string }

// rivals notes whose pods an autoscaler scales, and names it and the first of those that scale one of them too; nil when there is none.
func (k *controller) rivals(key view.Key, selector labels.Selector, mine []*v1.Pod) []named {
	k.mu.Lock()
	defer k.mu.Unlock()
	if m := k.known[key]; m != nil {
		m.selector = selector
	}
	first := ""
	for other, m := range k.known {
		if other == key || other.Namespace != key.Namespace || m.selector == nil || first != "" && other.Name > first {
			continue
		}
		if slices.ContainsFunc(mine, func(p *v1.Pod) bool { return m.selector.Matches(labels.Set(p.Labels)) }) {
			first = other.Name
		}
	}
	if first == "" {
		return nil
	}
	return []named{{key.Name, key.Namespace}, {first, key.Namespace}}
}

// rescale writes how many replicas there are to be, also over what somebody else wrote meanwhile.
func (k *controller) rescale(ctx context.Context, ref client.Ref, scale *autoscalingv1.Scale, to int32) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		next := scale.DeepCopy()
		next.Spec.Replicas = to
		_, err := k.Client.Update(ctx, ref, next)
		if apierrors.IsConflict(err) {
			if obj, gerr := k.Client.Get(ctx, ref); gerr == nil {
				scale = obj.(*autoscalingv1.Scale)
			}
		}
		return err
	})
}

// report writes the status where it has changed.
func (k *controller) report(ctx context.Context, hpa *autoscalingv2.HorizontalPodAutoscaler, status *autoscalingv2.HorizontalPodAutoscalerStatus) (int64, error) {
	if equality.Semantic.DeepEqual(&hpa.Status, status) {
		return 0, nil
	}
	out, err := k.Client.Mutate(ctx, autoscalers.At(hpa.Namespace, hpa.Name).Sub("status"), func(obj runtime.Object) (bool, error) {
		now := obj.(*autoscalingv2.HorizontalPodAutoscaler)
		if now.UID != hpa.UID {
			return false, nil
		}
		now.Status = *status.DeepCopy()
		return true, nil
	})
	if err != nil {
		return 0, err
	}
	return loop.Revision(out), nil
}
