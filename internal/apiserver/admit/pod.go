package admit

import (
	"context"

	v1 "k8s.io/api/core/v1"
)

// DefaultTolerations lets pods stay for five minutes on a node that is not ready or unreachable, unless they say otherwise.
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

// TaintNewNodes gives every new Node the not-ready taint, so that no pod lands there before its conditions are known. The node
// lifecycle controller removes it.
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
