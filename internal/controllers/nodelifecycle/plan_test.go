package nodelifecycle

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func show(taints []v1.Taint) string {
	var out []string
	for _, t := range taints {
		out = append(out, strings.TrimPrefix(t.Key, "node.kubernetes.io/")+":"+string(t.Effect))
	}
	return strings.Join(out, " ")
}

func TestTaintsFollowConditions(t *testing.T) {
	cond := func(kind v1.NodeConditionType, s v1.ConditionStatus) v1.NodeCondition {
		return v1.NodeCondition{Type: kind, Status: s}
	}
	notReady := v1.Taint{Key: v1.TaintNodeNotReady, Effect: v1.TaintEffectNoSchedule}
	theirs := v1.Taint{Key: "dedicated", Value: "x", Effect: v1.TaintEffectNoSchedule}
	for _, c := range []struct {
		name       string
		conditions []v1.NodeCondition
		taints     []v1.Taint
		cordoned   bool
		want       string
	}{
		{"new node that has said nothing", nil, []v1.Taint{notReady}, false, "not-ready:NoSchedule"},
		{"ready", []v1.NodeCondition{cond(v1.NodeReady, v1.ConditionTrue)}, []v1.Taint{notReady}, false, ""},
		{"ready, others' taints stay", []v1.NodeCondition{cond(v1.NodeReady, v1.ConditionTrue)}, []v1.Taint{notReady, theirs}, false, "dedicated:NoSchedule"},
		{"not ready", []v1.NodeCondition{cond(v1.NodeReady, v1.ConditionFalse)}, nil, false, "not-ready:NoSchedule not-ready:NoExecute"},
		{"silent", []v1.NodeCondition{cond(v1.NodeReady, v1.ConditionUnknown)}, []v1.Taint{notReady, theirs}, false, "dedicated:NoSchedule unreachable:NoSchedule unreachable:NoExecute"},
		{"pressure", []v1.NodeCondition{cond(v1.NodeReady, v1.ConditionTrue), cond(v1.NodeMemoryPressure, v1.ConditionTrue), cond(v1.NodeDiskPressure, v1.ConditionTrue), cond(v1.NodePIDPressure, v1.ConditionTrue)}, nil, false, "memory-pressure:NoSchedule disk-pressure:NoSchedule pid-pressure:NoSchedule"},
		{"no network", []v1.NodeCondition{cond(v1.NodeReady, v1.ConditionTrue), cond(v1.NodeNetworkUnavailable, v1.ConditionTrue)}, nil, false, "network-unavailable:NoSchedule"},
		{"cordoned", []v1.NodeCondition{cond(v1.NodeReady, v1.ConditionTrue)}, nil, true, "unschedulable:NoSchedule"},
		{"uncordoned", []v1.NodeCondition{cond(v1.NodeReady, v1.ConditionTrue)}, []v1.Taint{{Key: v1.TaintNodeUnschedulable, Effect: v1.TaintEffectNoSchedule}}, false, ""},
	} {
		node := &v1.Node{Spec: v1.NodeSpec{Taints: c.taints, Unschedulable: c.cordoned}, Status: v1.NodeStatus{Conditions: c.conditions}}
		p := Decide(node, Sign{At: start}, GracePeriod, Allow, start)
		if got := show(p.Taints); got != c.want {
			t.Errorf("%s: taints %q, want %q", c.name, got, c.want)
		}
		if p.SetTaints != (show(c.taints) != c.want) {
			t.Errorf("%s: write %v", c.name, p.SetTaints)
		}
	}
}

func TestSilenceIsJudgedByTheControllersClock(t *testing.T) {
	renew := metav1.NewMicroTime(start.Add(-time.Hour)) // a node whose clock is wrong
	ready := v1.NodeCondition{Type: v1.NodeReady, Status: v1.ConditionTrue, LastHeartbeatTime: metav1.NewTime(start.Add(-time.Hour))}
	node := &v1.Node{Status: v1.NodeStatus{Conditions: []v1.NodeCondition{ready}}}
	sign := Sign{}.Observe(node, &renew, start)
	if p := Decide(node, sign, GracePeriod, Allow, start.Add(GracePeriod-time.Second)); p.Conditions != nil || p.Again != time.Second {
		t.Fatalf("judged early: %+v", p)
	}
	// A renewed lease is a sign of life.
	renew = metav1.NewMicroTime(renew.Add(10 * time.Second))
	again := sign.Observe(node, &renew, start.Add(10*time.Second))
	if p := Decide(node, again, GracePeriod, Allow, start.Add(GracePeriod)); p.Conditions != nil {
		t.Fatalf("a node that renews its lease is lost: %+v", p)
	}
	p := Decide(node, sign, GracePeriod, Allow, start.Add(GracePeriod))
	if len(p.Conditions) != 4 || !p.LostReady || !p.SetTaints {
		t.Fatalf("not judged: %+v", p)
	}
	c := p.Conditions[0]
	if c.Status != v1.ConditionUnknown || c.Reason != "NodeStatusUnknown" || c.Message != "Kubelet stopped posting node status." || !c.LastHeartbeatTime.Equal(&ready.LastHeartbeatTime) {
		t.Errorf("ready is %+v", c)
	}
	if c := p.Conditions[1]; c.Reason != "NodeStatusNeverUpdated" || c.Message != "Kubelet never posted node status." {
		t.Errorf("a condition that never was: %+v", c)
	}
}

