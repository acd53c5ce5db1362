// Package pvcprotection keeps a claim of storage that is being deleted until no pod uses it, and says of each bound claim whether one
// does.
//
//	plan.go        pure: a claim and the pods that name it -> what to write
//	controller.go  writes it
package pvcprotection

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/storage/ephemeral"
)

// Finalizer is what keeps a claim.
const Finalizer = "kubernetes.io/pvc-protection"

// Plan is what a claim lacks.
type Plan struct {
	Protect, Release bool // the finalizer is to be put, or taken away
	// Unused, when set, is what the condition is to say.
	Unused *v1.PersistentVolumeClaimCondition
}

// Decide takes the pods that name the claim.
func Decide(c *v1.PersistentVolumeClaim, pods []*v1.Pod) (p Plan) {
	protected := slices.Contains(c.Finalizers, Finalizer)
	used := func(by func(*v1.Pod, *v1.Volume) bool) bool {
		return slices.ContainsFunc(pods, func(pod *v1.Pod) bool {
			return slices.ContainsFunc(pod.Spec.Volumes, func(v v1.Volume) bool { return names(pod, &v, c) && by(pod, &v) })
		})
	}
	switch {
	case c.DeletionTimestamp == nil:
		p.Protect = !protected
		if c.Status.Phase == v1.ClaimBound {
			p.Unused = unused(c, !used(func(pod *v1.Pod, _ *v1.Volume) bool { return !ended(pod) }))
		}
	case protected:
		p.Release = !used(holds)
	}
	return p
}

// names tells whether a pod's volume is the claim.
func names(pod *v1.Pod, v *v1.Volume, c *v1.PersistentVolumeClaim) bool {
	switch {
	case v.PersistentVolumeClaim != nil:
		return v.PersistentVolumeClaim.ClaimName == c.Name
	case v.Ephemeral != nil:
		return ephemeral.VolumeClaimName(pod, v) == c.Name && ephemeral.VolumeIsForPod(pod, c) == nil
	}
	return false
}

// holds tells whether a pod keeps the claim from going. Only one with a node can have it mounted, and no other will come to have it: the
// scheduler and the kubelet take no pod whose claim is being deleted. The claim of an ephemeral volume does not wait for its pod's own
// finalizers once the kubelet is done with it: they may be waiting for the claim.
func holds(pod *v1.Pod, v *v1.Volume) bool {
	return pod.Spec.NodeName != "" && (v.PersistentVolumeClaim != nil || !shutDown(pod))
}

func shutDown(pod *v1.Pod) bool {
	return pod.DeletionTimestamp != nil && pod.DeletionGracePeriodSeconds != nil && *pod.DeletionGracePeriodSeconds == 0
}

// ended tells a pod of which nothing runs any more, or will.
func ended(pod *v1.Pod) bool {
	s := &pod.Status
	return s.Phase == v1.PodSucceeded || s.Phase == v1.PodFailed || pod.DeletionTimestamp != nil &&
		!slices.ContainsFunc(slices.Concat(s.InitContainerStatuses, s.ContainerStatuses, s.EphemeralContainerStatuses), func(c v1.ContainerStatus) bool {
			return c.State.Terminated == nil && c.State.Waiting == nil
		})
}

// unused is the condition when it says something else than before; nil otherwise.
func unused(c *v1.PersistentVolumeClaim, is bool) *v1.PersistentVolumeClaimCondition {
	out := &v1.PersistentVolumeClaimCondition{
		Type: v1.PersistentVolumeClaimUnused, Status: v1.ConditionFalse, Reason: "PodUsingPVC", Message: "A pod is currently referencing this PVC",
	}
	if is {
		out.Status, out.Reason, out.Message = v1.ConditionTrue, "NoPodsUsingPVC", "No pods are currently referencing this PVC"
	}
	if was := condition(c); was != nil && was.Status == out.Status {
		return nil
	}
	return out
}

func condition(c *v1.PersistentVolumeClaim) *v1.PersistentVolumeClaimCondition {
	for i := range c.Status.Conditions {
		if c.Status.Conditions[i].Type == v1.PersistentVolumeClaimUnused {
			return &c.Status.Conditions[i]
		}
	}
	return nil
}
