package framework

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
)

// Untolerated is a taint (NoSchedule, NoExecute) of the node that these tolerations do not tolerate; nil when there is none.
func Untolerated(tolerations []v1.Toleration, n *v1.Node) *v1.Taint {
	for i := range n.Spec.Taints {
		t := &n.Spec.Taints[i]
		if t.Effect != v1.TaintEffectPreferNoSchedule && !Tolerated(tolerations, t) {
			return t
		}
	}
	return nil
}

// Tolerated leaves out the numeric operators Lt and Gt: their gate is off in 1.37.
func Tolerated(tolerations []v1.Toleration, taint *v1.Taint) bool {
	for i := range tolerations {
		if tolerations[i].ToleratesTaint(klog.Logger{}, taint, false) {
			return true
		}
	}
	return false
}
