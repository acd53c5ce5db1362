package deployment

import (
	"cmp"
	"math"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// surge and unavailable are how many pods there may be more than wanted, and how many fewer may be available. Percentages of the one are
// rounded up, of the other down; when both come to nothing, one may be unavailable, since a quota may forbid more.
func (r *roll) surge() int32 {
	n, _ := r.fenceposts()
	return n
}

func (r *roll) unavailable() int32 {
	_, n := r.fenceposts()
	return min(n, r.wanted())
}

func (r *roll) fenceposts() (surge, unavailable int32) {
	u := r.d.Spec.Strategy.RollingUpdate
	if !r.rolling() || u == nil {
		return 0, 0
	}
	// What cannot be scaled is refused by the API.
	s, _ := intstr.GetScaledValueFromIntOrPercent(intstr.ValueOrDefault(u.MaxSurge, intstr.FromInt32(0)), int(r.wanted()), true)
	n, _ := intstr.GetScaledValueFromIntOrPercent(intstr.ValueOrDefault(u.MaxUnavailable, intstr.FromInt32(0)), int(r.wanted()), false)
	if s == 0 && n == 0 {
		n = 1
	}
	return int32(s), int32(n)
}

// room is how many replicas the new set may have beside all others, as much as it has at least.
func (r *roll) room(have, all int32) int32 {
	if !r.rolling() {
		return r.wanted()
	}
	limit := int32(min(int64(r.wanted())+int64(r.surge()), math.MaxInt32))
	if all >= limit {
		return have
	}
	return have + min(limit-all, r.wanted()-have)
}

// grow gives the new set as many replicas as there may be. One that has too many loses them.
func (r *roll) grow() bool {
	switch have := r.new.replicas; {
	case have == r.wanted():
		return false
	case have > r.wanted():
		return r.size(r.new, r.wanted())
	default:
		return r.size(r.new, r.room(have, sum(r.sets, replicas)))
	}
}

// shrink takes replicas from the old sets, as many as may be missing: first those that are not available anyway, then others, the oldest
// set first. What the new set still lacks counts as missing already, so that a revision that never comes up stops the rollout.
func (r *roll) shrink() bool {
	old := actives(r.old())
	least := r.wanted() - r.unavailable()
	spare := sum(r.sets, replicas) - least - (r.new.replicas - kept(r.new))
	if len(old) == 0 || spare <= 0 {
		return false
	}
	shrunk := false
	for _, s := range old {
		n := min(spare, s.replicas-kept(s))
		if n > 0 {
			spare -= n
			shrunk = r.size(s, s.replicas-n) || shrunk
		}
	}
	spare = sum(r.sets, kept) - least
	for _, s := range old {
		if n := min(spare, s.replicas); n > 0 {
			spare -= n
			shrunk = r.size(s, s.replicas-n) || shrunk
		}
	}
	return shrunk
}

// recreate ends all old pods before the first new one is made.
func (r *roll) recreate() {
	shrunk := false
	for _, s := range r.old() {
		shrunk = r.size(s, 0) || shrunk
	}
	if shrunk || r.oldPods() {
		return
	}
	if r.new == nil && !r.make() {
		return
	}
	r.size(r.new, r.wanted())
	if complete(r.d, &r.d.Status) {
		r.forget()
	}
}

// oldPods says that a pod of an old revision may still run.
func (r *roll) oldPods() bool {
	return slices.ContainsFunc(r.old(), func(s *set) bool { return s.seen.Status.Replicas > 0 || r.seen.Running[s.seen.UID] })
}

// forget removes the oldest of the old sets that are more than the history is to hold; one that has or gets pods stays.
func (r *roll) forget() {
	limit := r.d.Spec.RevisionHistoryLimit
	if limit == nil || *limit == math.MaxInt32 || rollbackTo(r.d) != nil {
		return
	}
	var old []*set
	for _, s := range r.old() {
		if s.seen.DeletionTimestamp == nil {
			old = append(old, s)
		}
	}
	slices.SortStableFunc(old, func(a, b *set) int { return cmp.Or(cmp.Compare(revision(a), revision(b)), older(a, b)) })
	for _, s := range old[:max(0, len(old)-int(*limit))] {
		rs := s.seen
		if rs.Status.Replicas == 0 && *rs.Spec.Replicas == 0 && s.replicas == 0 && rs.Generation <= rs.Status.ObservedGeneration {
			r.Delete = append(r.Delete, rs)
		}
	}
}

// complete says that a status tells of a rollout's end: all pods are of the new template, and available.
func complete(d *appsv1.Deployment, s *appsv1.DeploymentStatus) bool {
	n := *d.Spec.Replicas
	return s.UpdatedReplicas == n && s.Replicas == n && s.AvailableReplicas == n && s.ObservedGeneration >= d.Generation
}
