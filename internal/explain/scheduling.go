package explain

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"

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
		return out
	}
	attempt, tried := f.last(timeline.Attempt, func(r timeline.Record) bool { return r.To == "unschedulable" })
	c := f.condition(v1.PodScheduled)
	if c != nil && c.Status == v1.ConditionFalse {
		out.Since = c.LastTransitionTime.Time
		out.Why = "The scheduler says: " + c.Message
	}
	switch {
	case tried && attempt.Get("nominated") != "" && p.Status.NominatedNodeName != "":
		out.State = "waits for room on " + attempt.Get("nominated")
		out.Why = "Pods of lower priority have to leave for it: " + strings.ReplaceAll(attempt.Get("victims"), ",", ", ") + ". " + rejections(attempt)
		out.Do = "It is bound once they have ended, at the latest when their grace is over"
	case tried:
		out.Why = rejections(attempt)
		out.Do = advice(out.Why+strings.Join(keys(attempt), " "), f)
	case c != nil && c.Reason == v1.PodReasonSchedulerError:
		out.Do = "The scheduler tries again by itself; its log tells more"
	case c != nil:
		out.Do = advice(c.Message, f)
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

// rejections tells an attempt's folded reasons with their numbers.
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
	return fmt.Sprintf("No node takes it (tried %s times, %s nodes): %s", r.Get("try"), r.Get("nodes"), strings.Join(parts, "; "))
}

// advice follows from the words of a rejection.
func advice(words string, f Facts) string {
	var out []string
	add := func(when, what string) {
		if strings.Contains(words, when) {
			out = append(out, what)
		}
	}
	add("Insufficient", "lower the pod's requests, end other pods, or add a node with more")
	add("Too many pods", "the node's number of pods is used up: end some, or raise the kubelet's maxPods")
	add("untolerated taint", "add a toleration, or remove the taint: "+taints(f.Nodes))
	add("node affinity/selector", "label a node so that the pod's node selector or affinity matches")
	add("were unschedulable", "uncordon the node: `podo kubectl uncordon NODE`")
	add("free ports", "the host port is taken: choose another one, or end the pod that has it")
	add("pod anti-affinity rules", "the pod that is named, or another one of the same kind, has to go, or its anti-affinity to be preferred instead of required")
	add("existing pods anti-affinity", "the anti-affinity of the pod that is named keeps this one away")
	add("pod affinity rules", "start a pod that it wants to be with, in a domain with room")
	add("topology spread constraints", "raise maxSkew, or add room in the domains that have least")
	add("no nodes available", "no node has registered: see `podo status`")
	add("no node at all", "no node has registered: see `podo status`")
	if len(out) == 0 {
		return ""
	}
	return "To do: " + strings.Join(out, "; or ")
}

func taints(nodes []*v1.Node) string {
	var out []string
	for _, n := range nodes {
		for _, t := range n.Spec.Taints {
			if t.Effect != v1.TaintEffectPreferNoSchedule {
				out = append(out, n.Name+" has "+t.ToString())
			}
		}
	}
	if len(out) == 0 {
		return "no node has one any more"
	}
	return strings.Join(out, ", ")
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
		}, true
	}
	if n == nil {
		return Finding{}, false
	}
	if ok, words := ready(n); !ok {
		return Finding{
			State: "is on node " + n.Name + ", which is not ready,", Since: since, Why: "The node says " + words,
			Do: "What the pod's status tells may be out of date. See why the kubelet of " + n.Name + " does not run: `podo status`",
		}, true
	}
	if _, taken := f.last(timeline.Taken, nil); taken || p.Status.StartTime != nil || len(p.Status.ContainerStatuses) > 0 {
		return Finding{}, false
	}
	return Finding{State: "has been given to node " + n.Name + ", whose kubelet has not begun with it,", Since: since}, true
}
