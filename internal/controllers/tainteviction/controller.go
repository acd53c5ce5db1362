package tainteviction

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/controllers/loop"
	"podo.dev/podo/internal/view"
)

var (
	pods  = schema.GroupResource(client.Pods)
	nodes = schema.GroupResource(client.Nodes)
)

// Config is what the controller is made of. Events may be nil, Logger too.
type Config = loop.Parts

type controller struct {
	Config
	meter meter

	mu    sync.Mutex
	since map[types.UID]Clock // of pods that are to go
}

// New makes the controller. Its keys are pods.
func New(c Config) (*loop.Loop, error) {
	if c.View == nil || c.Client == nil {
		return nil, errors.New("tainteviction: View and Client are required")
	}
	k := &controller{Config: c, meter: newMeter(), since: map[types.UID]Clock{}}
	return loop.New(loop.Config{
		Name: "taint-eviction", View: c.View, Reconcile: k.reconcile, Workers: 8, Logger: c.Logger, Metrics: k.meter.all(),
		Watches: []loop.Watch{{Resource: pods, Keys: k.podKeys}, {Resource: nodes, Keys: k.nodeKeys}},
	})
}

// podKeys: a pod that was bound, or whose tolerations changed.
func (k *controller) podKeys(c view.Change) []view.Key {
	if c.Old != nil && (c.New == nil || c.New.Meta.GetUID() != c.Old.Meta.GetUID()) {
		k.forget(c.Old.Meta.GetUID())
	}
	if c.New == nil {
		return nil
	}
	pod := c.New.Object.(*v1.Pod)
	if pod.Spec.NodeName == "" {
		return nil
	}
	if c.Old != nil {
		old := c.Old.Object.(*v1.Pod)
		if old.Spec.NodeName == pod.Spec.NodeName && equality.Semantic.DeepEqual(old.Spec.Tolerations, pod.Spec.Tolerations) {
			return nil
		}
	}
	return []view.Key{c.New.Key}
}

// nodeKeys: the pods of a node whose NoExecute taints changed.
func (k *controller) nodeKeys(c view.Change) (out []view.Key) {
	if c.New == nil {
		return nil // the pod collector's
	}
	var had []v1.Taint
	if c.Old != nil {
		had = NoExecute(c.Old.Object.(*v1.Node))
	}
	has := NoExecute(c.New.Object.(*v1.Node))
	if equality.Semantic.DeepEqual(had, has) {
		return nil
	}
	for e := range k.View.Snapshot().By(pods, "spec.nodeName", c.New.Key.Name) {
		out = append(out, e.Key)
	}
	return out
}

func (k *controller) reconcile(ctx context.Context, s view.Snapshot, key view.Key) (loop.Result, error) {
	e := s.Get(pods, key.Namespace, key.Name)
	if e == nil {
		return loop.Result{}, nil
	}
	pod := e.Object.(*v1.Pod)
	n := s.Get(nodes, "", pod.Spec.NodeName)
	if n == nil || pod.DeletionTimestamp != nil {
		k.forget(pod.UID)
		return loop.Result{}, nil
	}
	due, goes := k.due(pod, NoExecute(n.Object.(*v1.Node)))
	if !goes {
		if k.forget(pod.UID) {
			k.tell(pod, "Cancelling deletion of Pod "+pod.Namespace+"/"+pod.Name)
		}
		return loop.Result{}, nil
	}
	if left := time.Until(due); left > 0 {
		return loop.Result{Again: left}, nil
	}
	return k.evict(ctx, pod, due)
}

// due is when a pod has to go, if it has to.
func (k *controller) due(pod *v1.Pod, taints []v1.Taint) (time.Time, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	due, clock, goes := Due(taints, pod.Spec.Tolerations, k.since[pod.UID], time.Now())
	if goes {
		k.since[pod.UID] = clock
	}
	return due, goes
}

func (k *controller) forget(uid types.UID) (known bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, known = k.since[uid]
	delete(k.since, uid)
	return known
}

// evict says in the pod's conditions why it goes, and asks for its end with its own grace.
func (k *controller) evict(ctx context.Context, pod *v1.Pod, due time.Time) (loop.Result, error) {
	k.tell(pod, "Marking for deletion Pod "+pod.Namespace+"/"+pod.Name)
	now := metav1.Now().Rfc3339Copy()
	ref := client.Pods.At(pod.Namespace, pod.Name)
	_, err := k.Client.Mutate(ctx, ref.Sub("status"), func(o runtime.Object) (bool, error) {
		fresh := o.(*v1.Pod)
		if fresh.UID != pod.UID || slices.ContainsFunc(fresh.Status.Conditions, func(c v1.PodCondition) bool { return c.Type == v1.DisruptionTarget }) {
			return false, nil
		}
		fresh.Status.Conditions = append(fresh.Status.Conditions, v1.PodCondition{
			Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: "DeletionByTaintManager", Message: "Taint manager: deleting due to NoExecute taint",
			LastTransitionTime: now, ObservedGeneration: fresh.Generation,
		})
		return true, nil
	})
	if err == nil {
		err = k.Client.Delete(ctx, ref, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}})
	}
	if err == nil {
		k.meter.deleted.Inc()
		k.meter.late.Observe(time.Since(due).Seconds())
	}
	if err == nil || apierrors.IsNotFound(err) {
		k.forget(pod.UID)
		return loop.Result{}, nil
	}
	return loop.Result{}, err
}

func (k *controller) tell(pod *v1.Pod, text string) {
	if k.Events == nil {
		return
	}
	about := &v1.ObjectReference{Kind: "Pod", APIVersion: "v1", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}
	k.Events.Event(about, v1.EventTypeNormal, "TaintManagerEviction", text)
}
