package plan

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"podo.dev/podo/internal/scheduler/framework"
)

// Preemption is a way to make room: pods of lower priority that have to leave a node. Node is nil when there is none; Text says so,
// or what was found, in upstream's words.
type Preemption struct {
	Node    *framework.Node
	Victims []*framework.Pod // the most important first
	// Violations is how many victims their budgets would keep.
	Violations int
	Text       string
}

// NotEligible are the texts for pods that may not make room (again).
const (
	NeverEligible   = "not eligible due to preemptionPolicy=Never."
	VictimsLeaving  = "not eligible due to a terminating pod on the nominated node."
	VictimsBeingHad = "waiting for the preemption for this pod to be finished"
)

var (
	noVictims  = &framework.Rejection{Reasons: []string{"No preemption victims found for incoming pod"}}
	notHelpful = &framework.Rejection{Reasons: []string{"Preemption is not helpful for scheduling"}}
)

// Preempts tells whether pods may have others leave at all.
func (p *Planner) Preempts() bool { return !p.set.Preemption.Off }

// enoughCandidates is the number of nodes that are enough to choose from.
func (p *Planner) enoughCandidates(nodes int) int {
	return min(max(nodes*p.set.Preemption.Percent/100, p.set.Preemption.AtLeast), nodes)
}

// Preempt looks for the node where making room for the pod costs least. It is called after Schedule failed with d, before the cluster
// changes, and changes nothing. now is the start of pods that have none yet.
//
// On each node all pods of lower priority are thought away; then as many as possible are put back, those first that a budget keeps, and
// among them the more important ones. Of the nodes that are left, the choice is by upstream's rules (cheaper, below).
func (p *Planner) Preempt(c *framework.Cluster, pod *framework.Pod, d *Diagnosis, budgets []framework.Budget, now time.Time) Preemption {
	m := p.memos[pod.Shape] // Schedule has just made or used it
	known := m != nil && m.diagnosis == d && m.at == c.Generation
	if known && m.futile != "" {
		return Preemption{Text: m.futile}
	}
	p.relate(c, pod)
	why := map[*framework.Rejection]int{}
	if rest := d.Nodes - len(d.resolvable); rest > 0 {
		why[notHelpful] = rest
	}
	var best candidate
	found, harmless, enough := 0, 0, p.enoughCandidates(len(d.resolvable))
	offset := 0
	if len(d.resolvable) > enough {
		offset = p.rng.IntN(len(d.resolvable))
	}
	for i := range d.resolvable {
		x, rejected := p.victims(pod, d.resolvable[(offset+i)%len(d.resolvable)], budgets, now)
		if rejected != nil {
			why[rejected]++
			continue
		}
		if found++; x.Violations == 0 {
			harmless++
		}
		if better := cheaper(x, best); best.Node == nil || better < 0 || better == 0 && p.rng.IntN(found) == 0 {
			best = x
		}
		if found >= enough && harmless > 0 {
			break
		}
	}
	if best.Node == nil {
		text := futile(d.Nodes, why)
		if known {
			m.futile = text
		}
		return Preemption{Text: text}
	}
	best.Text = fmt.Sprintf("found a potential placement for pod on node %v, preempting %d victims", best.Node.Name, len(best.Victims))
	return best.Preemption
}

func futile(nodes int, why map[*framework.Rejection]int) string {
	counts := map[string]int{}
	for r, n := range why {
		for _, text := range r.Reasons {
			counts[text] += n
		}
	}
	var words []string
	for text, n := range counts {
		words = append(words, fmt.Sprintf("%d %s", n, text))
	}
	sort.Strings(words)
	return fmt.Sprintf("0/%d nodes are available: %s.", nodes, strings.Join(words, ", "))
}

// candidate is a Preemption with what it is compared by.
type candidate struct {
	Preemption
	highest int32     // priority among the victims
	sum     int64     // of their priorities, each made positive
	since   time.Time // the earliest start among those of the highest priority
}

// cheaper is negative when a costs less than b: fewer budgets violated, then a lower highest priority, a lower sum of priorities, fewer
// victims, and at last victims that started later.
func cheaper(a, b candidate) int {
	return cmp.Or(
		cmp.Compare(a.Violations, b.Violations),
		cmp.Compare(a.highest, b.highest),
		cmp.Compare(a.sum, b.sum),
		cmp.Compare(len(a.Victims), len(b.Victims)),
		b.since.Compare(a.since),
	)
}

