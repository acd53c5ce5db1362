package budget_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"podo.dev/podo/internal/budget"
)

var now = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func podOf(name string, phase v1.PodPhase, ready bool, owner string) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{"app": "web"}}, Status: v1.PodStatus{Phase: phase}}
	if ready {
		p.Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}
	}
	if owner != "" {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: owner, UID: types.UID(owner), Controller: new(true)}}
	}
	return p
}

func budgetOf(name string, s policyv1.PodDisruptionBudgetStatus) *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Generation: 1},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
		Status:     s,
	}
}

// What an eviction is answered, word for word.
func TestEvict(t *testing.T) {
	counted := func(allowed, healthy, desired int32) *policyv1.PodDisruptionBudget {
		return budgetOf("b", policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 1, DisruptionsAllowed: allowed, CurrentHealthy: healthy, DesiredHealthy: desired})
	}
	with := func(b *policyv1.PodDisruptionBudget, change func(*policyv1.PodDisruptionBudget)) *policyv1.PodDisruptionBudget {
		change(b)
		return b
	}
	condition := func(reason, message string) func(*policyv1.PodDisruptionBudget) {
		return func(b *policyv1.PodDisruptionBudget) {
			b.Status.Conditions = []metav1.Condition{{Type: "DisruptionAllowed", Status: "False", Reason: reason, Message: message}}
		}
	}
	running, unready := podOf("p", v1.PodRunning, true, ""), podOf("p", v1.PodRunning, false, "")
	leaving := podOf("p", v1.PodRunning, true, "")
	leaving.DeletionTimestamp = &metav1.Time{Time: now}
	other := podOf("p", v1.PodRunning, true, "")
	other.Labels = map[string]string{"app": "other"}
	const refused = "Cannot evict pod as it would violate the pod's disruption budget."
	for _, c := range []struct {
		name    string
		pod     *v1.Pod
		budgets []*policyv1.PodDisruptionBudget
		want    string
	}{
		{"ended", podOf("p", v1.PodSucceeded, false, ""), []*policyv1.PodDisruptionBudget{counted(0, 1, 1)}, "allowed"},
		{"failed", podOf("p", v1.PodFailed, false, ""), []*policyv1.PodDisruptionBudget{counted(0, 1, 1)}, "allowed"},
		{"leaving", leaving, []*policyv1.PodDisruptionBudget{counted(0, 1, 1)}, "allowed"},
		{"pending", podOf("p", v1.PodPending, false, ""), []*policyv1.PodDisruptionBudget{counted(0, 1, 1)}, "allowed as it is"},
		{"without", other, []*policyv1.PodDisruptionBudget{counted(0, 1, 1)}, "allowed"},
		{"several", running, []*policyv1.PodDisruptionBudget{counted(1, 1, 0), counted(1, 1, 0)}, "500 This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."},
		{"one left", running, []*policyv1.PodDisruptionBudget{counted(1, 3, 2)}, "allowed, 0 left, False"},
		{"two left", running, []*policyv1.PodDisruptionBudget{counted(2, 3, 1)}, "allowed, 1 left"},
		{"none left", running, []*policyv1.PodDisruptionBudget{counted(0, 2, 2)}, "429 " + refused + " The disruption budget b needs 2 healthy pods and has 2 currently"},
		{"not counted", running, []*policyv1.PodDisruptionBudget{with(counted(5, 5, 0), func(b *policyv1.PodDisruptionBudget) { b.Generation = 2 })}, "429 after 10 s " + refused + " The disruption budget b is still being processed by the server."},
		{"negative", running, []*policyv1.PodDisruptionBudget{counted(-1, 2, 2)}, `403 poddisruptionbudget.policy "b" is forbidden: pdb disruptions allowed is negative The disruption budget b does not allow evicting pods currently: pdb disruptions allowed is negative`},
		{"too many", running, []*policyv1.PodDisruptionBudget{with(counted(1, 2, 1), func(b *policyv1.PodDisruptionBudget) {
			b.Status.DisruptedPods = map[string]metav1.Time{}
			for i := range 2001 {
				b.Status.DisruptedPods[fmt.Sprint(i)] = metav1.Time{}
			}
		})}, `403 poddisruptionbudget.policy "b" is forbidden: DisruptedPods map too big - too many evictions not confirmed by PDB controller The disruption budget b does not allow evicting pods currently: too many pending evictions not confirmed by PDB controller`},
		{"not counted for an error", running, []*policyv1.PodDisruptionBudget{with(counted(0, 0, 0), condition("SyncFailed", "no matches"))}, "429 " + refused + " The disruption budget b does not allow evicting pods currently because it failed sync: no matches"},
		{"for another reason", running, []*policyv1.PodDisruptionBudget{with(counted(0, 3, 2), condition("InsufficientPods", "few"))}, "429 " + refused + " The disruption budget b does not allow evicting pods currently (InsufficientPods): few"},
		{"for no reason", running, []*policyv1.PodDisruptionBudget{counted(0, 3, 2)}, "429 " + refused + " The disruption budget b does not allow evicting pods currently"},
		{"unready, enough others", unready, []*policyv1.PodDisruptionBudget{counted(0, 2, 2)}, "allowed as it is"},
		{"unready, too few others", unready, []*policyv1.PodDisruptionBudget{counted(0, 1, 2)}, "429 " + refused + " The disruption budget b needs 2 healthy pods and has 1 currently"},
		{"unready, none wanted", unready, []*policyv1.PodDisruptionBudget{counted(0, 0, 0)}, "429 " + refused + " The disruption budget b needs 0 healthy pods and has 0 currently"},
		{"unready always", unready, []*policyv1.PodDisruptionBudget{with(counted(0, 1, 2), func(b *policyv1.PodDisruptionBudget) { b.Spec.UnhealthyPodEvictionPolicy = new(policyv1.AlwaysAllow) })}, "allowed as it is"},
	} {
		if got := shown(budget.Evict(c.pod, c.budgets, now)); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
	}
}

