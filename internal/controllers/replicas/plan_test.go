package replicas

import (
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var now = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

type pod struct {
	name, node, cost string
	phase            v1.PodPhase
	ready            time.Duration // for how long; 0 is not ready
	restarts         int32
	age              time.Duration
}

func (p pod) object() *v1.Pod {
	out := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: p.name, CreationTimestamp: metav1.NewTime(now.Add(-p.age))}, Spec: v1.PodSpec{NodeName: p.node}}
	out.Status.Phase = p.phase
	if p.cost != "" {
		out.Annotations = map[string]string{deletionCost: p.cost}
	}
	if p.ready > 0 {
		out.Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(-p.ready))}}
	}
	out.Status.ContainerStatuses = []v1.ContainerStatus{{RestartCount: p.restarts}}
	return out
}

// Each rule of the documented order decides between two pods that are equal by the rules before it.
func TestGoFirst(t *testing.T) {
	const run = v1.PodRunning
	for _, c := range []struct {
		rule string
		pods []pod // the first goes first
	}{
		{"not bound", []pod{{name: "b", phase: v1.PodPending}, {name: "a", node: "n", phase: v1.PodPending}}},
		{"phase", []pod{{name: "c", node: "n", phase: v1.PodPending}, {name: "b", node: "n", phase: v1.PodUnknown}, {name: "a", node: "n", phase: run}}},
		{"not ready", []pod{{name: "b", node: "n", phase: run, cost: "9"}, {name: "a", node: "n", phase: run, ready: time.Hour}}},
		{"cost", []pod{{name: "b", node: "n", phase: run, ready: time.Hour, cost: "-1"}, {name: "a", node: "n", phase: run, ready: time.Hour}}},
		{"siblings", []pod{
			{name: "b", node: "full", phase: run, ready: time.Hour}, {name: "c", node: "full", phase: run, ready: time.Hour}, {name: "a", node: "n", phase: run, ready: time.Minute},
		}},
		{"ready for a shorter time", []pod{{name: "b", node: "m", phase: run, ready: time.Minute}, {name: "a", node: "n", phase: run, ready: time.Hour}}},
		{"restarts", []pod{{name: "b", node: "m", phase: run, ready: time.Hour, restarts: 3}, {name: "a", node: "n", phase: run, ready: time.Hour}}},
		{"younger", []pod{{name: "b", node: "m", phase: run, ready: time.Hour, age: 2 * time.Hour}, {name: "a", node: "n", phase: run, ready: time.Hour, age: 30 * time.Hour}}},
	} {
		var list []*v1.Pod
		var want []string
		for _, p := range c.pods {
			list = append([]*v1.Pod{p.object()}, list...)
			want = append(want, p.name)
		}
		var got []string
		for _, p := range goFirst(list, nil, now) {
			got = append(got, p.Name)
		}
		if c.rule == "siblings" {
			got, want = got[2:], want[2:]
		}
		if strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("%s: %v, want %v", c.rule, got, want)
		}
	}
}

// Pods that failed before the clock was set back hold nobody up until it has caught up.
func TestAClockThatIsSetBack(t *testing.T) {
	failed := func(ago time.Duration) (out []*v1.Pod) {
		for range freeFailures + 3 {
			out = append(out, &v1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(now.Add(-ago))}})
		}
		return out
	}
	for ago, want := range map[time.Duration]time.Duration{0: 8 * time.Second, -time.Hour: 0, time.Hour: 0} {
		if got := pause(failed(ago), 1, now); got != want {
			t.Errorf("made %s ago: %s, want %s", ago, got, want)
		}
	}
}

// The ratio is that to the youngest ready pod; of pods that are not ready nothing is told.
func TestAges(t *testing.T) {
	pod := func(age time.Duration, ready v1.ConditionStatus) *v1.Pod {
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(now.Add(-age))}}
		p.Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: ready}}
		return p
	}
	all := []*v1.Pod{pod(time.Hour, v1.ConditionTrue), pod(time.Second, v1.ConditionFalse), pod(20*time.Minute, v1.ConditionTrue)}
	if got := ages(all[:2], all, now); !slices.Equal(got, []float64{3}) {
		t.Error(got)
	}
	if got := ages(all, all, now); got != nil {
		t.Error(got)
	}
}
