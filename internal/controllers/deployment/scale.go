package deployment

import (
	"cmp"
	"math"
	"slices"
)

// rescaled says that the Deployment's size is another one than its sets were made for.
func (r *roll) rescaled() bool {
	active := actives(r.sets)
	if !r.rolling() && len(active) > 1 {
		return false // all but one of them are on their way out
	}
	return slices.ContainsFunc(active, func(s *set) bool {
		n, ok := s.number(desiredReplicas)
		return ok && n != r.wanted()
	})
}

// resize brings the sets to the Deployment's size without furthering a rollout: one set alone takes it all, several grow and shrink in
// proportion, so that a new template that does not work gets no more weight than it had.
func (r *roll) resize() {
	active := actives(r.sets)
	switch {
	case len(r.sets) == 0:
		return
	case len(active) <= 1:
		only := r.new
		if len(active) == 1 {
			only = active[0]
		} else if only == nil {
			only = r.sets[len(r.sets)-1]
		}
		if !r.size(only, r.wanted()) && only.active() {
			r.noteSize(only)
		}
	case r.saturated():
		for _, s := range r.old() {
			r.size(s, 0)
		}
	case r.rolling():
		r.distribute(active)
	}
}

// saturated says that the new set alone is what the Deployment asks for.
func (r *roll) saturated() bool {
	if r.new == nil {
		return false
	}
	n, ok := r.new.number(desiredReplicas)
	return ok && n == r.wanted() && r.new.replicas == r.wanted() && available(r.new) == r.wanted()
}

// distribute adds what there may be more among the sets, or takes what there is too much. The largest comes first and gets what rounding
// leaves; of equals the newer ones grow first, and the older ones shrink.
func (r *roll) distribute(active []*set) {
	limit := int32(0)
	if r.wanted() > 0 {
		limit = r.wanted() + r.surge()
	}
	add := limit - sum(active, replicas)
	slices.SortFunc(active, func(a, b *set) int {
		age := older(a, b)
		if add > 0 {
			age = -age
		}
		return cmp.Or(cmp.Compare(b.replicas, a.replicas), age)
	})
	left := add
	sizes := make([]int32, len(active))
	for i, s := range active {
		share := r.share(s)
		if add > 0 {
			share = min(share, left)
		} else {
			share = max(share, left)
		}
		if left == 0 {
			share = 0
		}
		sizes[i] = s.replicas + share
		left -= share
	}
	sizes[0] = max(0, sizes[0]+left)
	for i, s := range active {
		s.replicas = sizes[i]
		r.noteSize(s)
	}
}

// share is how much a set would grow if it were to keep its part of the whole.
func (r *roll) share(s *set) int32 {
	if r.wanted() == 0 {
		return -s.replicas
	}
	before, ok := s.number(maxReplicas)
	if !ok || before == 0 {
		if before = r.d.Status.Replicas; before == 0 {
			return 0 // somebody took the annotation away, and there are no pods
		}
	}
	after := float64(s.replicas) * float64(r.wanted()+r.surge()) / float64(before)
	return int32(math.Floor(after+0.5)) - s.replicas
}
