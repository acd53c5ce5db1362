package verbs

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
