package plugins

import (
	v1 "k8s.io/api/core/v1"

	"podo.dev/podo/internal/scheduler/framework"
)

// SchedulingGates keeps pods out of the queue while spec.schedulingGates is not empty.
type SchedulingGates struct{}

var gated = &framework.Rejection{Plugin: "SchedulingGates", Reasons: []string{"waiting for scheduling gates"}, Unresolvable: true}

func (SchedulingGates) Name() string { return "SchedulingGates" }

// PreEnqueue passes pods without gates.
func (SchedulingGates) PreEnqueue(pod *v1.Pod) *framework.Rejection {
	if len(pod.Spec.SchedulingGates) > 0 {
		return gated
	}
	return nil
}

// PrioritySort puts higher priorities first.
type PrioritySort struct{}

func (PrioritySort) Name() string { return "PrioritySort" }

// Less compares priorities.
func (PrioritySort) Less(a, b *framework.Pod) bool { return a.Shape.Priority > b.Shape.Priority }
