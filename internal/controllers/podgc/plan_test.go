package podgc

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func ended(name string, age time.Duration, reason string) *v1.Pod {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(start.Add(-age))},
		Status:     v1.PodStatus{Phase: v1.PodFailed, Reason: reason},
	}
}

func TestSurplusTakesEvictedThenOldest(t *testing.T) {
	running := &v1.Pod{Status: v1.PodStatus{Phase: v1.PodRunning}}
	pods := []*v1.Pod{running, ended("young", 1, ""), ended("old", 3, ""), ended("evicted", 0, "Evicted"), ended("middle", 2, "")}
	if got := Surplus(pods, 4); got != nil {
		t.Errorf("four of four go: %v", got)
	}
	got := Surplus(pods, 2)
	if len(got) != 2 || got[0].Pod.Name != "evicted" || got[1].Pod.Name != "old" {
		t.Errorf("%v", got)
	}
}

func TestPodKeys(t *testing.T) {
	waiting := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
	deleting := waiting.DeepCopy()
	now := metav1.Now()
	deleting.DeletionTimestamp = &now
	if Abandoned(waiting) || !Abandoned(deleting) {
		t.Error("a pod without a node is abandoned exactly when it is to be deleted")
	}
	deleting.Spec.NodeName = "node-a"
	if Abandoned(deleting) {
		t.Error("a pod on a node belongs to its kubelet")
	}
}
