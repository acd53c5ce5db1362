package admit

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"podo.dev/podo/internal/kubelet/eviction"
	"podo.dev/podo/internal/kubelet/worker"
	"podo.dev/podo/internal/podlife"
)

// shortage is how much of a resource is missing for a pod: thousandths of cpus, whole units of everything else.
type shortage struct {
	resource v1.ResourceName
	amount   int64
}

// preempt names the pods that have to end so that a critical pod gets what it lacks. It prefers pods of a lower class and, within
// a class, the fewest and smallest.
func preempt(pod *v1.Pod, active []*v1.Pod, lacks []shortage) *worker.Rejection {
	var best, burst, guaranteed []*v1.Pod
	for _, p := range active {
		if !preemptable(pod, p) {
			continue
		}
		switch cmp.Or(p.Status.QOSClass, podlife.QOS(p)) {
		case v1.PodQOSBestEffort:
			best = append(best, p)
		case v1.PodQOSBurstable:
			burst = append(burst, p)
		default:
			guaranteed = append(guaranteed, p)
		}
	}
	if left := without(lacks, best, burst, guaranteed); len(left) > 0 {
		return &worker.Rejection{
			Reason: "UnexpectedAdmissionError",
			Message: "Unexpected error while attempting to recover from admission failure: preemption: error finding a set of pods to preempt: " +
				"no set of running pods found to reclaim resources: " + list(left),
		}
	}
	guaranteed = nearest(guaranteed, without(lacks, best, burst))
	burst = nearest(burst, without(lacks, best, guaranteed))
	best = nearest(best, without(lacks, burst, guaranteed))
	return &worker.Rejection{Victims: slices.Concat(best, burst, guaranteed), Lacks: lacks[0].resource}
}

// preemptable tells whether a critical pod may have another's place.
func preemptable(pod, other *v1.Pod) bool {
	if !eviction.Critical(other) {
		return true
	}
	return pod.Spec.Priority != nil && other.Spec.Priority != nil && *pod.Spec.Priority > *other.Spec.Priority
}

// nearest takes, one after another, the pod that leaves the least missing; the smaller of two that leave the same. The pods are
// known to be enough.
func nearest(pods []*v1.Pod, lacks []shortage) (taken []*v1.Pod) {
	pods = slices.Clone(pods)
	for len(lacks) > 0 && len(pods) > 0 {
		best := 0
		for i := 1; i < len(pods); i++ {
			switch d := cmp.Compare(distance(pods[i], lacks), distance(pods[best], lacks)); {
			case d < 0, d == 0 && smaller(pods[i], pods[best]):
				best = i
			}
		}
		lacks = without(lacks, pods[best:best+1])
		taken = append(taken, pods[best])
		pods = slices.Delete(pods, best, best+1)
	}
	return taken
}

// distance is 0 for a pod whose end frees enough; each resource of which it frees nothing adds 1, partial relief adds less.
func distance(p *v1.Pod, lacks []shortage) (sum float64) {
	for _, s := range lacks {
		if left := float64(s.amount - asked(p, s.resource)); left > 0 {
			sum += (left / float64(s.amount)) * (left / float64(s.amount))
		}
	}
	return sum
}

// smaller compares memory, then cpu. Of equals the later one counts as smaller.
func smaller(a, b *v1.Pod) bool {
	for _, name := range []v1.ResourceName{v1.ResourceMemory, v1.ResourceCPU} {
		if c := cmp.Compare(asked(a, name), asked(b, name)); c != 0 {
			return c < 0
		}
	}
	return true
}

// without is what is still missing when groups of pods have ended.
func without(lacks []shortage, groups ...[]*v1.Pod) (left []shortage) {
	for _, s := range lacks {
		for _, p := range slices.Concat(groups...) {
			s.amount -= asked(p, s.resource)
		}
		if s.amount > 0 {
			left = append(left, s)
		}
	}
	return left
}

func asked(p *v1.Pod, name v1.ResourceName) int64 {
	if name == v1.ResourcePods {
		return 1
	}
	return amount(name)(milli(requests(p), name))
}

func list(lacks []shortage) string {
	var b strings.Builder
	b.WriteByte('[')
	for _, s := range lacks {
		fmt.Fprintf(&b, "(res: %v, q: %d), ", s.resource, s.amount)
	}
	b.WriteByte(']')
	return b.String()
}
