package statefulset

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// progressing is the condition of a set whose rollout is stuck, False with stuckReason. Upstream has none: there, nothing says that a set
// waits for a pod which will never be ready. It has the name that a Deployment's has.
const progressing appsv1.StatefulSetConditionType = "Progressing"

const (
	stuckReason = "RolloutStuck"
	// stuckAfter is how long a pod of the new template may keep a rollout waiting: as long as a Deployment's, by default.
	stuckAfter = 10 * time.Minute
	// longestWait is how long a failed pod is left alone at most.
	longestWait = time.Minute
)

// progress is the conditions with what there is to say of the rollout.
func (r *ranks) progress(was []appsv1.StatefulSetCondition) []appsv1.StatefulSetCondition {
	i := slices.IndexFunc(was, func(c appsv1.StatefulSetCondition) bool { return c.Type == progressing })
	others := slices.DeleteFunc(slices.Clone(was), func(c appsv1.StatefulSetCondition) bool { return c.Type == progressing })
	why, waits := r.stuck()
	switch {
	case waits && i >= 0 && strings.Contains(was[i].Message, fmt.Sprintf("%q", r.Update.Name)):
		return was // it is still the same
	case why == "" && i < 0:
		return was
	case why == "":
		return others
	}
	return append(others, appsv1.StatefulSetCondition{
		Type: progressing, Status: v1.ConditionFalse, Reason: stuckReason, Message: why, LastTransitionTime: metav1.NewTime(r.Now),
	})
}

// stuck says for which pod the rollout has waited too long, and whether it waits for any.
func (r *ranks) stuck() (why string, waits bool) {
	if r.Current.Name == r.Update.Name {
		return "", false
	}
	for _, pod := range r.replicas {
		if version(pod) != r.Update.Name || r.available(pod) && !terminating(pod) {
			continue
		}
		waits = true
		if !created(pod) || terminating(pod) {
			continue
		}
		if pod.Status.Phase == v1.PodFailed {
			if r.Waiting(pod) >= longestWait {
				return fmt.Sprintf("Pod %q of revision %q fails whenever it is made.", pod.Name, r.Update.Name), true
			}
			continue
		}
		left := stuckAfter - r.Now.Sub(unreadySince(pod))
		if left <= 0 {
			return fmt.Sprintf("Pod %q of revision %q has not been available for %s.", pod.Name, r.Update.Name, stuckAfter), true
		}
		r.again(left)
	}
	return "", waits
}

// unreadySince is when a pod was last ready, or was made.
func unreadySince(pod *v1.Pod) time.Time {
	for _, c := range pod.Status.Conditions {
		if c.Type == v1.PodReady && !c.LastTransitionTime.IsZero() {
			return c.LastTransitionTime.Time
		}
	}
	return pod.CreationTimestamp.Time
}

// ours puts what we say of a set's rollout among the conditions that others have set.
func ours(theirs, set []appsv1.StatefulSetCondition) []appsv1.StatefulSetCondition {
	is := func(c appsv1.StatefulSetCondition) bool { return c.Type == progressing }
	i, had := slices.IndexFunc(set, is), slices.IndexFunc(theirs, is)
	switch {
	case i < 0 && had < 0:
		return theirs
	case i >= 0 && had >= 0 && theirs[had] == set[i]:
		return theirs
	}
	out := slices.DeleteFunc(slices.Clone(theirs), is)
	if i >= 0 {
		out = append(out, set[i])
	}
	return out
}
