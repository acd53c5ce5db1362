package explain

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	podresource "k8s.io/component-helpers/resource"
	"k8s.io/klog/v2"

	"podo.dev/podo/internal/timeline"
)

// unscheduled explains a pod without a node.
func (f Facts) unscheduled() Finding {
	p := f.Pod
	out := Finding{State: "waits for a node", Since: p.CreationTimestamp.Time}
	if len(p.Spec.SchedulingGates) > 0 {
		var names []string
		for _, g := range p.Spec.SchedulingGates {
			names = append(names, g.Name)
		}
		out.State = "is held back by scheduling gates"
		out.Why = "Whoever set them must remove them: " + strings.Join(names, ", ")
		out.Do = fmt.Sprintf("See whether that program runs. Only if it is gone for good, take them out of spec.schedulingGates: `podo kubectl edit pod -n %s %s`", p.Namespace, p.Name)
		return out
	}
	attempt, tried := f.last(timeline.Attempt, nil)
	if tried && attempt.To != "unschedulable" && (f.Nodes == nil || f.node(attempt.To) != nil) && p.Status.NominatedNodeName == attempt.To {
		out.State, out.Since = "is to go to node "+attempt.To, attempt.At
		out.Why = "What it needs there first, its volumes as a rule, is being made ready"
		out.Do = fmt.Sprintf("If this lasts, see how its claims are: `podo why -n %s pvc`", p.Namespace)
		return out
	}
	attempt, tried = f.last(timeline.Attempt, func(r timeline.Record) bool { return r.To == "unschedulable" })
	c := f.condition(v1.PodScheduled)
	if c != nil && c.Status == v1.ConditionFalse {
		out.Since = c.LastTransitionTime.Time
		out.Why = "The scheduler says: " + c.Message
	}
	if claims, mend := f.claims(); claims != "" && (tried || c != nil) {
		out.State, out.Why, out.Do = "waits for its storage", claims, mend
		return out
	}
	switch {
	case tried && attempt.Get("nominated") != "" && p.Status.NominatedNodeName != "":
		out.State = "waits for room on " + attempt.Get("nominated")
		out.Why = "Pods of lower priority have to leave for it: " + strings.ReplaceAll(attempt.Get("victims"), ",", ", ") + ". " + rejections(attempt)
		out.Do = "It is bound once they have ended, at the latest when their grace is over"
	case tried:
		out.Why = rejections(attempt)
		out.Do = f.advice(out.Why + strings.Join(keys(attempt), " "))
		out = f.closedSince(out)
	case c != nil && c.Reason == v1.PodReasonSchedulerError:
		out.Do = "The scheduler tries again by itself; its log tells more"
	case c != nil:
		out.Do = f.advice(c.Message)
		out = f.closedSince(out)
	case p.Spec.SchedulerName != "" && p.Spec.SchedulerName != v1.DefaultSchedulerName:
		out.Why = fmt.Sprintf("It asks for the scheduler %q, and none of that name has looked at it", p.Spec.SchedulerName)
		out.Do = "Start that scheduler, or leave spec.schedulerName out"
	default:
		out.Why = "The scheduler has not looked at it yet"
		out.Do = "If this lasts, see whether the scheduler runs: `podo status`"
	}
	return out
}

func keys(r timeline.Record) (out []string) {
	for _, f := range r.Fields {
		out = append(out, f.Key)
	}
	return out
}

// rejections are the grouped reasons of an attempt, with their numbers.
func rejections(r timeline.Record) string {
	var parts []string
	for _, f := range r.Fields {
		switch f.Key {
		case "try", "nodes", "nominated", "victims":
		default:
			parts = append(parts, f.Value)
		}
	}
	if len(parts) == 0 {
		return "There is no node at all"
	}
	if r.Get("nodes") == "1" {
		return "The only node does not take it: " + strings.Join(parts, "; ")
	}
	return fmt.Sprintf("None of %s nodes takes it: %s", r.Get("nodes"), strings.Join(parts, "; "))
}

