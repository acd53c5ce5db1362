package podgc

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/controllers/loop"
	"podo.dev/podo/internal/view"
)

var (
	pods  = schema.GroupResource(client.Pods)
	nodes = schema.GroupResource(client.Nodes)
)

// The keys: a pod by namespace and name, a node by name alone, and the sum of ended pods.
var allEnded = view.Key{Namespace: "", Name: ""}

// New makes the controller. log may be nil.
func New(v *view.View, c client.Client, log *slog.Logger) (*loop.Loop, error) {
	k := &controller{client: c, meter: newMeter(), missing: map[string]time.Time{}}
	return loop.New(loop.Config{
		Name: "pod-gc", View: v, Reconcile: k.reconcile, Logger: log, Metrics: k.meter.all(),
		Watches: []loop.Watch{
			{Resource: pods, Keys: podKeys},
			{Resource: nodes, Keys: func(c view.Change) []view.Key {
				if c.Old != nil && c.New != nil && (OutOfService(c.Old.Object.(*v1.Node)) || !OutOfService(c.New.Object.(*v1.Node))) {
					return nil // a heartbeat
				}
				if c.New != nil {
					return []view.Key{{Name: c.New.Key.Name}}
				}
				return []view.Key{{Name: c.Old.Key.Name}}
			}},
		},
	})
}

// podKeys names what a change of a pod can call for.
func podKeys(c view.Change) (out []view.Key) {
	if c.New == nil {
		return nil
	}
	p := c.New.Object.(*v1.Pod)
	var old *v1.Pod
	if c.Old != nil {
		old = c.Old.Object.(*v1.Pod)
	}
	if Abandoned(p) || p.DeletionTimestamp != nil && (old == nil || old.DeletionTimestamp == nil) {
		out = append(out, c.New.Key)
	}
	if p.Spec.NodeName != "" && (old == nil || old.Spec.NodeName != p.Spec.NodeName) {
		out = append(out, view.Key{Name: p.Spec.NodeName})
	}
	if Ended(p) && (old == nil || !Ended(old)) {
		out = append(out, allEnded)
	}
	return out
}

type controller struct {
	client client.Client
	meter  meter

	mu      sync.Mutex
	missing map[string]time.Time // nodes that pods name and that are not there, since when
}

func (k *controller) reconcile(ctx context.Context, s view.Snapshot, key view.Key) (loop.Result, error) {
	switch {
	case key == allEnded:
		return k.bound(ctx, s)
	case key.Namespace == "":
		return k.node(ctx, s, key.Name)
	}
	e := s.Get(pods, key.Namespace, key.Name)
	if e == nil {
		return loop.Result{}, nil
	}
	pod := e.Object.(*v1.Pod)
	on := s.Get(nodes, "", pod.Spec.NodeName)
	switch {
	case Abandoned(pod):
		return k.remove(ctx, unscheduled, []Verdict{{Pod: pod}})
	case pod.DeletionTimestamp != nil && on != nil && OutOfService(on.Object.(*v1.Node)):
		return k.endOutOfService(ctx, pod.Spec.NodeName, []Verdict{{Pod: pod}})
	}
	return loop.Result{}, nil
}

// endOutOfService removes pods without their kubelet's word. Not on what may be old: of a node that has been taken back meanwhile the kubelet
// may still be ending them, and their successors would run beside them.
func (k *controller) endOutOfService(ctx context.Context, node string, ending []Verdict) (res loop.Result, err error) {
	if len(ending) == 0 {
		return res, nil
	}
	obj, err := k.client.Get(ctx, client.Nodes.At("", node))
	if apierrors.IsNotFound(err) || err == nil && !OutOfService(obj.(*v1.Node)) {
		return res, nil // that it is so is about to be seen
	}
	if err != nil {
		return res, err
	}
	return k.remove(ctx, outOfService, ending)
}

func (k *controller) bound(ctx context.Context, s view.Snapshot) (loop.Result, error) {
	if s.Len(pods) <= KeepEnded {
		return loop.Result{}, nil
	}
	var all []*v1.Pod
	for e := range s.All(pods, "", view.Key{}) {
		all = append(all, e.Object.(*v1.Pod))
	}
	return k.remove(ctx, terminated, Surplus(all, KeepEnded))
}

