package budget

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	pdbhelper "k8s.io/component-helpers/apps/poddisruptionbudget"
)

// DeletionTimeout is how long a pod that was evicted may take until it is being deleted. After that it counts as there again.
const DeletionTimeout = 2 * time.Minute

// Scale is whose scale a pod is part of, and how many pods there should be of it.
type Scale struct {
	UID      types.UID
	Replicas int32
}

// Scales finds what a pod's controller is to keep up. An error is told in the budget's condition.
type Scales func(pod *v1.Pod, controller *metav1.OwnerReference) (Scale, error)

// Count is what a budget comes to.
type Count struct {
	Status policyv1.PodDisruptionBudgetStatus
	// Unmanaged are pods that nobody controls, where it matters how many there should be; Late those that were evicted and are still there.
	Unmanaged []string
	Late      []*v1.Pod
	// Again says when time alone changes the count; zero when it does not.
	Again time.Duration
}

// Number counts what a budget allows, its pods being those that it covers. An error says that it cannot be known how many there should be.
func Number(b *policyv1.PodDisruptionBudget, pods []*v1.Pod, scales Scales, now time.Time) (Count, error) {
	expected, desired, unmanaged, err := wanted(b, pods, scales)
	if err != nil {
		return Count{}, err
	}
	c := Count{Unmanaged: unmanaged}
	disrupted := map[string]metav1.Time{}
	healthy := int32(0)
	for _, pod := range pods {
		if pod.DeletionTimestamp != nil {
			continue
		}
		if at, noted := b.Status.DisruptedPods[pod.Name]; noted {
			if left := at.Add(DeletionTimeout).Sub(now); left >= 0 {
				disrupted[pod.Name] = at
				if c.Again == 0 || left < c.Again {
					c.Again = max(left, time.Millisecond)
				}
				if left > 0 {
					continue
				}
			} else {
				c.Late = append(c.Late, pod)
			}
		}
		if ready(pod) {
			healthy++
		}
	}
	allowed := max(healthy-desired, 0)
	if expected <= 0 {
		// A budget without pods allows nothing, so that it is safe when its first ones come and have not been counted.
		allowed = 0
	}
	next := b.DeepCopy()
	next.Status = policyv1.PodDisruptionBudgetStatus{
		CurrentHealthy: healthy, DesiredHealthy: desired, ExpectedPods: expected, DisruptionsAllowed: allowed, DisruptedPods: disrupted,
		ObservedGeneration: b.Generation, Conditions: next.Status.Conditions,
	}
	condition(next, b.Status.Conditions, now)
	c.Status = next.Status
	return c, nil
}

// Failed is the status of a budget that could not be counted: it allows nothing.
func Failed(b *policyv1.PodDisruptionBudget, err error, now time.Time) policyv1.PodDisruptionBudgetStatus {
	s := *b.Status.DeepCopy()
	s.DisruptionsAllowed = 0
	meta.SetStatusCondition(&s.Conditions, metav1.Condition{
		Type: policyv1.DisruptionAllowedCondition, Status: metav1.ConditionFalse, Reason: policyv1.SyncFailedReason, Message: err.Error(),
		ObservedGeneration: s.ObservedGeneration,
	})
	stamp(s.Conditions, b.Status.Conditions, now)
	return s
}

// condition says in b whether it allows disruptions.
func condition(b *policyv1.PodDisruptionBudget, were []metav1.Condition, now time.Time) {
	pdbhelper.UpdateDisruptionAllowedCondition(b)
	stamp(b.Status.Conditions, were, now)
}

// stamp gives conditions that have changed the caller's time instead of the library's.
func stamp(conditions, were []metav1.Condition, now time.Time) {
	for i := range conditions {
		c := &conditions[i]
		if old := meta.FindStatusCondition(were, c.Type); old == nil || old.Status != c.Status {
			c.LastTransitionTime = metav1.NewTime(now).Rfc3339Copy()
		}
	}
}

// Same says that writing a status would change nothing.
func Same(b *policyv1.PodDisruptionBudget, s *policyv1.PodDisruptionBudgetStatus) bool {
	return equality.Semantic.DeepEqual(&b.Status, s)
}

// wanted is how many pods there should be, and how many of them healthy. Only a share of all needs to know their controllers.
func wanted(b *policyv1.PodDisruptionBudget, pods []*v1.Pod, scales Scales) (expected, desired int32, unmanaged []string, err error) {
	most, least := b.Spec.MaxUnavailable, b.Spec.MinAvailable
	switch {
	case most == nil && least == nil:
		return 0, 0, nil, nil
	case most == nil && least.Type == intstr.Int:
		return int32(len(pods)), least.IntVal, nil, nil
	}
	if expected, unmanaged, err = scaleOf(pods, scales); err != nil {
		return 0, 0, nil, err
	}
	bound := least
	if most != nil {
		bound = most
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(bound, int(expected), true)
	if err != nil {
		return 0, 0, nil, err
	}
	if desired = int32(n); most != nil {
		desired = max(expected-int32(n), 0)
	}
	return expected, desired, unmanaged, nil
}

// scaleOf is the sum of what the pods' controllers are to keep up, each counted once.
func scaleOf(pods []*v1.Pod, scales Scales) (sum int32, unmanaged []string, err error) {
	known, counted := map[types.UID]bool{}, map[types.UID]bool{}
	for _, pod := range pods {
		ref := metav1.GetControllerOfNoCopy(pod)
		if ref == nil {
			unmanaged = append(unmanaged, pod.Name)
			continue
		}
		if known[ref.UID] {
			continue
		}
		s, err := scales(pod, ref)
		if err != nil {
			return 0, nil, err
		}
		if s.UID == "" && pod.DeletionTimestamp != nil {
			continue // the rest of a revision that nobody keeps: it says nothing of how many there should be
		}
		if s.UID == "" {
			return 0, nil, fmt.Errorf("found no controllers for pod %q", pod.Name)
		}
		known[ref.UID] = true
		if !counted[s.UID] { // several ReplicaSets of one Deployment
			counted[s.UID] = true
			sum += s.Replicas
		}
	}
	return sum, unmanaged, nil
}