// advice follows from the words of a rejection.
func (f Facts) advice(words string) string {
	var out []string
	add := func(when, what string) {
		if strings.Contains(words, when) {
			out = append(out, what)
		}
	}
	add("Insufficient", f.room())
	add("Too many pods", "the node's number of pods is used up: end some, or raise the kubelet's maxPods")
	add("untolerated taint", f.untaint())
	add("node affinity/selector", f.labels())
	add("affinity terms conflict", "each term of its node affinity wants two nodes by their names at once: leave one, or make a term of each")
	add("were unschedulable", "uncordon the node: "+cordoned(f.Nodes))
	add(fmt.Sprintf(": %d node(s) didn't satisfy plugin(s)", len(f.Nodes)), "the nodes that its affinity or its volumes name are not there, or take nothing: see which those are in the pod and its volumes")
	add("required features", "the nodes do not have what its spec asks for: update them, or leave it out")
	add("PersistentVolume's node affinity", "its volume is on other nodes only, which `podo kubectl describe pv` names: see to it that one of them takes the pod")
	add("available volume zone", "its volume is in another zone: add a node there, or make room on one")
	add("non-existent pv(s)", "a claim's volume is gone: restore it, or make the claim anew")
	add("available persistent volumes", "create a PersistentVolume for its claims on a node that takes the pod, or use a class that makes volumes")
	add("enough free storage", "the storage of its class has no room where the pod may go: free some, or lower what its claims request")
	add("max volume count", "the node takes no more volumes of that driver: end pods that use some there, or add a node")
	add("CSI driver is not installed", "install the driver that is named on the nodes: its pods have to run there")
	add("ReadWriteOncePod", "the pod that is named has the claim, and only one may: it goes when that has ended")
	add("no available disk", "the pod that is named has the disk: it goes when that has ended, or to another node")
	add("free ports", "choose another hostPort, leave it out, or end the pod that has it")
	add("pod anti-affinity rules", "the pod that is named, or another one of the same kind, has to go, its anti-affinity to be preferred instead of required, or a node to be added")
	add("existing pods anti-affinity", "the anti-affinity of the pod that is named keeps this one away: change that, or add a node")
	add("pod affinity rules", "start a pod that it wants to be with, in a domain with room")
	if label := "topology spread constraints (missing required label)"; strings.Contains(words, label) {
		words = strings.ReplaceAll(words, label, "")
		out = append(out, "label the nodes with the topologyKey of its topologySpreadConstraints, or correct that: "+f.spreadOver())
	}
	add("topology spread constraints", "raise maxSkew, or add room in the domains that have least")
	add("no nodes available", "no node has registered: see `podo status`")
	add("no node at all", "no node has registered: see `podo status`")
	return capital(strings.Join(out, "; or "))
}

// room tells whether any node could ever be enough.
func (f Facts) room() string {
	all := podresource.PodRequests(f.Pod, podresource.PodResourcesOptions{})
	for _, name := range slices.Sorted(maps.Keys(all)) {
		asked := all[name]
		var most *resource.Quantity
		where := ""
		for _, n := range f.Nodes {
			if q, ok := n.Status.Allocatable[name]; ok && (most == nil || q.Cmp(*most) > 0) {
				most, where = &q, n.Name
			}
		}
		if (most == nil || most.IsZero()) && !asked.IsZero() && len(f.Nodes) > 0 {
			return fmt.Sprintf("leave %s out of the pod's resources: no node has any; or see that what offers it runs on a node (such as a device plug-in)", name)
		}
		if most != nil && asked.Cmp(*most) > 0 {
			return fmt.Sprintf("lower resources.requests.%s (%s in all): the largest node, %s, has %s even when it is empty; or add a larger one", name, asked.String(), where, most.String())
		}
	}
	return "lower the pod's resources.requests, end other pods, or add a node: it starts by itself once there is room"
}

