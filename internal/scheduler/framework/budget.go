package framework

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Budget is how many of some pods may be disrupted now: what a PodDisruptionBudget says.
type Budget struct {
	Namespace string
	Selector  labels.Selector // an empty one selects nothing
	Allowed   int32
	// Disrupted are the names of pods whose disruption has been counted already.
	Disrupted map[string]metav1.Time
}

// Covers tells whether the pod's leaving counts against the budget.
func (b *Budget) Covers(pod *v1.Pod) bool {
	if pod.Namespace != b.Namespace || b.Selector.Empty() || len(pod.Labels) == 0 || !b.Selector.Matches(labels.Set(pod.Labels)) {
		return false
	}
	_, known := b.Disrupted[pod.Name]
	return !known
}
