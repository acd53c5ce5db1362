// Package budget is the arithmetic of PodDisruptionBudgets: which of them cover a pod, what one allows by the pods that there are, and what
// an eviction takes from it. It is pure: times are arguments, and budgets that are given are never changed.
package budget

import (
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Selector selects the pods of a budget: none without a selector or with one that cannot be read, all of its namespace with an empty one.
func Selector(b *policyv1.PodDisruptionBudget) labels.Selector {
	s, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
	if err != nil {
		return labels.Nothing()
	}
	return s
}

// Covers says whether a budget is about a pod.
func Covers(b *policyv1.PodDisruptionBudget, pod *v1.Pod) bool {
	return b.Namespace == pod.Namespace && Selector(b).Matches(labels.Set(pod.Labels))
}

// ready says whether a pod counts as healthy.
func ready(pod *v1.Pod) bool {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == v1.PodReady {
			return c.Status == v1.ConditionTrue
		}
	}
	return false
}
