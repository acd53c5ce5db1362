package plan

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"sort"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"podo.dev/podo/internal/scheduler/framework"
)

// Preemption is a way to make room: pods of lower priority that have to leave a node. When there is none, Node is nil and Text
// says why, in upstream's words.
type Preemption struct {
	Node    *framework.Node
	Victims []*framework.Pod // the most important first
	// Violations is how many victims are evicted against their budgets.
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

// Candidates are nodes on which there would be room. Text says why there is none.
type Candidates struct {
	List []Preemption
	Text string
}

// Preempt looks for the node where making room for the pod costs least. It is called after Schedule failed with d, before the
// cluster changes, and changes nothing. now stands for the start of pods that have none yet.
func (p *Planner) Preempt(c *framework.Cluster, pod *framework.Pod, d *Diagnosis, budgets []framework.Budget, now time.Time) Preemption {
	list, text := p.candidates(c, pod, d, budgets, now)
	if len(list) == 0 {
		return Preemption{Text: text}
	}
	return p.cheapest(list)
}

// Candidates are the nodes that Preempt chooses from.
func (p *Planner) Candidates(c *framework.Cluster, pod *framework.Pod, d *Diagnosis, budgets []framework.Budget, now time.Time) (out Candidates) {
	list, text := p.candidates(c, pod, d, budgets, now)
	for _, x := range list {
		out.List = append(out.List, x.Preemption)
	}
	out.Text = text
	return out
}

// Cheapest chooses among candidates, by node, that extenders have reduced since. Pods that have left are no victims any more, and
// a node without victims is no candidate.
func (p *Planner) Cheapest(c *framework.Cluster, of map[string]*extenderv1.Victims, now time.Time) Preemption {
	var list []*candidate
	for _, name := range slices.Sorted(maps.Keys(of)) {
		n := c.Node(name)
		if n == nil {
			continue
		}
		x := &candidate{Preemption: Preemption{Node: n, Violations: int(of[name].NumPDBViolations)}}
		for _, v := range of[name].Pods {
			if on := n.Pods[v.UID]; on != nil {
				x.Victims = append(x.Victims, on)
			}
		}
		if len(x.Victims) > 0 {
			x.weigh(now)
			list = append(list, x)
		}
	}
	if len(list) == 0 {
		return Preemption{}
	}
	return p.cheapest(list)
}

// candidates finds nodes on which there would be room; they hold until the next question. On each node all pods of lower priority
// are lifted, and then as many as possible are put back: first those that a budget keeps, and among them the more important ones.
// The choice among the nodes follows upstream's rules (cheaper, below).
func (p *Planner) candidates(
	c *framework.Cluster, pod *framework.Pod, d *Diagnosis, budgets []framework.Budget, now time.Time,
) (list []*candidate, text string) {
	m := p.memos[pod.Shape] // made or used by Schedule just now
	known := m != nil && m.diagnosis == d && m.at == c.Generation
	if known && m.futile != "" {
		return nil, m.futile
	}
	p.relate(c, pod)
	why := map[*framework.Rejection]int{}
	if rest := d.Nodes - d.resolvable; rest > 0 {
		why[notHelpful] = rest
	}
	harmless, enough := 0, p.enoughCandidates(d.resolvable)
	offset := 0
	if d.resolvable > enough {
		offset = p.rng.IntN(len(c.Nodes))
	}
	list = p.list[:0]
	defer func() { p.list = list[:0] }()
	for i := range c.Nodes {
		slot := (offset + i) % len(c.Nodes)
		if !d.helpable(slot) {
			continue
		}
		x, rejected := p.remembered(m, pod, c.Nodes[slot], budgets, now)
		if rejected != nil {
			why[rejected]++
			continue
		}
		if list = append(list, x); x.Violations == 0 {
			harmless++
		}
		if len(list) >= enough && harmless > 0 {
			break
		}
	}
	if len(list) > 0 {
		return list, ""
	}
	text = futile(d.Nodes, why)
	if known {
		m.futile = text
	}
	return nil, text
}

// cheapest takes one of the best.
func (p *Planner) cheapest(list []*candidate) Preemption {
	best := list[0]
	for i := range list[1:] {
		x := list[i+1]
		if better := cheaper(x, best); better < 0 || better == 0 && p.rng.IntN(i+2) == 0 {
			best = x
		}
	}
	found := best.Preemption
	found.Text = fmt.Sprintf("found a potential placement for pod on node %v, preempting %d victims", found.Node.Name, len(found.Victims))
	return found
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
	since   time.Time // the earliest start among those of the highest priority; zero: none of them has started
}

// cheaper is negative when a costs less than b: fewer budgets violated, then a lower highest priority, a lower sum of priorities, fewer
// victims, and at last victims that started later.
func cheaper(a, b *candidate) int {
	return cmp.Or(
		cmp.Compare(a.Violations, b.Violations),
		cmp.Compare(a.highest, b.highest),
		cmp.Compare(a.sum, b.sum),
		cmp.Compare(len(a.Victims), len(b.Victims)),
		later(b.since, a.since),
	)
}

// later compares times where zero is later than any.
func later(a, b time.Time) int {
	if a.IsZero() || b.IsZero() {
		return cmp.Compare(one(a.IsZero()), one(b.IsZero()))
	}
	return a.Compare(b)
}

func one(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// victims are the answer for one node; it holds while the node's stamp is the same.
type victims struct {
	stamp    framework.Stamp
	found    *candidate
	rejected *framework.Rejection
}

// remembered returns the remembered answer of victims, or asks. Budgets change without the cluster, and so does what is related
// elsewhere: with either, nothing is remembered.
func (p *Planner) remembered(
	m *memo, pod *framework.Pod, n *framework.Node, budgets []framework.Budget, now time.Time,
) (*candidate, *framework.Rejection) {
	if m == nil || len(m.entries) == 0 || p.bound || len(budgets) > 0 || p.waits == n {
		return p.victims(pod, n, budgets, now)
	}
	if more := n.Slot() + 1 - len(m.victims); more > 0 {
		m.victims = append(m.victims, make([]victims, more)...)
	}
	v := &m.victims[n.Slot()]
	if stamp := n.Stamp(); v.stamp != stamp {
		v.stamp = stamp
		v.found, v.rejected = p.victims(pod, n, budgets, now)
	}
	return v.found, v.rejected
}

// victims finds the pods that have to leave one node, or says why that would not help.
func (p *Planner) victims(pod *framework.Pod, n *framework.Node, budgets []framework.Budget, now time.Time) (*candidate, *framework.Rejection) {
	lower := LowerPriority(pod, n)
	if len(lower) == 0 {
		return nil, noVictims
	}
	for _, v := range lower {
		p.lift(n, v)
	}
	if r := p.occupied(pod, n); r != nil {
		for _, v := range lower {
			p.put(n, v)
		}
		return nil, r
	}
	slices.SortFunc(lower, func(a, b *framework.Pod) int { return moreImportant(a, b, now) })
	kept, others := underBudget(lower, budgets)
	out := &candidate{Preemption: Preemption{Node: n}}
	reprieve := func(v *framework.Pod) bool {
		p.put(n, v)
		if p.occupied(pod, n) == nil {
			return true
		}
		p.lift(n, v)
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
	for _, v := range out.Victims {
		p.put(n, v)
	}
	out.weigh(now)
	return out, nil
}

// weigh orders the victims and computes what candidates are compared by.
func (x *candidate) weigh(now time.Time) {
	slices.SortFunc(x.Victims, func(a, b *framework.Pod) int { return moreImportant(a, b, now) })
	x.highest = math.MinInt32
	for _, v := range x.Victims {
		x.sum += int64(v.Shape.Priority) + math.MaxInt32 + 1
		x.highest = max(x.highest, v.Shape.Priority)
	}
	for _, v := range x.Victims {
		if t := v.Object.Status.StartTime; v.Shape.Priority == x.highest && t != nil && (x.since.IsZero() || t.Time.Before(x.since)) {
			x.since = t.Time
		}
	}
}

// LowerPriority are the pods of a node that rank below one.
func LowerPriority(pod *framework.Pod, n *framework.Node) []*framework.Pod {
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

// underBudget divides the pods, in order, into those whose eviction a budget no longer allows and the others. A pod whose
// disruption the budget has counted already does not count again.
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

// Eligible tells why a pod may not make room; "" when it may. waits is the node to which it is nominated, or nil: while a victim
// of a preemption is still leaving there, no other has to.
func Eligible(pod *framework.Pod, waits *framework.Node, d *Diagnosis) string {
	if pod.Shape.NeverPreempts {
		return NeverEligible
	}
	if waits == nil || waits.Object == nil || !d.helpable(waits.Slot()) || !Leaving(pod, waits) {
		return ""
	}
	return VictimsLeaving
}

// Leaving says that a pod of lower priority is still leaving a node because of a preemption.
func Leaving(pod *framework.Pod, n *framework.Node) bool {
	for _, v := range n.Pods {
		if v.Shape.Priority < pod.Shape.Priority && leavesForOthers(v.Object) {
			return true
		}
	}
	return false
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
