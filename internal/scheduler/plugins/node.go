package plugins

import (
	v1 "k8s.io/api/core/v1"

	"podo.dev/podo/internal/scheduler/framework"
	"podo.dev/podo/internal/timeline"
)

// NodeName lets a pod that names its node go only there.
type NodeName struct{}

var otherNode = &framework.Rejection{Plugin: "NodeName", Reasons: []string{"node(s) didn't match the requested node name"}, Unresolvable: true}

func (NodeName) Name() string { return "NodeName" }
func (NodeName) Static() bool { return true }

// Filter compares names.
func (NodeName) Filter(s *framework.Shape, n *framework.Node) *framework.Rejection {
	if s.NodeName != "" && s.NodeName != n.Name {
		return otherNode
	}
	return nil
}

// Explain tells the name asked for.
func (NodeName) Explain(s *framework.Shape, _ *framework.Node) []timeline.Field {
	return []timeline.Field{{Key: "asked", Value: s.NodeName}}
}

// NodeUnschedulable keeps pods off cordoned nodes unless they tolerate the cordon's taint.
type NodeUnschedulable struct{}

var cordoned = &framework.Rejection{Plugin: "NodeUnschedulable", Reasons: []string{"node(s) were unschedulable"}, Unresolvable: true}

func (NodeUnschedulable) Name() string { return "NodeUnschedulable" }
func (NodeUnschedulable) Static() bool { return true }

// Filter looks at spec.unschedulable.
func (NodeUnschedulable) Filter(s *framework.Shape, n *framework.Node) *framework.Rejection {
	if !n.Object.Spec.Unschedulable {
		return nil
	}
	taint := v1.Taint{Key: v1.TaintNodeUnschedulable, Effect: v1.TaintEffectNoSchedule}
	if framework.Tolerated(s.Tolerations, &taint) {
		return nil
	}
	return cordoned
}

// Explain has nothing to add.
func (NodeUnschedulable) Explain(*framework.Shape, *framework.Node) []timeline.Field { return nil }

// NodePorts keeps pods off nodes where another pod has a host port that they want.
type NodePorts struct{}

var portTaken = &framework.Rejection{Plugin: "NodePorts", Reasons: []string{"node(s) didn't have free ports for the requested pod ports"}}

func (NodePorts) Name() string { return "NodePorts" }
func (NodePorts) Static() bool { return false }

// Filter compares with the ports of the node's pods.
func (NodePorts) Filter(s *framework.Shape, n *framework.Node) *framework.Rejection {
	if len(s.Ports) > 0 && len(n.Ports) > 0 {
		for _, want := range s.Ports {
			for have := range n.Ports {
				if want.Overlaps(have) {
					return portTaken
				}
			}
		}
	}
	return nil
}

// Explain names the pod that holds the port.
func (NodePorts) Explain(s *framework.Shape, n *framework.Node) []timeline.Field {
	for _, want := range s.Ports {
		for have, uid := range n.Ports {
			if !want.Overlaps(have) {
				continue
			}
			holder := string(uid)
			if p := n.Pods[uid]; p != nil {
				holder = p.Object.Namespace + "/" + p.Object.Name
			}
			r := timeline.Record{}.With("port", want.Port).With("holder", holder)
			return r.Fields
		}
	}
	return nil
}
