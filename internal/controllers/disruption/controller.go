// Package disruption keeps the status of PodDisruptionBudgets: how many of their pods may be evicted now. Package budget counts; what an
// eviction takes, the API server takes in the eviction's own transaction, so that a count which has not seen it is never written.
package disruption

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"podo.dev/podo/internal/budget"
	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/controllers/loop"
	"podo.dev/podo/internal/view"
)

var (
	pods    = schema.GroupResource(client.Pods)
	budgets = client.Resource{Group: policyv1.GroupName, Resource: "poddisruptionbudgets"}
)

// Config is what the controllers are made of. All but Logger are required.
type Config = loop.Parts

type controller struct{ Config }

// New makes the controller that counts. Its keys are budgets.
func New(c Config) (*loop.Loop, error) {
	if err := c.Check("disruption"); err != nil {
		return nil, err
	}
	k := &controller{c}
	return loop.New(loop.Config{
		Name: "disruption", View: c.View, Reconcile: k.reconcile, Logger: c.Logger,
		Watches: []loop.Watch{
			{Resource: schema.GroupResource(budgets), Keys: loop.Itself},
			{Resource: pods, Keys: k.podKeys},
		},
	})
}

// podKeys: the budgets that covered the pod, and those that do.
func (k *controller) podKeys(c view.Change) (out []view.Key) {
	var pod, old *v1.Pod
	key := view.Key{}
	for _, e := range []*view.Entry{c.Old, c.New} {
		if e != nil {
			key = e.Key
		}
	}
	if c.Old != nil {
		old = c.Old.Object.(*v1.Pod)
	}
	if c.New != nil {
		pod = c.New.Object.(*v1.Pod)
	}
	covering := 0
	for e := range k.View.Snapshot().All(schema.GroupResource(budgets), key.Namespace, view.Key{}) {
		b := e.Object.(*policyv1.PodDisruptionBudget)
		now := pod != nil && budget.Covers(b, pod)
		if now {
			covering++
		}
		if now || old != nil && budget.Covers(b, old) {
			out = append(out, e.Key)
		}
	}
	if covering > 1 {
		k.Events.Eventf(pod, v1.EventTypeWarning, "MultiplePodDisruptionBudgets",
			"Pod %q/%q matches multiple PodDisruptionBudgets.  Chose %q arbitrarily.", pod.Namespace, pod.Name, out[0].Name)
	}
	return out
}

func (k *controller) reconcile(ctx context.Context, s view.Snapshot, key view.Key) (loop.Result, error) {
	e := s.Get(schema.GroupResource(budgets), key.Namespace, key.Name)
	if e == nil {
		return loop.Result{}, nil
	}
	b, now := e.Object.(*policyv1.PodDisruptionBudget), time.Now()
	count, err := k.count(s, b, now)
	if err != nil {
		if k.Logger != nil {
			k.Logger.Warn("a disruption budget cannot be counted", "budget", key.Namespace+"/"+key.Name, "error", err)
		}
		return k.write(ctx, b, budget.Failed(b, err, now))
	}
	res, err := k.write(ctx, b, count.Status)
	res.Again = count.Again
	return res, err
}

// count counts a budget and tells what is odd about its pods.
func (k *controller) count(s view.Snapshot, b *policyv1.PodDisruptionBudget, now time.Time) (budget.Count, error) {
	selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
	if err != nil {
		k.Events.Eventf(b, v1.EventTypeWarning, "NoPods", "Failed to get pods: %v", err)
		return budget.Count{}, err
	}
	var covered []*v1.Pod
	for e := range s.All(pods, b.Namespace, view.Key{}) {
		if selector.Matches(labels.Set(e.Meta.GetLabels())) {
			covered = append(covered, e.Object.(*v1.Pod))
		}
	}
	if len(covered) == 0 {
		k.Events.Event(b, v1.EventTypeNormal, "NoPods", "No matching pods found")
	}
	count, err := budget.Number(b, covered, scales(s), now)
	if err != nil {
		k.Events.Eventf(b, v1.EventTypeWarning, "CalculateExpectedPodCountFailed", "Failed to calculate the number of expected pods: %v", err)
		return count, err
	}
	if len(count.Unmanaged) > 0 {
		k.Events.Eventf(b, v1.EventTypeWarning, "UnmanagedPods", "Pods selected by this PodDisruptionBudget (selector: %v) were found "+
			"to be unmanaged. As a result, the status of the PDB cannot be calculated correctly, which may result in undefined behavior. "+
			"To account for these pods please set \".spec.minAvailable\" "+
			"field of the PDB to an integer value.", b.Spec.Selector)
	}
	for _, pod := range count.Late {
		k.Events.Eventf(pod, v1.EventTypeWarning, "NotDeleted", "Pod was expected by PDB %s/%s to be deleted but it wasn't", b.Namespace, b.Namespace)
	}
	return count, nil
}

// write changes a budget's status if the budget is as it was counted: whatever was taken from it since must be counted too.
func (k *controller) write(ctx context.Context, b *policyv1.PodDisruptionBudget, s policyv1.PodDisruptionBudgetStatus) (loop.Result, error) {
	if budget.Same(b, &s) {
		return loop.Result{}, nil
	}
	ref := budgets.At(b.Namespace, b.Name)
	obj, err := k.Client.Mutate(ctx, ref.Sub("status"), func(o runtime.Object) (bool, error) {
		now := o.(*policyv1.PodDisruptionBudget)
		if now.ResourceVersion != b.ResourceVersion {
			return false, apierrors.NewConflict(ref.Resource, ref.Name, fmt.Errorf("it changed while it was counted"))
		}
		now.Status = s
		return true, nil
	})
	if apierrors.IsNotFound(err) {
		return loop.Result{}, nil
	}
	return loop.Result{Wrote: loop.Revision(obj)}, err
}
