package verbs

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"podo.dev/podo/internal/client"
)

// An evicted pod says why it ends.
func TestEvict(t *testing.T) {
	w := newWorld(t)
	p := pod("p")
	p.Spec.NodeName = "n"
	made := w.create(p).(*v1.Pod)
	old := made.ResourceVersion
	if err := w.Evict(w.ctx, admin, "default", "p", &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: new("1")}}, Options{}); !apierrors.IsConflict(err) {
		t.Fatalf("another state of the pod: %v", err)
	}
	if err := w.Evict(w.ctx, admin, "default", "p", &metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}, Options{}); err != nil {
		t.Fatal(err)
	}
	if got := w.get(client.Pods.At("default", "p")).(*v1.Pod); got.ResourceVersion != old {
		t.Fatalf("a dry run wrote: %+v", got.Status)
	}
	if err := w.Evict(w.ctx, admin, "default", "p", &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &old}}, Options{}); err != nil {
		t.Fatal(err)
	}
	got := w.get(client.Pods.At("default", "p")).(*v1.Pod)
	c := got.Status.Conditions[len(got.Status.Conditions)-1]
	if got.DeletionTimestamp == nil || c.Type != v1.DisruptionTarget || c.Reason != "EvictionByEvictionAPI" {
		t.Fatalf("%+v", got)
	}
}

// However many evict at once, no more pods go than the budget allows, and what went is noted in it.
func TestEvictionsAtOnceKeepTheBudget(t *testing.T) {
	w := newWorld(t)
	const many, allowed = 50, 7
	b := w.create(&policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "b"},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: new(intstr.FromInt32(many - allowed)), Selector: &metav1.LabelSelector{}},
	}).(*policyv1.PodDisruptionBudget)
	for i := range many {
		p := pod(fmt.Sprint("p", i))
		p.Spec.NodeName = "n"
		w.create(p)
		w.status(t, client.Pods.At("default", p.Name), func(obj runtime.Object) {
			obj.(*v1.Pod).Status.Phase = v1.PodRunning
			obj.(*v1.Pod).Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}
		})
	}
	if err := w.Evict(w.ctx, admin, "default", "p0", &metav1.DeleteOptions{}, Options{}); !apierrors.IsTooManyRequests(err) {
		t.Fatalf("before it was counted: %v", err)
	}
	ref := client.Ref{Resource: budgets, Namespace: "default", Name: "b"}
	w.status(t, ref, func(obj runtime.Object) {
		s := &obj.(*policyv1.PodDisruptionBudget).Status
		s.ObservedGeneration, s.CurrentHealthy, s.DesiredHealthy, s.ExpectedPods, s.DisruptionsAllowed = b.Generation, many, many-allowed, many, allowed
	})
	if err := w.Evict(w.ctx, admin, "default", "p0", &metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}, Options{}); err != nil {
		t.Fatal(err)
	}
	var went atomic.Int64
	var wg sync.WaitGroup
	for i := range many {
		wg.Go(func() {
			switch err := w.Evict(w.ctx, admin, "default", fmt.Sprint("p", i), &metav1.DeleteOptions{}, Options{}); {
			case err == nil:
				went.Add(1)
			case !apierrors.IsTooManyRequests(err) || !apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause):
				t.Error(err)
			}
		})
	}
	wg.Wait()
	leaving := 0
	for i := range many {
		if w.get(client.Pods.At("default", fmt.Sprint("p", i))).(*v1.Pod).DeletionTimestamp != nil {
			leaving++
		}
	}
	s := w.get(ref).(*policyv1.PodDisruptionBudget).Status
	if went.Load() != allowed || leaving != allowed || s.DisruptionsAllowed != 0 || len(s.DisruptedPods) != allowed || len(s.Conditions) != 1 {
		t.Errorf("%d evicted, %d leaving, %+v", went.Load(), leaving, s)
	}
}

// status edits an object's status as its controller would.
func (w *world) status(t *testing.T, ref client.Ref, edit func(runtime.Object)) {
	t.Helper()
	obj := w.get(ref).DeepCopyObject()
	edit(obj)
	if _, _, err := w.Update(w.ctx, admin, ref.Sub("status"), obj, Options{}); err != nil {
		t.Fatal(err)
	}
}
