package replicas

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"

	"podo.dev/podo/internal/controllers/podset"
)

// deletionCost is the annotation by which users say which pods are cheap to lose.
const deletionCost = "controller.kubernetes.io/pod-deletion-cost"

// goFirst orders pods so that those that can best be spared are first, as upstream documents: not bound before bound, pending
// before unknown before running, not ready before ready, cheaper before dearer, those with more siblings on their node (of them and of
// the given ones), those ready for a shorter time, those with more restarts, the younger ones. Times are compared by their order of
// magnitude.
func goFirst(pods, siblings []*v1.Pod, now time.Time) []*v1.Pod {
	onNode := map[string]int{}
	for _, p := range pods {
		onNode[p.Spec.NodeName]++
	}
	for _, p := range siblings {
		if Active(p) {
			onNode[p.Spec.NodeName]++
		}
	}
	out := slices.Clone(pods)
	slices.SortStableFunc(out, func(a, b *v1.Pod) int {
		sinceA, readyA := podset.Ready(a)
		sinceB, readyB := podset.Ready(b)
		if c := cmp.Or(
			first(a.Spec.NodeName == "", b.Spec.NodeName == ""),
			cmp.Compare(phaseRank(a), phaseRank(b)),
			first(!readyA, !readyB),
			cmp.Compare(cost(a), cost(b)),
			cmp.Compare(onNode[b.Spec.NodeName], onNode[a.Spec.NodeName]),
		); c != 0 {
			return c
		}
		if readyA && readyB {
			if c := cmp.Compare(magnitude(now.Sub(sinceA)), magnitude(now.Sub(sinceB))); c != 0 {
				return c
			}
		}
		return cmp.Or(
			podset.Restarts(a, b),
			cmp.Compare(magnitude(now.Sub(a.CreationTimestamp.Time)), magnitude(now.Sub(b.CreationTimestamp.Time))),
			cmp.Compare(a.UID, b.UID),
		)
	})
	return out
}

// first puts what holds for a before what does not.
func first(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

func phaseRank(p *v1.Pod) int {
	switch p.Status.Phase {
	case v1.PodPending:
		return 0
	case v1.PodUnknown:
		return 1
	}
	return 2
}

func cost(p *v1.Pod) int64 {
	n, err := strconv.ParseInt(p.Annotations[deletionCost], 10, 32)
	if err != nil {
		return 0 // what the API refuses counts nothing
	}
	return n
}

// magnitude is the logarithm of a time, so that a second does not decide between pods that are days old.
func magnitude(d time.Duration) int64 {
	if d < time.Nanosecond {
		return 0
	}
	return int64(math.Log2(float64(d)))
}
