// Package podgc removes pods that nobody else will: those of nodes that are gone, those that are to be deleted and never had
// a node, or one that is out of service. It also bounds how many ended pods are kept.
package podgc

import (
	"cmp"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
)

const (
	// Quarantine is how long a node must be missing before its pods are given up.
	Quarantine = 40 * time.Second
	// KeepEnded is how many ended pods of all namespaces are kept.
	KeepEnded = 12_500
)

// Verdict is why a pod goes. Condition, when set, is written into its status first.
type Verdict struct {
	Pod       *v1.Pod
	Condition *v1.PodCondition
}

// Orphans are the pods of a node that is gone.
func Orphans(pods []*v1.Pod) (out []Verdict) {
	for _, p := range pods {
		out = append(out, Verdict{Pod: p, Condition: &v1.PodCondition{
			Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: "DeletionByPodGC", Message: "PodGC: node no longer exists",
			ObservedGeneration: p.Generation,
		}})
	}
	return out
}

// Abandoned tells whether a pod is to be deleted and has no kubelet that could do it.
func Abandoned(p *v1.Pod) bool { return p.DeletionTimestamp != nil && p.Spec.NodeName == "" }

// OutOfService tells whether a node's administrator has said that it is off, and it does not say otherwise. Its kubelet will end no pod.
func OutOfService(n *v1.Node) bool {
	ready := slices.ContainsFunc(n.Status.Conditions, func(c v1.NodeCondition) bool { return c.Type == v1.NodeReady && c.Status == v1.ConditionTrue })
	return !ready && slices.ContainsFunc(n.Spec.Taints, func(t v1.Taint) bool { return t.Key == v1.TaintNodeOutOfService })
}

// Ended tells whether nothing of the pod runs any more.
func Ended(p *v1.Pod) bool {
	return p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed
}

// Surplus are the ended pods beyond keep, oldest first; evicted ones go before others.
func Surplus(ended []*v1.Pod, keep int) (out []Verdict) {
	ended = slices.DeleteFunc(slices.Clone(ended), func(p *v1.Pod) bool { return !Ended(p) })
	if len(ended) <= keep {
		return nil
	}
	evicted := func(p *v1.Pod) int {
		if p.Status.Reason == "Evicted" {
			return 0
		}
		return 1
	}
	slices.SortFunc(ended, func(a, b *v1.Pod) int {
		return cmp.Or(cmp.Compare(evicted(a), evicted(b)), a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
			cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	for _, p := range ended[:len(ended)-keep] {
		out = append(out, Verdict{Pod: p})
	}
	return out
}
