package status

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"podo.dev/podo/internal/podlife"
)

var t0 = metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))

func after(s int) metav1.Time { return metav1.NewTime(t0.Add(time.Duration(s) * time.Second)) }

func cond(t v1.PodConditionType, s v1.ConditionStatus, at metav1.Time) v1.PodCondition {
	return v1.PodCondition{Type: t, Status: s, LastTransitionTime: at}
}

func TestForeignFieldsAndConditionsStay(t *testing.T) {
	api := &v1.PodStatus{
		NominatedNodeName: "n", QOSClass: v1.PodQOSBurstable,
		ResourceClaimStatuses: []v1.PodResourceClaimStatus{{Name: "c"}},
		Conditions: []v1.PodCondition{
			cond(v1.PodScheduled, v1.ConditionTrue, t0), cond("example.com/gate", v1.ConditionTrue, t0),
			cond(v1.PodResizePending, v1.ConditionTrue, t0), cond(v1.DisruptionTarget, v1.ConditionTrue, t0),
		},
	}
	next := phase(v1.PodRunning, v1.ConditionTrue)
	next.Conditions = append(next.Conditions, cond("example.com/gate", v1.ConditionFalse, after(-1)), cond("example.com/gone", v1.ConditionTrue, t0))
	got, changed := merge(api, next, pod("a"), after(9))
	if !changed || got.NominatedNodeName != "n" || got.QOSClass != v1.PodQOSBurstable || len(got.ResourceClaimStatuses) != 1 {
		t.Errorf("%+v", got)
	}
	var names []string
	for _, c := range got.Conditions {
		names = append(names, string(c.Type))
		if c.Type == "example.com/gate" && c.Status != v1.ConditionTrue {
			t.Error("an older form of another's condition took its place")
		}
	}
	if s := strings.Join(names, " "); s != "PodScheduled example.com/gate DisruptionTarget Ready" {
		t.Errorf("conditions %s: the kubelet's that it no longer reports must go, all others stay, before it", s)
	}
}

// A static pod's mirror shows its next life, and no other pod leaves its terminal phase.
func TestAStaticPodsNextLife(t *testing.T) {
	api := &v1.PodStatus{Phase: v1.PodFailed, Reason: "Removed", StartTime: &t0}
	next := phase(v1.PodRunning, v1.ConditionTrue)
	mine := pod("a")
	mine.Annotations = map[string]string{podlife.SourceAnnotation: "file", podlife.HashAnnotation: "h"}
	for _, c := range []struct {
		pod     *v1.Pod
		started time.Duration
		want    v1.PodPhase
	}{{mine, 5 * time.Second, v1.PodRunning}, {mine, 900 * time.Millisecond, v1.PodFailed}, {pod("a"), 5 * time.Second, v1.PodFailed}} {
		next.StartTime = new(metav1.NewTime(t0.Add(c.started)))
		if got, _ := merge(api, next, c.pod, after(9)); got.Phase != c.want || (got.Reason == "") != (c.want == v1.PodRunning) {
			t.Errorf("started %s later: %s %s, want %s", c.started, got.Phase, got.Reason, c.want)
		}
	}
}

func TestTransitionTimes(t *testing.T) {
	api := &v1.PodStatus{Conditions: []v1.PodCondition{cond(v1.PodReady, v1.ConditionTrue, t0), cond(v1.PodInitialized, v1.ConditionFalse, t0)}}
	next := v1.PodStatus{Conditions: []v1.PodCondition{
		cond(v1.PodReady, v1.ConditionTrue, after(5)),       // same status: the old time stays
		cond(v1.PodInitialized, v1.ConditionTrue, after(6)), // turned: its own time
		cond(v1.ContainersReady, v1.ConditionFalse, metav1.Time{}),
	}}
	got, _ := merge(api, next, pod("a"), after(9))
	for typ, want := range map[v1.PodConditionType]metav1.Time{v1.PodReady: t0, v1.PodInitialized: after(6), v1.ContainersReady: after(9)} {
		if c := find(got.Conditions, typ); !c.LastTransitionTime.Equal(&want) {
			t.Errorf("%s at %v, want %v", typ, c.LastTransitionTime, want)
		}
	}
	next.Conditions[0] = cond(v1.PodReady, v1.ConditionFalse, t0) // turned, with a time that cannot be
	if got, _ = merge(api, next, pod("a"), after(9)); !got.Conditions[0].LastTransitionTime.Equal(new(after(9))) {
		t.Errorf("a turned condition kept the time %v", got.Conditions[0].LastTransitionTime)
	}
}

