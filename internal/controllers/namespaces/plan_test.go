package namespaces

import (
	"errors"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestConditionsInUpstreamsWords(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	content := []Content{
		{Resource: schema.GroupResource{Resource: "pods"}, Objects: []Object{{Name: "a"}, {Name: "b", Finalizers: []string{"x.io/f"}}}},
		{Resource: schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}, Objects: []Object{{Name: "l", Finalizers: []string{"x.io/f", "a.io/g"}}}},
		{Resource: schema.GroupResource{Resource: "secrets"}},
	}
	got := Conditions(nil, content, []error{errors.New("boom")}, start)
	want := map[v1.NamespaceConditionType]string{
		v1.NamespaceDeletionDiscoveryFailure: "False ResourcesDiscovered All resources successfully discovered",
		v1.NamespaceDeletionGVParsingFailure: "False ParsedGroupVersions All legacy kube types successfully parsed",
		v1.NamespaceDeletionContentFailure:   "True ContentDeletionFailed Failed to delete all resource types, 1 remaining: boom",
		v1.NamespaceContentRemaining:         "True SomeResourcesRemain Some resources are remaining: leases.coordination.k8s.io has 1 resource instances, pods. has 2 resource instances",
		v1.NamespaceFinalizersRemaining:      "True SomeFinalizersRemain Some content in the namespace has finalizers remaining: a.io/g in 1 resource instances, x.io/f in 2 resource instances",
	}
	for _, c := range got {
		if s := string(c.Status) + " " + c.Reason + " " + c.Message; s != want[c.Type] {
			t.Errorf("%s: %s", c.Type, s)
		}
		delete(want, c.Type)
	}
	if len(want) > 0 {
		t.Errorf("not told: %v", want)
	}
	later := Conditions(got, content, []error{errors.New("boom")}, start.Add(time.Hour))
	for i := range later {
		if later[i] != got[i] {
			t.Errorf("changed without a cause: %+v", later[i])
		}
	}
	done := Conditions(got, nil, nil, start.Add(time.Hour))
	for _, c := range done[2:] {
		if c.Status != v1.ConditionFalse || !c.LastTransitionTime.Time.Equal(start.Add(time.Hour)) {
			t.Errorf("after the end: %+v", c)
		}
	}
}

func TestPodsGoFirst(t *testing.T) {
	pods := Content{Resource: schema.GroupResource{Resource: "pods"}, Objects: []Object{{Name: "a", Deleting: true}}}
	secrets := Content{Resource: schema.GroupResource{Resource: "secrets"}, Objects: []Object{{Name: "s"}}}
	if next := Next([]Content{secrets, pods}); len(next) != 1 || next[0].Resource.Resource != "pods" {
		t.Errorf("%v", next)
	}
	pods.Objects = nil
	if next := Next([]Content{secrets, pods}); len(next) != 1 || next[0].Resource.Resource != "secrets" {
		t.Errorf("%v", next)
	}
}

func TestPodsThatStay(t *testing.T) {
	deleted := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	after := func(s int) time.Time { return deleted.Add(time.Duration(s) * time.Second) }
	pod := func(grace int64, phase v1.PodPhase, finalizers ...string) *v1.Pod {
		p := &v1.Pod{Spec: v1.PodSpec{TerminationGracePeriodSeconds: &grace}, Status: v1.PodStatus{Phase: phase}}
		p.Finalizers = finalizers
		return p
	}
	for _, c := range []struct {
		name  string
		pods  []*v1.Pod
		at    int
		stuck bool
		until time.Time
	}{
		{"none", nil, 60, false, time.Time{}},
		{"within the longest grace", []*v1.Pod{pod(5, v1.PodRunning), pod(30, v1.PodRunning)}, 29, false, after(30)},
		{"after it", []*v1.Pod{pod(5, v1.PodRunning), pod(30, v1.PodRunning)}, 30, true, after(30)},
		{"who has ended has no grace", []*v1.Pod{pod(5, v1.PodRunning), pod(30, v1.PodFailed)}, 5, true, after(5)},
		{"a finalizer says why", []*v1.Pod{pod(5, v1.PodRunning), pod(5, v1.PodRunning, "a.io/b")}, 60, false, time.Time{}},
	} {
		if stuck, until := Stuck(c.pods, deleted, after(c.at)); stuck != c.stuck || !until.Equal(c.until) {
			t.Errorf("%s: %v %v", c.name, stuck, until)
		}
	}
}