func shown(v budget.Verdict, err error) string {
	var status *apierrors.StatusError
	if errors.As(err, &status) {
		s := fmt.Sprint(status.ErrStatus.Code, " ")
		if d := status.ErrStatus.Details; d != nil && d.RetryAfterSeconds > 0 {
			s += fmt.Sprintf("after %d s ", d.RetryAfterSeconds)
		}
		s += status.ErrStatus.Message
		if d := status.ErrStatus.Details; d != nil {
			for _, c := range d.Causes {
				if c.Type == policyv1.DisruptionBudgetCause {
					s += " " + c.Message
				}
			}
		}
		return s
	}
	s := "allowed"
	if v.AsJudged {
		s += " as it is"
	}
	if b := v.Taken; b != nil {
		s += fmt.Sprintf(", %d left", b.Status.DisruptionsAllowed)
		if c := meta.FindStatusCondition(b.Status.Conditions, "DisruptionAllowed"); c != nil {
			s += ", " + string(c.Status)
		}
		if _, noted := b.Status.DisruptedPods["p"]; !noted {
			s += ", not noted"
		}
	}
	return s
}

// counts writes a count as the docs do.
func counts(c budget.Count, err error) string {
	if err != nil {
		return "Error: " + err.Error()
	}
	s := c.Status
	out := fmt.Sprintf("%d of %d, %d wanted, %d allowed", s.CurrentHealthy, s.ExpectedPods, s.DesiredHealthy, s.DisruptionsAllowed)
	if len(c.Unmanaged) > 0 {
		out += ", unmanaged " + strings.Join(c.Unmanaged, " ")
	}
	return out
}