// victims finds those that have to leave one node, or why that would not help.
func (p *Planner) victims(pod *framework.Pod, n *framework.Node, budgets []framework.Budget, now time.Time) (candidate, *framework.Rejection) {
	lower := lowerPriority(pod, n)
	if len(lower) == 0 {
		return candidate{}, noVictims
	}
	for _, v := range lower {
		n.Lift(v)
	}
	if r := p.occupied(pod, n); r != nil {
		for _, v := range lower {
			n.Put(v)
		}
		return candidate{}, r
	}
	slices.SortFunc(lower, func(a, b *framework.Pod) int { return moreImportant(a, b, now) })
	kept, others := underBudget(lower, budgets)
	out := candidate{Preemption: Preemption{Node: n}}
	reprieve := func(v *framework.Pod) bool {
		n.Put(v)
		if p.occupied(pod, n) == nil {
			return true
		}
		n.Lift(v)
		out.Victims = append(out.Victims, v)
		return false
	}
	for _, v := range kept {
		if !reprieve(v) {
			out.Violations++
		}
	}
	for _, v := range others {
		reprieve(v)
	}
	slices.SortFunc(out.Victims, func(a, b *framework.Pod) int { return moreImportant(a, b, now) })
	out.highest = math.MinInt32
	for _, v := range out.Victims {
		n.Put(v)
		out.sum += int64(v.Shape.Priority) + math.MaxInt32 + 1
		out.highest = max(out.highest, v.Shape.Priority)
	}
	for _, v := range out.Victims {
		if t := started(v, now); v.Shape.Priority == out.highest && (out.since.IsZero() || t.Before(out.since)) {
			out.since = t
		}
	}
	return out, nil
}

func lowerPriority(pod *framework.Pod, n *framework.Node) []*framework.Pod {
	var out []*framework.Pod
	for _, v := range n.Pods {
		if v.Shape.Priority < pod.Shape.Priority {
			out = append(out, v)
		}
	}
	return out
}

// moreImportant orders by priority and then by age; the UID makes the order total.
func moreImportant(a, b *framework.Pod, now time.Time) int {
	return cmp.Or(
		cmp.Compare(b.Shape.Priority, a.Shape.Priority),
		started(a, now).Compare(started(b, now)),
		strings.Compare(string(a.Object.UID), string(b.Object.UID)),
	)
}

func started(p *framework.Pod, now time.Time) time.Time {
	if t := p.Object.Status.StartTime; t != nil {
		return t.Time
	}
	return now
}

// underBudget parts the pods, in order, into those whose leaving a budget no longer allows and the others. A pod whose disruption the
// budget knows of already takes nothing of it.
func underBudget(pods []*framework.Pod, budgets []framework.Budget) (kept, others []*framework.Pod) {
	left := make([]int32, len(budgets))
	for i := range budgets {
		left[i] = budgets[i].Allowed
	}
	for _, p := range pods {
		violates := false
		for i := range budgets {
			if budgets[i].Covers(p.Object) {
				left[i]--
				violates = violates || left[i] < 0
			}
		}
		if violates {
			kept = append(kept, p)
		} else {
			others = append(others, p)
		}
	}
	return kept, others
}

// Eligible tells why a pod may not make room; "" when it may. waits is the node that it is nominated to, or nil: while somebody leaves
// there because of a preemption, nobody else has to.
func Eligible(pod *framework.Pod, waits *framework.Node, d *Diagnosis) string {
	if pod.Shape.NeverPreempts {
		return NeverEligible
	}
	if waits == nil || waits.Object == nil || !slices.Contains(d.resolvable, waits) {
		return ""
	}
	for _, v := range waits.Pods {
		if v.Shape.Priority < pod.Shape.Priority && leavesForOthers(v.Object) {
			return VictimsLeaving
		}
	}
	return ""
}

func leavesForOthers(pod *v1.Pod) bool {
	if pod.DeletionTimestamp == nil {
		return false
	}
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == v1.DisruptionTarget {
			return c.Status == v1.ConditionTrue && c.Reason == v1.PodReasonPreemptionByScheduler
		}
	}
	return false
}