func TestTerminalPhaseIsFinal(t *testing.T) {
	api := &v1.PodStatus{Phase: v1.PodFailed, Reason: "NodeLost", Message: "m"}
	for _, p := range []v1.PodPhase{v1.PodRunning, v1.PodPending, v1.PodSucceeded} {
		got, _ := merge(api, v1.PodStatus{Phase: p}, pod("a"), t0)
		if got.Phase != v1.PodFailed || got.Reason != "NodeLost" || got.Message != "m" {
			t.Errorf("%s made it %+v", p, got)
		}
	}
}

func TestDisruptionTargetComesWithTheTerminalPhase(t *testing.T) {
	next := v1.PodStatus{Phase: v1.PodRunning, Conditions: []v1.PodCondition{
		{Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: "TerminationByKubelet"},
	}}
	if got, _ := merge(&v1.PodStatus{}, next, pod("a"), t0); len(got.Conditions) != 0 {
		t.Error("written while the pod runs")
	}
	next.Phase = v1.PodFailed
	got, _ := merge(&v1.PodStatus{Phase: v1.PodRunning}, next, pod("a"), t0)
	if len(got.Conditions) != 1 || got.Conditions[0].Reason != "TerminationByKubelet" {
		t.Errorf("%+v", got.Conditions)
	}
}

// The generation that a condition was told of is filled in, but for the one of which upstream's kubelet says none.
func TestGenerationsOfConditions(t *testing.T) {
	next := phase(v1.PodRunning, v1.ConditionTrue)
	next.ObservedGeneration = 7
	next.Conditions = append(next.Conditions, v1.PodCondition{Type: v1.AllContainersRestarting, Status: v1.ConditionFalse})
	got, _ := merge(&v1.PodStatus{}, next, pod("a"), t0)
	for _, c := range got.Conditions {
		want := int64(7)
		if c.Type == v1.AllContainersRestarting {
			want = 0
		}
		if c.ObservedGeneration != want {
			t.Errorf("%s: %d, want %d", c.Type, c.ObservedGeneration, want)
		}
	}
}

// A static pod has no generation, whatever that of its mirror is: none is told.
func TestAStaticPodHasNoGeneration(t *testing.T) {
	for _, source := range []string{"api", "file"} {
		p := pod("a")
		p.Generation = 3
		p.Annotations = map[string]string{podlife.SourceAnnotation: source, podlife.HashAnnotation: "x"}
		got := normalized(phase(v1.PodRunning, v1.ConditionTrue), p)
		if want := map[string]int64{"api": 3, "file": 0}[source]; got.ObservedGeneration != want {
			t.Errorf("%s: %d", source, got.ObservedGeneration)
		}
	}
}

func TestReadinessGates(t *testing.T) {
	p := pod("a")
	p.Spec.ReadinessGates = []v1.PodReadinessGate{{ConditionType: "x"}, {ConditionType: "y"}}
	api := &v1.PodStatus{Conditions: []v1.PodCondition{cond("y", v1.ConditionFalse, t0)}}
	got, _ := merge(api, phase(v1.PodRunning, v1.ConditionTrue), p, t0)
	ready := find(got.Conditions, v1.PodReady)
	want := `corresponding condition of pod readiness gate "x" does not exist., the status of pod readiness gate "y" is not "True", but False`
	if ready.Status != v1.ConditionFalse || ready.Reason != "ReadinessGatesNotReady" || ready.Message != want {
		t.Errorf("%+v", ready)
	}
	api.Conditions = []v1.PodCondition{cond("y", v1.ConditionTrue, t0), cond("x", v1.ConditionTrue, t0)}
	got, _ = merge(api, phase(v1.PodRunning, v1.ConditionTrue), p, t0)
	if find(got.Conditions, v1.PodReady).Status != v1.ConditionTrue {
		t.Error("not ready although every gate is open")
	}
}

