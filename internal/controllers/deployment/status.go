package deployment

import (
	"fmt"
	"math"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Reasons of the condition Progressing that are looked at again.
const (
	rolledOut = "NewReplicaSetAvailable"
	timedOut  = "ProgressDeadlineExceeded"
	paused    = "DeploymentPaused"
)

// hasDeadline says that a rollout may take too long.
func hasDeadline(d *appsv1.Deployment) bool {
	return d.Spec.ProgressDeadlineSeconds != nil && *d.Spec.ProgressDeadlineSeconds != math.MaxInt32
}

func condition(s *appsv1.DeploymentStatus, t appsv1.DeploymentConditionType) *appsv1.DeploymentCondition {
	for i := range s.Conditions {
		if s.Conditions[i].Type == t {
			return &s.Conditions[i]
		}
	}
	return nil
}

func (r *roll) drop(t appsv1.DeploymentConditionType) {
	r.Status.Conditions = slices.DeleteFunc(r.Status.Conditions, func(c appsv1.DeploymentCondition) bool { return c.Type == t })
}

// set puts a condition last in the list, unless it says so already.
func (r *roll) set(t appsv1.DeploymentConditionType, status v1.ConditionStatus, reason, message string) {
	now := metav1.NewTime(r.now).Rfc3339Copy()
	r.put(appsv1.DeploymentCondition{Type: t, Status: status, Reason: reason, Message: message, LastUpdateTime: now, LastTransitionTime: now})
}

func (r *roll) put(c appsv1.DeploymentCondition) {
	if was := condition(&r.Status, c.Type); was != nil {
		if was.Status == c.Status && was.Reason == c.Reason {
			return
		}
		if was.Status == c.Status {
			c.LastTransitionTime = was.LastTransitionTime
		}
	}
	r.drop(c.Type)
	r.Status.Conditions = append(r.Status.Conditions, c)
}

// notePause says that progress is not expected, or is again: the time of a pause does not count.
func (r *roll) notePause() {
	if !hasDeadline(r.d) {
		return
	}
	reason := ""
	if c := condition(&r.Status, appsv1.DeploymentProgressing); c != nil {
		reason = c.Reason
	}
	switch {
	case reason == timedOut:
	case r.d.Spec.Paused:
		r.set(appsv1.DeploymentProgressing, v1.ConditionUnknown, paused, "Deployment is paused")
	case reason == paused:
		r.set(appsv1.DeploymentProgressing, v1.ConditionUnknown, "DeploymentResumed", "Deployment is resumed")
	}
}

// count writes down what there is, before anything of the plan is done.
func (r *roll) count() {
	s := &r.Status
	ready := func(x *set) int32 { return x.seen.Status.ReadyReplicas }
	s.ObservedGeneration = r.d.Generation
	s.Replicas, s.ReadyReplicas, s.AvailableReplicas = sum(r.sets, actual), sum(r.sets, ready), sum(r.sets, available)
	s.UnavailableReplicas = max(0, sum(r.sets, func(x *set) int32 { return *x.seen.Spec.Replicas })-s.AvailableReplicas)
	s.UpdatedReplicas = 0
	if r.new != nil {
		s.UpdatedReplicas = actual(r.new)
	}
	s.TerminatingReplicas = r.terminating()
	if s.AvailableReplicas >= r.wanted()-r.unavailable() {
		r.set(appsv1.DeploymentAvailable, v1.ConditionTrue, "MinimumReplicasAvailable", "Deployment has minimum availability.")
	} else {
		r.set(appsv1.DeploymentAvailable, v1.ConditionFalse, "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
	}
}

// terminating is nil while a set's controller has not told of its own.
func (r *roll) terminating() *int32 {
	var n int32
	for _, s := range r.sets {
		switch t := s.seen.Status.TerminatingReplicas; {
		case t != nil:
			n += *t
		case s.seen.Status.ObservedGeneration != 0:
			return nil
		}
	}
	return &n
}

// judge says how the rollout goes, and what keeps pods from being made.
func (r *roll) judge() {
	r.judgeProgress()
	failure := func(s *set) bool {
		for _, c := range s.seen.Status.Conditions {
			if c.Type == appsv1.ReplicaSetReplicaFailure {
				r.put(appsv1.DeploymentCondition{
					Type: appsv1.DeploymentReplicaFailure, Status: c.Status, Reason: c.Reason, Message: c.Message,
					LastUpdateTime: c.LastTransitionTime, LastTransitionTime: c.LastTransitionTime,
				})
				return true
			}
		}
		return false
	}
	if !(r.new != nil && failure(r.new)) && !slices.ContainsFunc(r.old(), failure) {
		r.drop(appsv1.DeploymentReplicaFailure)
	}
}

func (r *roll) judgeProgress() {
	if !hasDeadline(r.d) {
		r.drop(appsv1.DeploymentProgressing)
		return
	}
	s, was := &r.Status, condition(&r.Status, appsv1.DeploymentProgressing)
	if was != nil && was.Reason == rolledOut && s.Replicas == s.UpdatedReplicas {
		return // nothing is being rolled out
	}
	who := fmt.Sprintf("Deployment %q", r.d.Name)
	if r.new != nil {
		who = fmt.Sprintf("ReplicaSet %q", r.new.seen.Name)
	}
	switch {
	case complete(r.d, s):
		r.set(appsv1.DeploymentProgressing, v1.ConditionTrue, rolledOut, who+" has successfully progressed.")
		return
	case progressing(&r.d.Status, s):
		// It is told anew even when the condition says so already, for its time of update.
		since := metav1.NewTime(r.now).Rfc3339Copy()
		c := appsv1.DeploymentCondition{
			Type: appsv1.DeploymentProgressing, Status: v1.ConditionTrue, Reason: "ReplicaSetUpdated", Message: who + " is progressing.",
			LastUpdateTime: since, LastTransitionTime: since,
		}
		if was != nil && was.Status == v1.ConditionTrue {
			c.LastTransitionTime = was.LastTransitionTime
		}
		r.drop(c.Type)
		r.put(c)
	case was != nil && was.Reason != rolledOut && was.Reason != timedOut && r.left(was) < 0:
		r.set(appsv1.DeploymentProgressing, v1.ConditionFalse, timedOut, who+" has timed out progressing.")
	}
	if c := condition(s, appsv1.DeploymentProgressing); c != nil && c.Reason != timedOut && c.Reason != rolledOut {
		r.again(max(r.left(c), 0) + time.Second)
	}
}

// left is how much longer the rollout may go without progress.
func (r *roll) left(c *appsv1.DeploymentCondition) time.Duration {
	return c.LastUpdateTime.Add(time.Duration(*r.d.Spec.ProgressDeadlineSeconds) * time.Second).Sub(r.now)
}

// progressing compares two statuses: more new pods, fewer old ones, more that are ready or available.
func progressing(was, is *appsv1.DeploymentStatus) bool {
	return is.UpdatedReplicas > was.UpdatedReplicas || is.Replicas-is.UpdatedReplicas < was.Replicas-was.UpdatedReplicas ||
		is.ReadyReplicas > was.ReadyReplicas || is.AvailableReplicas > was.AvailableReplicas
}
