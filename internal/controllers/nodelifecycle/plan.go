// Package nodelifecycle keeps a node's conditions and taints true: a node whose kubelet has fallen silent becomes Unknown, and
// every condition that should keep pods away has its taint. Taints that end pods come node by node (see Zones). The pods of a node that
// is lost are marked, since its kubelet cannot.
package nodelifecycle

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The times after which a silent kubelet counts as lost: one that has reported before, unless configured otherwise, and one that never has.
const (
	GracePeriod  = 50 * time.Second
	StartupGrace = 60 * time.Second
	// afterLease is how long a lease may have run out. By default a lease is for 40 s, which makes the grace period.
	afterLease = 10 * time.Second
)

// Grace is how long a node may be silent whose lease is for so many seconds: one that promises to speak often is missed early.
func Grace(usual time.Duration, lease *int32) time.Duration {
	if lease == nil || *lease <= 0 {
		return usual
	}
	return min(usual, time.Duration(*lease)*time.Second+afterLease)
}

// Sign is what the controller remembers of a kubelet's signs of life. Clocks of nodes are not trusted: what counts is when the
// controller saw something new.
type Sign struct {
	Lease  metav1.MicroTime // renewTime last seen
	Status v1.NodeCondition // Ready condition last seen, for its heartbeat
	At     time.Time        // when either was new
}

// Observe takes in what is there now. lease may be nil.
func (s Sign) Observe(node *v1.Node, leaseRenewed *metav1.MicroTime, now time.Time) Sign {
	ready := condition(node, v1.NodeReady)
	// What this controller wrote itself is no sign of life.
	if ready != nil && ready.Reason != statusUnknown && ready.Reason != neverUpdated && !ready.LastHeartbeatTime.Equal(&s.Status.LastHeartbeatTime) {
		s.Status, s.At = *ready, now
	}
	if leaseRenewed != nil && !leaseRenewed.Equal(&s.Lease) {
		s.Lease, s.At = *leaseRenewed, now
	}
	if s.At.IsZero() {
		s.At = now
	}
	return s
}

const (
	statusUnknown = "NodeStatusUnknown"
	neverUpdated  = "NodeStatusNeverUpdated"
)

// judged are the conditions that become Unknown with their kubelet.
var judged = []v1.NodeConditionType{v1.NodeReady, v1.NodeMemoryPressure, v1.NodeDiskPressure, v1.NodePIDPressure}

// Plan is what to change.
type Plan struct {
	Conditions []v1.NodeCondition // to set in the status; nil leaves it alone
	Taints     []v1.Taint         // all taints that the node should have, when SetTaints
	SetTaints  bool
	Held       bool              // a taint that ends pods is due, and may not come yet
	Labels     map[string]string // to set; nil leaves them alone
	LostReady  bool              // Ready has just stopped being True
	Lost       bool              // its kubelet cannot tell of its pods
	Again      time.Duration     // when silence would change something; 0 for never
}

// Execute says what becomes of the taints that end pods.
type Execute int

const (
	// Hold lets no such taint come to a node that has none of them.
	Hold Execute = iota
	// Allow lets it come.
	Allow
	// Forgive takes them off.
	Forgive
)

// Decide is the whole controller for one node. grace is how long a kubelet that has reported may be silent.
func Decide(node *v1.Node, sign Sign, grace time.Duration, execute Execute, now time.Time) Plan {
	var p Plan
	conditions := node.Status.Conditions
	ready := condition(node, v1.NodeReady)
	since := sign.At
	if ready == nil {
		grace = StartupGrace
	}
	switch silent := now.Sub(since); {
	case silent >= grace:
		p.Conditions = unknown(node, now)
		if p.Conditions != nil {
			conditions = merge(conditions, p.Conditions)
			p.LostReady = ready != nil && ready.Status == v1.ConditionTrue
		}
	default:
		p.Again = grace - silent
	}
	p.Taints, p.Held = taints(node, conditions, execute, now)
	p.SetTaints = !sameTaints(p.Taints, node.Spec.Taints)
	p.Labels = labels(node)
	p.Lost = slices.ContainsFunc(conditions, func(c v1.NodeCondition) bool { return c.Type == v1.NodeReady && c.Status == v1.ConditionUnknown })
	return p
}

// labels are those of old names that should say what those of today's say.
func labels(node *v1.Node) (out map[string]string) {
	for today, old := range map[string]string{v1.LabelOSStable: "beta.kubernetes.io/os", v1.LabelArchStable: "beta.kubernetes.io/arch"} {
		value, ok := node.Labels[today]
		if was, had := node.Labels[old]; !ok || had && was == value {
			continue
		}
		if out == nil {
			out = map[string]string{}
		}
		out[old] = value
	}
	return out
}

// unknown are the conditions of a silent kubelet that are not Unknown yet.
func unknown(node *v1.Node, now time.Time) (out []v1.NodeCondition) {
	for _, kind := range judged {
		old := condition(node, kind)
		switch {
		case old == nil:
			out = append(out, v1.NodeCondition{
				Type: kind, Status: v1.ConditionUnknown, Reason: neverUpdated, Message: "Kubelet never posted node status.",
				LastHeartbeatTime: node.CreationTimestamp, LastTransitionTime: metav1.NewTime(now),
			})
		case old.Status != v1.ConditionUnknown:
			c := *old
			c.Status, c.Reason, c.Message = v1.ConditionUnknown, statusUnknown, "Kubelet stopped posting node status."
			c.LastTransitionTime = metav1.NewTime(now)
			out = append(out, c)
		}
	}
	return out
}