func TestNormalForm(t *testing.T) {
	p := pod("a")
	p.Spec.InitContainers = []v1.Container{{Name: "z"}, {Name: "b"}}
	p.Spec.Containers = []v1.Container{{Name: "y"}, {Name: "c"}}
	odd := metav1.NewTime(t0.Add(123 * time.Millisecond))
	next := v1.PodStatus{
		StartTime:             &odd,
		InitContainerStatuses: []v1.ContainerStatus{{Name: "b"}, {Name: "z"}},
		ContainerStatuses: []v1.ContainerStatus{{Name: "y"}, {Name: "c", State: v1.ContainerState{
			Terminated: &v1.ContainerStateTerminated{FinishedAt: odd, Message: strings.Repeat("포", 4000)},
		}}},
	}
	got, _ := merge(&v1.PodStatus{}, next, p, t0)
	end := got.ContainerStatuses[0].State.Terminated
	if got.ContainerStatuses[0].Name != "c" || got.InitContainerStatuses[0].Name != "z" || !got.StartTime.Equal(&t0) || !end.FinishedAt.Equal(&t0) {
		t.Errorf("%+v", got)
	}
	if len(end.Message) != 3072 || !strings.HasSuffix(end.Message, "포") {
		t.Errorf("message of %d bytes", len(end.Message))
	}
	if got.ObservedGeneration != 1 || !next.StartTime.Equal(&odd) {
		t.Error("observed generation, or the caller's status was changed")
	}
}

// A merge is done when it is done: merging the same report into its own result changes nothing, at any later time.
func TestMergeIsIdempotent(t *testing.T) {
	status := rapid.SampledFrom([]v1.ConditionStatus{v1.ConditionTrue, v1.ConditionFalse, v1.ConditionUnknown})
	own := []v1.PodConditionType{v1.PodReady, v1.PodInitialized, v1.PodScheduled, v1.DisruptionTarget, v1.PodResizePending}
	gen := func(types ...v1.PodConditionType) *rapid.Generator[v1.PodStatus] {
		return rapid.Custom(func(t *rapid.T) v1.PodStatus {
			s := v1.PodStatus{
				Phase:  rapid.SampledFrom([]v1.PodPhase{"", v1.PodPending, v1.PodRunning, v1.PodFailed, v1.PodSucceeded}).Draw(t, "phase"),
				Reason: rapid.SampledFrom([]string{"", "Evicted"}).Draw(t, "reason"),
			}
			for _, typ := range types {
				if rapid.Bool().Draw(t, string(typ)) {
					s.Conditions = append(s.Conditions, cond(typ, status.Draw(t, "status"), after(rapid.IntRange(-3, 3).Draw(t, "at"))))
				}
			}
			if rapid.Bool().Draw(t, "containers") {
				s.ContainerStatuses = []v1.ContainerStatus{{Name: "b"}, {Name: "a", Ready: rapid.Bool().Draw(t, "r")}}
			}
			return s
		})
	}
	rapid.Check(t, func(t *rapid.T) {
		api, next := gen(append(own, "x", "y")...).Draw(t, "api"), gen(own...).Draw(t, "next")
		p := pod("a")
		if rapid.Bool().Draw(t, "gates") {
			p.Spec.ReadinessGates = []v1.PodReadinessGate{{ConditionType: "x"}}
		}
		before := api.DeepCopy()
		once, _ := merge(&api, next, p, after(10))
		if !equality.Semantic.DeepEqual(before, &api) {
			t.Fatal("the API's status was changed in place")
		}
		if again, changed := merge(once, next, p, after(20)); changed {
			t.Fatalf("changed again:\n%+v\n%+v", once, again)
		}
		if terminal(api.Phase) && once.Phase != api.Phase {
			t.Fatalf("%s became %s", api.Phase, once.Phase)
		}
	})
}