// labels tells which labels the pod's nodes must have.
func (f Facts) labels() string {
	example := "NODE"
	if len(f.Nodes) > 0 {
		example = f.Nodes[0].Name
	}
	var wanted []string
	for _, k := range slices.Sorted(maps.Keys(f.Pod.Spec.NodeSelector)) {
		wanted = append(wanted, k+"="+f.Pod.Spec.NodeSelector[k])
	}
	if len(wanted) > 0 {
		return fmt.Sprintf("its nodeSelector wants %s: correct it, or label a node: `podo kubectl label node %s %s`", strings.Join(wanted, " and "), example, strings.Join(wanted, " "))
	}
	if a := f.Pod.Spec.Affinity; a != nil && a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		for _, t := range a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
			var all []string
			for _, e := range append(slices.Clone(t.MatchExpressions), t.MatchFields...) {
				all = append(all, strings.TrimSpace(fmt.Sprintf("%s %s %s", e.Key, e.Operator, strings.Join(e.Values, ","))))
			}
			wanted = append(wanted, strings.Join(all, " and "))
		}
		return fmt.Sprintf("its node affinity wants %s: correct it, or label a node: `podo kubectl label node %s KEY=VALUE`", strings.Join(wanted, ", or "), example)
	}
	return "a volume of the pod's may be on other nodes only; or label a node so that its affinity matches"
}

// closedSince adds that every node is closed to the pod by now. The scheduler tries nobody again only to find that out, so that the
// words of a last attempt may be of the time before.
func (f Facts) closedSince(out Finding) Finding {
	if strings.Contains(out.Why, "untolerated taint") || strings.Contains(out.Why, "were unschedulable") || len(f.Nodes) == 0 {
		return out
	}
	var do []string
	cordon := v1.Taint{Key: v1.TaintNodeUnschedulable, Effect: v1.TaintEffectNoSchedule}
	for _, n := range f.Nodes {
		held := n.Spec.Unschedulable && !f.tolerates(&cordon)
		if !held && !slices.ContainsFunc(n.Spec.Taints, func(t v1.Taint) bool { return f.keptAway(n, &t) }) {
			return out
		}
		if held {
			do = []string{"uncordon the node: " + cordoned(f.Nodes)}
		}
	}
	if words, some := f.taints(); some {
		do = append(do, words)
	}
	out.Why = "By now every node is cordoned, or has a taint that it does not tolerate. Its last attempt was before that. " + out.Why
	out.Do = capital(strings.Join(do, "; or "))
	return out
}

// tolerates tells whether the pod does not mind a taint.
func (f Facts) tolerates(t *v1.Taint) bool {
	return slices.ContainsFunc(f.Pod.Spec.Tolerations, func(x v1.Toleration) bool { return x.ToleratesTaint(klog.Logger{}, t, false) })
}

// keptAway tells whether a node's taint keeps the pod away. That of a cordoned node goes when it is uncordoned, and is told of as that.
func (f Facts) keptAway(n *v1.Node, t *v1.Taint) bool {
	return t.Effect != v1.TaintEffectPreferNoSchedule && !f.tolerates(t) && (!n.Spec.Unschedulable || t.Key != v1.TaintNodeUnschedulable)
}

// spreadOver are the node labels over which the pod must be spread.
func (f Facts) spreadOver() string {
	var out []string
	for _, c := range f.Pod.Spec.TopologySpreadConstraints {
		if c.WhenUnsatisfiable == v1.DoNotSchedule && !slices.Contains(out, c.TopologyKey) {
			out = append(out, c.TopologyKey)
		}
	}
	return listed(out)
}

func cordoned(nodes []*v1.Node) string {
	var names []string
	for _, n := range nodes {
		if n.Spec.Unschedulable {
			names = append(names, n.Name)
		}
	}
	if len(names) == 0 {
		return "it has been by now"
	}
	return "`podo kubectl uncordon " + strings.Join(names, " ") + "`"
}

// ills are taints that nodes get by themselves and lose when they are well: whoever removes one gets it back.
var ills = map[string]string{
	v1.TaintNodeDiskPressure: "is short of disk", v1.TaintNodeMemoryPressure: "is short of memory", v1.TaintNodePIDPressure: "has too many processes",
	v1.TaintNodeNotReady: "is not ready", v1.TaintNodeUnreachable: "is not heard of", v1.TaintNodeNetworkUnavailable: "has no network yet",
}