func merge(have, set []v1.NodeCondition) []v1.NodeCondition {
	out := slices.Clone(have)
	for _, c := range set {
		if i := slices.IndexFunc(out, func(x v1.NodeCondition) bool { return x.Type == c.Type }); i >= 0 {
			out[i] = c
		} else {
			out = append(out, c)
		}
	}
	return out
}

func condition(node *v1.Node, kind v1.NodeConditionType) *v1.NodeCondition {
	for i := range node.Status.Conditions {
		if node.Status.Conditions[i].Type == kind {
			return &node.Status.Conditions[i]
		}
	}
	return nil
}

// ours are the taints that this controller sets and removes, with the condition and status that call for each.
var ours = []struct {
	key    string
	effect v1.TaintEffect
	when   v1.NodeConditionType
	is     v1.ConditionStatus
}{
	{v1.TaintNodeNotReady, v1.TaintEffectNoSchedule, v1.NodeReady, v1.ConditionFalse},
	{v1.TaintNodeNotReady, v1.TaintEffectNoExecute, v1.NodeReady, v1.ConditionFalse},
	{v1.TaintNodeUnreachable, v1.TaintEffectNoSchedule, v1.NodeReady, v1.ConditionUnknown},
	{v1.TaintNodeUnreachable, v1.TaintEffectNoExecute, v1.NodeReady, v1.ConditionUnknown},
	{v1.TaintNodeMemoryPressure, v1.TaintEffectNoSchedule, v1.NodeMemoryPressure, v1.ConditionTrue},
	{v1.TaintNodeDiskPressure, v1.TaintEffectNoSchedule, v1.NodeDiskPressure, v1.ConditionTrue},
	{v1.TaintNodePIDPressure, v1.TaintEffectNoSchedule, v1.NodePIDPressure, v1.ConditionTrue},
	{v1.TaintNodeNetworkUnavailable, v1.TaintEffectNoSchedule, v1.NodeNetworkUnavailable, v1.ConditionTrue},
}

// taints are those that the node should have: others' untouched and in front, ours by the conditions. A taint that stays keeps its
// time. held says that one of those that end pods is due and was not allowed.
func taints(node *v1.Node, conditions []v1.NodeCondition, execute Execute, now time.Time) (out []v1.Taint, held bool) {
	wanted, held := wantedTaints(node, conditions, execute)
	isOurs := map[taintID]bool{{v1.TaintNodeUnschedulable, v1.TaintEffectNoSchedule}: true}
	for _, o := range ours {
		isOurs[taintID{o.key, o.effect}] = true
	}
	have := map[taintID]bool{}
	for _, t := range node.Spec.Taints {
		if id := (taintID{t.Key, t.Effect}); !isOurs[id] || slices.Contains(wanted, id) {
			out = append(out, t)
			have[id] = true
		}
	}
	at := metav1.NewTime(now)
	for _, id := range wanted {
		if !have[id] {
			out = append(out, v1.Taint{Key: id.key, Effect: id.effect, TimeAdded: &at})
		}
	}
	return out, held
}

type taintID struct {
	key    string
	effect v1.TaintEffect
}

// wantedTaints are ours that the conditions call for.
func wantedTaints(node *v1.Node, conditions []v1.NodeCondition, execute Execute) (wanted []taintID, held bool) {
	status := map[v1.NodeConditionType]v1.ConditionStatus{}
	for _, c := range conditions {
		status[c.Type] = c.Status
	}
	// Whose pods are being ended already does not wait again when Unknown becomes False, or the reverse.
	ending := slices.ContainsFunc(node.Spec.Taints, func(t v1.Taint) bool {
		return t.Effect == v1.TaintEffectNoExecute && (t.Key == v1.TaintNodeNotReady || t.Key == v1.TaintNodeUnreachable)
	})
	for _, o := range ours {
		if status[o.when] != o.is {
			continue
		}
		switch {
		case o.effect != v1.TaintEffectNoExecute, execute == Allow, execute == Hold && ending:
			wanted = append(wanted, taintID{o.key, o.effect})
		case execute == Hold:
			held = true
		}
	}
	// A new node carries not-ready from its admission on until it says that it is ready.
	if _, reported := status[v1.NodeReady]; !reported {
		wanted = append(wanted, taintID{v1.TaintNodeNotReady, v1.TaintEffectNoSchedule})
	}
	if node.Spec.Unschedulable {
		wanted = append(wanted, taintID{v1.TaintNodeUnschedulable, v1.TaintEffectNoSchedule})
	}
	return wanted, held
}

func sameTaints(a, b []v1.Taint) bool {
	return slices.EqualFunc(a, b, func(x, y v1.Taint) bool { return x.MatchTaint(&y) && x.Value == y.Value })
}
