package budget

import (
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Verdict is an eviction that may be.
type Verdict struct {
	// Taken is the budget as it is afterwards; nil where none has to give.
	Taken *policyv1.PodDisruptionBudget
	// AsJudged says that the pod may go only as it is now: were it to become ready, somebody would rely on it.
	AsJudged bool
}

// Evict judges the eviction of a pod by the budget that covers it, one of those given:
//
//	ended or leaving ───────────────────────────────────────────► allowed: no budget is asked
//	pending ────────────────────────────────────────────────────► allowed, as it is
//	covered by none ────────────────────────────────────────────► allowed
//	covered by several ─────────────────────────────────────────► refused: which would have to give?
//	not ready, policy AlwaysAllow, or enough others are healthy ► allowed, as it is
//	the budget allows a disruption ─────────────────────────────► allowed: it is taken, and noted by the pod's name
//	it allows none, or has not been counted yet ────────────────► refused: try again later
func Evict(pod *v1.Pod, budgets []*policyv1.PodDisruptionBudget, now time.Time) (Verdict, error) {
	switch p := pod.Status.Phase; {
	case p == v1.PodSucceeded || p == v1.PodFailed || pod.DeletionTimestamp != nil:
		return Verdict{}, nil
	case p == v1.PodPending:
		return Verdict{AsJudged: true}, nil
	}
	var b *policyv1.PodDisruptionBudget
	for _, x := range budgets {
		switch {
		case !Covers(x, pod):
		case b != nil:
			return Verdict{}, several()
		default:
			b = x
		}
	}
	switch {
	case b == nil:
		return Verdict{}, nil
	case !ready(pod) && harmless(b):
		return Verdict{AsJudged: true}, nil
	}
	if err := allows(b); err != nil {
		return Verdict{}, err
	}
	return Verdict{Taken: less(b, pod.Name, now)}, nil
}

// less is a budget after it has given a disruption.
func less(b *policyv1.PodDisruptionBudget, pod string, now time.Time) *policyv1.PodDisruptionBudget {
	was := b.Status.Conditions
	b = b.DeepCopy()
	if b.Status.DisruptionsAllowed--; b.Status.DisruptionsAllowed == 0 {
		condition(b, was, now)
	}
	if b.Status.DisruptedPods == nil {
		b.Status.DisruptedPods = map[string]metav1.Time{}
	}
	b.Status.DisruptedPods[pod] = metav1.NewTime(now).Rfc3339Copy()
	return b
}

// harmless says that a pod which is not ready may go without being counted.
func harmless(b *policyv1.PodDisruptionBudget) bool {
	if p := b.Spec.UnhealthyPodEvictionPolicy; p != nil && *p == policyv1.AlwaysAllow {
		return true
	}
	return b.Status.DesiredHealthy > 0 && b.Status.CurrentHealthy >= b.Status.DesiredHealthy
}

// maxDisrupted is how many evictions a budget notes that the controller has not confirmed yet.
const maxDisrupted = 2000

func several() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: 500, Message: "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
	}}
}

// allows says why a budget does not give a disruption.
func allows(b *policyv1.PodDisruptionBudget) error {
	s := &b.Status
	switch {
	case s.ObservedGeneration < b.Generation:
		return tooMany(10, fmt.Sprintf("The disruption budget %s is still being processed by the server.", b.Name))
	case s.DisruptionsAllowed < 0:
		return never(b.Name, "pdb disruptions allowed is negative", "pdb disruptions allowed is negative")
	case len(s.DisruptedPods) > maxDisrupted:
		return never(b.Name, "DisruptedPods map too big - too many evictions not confirmed by PDB controller",
			"too many pending evictions not confirmed by PDB controller")
	case s.DisruptionsAllowed == 0:
		return tooMany(0, whyNone(b))
	}
	return nil
}

// whyNone tells what keeps a budget from allowing a disruption. Its numbers say nothing when they could not be counted.
func whyNone(b *policyv1.PodDisruptionBudget) string {
	s := &b.Status
	c := meta.FindStatusCondition(s.Conditions, policyv1.DisruptionAllowedCondition)
	told := c != nil && c.Status == metav1.ConditionFalse && c.Message != ""
	switch {
	case told && c.Reason == policyv1.SyncFailedReason:
		return fmt.Sprintf("The disruption budget %s does not allow evicting pods currently because it failed sync: %s", b.Name, c.Message)
	case s.CurrentHealthy <= s.DesiredHealthy:
		return fmt.Sprintf("The disruption budget %s needs %d healthy pods and has %d currently", b.Name, s.DesiredHealthy, s.CurrentHealthy)
	case told:
		return fmt.Sprintf("The disruption budget %s does not allow evicting pods currently (%s): %s", b.Name, c.Reason, c.Message)
	}
	return fmt.Sprintf("The disruption budget %s does not allow evicting pods currently", b.Name)
}

func tooMany(retrySeconds int, cause string) error {
	err := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", retrySeconds)
	return caused(err, cause)
}

func never(name, why, cause string) error {
	err := apierrors.NewForbidden(schema.GroupResource{Group: policyv1.GroupName, Resource: "poddisruptionbudget"}, name, errors.New(why))
	return caused(err, fmt.Sprintf("The disruption budget %s does not allow evicting pods currently: %s", name, cause))
}

func caused(err *apierrors.StatusError, cause string) error {
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{Type: policyv1.DisruptionBudgetCause, Message: cause})
	return err
}