func TestNumber(t *testing.T) {
	sevens := func(*v1.Pod, *metav1.OwnerReference) (budget.Scale, error) {
		return budget.Scale{UID: "d", Replicas: 7}, nil
	}
	ready := func(n int, owner string) (out []*v1.Pod) {
		for i := range n {
			out = append(out, podOf(fmt.Sprint(owner, i), v1.PodRunning, true, owner))
		}
		return out
	}
	leaving := podOf("old", v1.PodRunning, true, "gone")
	leaving.DeletionTimestamp = &metav1.Time{Time: now}
	number, percent := intstr.FromInt32, intstr.FromString
	for _, c := range []struct {
		name        string
		least, most *intstr.IntOrString
		pods        []*v1.Pod
		scales      budget.Scales
		want        string
	}{
		{"nothing said", nil, nil, ready(3, "r"), nil, "3 of 0, 0 wanted, 0 allowed"},
		{"at least two", new(number(2)), nil, ready(3, "r"), nil, "3 of 3, 2 wanted, 1 allowed"},
		{"at least more than there are", new(number(5)), nil, ready(3, "r"), nil, "3 of 3, 5 wanted, 0 allowed"},
		{"at least some, without pods", new(number(0)), nil, nil, nil, "0 of 0, 0 wanted, 0 allowed"},
		{"a share of all, rounded up", new(percent("50%")), nil, ready(7, "r"), sevens, "7 of 7, 4 wanted, 3 allowed"},
		{"two ReplicaSets of a Deployment", new(percent("50%")), nil, append(ready(4, "r"), ready(3, "s")...), sevens, "7 of 7, 4 wanted, 3 allowed"},
		{"at most a share, rounded up", nil, new(percent("30%")), ready(7, "r"), sevens, "7 of 7, 4 wanted, 3 allowed"},
		{"at most one", nil, new(number(1)), ready(7, "r"), sevens, "7 of 7, 6 wanted, 1 allowed"},
		{"at most more than there are", nil, new(number(9)), ready(7, "r"), sevens, "7 of 7, 0 wanted, 7 allowed"},
		{"nobody's", nil, new(number(1)), ready(2, ""), sevens, "2 of 0, 0 wanted, 0 allowed, unmanaged 0 1"},
		{"on its way out, of what is gone, beside others", nil, new(number(1)), append(ready(2, "r"), leaving), func(p *v1.Pod, ref *metav1.OwnerReference) (budget.Scale, error) {
			if ref.Name == "gone" {
				return budget.Scale{}, nil
			}
			return budget.Scale{UID: "r", Replicas: 2}, nil
		}, "2 of 2, 1 wanted, 1 allowed"},
		{"of what is gone", nil, new(number(1)), ready(1, "r"), func(*v1.Pod, *metav1.OwnerReference) (budget.Scale, error) { return budget.Scale{}, nil }, `Error: found no controllers for pod "r0"`},
	} {
		b := budgetOf("b", policyv1.PodDisruptionBudgetStatus{})
		b.Spec.MinAvailable, b.Spec.MaxUnavailable = c.least, c.most
		if got := counts(budget.Number(b, c.pods, c.scales, now)); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// A pod that was evicted does not count, until two minutes have shown that it stays.
func TestEvictedPodsDoNotCount(t *testing.T) {
	b := budgetOf("b", policyv1.PodDisruptionBudgetStatus{DisruptedPods: map[string]metav1.Time{
		"p": {Time: now.Add(-time.Minute)}, "late": {Time: now.Add(-3 * time.Minute)}, "gone": {Time: now},
	}})
	b.Spec.MinAvailable = new(intstr.FromInt32(1))
	c, err := budget.Number(b, []*v1.Pod{podOf("p", v1.PodRunning, true, ""), podOf("late", v1.PodRunning, true, "")}, nil, now)
	if err != nil || c.Status.CurrentHealthy != 1 || len(c.Status.DisruptedPods) != 1 || len(c.Late) != 1 || c.Late[0].Name != "late" || c.Again != time.Minute {
		t.Errorf("%+v, %v", c, err)
	}
}

// However pods come, go and turn ready, and whenever the budget is counted anew: never are fewer healthy than wanted because of evictions.
func TestNoMoreGoThanAllowed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		least := rapid.Int32Range(0, 6).Draw(t, "least")
		b := budgetOf("b", policyv1.PodDisruptionBudgetStatus{})
		b.Spec.MinAvailable = new(intstr.FromInt32(least))
		pods := map[string]*v1.Pod{}
		for i := range rapid.IntRange(0, 8).Draw(t, "pods") {
			p := podOf(fmt.Sprint(i), v1.PodRunning, rapid.Bool().Draw(t, "ready"), "")
			pods[p.Name] = p
		}
		list := func() (out []*v1.Pod) {
			for i := range 8 {
				if p := pods[fmt.Sprint(i)]; p != nil {
					out = append(out, p)
				}
			}
			return out
		}
		// The obvious form: those that are ready and not told to go.
		told := map[string]bool{}
		healthy := func() (n int32) {
			for _, p := range list() {
				if len(p.Status.Conditions) > 0 && !told[p.Name] && p.DeletionTimestamp == nil {
					n++
				}
			}
			return n
		}
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			name := fmt.Sprint(rapid.IntRange(0, 7).Draw(t, "which"))
			switch rapid.SampledFrom([]string{"count", "evict", "evict", "evict", "goes"}).Draw(t, "what") {
			case "count":
				c, err := budget.Number(b, list(), nil, now)
				if err != nil {
					t.Fatal(err)
				}
				if want := max(healthy()-least, 0); c.Status.DisruptionsAllowed != want {
					t.Fatalf("%d allowed of %d healthy, %d wanted", c.Status.DisruptionsAllowed, healthy(), least)
				}
				b.Status = c.Status
			case "evict":
				p := pods[name]
				if p == nil || told[name] {
					continue
				}
				before := healthy()
				v, err := budget.Evict(p, []*policyv1.PodDisruptionBudget{b}, now)
				if err != nil {
					continue
				}
				told[name] = true
				if v.Taken != nil {
					b = v.Taken
				}
				if after := healthy(); after < before && after < least {
					t.Fatalf("%d healthy after the eviction of %s, %d wanted", after, name, least)
				}
			case "goes":
				if told[name] {
					delete(pods, name)
				}
			}
		}
	})
}
