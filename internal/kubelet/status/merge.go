package status

import (
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ownConditions are the condition types that only the kubelet writes: one that it no longer reports is removed. PodScheduled (the
// scheduler's, or the kubelet's for static pods) and DisruptionTarget are replaced when reported. All others stay as the API has
// them, since the kubelet's knowledge of them may be older.
var ownConditions = map[v1.PodConditionType]bool{
	v1.PodReady:                  true,
	v1.PodInitialized:            true,
	v1.ContainersReady:           true,
	v1.PodReadyToStartContainers: true,
	v1.PodResizePending:          true,
	v1.PodResizeInProgress:       true,
	v1.AllContainersRestarting:   true,
}

// merge returns what the API object's status becomes when the kubelet reports next for pod, and whether that differs from what
// it has. The API's status is not changed. Rules:
//
//   - Fields of other writers (nominated node, resource claims, foreign conditions) stay.
//   - A terminal phase is final, with its reason and message.
//   - startTime is written once.
//   - A static pod that began anew under its UID (its manifest went and came back) has a life of its own, in the same mirror.
//   - A condition's lastTransitionTime moves only when its status does; those of a resize bring their own.
//   - DisruptionTarget is shared with the eviction API and the scheduler; the kubelet's own is written with the terminal phase.
func merge(api *v1.PodStatus, next v1.PodStatus, pod *v1.Pod, now metav1.Time) (*v1.PodStatus, bool) {
	next = normalized(next, pod)
	out := api.DeepCopy()
	if renewed(api, &next, pod) {
		out.Phase, out.Reason, out.Message, out.StartTime = next.Phase, next.Reason, next.Message, next.StartTime
	}
	if !terminal(api.Phase) || terminal(next.Phase) && api.Phase == next.Phase {
		out.Phase, out.Reason, out.Message = next.Phase, next.Reason, next.Message
	}
	out.HostIP, out.HostIPs = next.HostIP, next.HostIPs
	out.PodIP, out.PodIPs = next.PodIP, next.PodIPs
	if out.StartTime.IsZero() {
		out.StartTime = next.StartTime
	}
	if next.QOSClass != "" {
		out.QOSClass = next.QOSClass
	}
	out.InitContainerStatuses = next.InitContainerStatuses
	out.ContainerStatuses = next.ContainerStatuses
	out.EphemeralContainerStatuses = next.EphemeralContainerStatuses
	out.Resize = next.Resize //nolint:staticcheck // the kubelet clears what older versions left
	out.AllocatedResources, out.Resources = next.AllocatedResources, next.Resources
	out.ObservedGeneration = next.ObservedGeneration
	out.Conditions = mergeConditions(api.Conditions, next, pod, now)
	return out, !equality.Semantic.DeepEqual(api, out)
}

// renewed says that next is of a static pod's next life. The API has whole seconds.
func renewed(api, next *v1.PodStatus, pod *v1.Pod) bool {
	return static(pod) && !api.StartTime.IsZero() && !next.StartTime.IsZero() && next.StartTime.Truncate(time.Second).After(api.StartTime.Time)
}

// mergeConditions has others' conditions first, as upstream's kubelet writes them.
func mergeConditions(have []v1.PodCondition, next v1.PodStatus, pod *v1.Pod, now metav1.Time) []v1.PodCondition {
	var others, own []v1.PodCondition
	for _, c := range have {
		if !ownConditions[c.Type] && (c.Type != v1.PodScheduled || find(next.Conditions, c.Type) == nil) {
			others = append(others, c)
		}
	}
	for _, c := range next.Conditions {
		switch {
		case c.Type == v1.DisruptionTarget && !terminal(next.Phase):
			continue
		case !ownConditions[c.Type] && c.Type != v1.DisruptionTarget && c.Type != v1.PodScheduled:
			continue
		}
		if c.Type == v1.PodReady {
			c = gated(c, have, pod.Spec.ReadinessGates)
		}
		if c.ObservedGeneration == 0 && c.Type != v1.AllContainersRestarting { // for which upstream sets none
			c.ObservedGeneration = next.ObservedGeneration
		}
		old := find(have, c.Type)
		switch {
		case c.Type == v1.PodResizePending || c.Type == v1.PodResizeInProgress: // these say themselves since when their reason holds
		case old != nil && old.Status == c.Status && !old.LastTransitionTime.IsZero():
			c.LastTransitionTime = old.LastTransitionTime
		case c.LastTransitionTime.IsZero() || old != nil && old.Status != c.Status && !c.LastTransitionTime.After(old.LastTransitionTime.Time):
			c.LastTransitionTime = now
		}
		shared := find(others, c.Type)
		switch {
		case shared != nil:
			*shared = c
		case c.Type == v1.DisruptionTarget:
			others = append(others, c)
		default:
			own = append(own, c)
		}
	}
	return append(others, own...)
}

// dated sets the transition times of the kubelet's conditions: the earlier time for those whose status is the same as before, now
// for the others, since the API may hear of them much later. DisruptionTarget gets its time when it is written, with the pod's
// end.
func dated(conditions, before []v1.PodCondition, now metav1.Time) []v1.PodCondition {
	out := slices.Clone(conditions)
	for i := range out {
		c := &out[i]
		if !ownConditions[c.Type] && c.Type != v1.PodScheduled || !c.LastTransitionTime.IsZero() {
			continue
		}
		c.LastTransitionTime = now
		if old := find(before, c.Type); old != nil && old.Status == c.Status && !old.LastTransitionTime.IsZero() {
			c.LastTransitionTime = old.LastTransitionTime
		}
	}
	return out
}

// gated makes Ready false while a condition named by the pod's readiness gates, written by someone else, is not true.
func gated(ready v1.PodCondition, have []v1.PodCondition, gates []v1.PodReadinessGate) v1.PodCondition {
	if ready.Status != v1.ConditionTrue {
		return ready
	}
	var missing []string
	for _, g := range gates {
		c := find(have, g.ConditionType)
		switch {
		case c == nil:
			missing = append(missing, fmt.Sprintf("corresponding condition of pod readiness gate %q does not exist.", string(g.ConditionType)))
		case c.Status != v1.ConditionTrue:
			missing = append(missing, fmt.Sprintf("the status of pod readiness gate %q is not \"True\", but %v", string(g.ConditionType), c.Status))
		}
	}
	if len(missing) > 0 {
		ready.Status, ready.Reason, ready.Message = v1.ConditionFalse, "ReadinessGatesNotReady", strings.Join(missing, ", ")
	}
	return ready
}

func find(cs []v1.PodCondition, t v1.PodConditionType) *v1.PodCondition {
	for i := range cs {
		if cs[i].Type == t {
			return &cs[i]
		}
	}
	return nil
}

func terminal(p v1.PodPhase) bool { return p == v1.PodFailed || p == v1.PodSucceeded }