// untaint tells what to do about the taints that the pod does not tolerate.
func (f Facts) untaint() string {
	if words, some := f.taints(); some {
		return words
	}
	return "no node has such a taint any more: it is tried again by itself"
}

// taints are those that the pod does not tolerate, with what to do about them, if there are some.
func (f Facts) taints() (do string, some bool) {
	var own, ill, out []string
	for _, n := range f.Nodes {
		for i := range n.Spec.Taints {
			t := &n.Spec.Taints[i]
			switch {
			case !f.keptAway(n, t):
			case ills[t.Key] != "":
				if words := fmt.Sprintf("%s %s (`podo why node/%s`)", n.Name, ills[t.Key], n.Name); !slices.Contains(ill, words) {
					ill = append(ill, words)
				}
			default:
				own = append(own, n.Name+" has "+t.ToString())
			}
		}
	}
	if len(own) > 0 {
		out = append(out, "add a toleration, or remove the taint: "+listed(own)+" (`podo kubectl taint node NODE KEY-`)")
	}
	if len(ill) > 0 {
		out = append(out, "see to the node, whose taint then goes by itself: "+listed(ill))
	}
	return strings.Join(out, "; or "), len(out) > 0
}

// notTaken explains a pod that has a node but of which no kubelet has said anything.
func (f Facts) notTaken() (Finding, bool) {
	p := f.Pod
	n := f.node(p.Spec.NodeName)
	since := p.CreationTimestamp.Time
	if c := f.condition(v1.PodScheduled); c != nil && c.Status == v1.ConditionTrue {
		since = c.LastTransitionTime.Time
	}
	if n == nil && f.Nodes != nil {
		return Finding{
			State: "is assigned to node " + p.Spec.NodeName + ", which does not exist,", Since: since,
			Why: "Its pods are given up when the node has been missing for 40 s",
			Do:  "If whoever wrote it named the node: leave spec.nodeName to the scheduler, or name one that `podo kubectl get nodes` has",
		}, true
	}
	if n == nil {
		return Finding{}, false
	}
	if f.heard(n) {
		return Finding{}, false
	}
	if ok, words := ready(n); !ok {
		out := Finding{State: "is on node " + n.Name + ", which is not ready,", Since: since, Why: "The node says " + words}
		for _, c := range n.Status.Conditions {
			if c.Type == v1.NodeReady {
				out.Since = c.LastTransitionTime.Time
			}
		}
		out.Why = joined(out.Why, "What the pod's status tells may be out of date")
		out.Do = "See whether the machine " + n.Name + " runs, and its kubelet: `podo status` there"
		if speaks(n) {
			out.Do = "`podo why node/" + n.Name + "`"
		}
		out.Do = joined(out.Do, f.givenUp(n))
		return out, true
	}
	if _, taken := f.last(timeline.Taken, nil); taken || p.Status.StartTime != nil || len(p.Status.ContainerStatuses) > 0 {
		return Finding{}, false
	}
	return Finding{State: "has been given to node " + n.Name + ", whose kubelet has not begun with it,", Since: since}, true
}

// givenUp tells what becomes of the pod when its node stays away.
func (f Facts) givenUp(n *v1.Node) string {
	for _, t := range n.Spec.Taints {
		if t.Effect != v1.TaintEffectNoExecute || t.TimeAdded == nil {
			continue
		}
		for _, tol := range f.Pod.Spec.Tolerations {
			if tol.Key == t.Key && tol.TolerationSeconds != nil {
				wait := t.TimeAdded.Unix() + *tol.TolerationSeconds - f.Now.Unix()
				if wait > 0 {
					return fmt.Sprintf("It is given up in %d s, %d s after the node was lost; its owner makes another one elsewhere", wait, *tol.TolerationSeconds)
				}
			}
		}
	}
	return ""
}
