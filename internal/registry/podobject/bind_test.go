package podobject_test

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podo.dev/podo/internal/registry/podobject"
)

func TestBind(t *testing.T) {
	now := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	b := &v1.Binding{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"a": "b"}, Labels: map[string]string{"c": "d"}},
		Target:     v1.ObjectReference{Kind: "Node", Name: "n"},
	}
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Generation: 3}, Status: v1.PodStatus{NominatedNodeName: "m"}}
	if err := podobject.Bind(pod, b, now); err != nil {
		t.Fatal(err)
	}
	scheduled := v1.PodCondition{Type: v1.PodScheduled, Status: v1.ConditionTrue, LastTransitionTime: now}
	if pod.Spec.NodeName != "n" || pod.Status.NominatedNodeName != "" || pod.Annotations["a"] != "b" || pod.Labels["c"] != "d" ||
		pod.Generation != 3 || len(pod.Status.Conditions) != 1 || pod.Status.Conditions[0] != scheduled {
		t.Errorf("bound: %+v", pod)
	}
	for name, c := range map[string]struct {
		pod  v1.Pod
		want string
	}{
		"twice":       {*pod, `pod p is already assigned to node "n"`},
		"C25 gated":   {v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: v1.PodSpec{SchedulingGates: []v1.PodSchedulingGate{{Name: "g"}}}}, "pod p has non-empty .spec.schedulingGates"},
		"going":       {v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", DeletionTimestamp: &now}}, "pod p is being deleted, cannot be assigned to a host"},
		"going bound": {v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", DeletionTimestamp: &now}, Spec: v1.PodSpec{NodeName: "n"}}, "pod p is being deleted"},
	} {
		if err := podobject.Bind(&c.pod, b, now); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}

func TestValidateBinding(t *testing.T) {
	subdomain := apivalidation.NameIsDNSSubdomain("no node", false)[0]
	for _, c := range []struct {
		target v1.ObjectReference
		want   string
	}{
		{v1.ObjectReference{Name: "n"}, ""},
		{v1.ObjectReference{Kind: "Node", Name: "n"}, ""},
		{v1.ObjectReference{Kind: "Minion", Name: "n"}, `target.kind: Unsupported value: "Minion": supported values: "Node", "<empty>"`},
		{v1.ObjectReference{}, "target.name: Required value"},
		{v1.ObjectReference{Name: "no node"}, `target.name: Invalid value: "no node": ` + subdomain},
		{v1.ObjectReference{Kind: "Minion", Name: "no node"}, `target.kind: Unsupported value: "Minion": supported values: "Node", "<empty>"`},
	} {
		got := ""
		if err := podobject.ValidateBinding(&v1.Binding{Target: c.target}).ToAggregate(); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%+v: %q, want %q", c.target, got, c.want)
		}
	}
}

func TestRestarts(t *testing.T) {
	rule := func(op v1.ContainerRestartRuleOnExitCodesOperator, values ...int32) []v1.ContainerRestartRule {
		return []v1.ContainerRestartRule{{
			Action: v1.ContainerRestartRuleActionRestart, ExitCodes: &v1.ContainerRestartRuleOnExitCodes{Operator: op, Values: values},
		}}
	}
	own := func(p v1.ContainerRestartPolicy) *v1.ContainerRestartPolicy { return &p }
	for _, c := range []struct {
		name string
		pod  v1.RestartPolicy
		c    v1.Container
		code int32
		want bool
	}{
		{"always", v1.RestartPolicyAlways, v1.Container{}, 0, true},
		{"on failure, done", v1.RestartPolicyOnFailure, v1.Container{}, 0, false},
		{"on failure, failed", v1.RestartPolicyOnFailure, v1.Container{}, 1, true},
		{"never", v1.RestartPolicyNever, v1.Container{}, 1, false},
		{"its own", v1.RestartPolicyNever, v1.Container{RestartPolicy: own(v1.ContainerRestartPolicyOnFailure)}, 1, true},
		{"its own, done", v1.RestartPolicyAlways, v1.Container{RestartPolicy: own(v1.ContainerRestartPolicyNever)}, 0, false},
		{"rule", v1.RestartPolicyNever, v1.Container{RestartPolicy: own(v1.ContainerRestartPolicyNever), RestartPolicyRules: rule(v1.ContainerRestartRuleOnExitCodesOpIn, 3)}, 3, true},
		{"rule of another code", v1.RestartPolicyNever, v1.Container{RestartPolicy: own(v1.ContainerRestartPolicyNever), RestartPolicyRules: rule(v1.ContainerRestartRuleOnExitCodesOpIn, 3)}, 4, false},
		{"rule of all but", v1.RestartPolicyNever, v1.Container{RestartPolicy: own(v1.ContainerRestartPolicyNever), RestartPolicyRules: rule(v1.ContainerRestartRuleOnExitCodesOpNotIn, 3)}, 4, true},
	} {
		if got := podobject.Restarts(&v1.PodSpec{RestartPolicy: c.pod}, &c.c, c.code); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestQOS(t *testing.T) {
	list := func(cpu, memory string) v1.ResourceList {
		out := v1.ResourceList{}
		if cpu != "" {
			out[v1.ResourceCPU] = resource.MustParse(cpu)
		}
		if memory != "" {
			out[v1.ResourceMemory] = resource.MustParse(memory)
		}
		return out
	}
	both := v1.ResourceRequirements{Limits: list("1", "1Gi"), Requests: list("1", "1Gi")}
	for _, c := range []struct {
		name string
		spec v1.PodSpec
		want v1.PodQOSClass
	}{
		{"nothing", v1.PodSpec{Containers: []v1.Container{{}}}, v1.PodQOSBestEffort},
		{"all", v1.PodSpec{Containers: []v1.Container{{Resources: both}}}, v1.PodQOSGuaranteed},
		{"an init container without", v1.PodSpec{InitContainers: []v1.Container{{}}, Containers: []v1.Container{{Resources: both}}}, v1.PodQOSBurstable},
		{"a request", v1.PodSpec{Containers: []v1.Container{{Resources: v1.ResourceRequirements{Requests: list("1", "")}}}}, v1.PodQOSBurstable},
		{"zero", v1.PodSpec{Containers: []v1.Container{{Resources: v1.ResourceRequirements{Requests: list("0", "")}}}}, v1.PodQOSBestEffort},
		{"more limit", v1.PodSpec{Containers: []v1.Container{{Resources: v1.ResourceRequirements{Limits: list("2", "1Gi"), Requests: list("1", "1Gi")}}}}, v1.PodQOSBurstable},
		{"of the pod", v1.PodSpec{Resources: &both, Containers: []v1.Container{{}}}, v1.PodQOSGuaranteed},
	} {
		if got := podobject.ComputeQOS(&v1.Pod{Spec: c.spec}); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	if got := podobject.QOS(&v1.Pod{Status: v1.PodStatus{QOSClass: v1.PodQOSGuaranteed}}); got != v1.PodQOSGuaranteed {
		t.Errorf("recorded: %s", got)
	}
}
