package explain_test

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"podo.dev/podo/internal/explain"
)

func object(kind, name string) (metav1.TypeMeta, metav1.ObjectMeta) {
	return metav1.TypeMeta{Kind: kind}, metav1.ObjectMeta{Namespace: "ns", Name: name, Generation: 2}
}

func named(name string, p *v1.Pod) explain.Facts {
	p.Name = name
	return explain.Facts{Pod: p, Nodes: []*v1.Node{node(v1.ConditionTrue)}, Now: now}
}

func isReady(p *v1.Pod) {
	p.Status.Phase = v1.PodRunning
	p.Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue, LastTransitionTime: metav1.NewTime(start)}}
	p.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "a", Ready: true, State: v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: metav1.NewTime(start)}}}}
}

func hasNoImage(p *v1.Pod) {
	p.Status.Phase = v1.PodPending
	p.Spec.Containers = []v1.Container{{Name: "a", Image: "nowhere:1"}}
	p.Status.ContainerStatuses = []v1.ContainerStatus{waiting("a", "ImagePullBackOff", `Back-off pulling image "nowhere:1"`)}
}

// A rollout that is stuck: what the Deployment says, what is wrong with its newest pods, told once, and that the old ones are well.
func TestAStuckRollout(t *testing.T) {
	three := int32(3)
	d := &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: &three}, Status: appsv1.DeploymentStatus{
		ObservedGeneration: 2, UpdatedReplicas: 2, AvailableReplicas: 3,
		Conditions: []appsv1.DeploymentCondition{
			{Type: appsv1.DeploymentProgressing, Status: v1.ConditionFalse, Reason: "ProgressDeadlineExceeded", Message: `ReplicaSet "web-2" has timed out progressing.`},
		},
	}}
	d.TypeMeta, d.ObjectMeta = object("Deployment", "web")
	set := func(name string, wanted, ready int32) *appsv1.ReplicaSet {
		rs := &appsv1.ReplicaSet{Spec: appsv1.ReplicaSetSpec{Replicas: &wanted}, Status: appsv1.ReplicaSetStatus{ObservedGeneration: 2, ReadyReplicas: ready}}
		rs.TypeMeta, rs.ObjectMeta = object("ReplicaSet", name)
		return rs
	}
	o := explain.Owner{Object: d, Now: now, Children: []explain.Owner{
		{Object: set("web-0", 0, 0), Now: now},
		{Object: set("web-1", 3, 3), Now: now, Pods: []explain.Facts{named("web-1-c", pod(isReady)), named("web-1-a", pod(isReady)), named("web-1-b", pod(isReady))}},
		{Object: set("web-2", 2, 0), Now: now, Pods: []explain.Facts{named("web-2-y", pod(hasNoImage)), named("web-2-x", pod(hasNoImage))}},
	}}
	got := explain.Of(o).Text(now)
	inOrder(t, got,
		"Deployment ns/web has 3 of 3 replicas available, 2 of the newest template.", "ReplicaSet \"web-2\" has timed out progressing.", "rollout undo -n ns deployment/web",
		"\n  ReplicaSet ns/web-2 has 0 of 2 pods ready.", "\n    Pod ns/web-2-x", "nowhere:1", "Same web-2-y",
		"\n  ReplicaSet ns/web-1 has 3 of 3 pods ready.", "\n    Pod ns/web-1-a", "Same web-1-b, web-1-c",
	)
	if strings.Contains(got, "web-0") {
		t.Errorf("an old set without pods is told of:\n%s", got)
	}
}

// Pods that are not as they should be come first, however many are well.
func TestTheSickComeFirst(t *testing.T) {
	wanted := int32(8)
	rs := &appsv1.ReplicaSet{Spec: appsv1.ReplicaSetSpec{Replicas: &wanted}, Status: appsv1.ReplicaSetStatus{ObservedGeneration: 2, ReadyReplicas: 7}}
	rs.TypeMeta, rs.ObjectMeta = object("ReplicaSet", "r")
	o := explain.Owner{Object: rs, Now: now}
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		o.Pods = append(o.Pods, named(name, pod(isReady)))
	}
	o.Pods = append(o.Pods, named("z", pod(hasNoImage)))
	inOrder(t, explain.Of(o).Text(now), "7 of 8 pods ready", "Pod ns/z", "Pod ns/a", "Same b, c, d, e, f and 1 more")
}