// Carried out, a plan leaves nothing to do until something new happens; and others' taints are never touched.
func TestDecideIsStable(t *testing.T) {
	status := rapid.SampledFrom([]v1.ConditionStatus{v1.ConditionTrue, v1.ConditionFalse, v1.ConditionUnknown})
	kinds := []v1.NodeConditionType{v1.NodeReady, v1.NodeMemoryPressure, v1.NodeDiskPressure, v1.NodePIDPressure, v1.NodeNetworkUnavailable}
	keys := []string{v1.TaintNodeNotReady, v1.TaintNodeUnreachable, v1.TaintNodeUnschedulable, v1.TaintNodeDiskPressure, "theirs/a", "theirs/b"}
	effects := rapid.SampledFrom([]v1.TaintEffect{v1.TaintEffectNoSchedule, v1.TaintEffectNoExecute, v1.TaintEffectPreferNoSchedule})
	rapid.Check(t, func(t *rapid.T) {
		node := &v1.Node{Spec: v1.NodeSpec{Unschedulable: rapid.Bool().Draw(t, "cordoned")}}
		for _, k := range kinds {
			if rapid.Bool().Draw(t, string(k)) {
				node.Status.Conditions = append(node.Status.Conditions, v1.NodeCondition{Type: k, Status: status.Draw(t, "status")})
			}
		}
		theirs := map[string]bool{}
		for _, k := range keys {
			if rapid.Bool().Draw(t, k) {
				taint := v1.Taint{Key: k, Effect: effects.Draw(t, "effect")}
				node.Spec.Taints = append(node.Spec.Taints, taint)
				if strings.HasPrefix(k, "theirs/") || taint.Effect == v1.TaintEffectPreferNoSchedule {
					theirs[taint.ToString()] = true
				}
			}
		}
		now := start.Add(time.Duration(rapid.IntRange(0, 100).Draw(t, "silent")) * time.Second)
		sign := Sign{At: start}
		execute := rapid.SampledFrom([]Execute{Hold, Allow, Forgive}).Draw(t, "execute")
		p := Decide(node, sign, GracePeriod, execute, now)
		node.Status.Conditions = merge(node.Status.Conditions, p.Conditions)
		node.Spec.Taints = p.Taints
		for _, taint := range p.Taints {
			delete(theirs, taint.ToString())
		}
		if len(theirs) > 0 {
			t.Fatalf("lost %v", theirs)
		}
		if again := Decide(node, sign, GracePeriod, execute, now); again.Conditions != nil || again.SetTaints {
			t.Fatalf("not stable: %s", fmt.Sprint(again))
		}
	})
}

// Taints that end pods wait for their turn, change without one, and go when they are forgiven.
func TestTaintsThatEndPodsWait(t *testing.T) {
	const both = "unreachable:NoSchedule unreachable:NoExecute"
	silent := []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionUnknown}}
	notReady := []v1.Taint{{Key: v1.TaintNodeNotReady, Effect: v1.TaintEffectNoExecute}}
	for _, c := range []struct {
		name    string
		had     []v1.Taint
		execute Execute
		want    string
		held    bool
	}{
		{"not yet", nil, Hold, "unreachable:NoSchedule", true},
		{"now", nil, Allow, both, false},
		{"its pods are being ended already", notReady, Hold, both, false},
		{"forgiven", notReady, Forgive, "unreachable:NoSchedule", false},
	} {
		node := &v1.Node{Spec: v1.NodeSpec{Taints: c.had}, Status: v1.NodeStatus{Conditions: silent}}
		p := Decide(node, Sign{At: start}, GracePeriod, c.execute, start)
		if got := show(p.Taints); got != c.want || p.Held != c.held || !p.Lost {
			t.Errorf("%s: %q, held %v, lost %v", c.name, got, p.Held, p.Lost)
		}
	}
}

func TestGrace(t *testing.T) {
	for lease, want := range map[int32]time.Duration{0: 50 * time.Second, 4: 14 * time.Second, 40: 50 * time.Second, 400: 50 * time.Second} {
		if got := Grace(GracePeriod, &lease); got != want {
			t.Errorf("a lease of %d s: %s, want %s", lease, got, want)
		}
	}
	if got := Grace(GracePeriod, nil); got != GracePeriod {
		t.Errorf("no lease: %s", got)
	}
}

func TestOldLabelsFollow(t *testing.T) {
	node := &v1.Node{}
	node.Labels = map[string]string{v1.LabelOSStable: "linux", v1.LabelArchStable: "amd64", "beta.kubernetes.io/os": "windows"}
	p := Decide(node, Sign{At: start}, GracePeriod, Hold, start)
	if fmt.Sprint(p.Labels) != "map[beta.kubernetes.io/arch:amd64 beta.kubernetes.io/os:linux]" {
		t.Errorf("%v", p.Labels)
	}
	for k, v := range p.Labels {
		node.Labels[k] = v
	}
	if p := Decide(node, Sign{At: start}, GracePeriod, Hold, start); p.Labels != nil {
		t.Errorf("not stable: %v", p.Labels)
	}
}
