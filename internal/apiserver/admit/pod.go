package admit

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
)

// DefaultTolerations lets pods stay for five minutes on a node that is not ready or not reachable, unless they say otherwise.
type DefaultTolerations struct{}

const tolerationSeconds = 300

// Mutate implements Mutator.
func (DefaultTolerations) Mutate(_ context.Context, a *Attributes) error {
	pod, ok := a.Object.(*v1.Pod)
	if !ok || a.Ref.Subresource != "" || a.Op != Create && a.Op != Update {
		return nil
	}
	for _, key := range []string{v1.TaintNodeNotReady, v1.TaintNodeUnreachable} {
		if tolerates(pod, key) {
			continue
		}
		s := int64(tolerationSeconds)
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, v1.Toleration{
			Key: key, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute, TolerationSeconds: &s,
		})
	}
	return nil
}

func tolerates(pod *v1.Pod, key string) bool {
	for _, t := range pod.Spec.Tolerations {
		if (t.Key == key || t.Key == "") && (t.Effect == v1.TaintEffectNoExecute || t.Effect == "") {
			return true
		}
	}
	return false
}

// Priority turns a pod's priority class into its number. Until PriorityClass is served, only the two of the system exist.
type Priority struct{}

var systemClasses = map[string]int32{"system-cluster-critical": 2000000000, "system-node-critical": 2000001000}

// Mutate implements Mutator.
func (Priority) Mutate(_ context.Context, a *Attributes) error {
	pod, ok := a.Object.(*v1.Pod)
	if !ok || a.Ref.Subresource != "" {
		return nil
	}
	if a.Op == Update {
		// An old client that does not know the fields must not remove them.
		old := a.Old.(*v1.Pod)
		if pod.Spec.Priority == nil {
			pod.Spec.Priority = old.Spec.Priority
		}
		if pod.Spec.PreemptionPolicy == nil {
			pod.Spec.PreemptionPolicy = old.Spec.PreemptionPolicy
		}
		return nil
	}
	if a.Op != Create {
		return nil
	}
	var priority int32
	policy := v1.PreemptLowerPriority
	if class := pod.Spec.PriorityClassName; class != "" {
		if priority, ok = systemClasses[class]; !ok {
			return forbidden(a, fmt.Sprintf("no PriorityClass with name %v was found", class))
		}
	}
	if pod.Spec.Priority != nil && *pod.Spec.Priority != priority {
		return forbidden(a, fmt.Sprintf("the integer value of priority (%d) must not be provided in pod spec; priority admission controller computed %d from the given PriorityClass name", *pod.Spec.Priority, priority))
	}
	if pod.Spec.PreemptionPolicy != nil && *pod.Spec.PreemptionPolicy != policy {
		return forbidden(a, fmt.Sprintf("the string value of PreemptionPolicy (%s) must not be provided in pod spec; priority admission controller computed %s from the given PriorityClass name", *pod.Spec.PreemptionPolicy, policy))
	}
	pod.Spec.Priority = &priority
	pod.Spec.PreemptionPolicy = &policy
	return nil
}

// TaintNewNodes makes every new Node start with the taint that it is not ready, so that nothing lands there before its
// conditions are known. The node lifecycle controller takes it away.
type TaintNewNodes struct{}

// Mutate implements Mutator.
func (TaintNewNodes) Mutate(_ context.Context, a *Attributes) error {
	node, ok := a.Object.(*v1.Node)
	if !ok || a.Op != Create || a.Ref.Subresource != "" {
		return nil
	}
	for _, t := range node.Spec.Taints {
		if t.Key == v1.TaintNodeNotReady && t.Effect == v1.TaintEffectNoSchedule {
			return nil
		}
	}
	node.Spec.Taints = append(node.Spec.Taints, v1.Taint{Key: v1.TaintNodeNotReady, Effect: v1.TaintEffectNoSchedule})
	return nil
}
