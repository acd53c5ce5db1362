package deployment

import (
	"maps"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
)

// set is a ReplicaSet as it is, and as it is to be.
type set struct {
	seen     *appsv1.ReplicaSet
	replicas int32
	minReady int32
	notes    map[string]string
}

func newSet(rs *appsv1.ReplicaSet) *set {
	return &set{seen: rs, replicas: *rs.Spec.Replicas, minReady: rs.Spec.MinReadySeconds, notes: maps.Clone(rs.Annotations)}
}

func (s *set) active() bool { return s.replicas > 0 }

// note sets an annotation.
func (s *set) note(key, value string) {
	if s.notes == nil {
		s.notes = map[string]string{}
	}
	s.notes[key] = value
}

// number reads an annotation that counts; ok is false when it does not.
func (s *set) number(key string) (n int32, ok bool) {
	v, err := strconv.ParseInt(s.notes[key], 10, 32)
	return int32(v), err == nil && v >= 0
}

// size makes a set of n replicas, and notes for how many of the Deployment's that is: by that a later change of its size is known.
func (r *roll) size(s *set, n int32) (changed bool) {
	if s.replicas == n {
		return false
	}
	s.replicas = n
	r.noteSize(s)
	return true
}

func (r *roll) noteSize(s *set) {
	s.note(desiredReplicas, strconv.Itoa(int(r.wanted())))
	s.note(maxReplicas, strconv.Itoa(int(r.wanted()+r.surge())))
}

// change puts a set that is to be other than it is into the plan.
func (r *roll) change(s *set) {
	if s.replicas != *s.seen.Spec.Replicas || s.minReady != s.seen.Spec.MinReadySeconds || !maps.Equal(s.notes, s.seen.Annotations) {
		r.Change = append(r.Change, Change{Set: s.seen, Replicas: s.replicas, MinReady: s.minReady, Annotations: s.notes})
	}
}

// sum adds up what f says of each set.
func sum(sets []*set, f func(*set) int32) (n int32) {
	for _, s := range sets {
		n += f(s)
	}
	return n
}

func replicas(s *set) int32  { return s.replicas }
func available(s *set) int32 { return s.seen.Status.AvailableReplicas }

// kept are the available pods that stay: of a set that has just been made smaller, more may still be there.
func kept(s *set) int32   { return min(available(s), s.replicas) }
func actual(s *set) int32 { return s.seen.Status.Replicas }

func actives(sets []*set) (out []*set) {
	for _, s := range sets {
		if s.active() {
			out = append(out, s)
		}
	}
	return out
}