func TestOwners(t *testing.T) {
	one, three, yes := int32(1), int32(3), true
	warning := &v1.Event{Type: v1.EventTypeWarning, Message: `Error creating: pods "w-" is forbidden: exceeded quota: q`, LastTimestamp: metav1.NewTime(now.Add(-time.Minute))}
	for _, c := range []struct {
		name string
		obj  runtime.Object
		want []string
	}{
		{"not looked at", &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: &one}, Status: appsv1.DeploymentStatus{ObservedGeneration: 1}}, []string{"its controller has not looked at it yet"}},
		{
			"paused", &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: &one, Paused: true}, Status: appsv1.DeploymentStatus{ObservedGeneration: 2, AvailableReplicas: 1}},
			[]string{"and is paused", "rollout resume"},
		},
		{
			"quota", &appsv1.ReplicaSet{Spec: appsv1.ReplicaSetSpec{Replicas: &three}, Status: appsv1.ReplicaSetStatus{ObservedGeneration: 2, Conditions: []appsv1.ReplicaSetCondition{
				{Type: appsv1.ReplicaSetReplicaFailure, Status: v1.ConditionTrue, Reason: "FailedCreate", Message: "exceeded quota: q"},
			}}},
			[]string{"has 0 of 3 pods ready.", "exceeded quota: q", "podo kubectl edit quota -n ns q"},
		},
		{
			"told by an event alone", &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Replicas: &three}, Status: appsv1.StatefulSetStatus{ObservedGeneration: 2}},
			[]string{"has 0 of 3 pods ready", "one after the other", "Its controller said at 03:08:05: Error creating"},
		},
		{"no node", &appsv1.DaemonSet{Status: appsv1.DaemonSetStatus{ObservedGeneration: 2}}, []string{"is for no node there is"}},
		{
			"failed job", &batchv1.Job{Spec: batchv1.JobSpec{Completions: &three}, Status: batchv1.JobStatus{Succeeded: 1, Failed: 2, Conditions: []batchv1.JobCondition{
				{Type: batchv1.JobFailed, Status: v1.ConditionTrue, Reason: "BackoffLimitExceeded", Message: "Job has reached the specified backoff limit", LastTransitionTime: metav1.NewTime(start)},
			}}},
			[]string{"has failed: 1 of 3 succeeded, 2 failed, 0 active since 03:04:05", "BackoffLimitExceeded", "logs -n ns job/w"},
		},
		{"suspended", &batchv1.CronJob{Spec: batchv1.CronJobSpec{Suspend: &yes}}, []string{"is suspended", "patch cronjob -n ns w -p '{\"spec\":{\"suspend\":false}}'"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := c.obj.(metav1.Object)
			m.SetNamespace("ns")
			m.SetName("w")
			m.SetGeneration(2)
			inOrder(t, explain.Of(explain.Owner{Object: c.obj, Warnings: []*v1.Event{warning}, Now: now}).Text(now), c.want...)
		})
	}
	if explain.Owns(&v1.ConfigMap{}) {
		t.Error("a ConfigMap has no pods")
	}
}

// inOrder checks that a text has the given parts, one after the other.
func inOrder(t *testing.T, text string, parts ...string) {
	t.Helper()
	rest := text
	for _, p := range parts {
		i := strings.Index(rest, p)
		if i < 0 {
			t.Fatalf("%q is missing or too early in:\n%s", p, text)
		}
		rest = rest[i+len(p):]
	}
}

// A StatefulSet that does not come forward: what its condition says of a rollout, and what is wrong with its first pod also when there is no
// rollout, but a first template that can never run.
func TestAStuckStatefulSet(t *testing.T) {
	three := int32(3)
	set := func(conditions ...appsv1.StatefulSetCondition) *appsv1.StatefulSet {
		s := &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Replicas: &three}, Status: appsv1.StatefulSetStatus{
			ObservedGeneration: 2, ReadyReplicas: 2, CurrentRevision: "old", UpdateRevision: "new", Conditions: conditions,
		}}
		s.TypeMeta, s.ObjectMeta = object("StatefulSet", "db")
		return s
	}
	stuck := appsv1.StatefulSetCondition{
		Type: "Progressing", Status: v1.ConditionFalse, Reason: "RolloutStuck", Message: `Pod "db-2" of revision "new" has not been available for 10m0s.`,
	}
	o := explain.Owner{Object: set(stuck), Now: now, Pods: []explain.Facts{named("db-0", pod(isReady)), named("db-1", pod(isReady)), named("db-2", pod(hasNoImage))}}
	inOrder(t, explain.Of(o).Text(now), "StatefulSet ns/db has 2 of 3 pods ready", `Pod "db-2" of revision "new" has not been available for 10m0s.`,
		"rollout undo -n ns statefulset/db", "\n  Pod ns/db-2", "nowhere:1", "\n  Pod ns/db-0")

	first := set()
	first.Status.ReadyReplicas, first.Status.CurrentRevision = 0, "new"
	o = explain.Owner{Object: first, Now: now, Pods: []explain.Facts{named("db-0", pod(hasNoImage))}}
	inOrder(t, explain.Of(o).Text(now), "StatefulSet ns/db has 0 of 3 pods ready", "one after the other", "\n  Pod ns/db-0", "nowhere:1")
}
