package plugins

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"podo.dev/podo/internal/scheduler/framework"
	"podo.dev/podo/internal/timeline"
)

// TaintToleration keeps pods off nodes with taints of effect NoSchedule or NoExecute that they do not tolerate, and prefers
// nodes with fewer untolerated PreferNoSchedule taints.
type TaintToleration struct{}

var tainted = &framework.Rejection{Plugin: "TaintToleration", Reasons: []string{"node(s) had untolerated taint(s)"}, Unresolvable: true}

func (TaintToleration) Name() string { return "TaintToleration" }
func (TaintToleration) Static() bool { return true }

// Filter looks for a taint that is not tolerated.
func (TaintToleration) Filter(s *framework.Shape, n *framework.Node) *framework.Rejection {
	if untolerated(s, n) != nil {
		return tainted
	}
	return nil
}

func untolerated(s *framework.Shape, n *framework.Node) *v1.Taint {
	for i := range n.Object.Spec.Taints {
		t := &n.Object.Spec.Taints[i]
		if t.Effect != v1.TaintEffectPreferNoSchedule && !tolerated(s.Tolerations, t) {
			return t
		}
	}
	return nil
}

// tolerated leaves out the numeric operators Lt and Gt: their gate is off in 1.37.
func tolerated(tolerations []v1.Toleration, taint *v1.Taint) bool {
	for i := range tolerations {
		if tolerations[i].ToleratesTaint(klog.Logger{}, taint, false) {
			return true
		}
	}
	return false
}

// Explain names the taint.
func (TaintToleration) Explain(s *framework.Shape, n *framework.Node) []timeline.Field {
	t := untolerated(s, n)
	if t == nil {
		return nil
	}
	return []timeline.Field{{Key: "taint", Value: t.ToString()}}
}

func (TaintToleration) Weight() int64              { return 3 }
func (TaintToleration) Skip(*framework.Shape) bool { return false }

// Raw counts the untolerated PreferNoSchedule taints.
func (TaintToleration) Raw(s *framework.Shape, n *framework.Node) (count int64) {
	for i := range n.Object.Spec.Taints {
		t := &n.Object.Spec.Taints[i]
		if t.Effect == v1.TaintEffectPreferNoSchedule && !tolerated(s.SoftTolerations, t) {
			count++
		}
	}
	return count
}

// Normalize makes fewer taints better.
func (TaintToleration) Normalize(raw []int64) { scale(raw, true) }