func (k *controller) node(ctx context.Context, s view.Snapshot, name string) (res loop.Result, err error) {
	if e := s.Get(nodes, "", name); e != nil {
		k.since(name, false)
		if !OutOfService(e.Object.(*v1.Node)) {
			return res, nil
		}
		var ending []Verdict
		for e := range s.By(pods, "spec.nodeName", name) {
			if p := e.Object.(*v1.Pod); p.DeletionTimestamp != nil {
				ending = append(ending, Verdict{Pod: p})
			}
		}
		return k.endOutOfService(ctx, name, ending)
	}
	var orphans []*v1.Pod
	for e := range s.By(pods, "spec.nodeName", name) {
		orphans = append(orphans, e.Object.(*v1.Pod))
	}
	if len(orphans) == 0 {
		k.since(name, false)
		return res, nil
	}
	if wait := Quarantine - time.Since(k.since(name, true)); wait > 0 {
		return loop.Result{Again: wait}, nil
	}
	// Not from the view: giving up pods of a node that is there would be worse than asking twice.
	switch _, err := k.client.Get(ctx, client.Nodes.At("", name)); {
	case err == nil:
		return loop.Result{Again: time.Second}, nil
	case !apierrors.IsNotFound(err):
		return res, err
	}
	return k.remove(ctx, orphaned, Orphans(orphans))
}

// since remembers, or forgets, when a node was first missed.
func (k *controller) since(name string, missing bool) time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !missing {
		delete(k.missing, name)
		return time.Time{}
	}
	t, ok := k.missing[name]
	if !ok {
		t = time.Now()
		k.missing[name] = t
	}
	return t
}

// remove marks pods failed and deletes them without grace. One that cannot be removed keeps no other.
func (k *controller) remove(ctx context.Context, reason string, verdicts []Verdict) (res loop.Result, err error) {
	var failed []error
	for _, v := range verdicts {
		k.meter.removed.WithLabelValues(v.Pod.Namespace, reason).Inc()
		wrote, err := k.removeOne(ctx, v)
		res.Wrote = max(res.Wrote, wrote)
		if err != nil {
			k.meter.failed.WithLabelValues(v.Pod.Namespace, reason).Inc()
			failed = append(failed, err)
		}
	}
	return res, errors.Join(failed...)
}

func (k *controller) removeOne(ctx context.Context, v Verdict) (wrote int64, err error) {
	p := v.Pod
	if !Ended(p) {
		obj, err := k.client.Mutate(ctx, client.Pods.At(p.Namespace, p.Name).Sub("status"), func(o runtime.Object) (bool, error) {
			fresh := o.(*v1.Pod)
			if fresh.UID != p.UID || Ended(fresh) {
				return false, nil
			}
			fresh.Status.Phase, fresh.Status.ObservedGeneration = v1.PodFailed, fresh.Generation
			if v.Condition != nil {
				setCondition(fresh, *v.Condition)
			}
			return true, nil
		})
		if apierrors.IsNotFound(err) {
			return 0, nil
		}
		if err != nil {
			return 0, err
		}
		wrote = loop.Revision(obj)
	}
	zero := int64(0)
	err = k.client.Delete(ctx, client.Pods.At(p.Namespace, p.Name), metav1.DeleteOptions{
		GracePeriodSeconds: &zero, Preconditions: &metav1.Preconditions{UID: &p.UID},
	})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		err = nil
	}
	return wrote, err
}

func setCondition(p *v1.Pod, c v1.PodCondition) {
	c.LastTransitionTime = metav1.Now()
	for i := range p.Status.Conditions {
		if old := &p.Status.Conditions[i]; old.Type == c.Type {
			if old.Status == c.Status {
				c.LastTransitionTime = old.LastTransitionTime
			}
			*old = c
			return
		}
	}
	p.Status.Conditions = append(p.Status.Conditions, c)
}
