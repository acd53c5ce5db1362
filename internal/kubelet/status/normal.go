package status

import (
	"slices"
	"strings"
	"unicode/utf8"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// maxMessages bounds the termination messages of all containers of a pod together, in bytes.
const maxMessages = 12 * 1024

// normalized returns a copy of s in the form in which the API keeps it: times in whole seconds, container statuses by name
// (init ones in the order of the spec), termination messages within their bound, the observed generation filled in.
func normalized(s v1.PodStatus, pod *v1.Pod) v1.PodStatus {
	s = *s.DeepCopy()
	if s.ObservedGeneration == 0 && !static(pod) { // a static pod has none, whatever its mirror's is
		s.ObservedGeneration = pod.Generation
	}
	if s.StartTime != nil {
		seconds(s.StartTime)
	}
	for i := range s.Conditions {
		seconds(&s.Conditions[i].LastProbeTime)
		seconds(&s.Conditions[i].LastTransitionTime)
	}
	limit := maxMessages
	if n := len(pod.Spec.InitContainers) + len(pod.Spec.Containers) + len(pod.Spec.EphemeralContainers); n > 0 {
		limit /= n
	}
	for _, list := range [][]v1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses, s.EphemeralContainerStatuses} {
		for i := range list {
			normalState(&list[i].State, limit)
			normalState(&list[i].LastTerminationState, limit)
		}
	}
	slices.SortStableFunc(s.ContainerStatuses, func(a, b v1.ContainerStatus) int { return strings.Compare(a.Name, b.Name) })
	order := map[string]int{}
	for i := range pod.Spec.InitContainers {
		order[pod.Spec.InitContainers[i].Name] = i
	}
	slices.SortStableFunc(s.InitContainerStatuses, func(a, b v1.ContainerStatus) int { return order[a.Name] - order[b.Name] })
	return s
}

func normalState(s *v1.ContainerState, limit int) {
	if s.Running != nil {
		seconds(&s.Running.StartedAt)
	}
	if t := s.Terminated; t != nil {
		seconds(&t.StartedAt)
		seconds(&t.FinishedAt)
		t.Message = cut(t.Message, limit)
	}
}

// cut shortens s to at most n bytes, not inside of a character.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

func seconds(t *metav1.Time) {
	if !t.IsZero() {
		*t = t.Rfc3339Copy()
	}
}
