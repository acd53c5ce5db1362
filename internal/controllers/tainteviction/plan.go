// Package tainteviction ends pods on nodes that do not want them any more: a NoExecute taint ends what does not tolerate it, at
// once or after the time for which it does.
package tainteviction

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
)

// Never is how long a pod stays that tolerates every taint for ever.
const Never = time.Duration(-1)

// NoExecute are a node's taints that end pods.
func NoExecute(node *v1.Node) (out []v1.Taint) {
	for _, t := range node.Spec.Taints {
		if t.Effect == v1.TaintEffectNoExecute {
			out = append(out, t)
		}
	}
	return out
}

// Stay is how long a pod may stay beside these taints from when they came: 0 when it tolerates one of them not at all, Never when
// all of them for ever. Of several tolerations of one taint the first counts; of several taints the shortest time.
func Stay(taints []v1.Taint, tolerations []v1.Toleration) time.Duration {
	shortest := Never
	for i := range taints {
		t := tolerating(&taints[i], tolerations)
		if t == nil {
			return 0
		}
		if t.TolerationSeconds == nil {
			continue
		}
		d := time.Duration(max(0, *t.TolerationSeconds)) * time.Second
		if shortest == Never || d < shortest {
			shortest = d
		}
	}
	return shortest
}

func tolerating(taint *v1.Taint, tolerations []v1.Toleration) *v1.Toleration {
	for i := range tolerations {
		if tolerations[i].ToleratesTaint(klog.Logger{}, taint, false) {
			return &tolerations[i]
		}
	}
	return nil
}
