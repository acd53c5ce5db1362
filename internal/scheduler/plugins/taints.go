package plugins

import (
	v1 "k8s.io/api/core/v1"

	"podo.dev/podo/internal/scheduler/framework"
	"podo.dev/podo/internal/timeline"
)

// TaintToleration keeps pods off nodes with taints of effect NoSchedule or NoExecute that they do not tolerate, and prefers
// nodes with fewer untolerated PreferNoSchedule taints.
type TaintToleration struct{}

var tainted = &framework.Rejection{Plugin: "TaintToleration", Reasons: []string{"node(s) had untolerated taint(s)"}, Unresolvable: true}

func (TaintToleration) Name() string   { return "TaintToleration" }
func (TaintToleration) Static() bool   { return true }
func (TaintToleration) Absolute() bool { return false }

// Filter looks for a taint that is not tolerated.
func (TaintToleration) Filter(s *framework.Shape, n *framework.Node) *framework.Rejection {
	if framework.Untolerated(s.Tolerations, n.Object) != nil {
		return tainted
	}
	return nil
}

// Explain names the taint.
func (TaintToleration) Explain(s *framework.Shape, n *framework.Node) []timeline.Field {
	t := framework.Untolerated(s.Tolerations, n.Object)
	if t == nil {
		return nil
	}
	return []timeline.Field{{Key: "taint", Value: t.ToString()}}
}

func (TaintToleration) Skip(*framework.Shape) bool { return false }

// Raw counts the untolerated PreferNoSchedule taints.
func (TaintToleration) Raw(s *framework.Shape, n *framework.Node) (count int64) {
	for i := range n.Object.Spec.Taints {
		t := &n.Object.Spec.Taints[i]
		if t.Effect == v1.TaintEffectPreferNoSchedule && !framework.Tolerated(s.SoftTolerations, t) {
			count++
		}
	}
	return count
}

// Normalize makes fewer taints better.
func (TaintToleration) Normalize(raw []int64) { scale(raw, true) }
