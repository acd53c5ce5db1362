package statefulset

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// roll replaces pods of an earlier template from the end down to the partition, with no more of them unavailable than allowed.
func (r *ranks) roll() {
	if r.Set.Spec.UpdateStrategy.Type != appsv1.RollingUpdateStatefulSetStrategyType {
		return
	}
	partition, most := r.allowed()
	missing := r.missing()
	stuck := func(pod *v1.Pod) bool { return !r.ordered && r.unavailable(pod) && r.outdated(pod) }
	if missing >= most && !slices.ContainsFunc(r.replicas, stuck) {
		return
	}
	if !r.ordered {
		// What does not work is lost to nobody: it goes first, and costs nothing of what may be missing.
		r.replace(partition, len(r.replicas), func(pod *v1.Pod) bool { return r.outdated(pod) && !r.available(pod) })
		r.replace(partition, most-missing, func(pod *v1.Pod) bool { return r.outdated(pod) && r.available(pod) })
		return
	}
	r.replace(partition, most-missing, r.outdated)
}

// outdated says that a pod of another template than the set's has not been told to go.
func (r *ranks) outdated(pod *v1.Pod) bool { return version(pod) != r.Update.Name && !terminating(pod) }

// replace deletes at most n of the pods that match, the last one first.
func (r *ranks) replace(partition, n int, match func(*v1.Pod) bool) {
	for i := len(r.replicas) - 1; i >= partition && n > 0; i-- {
		pod := r.replicas[i]
		if !created(pod) || !match(pod) {
			continue
		}
		r.add(Step{Do: DeletePod, Pod: pod})
		if version(pod) == r.Current.Name {
			r.plan.Status.CurrentReplicas--
		}
		n--
	}
}

// allowed are the number of the first pod to replace and how many may be unavailable meanwhile, at least one.
func (r *ranks) allowed() (partition, unavailable int) {
	u := r.Set.Spec.UpdateStrategy.RollingUpdate
	if u == nil {
		return 0, 1
	}
	if u.Partition != nil {
		partition = int(*u.Partition)
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(intstr.ValueOrDefault(u.MaxUnavailable, intstr.FromInt32(1)), replicas(r.Set), false)
	if err != nil {
		n = 1 // validation does not let it through
	}
	return partition, max(n, 1)
}
