package eviction

import (
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Observation is how much of something there is, and how much of it is left.
type Observation struct{ Available, Capacity resource.Quantity }

// State is what the decisions of one moment leave for the next. The zero value is the start.
type State struct {
	crossed  map[key]time.Time                  // since when a threshold has been crossed
	acting   map[key]bool                       // those whose grace is over: they hold until their reclaim is met
	pressure map[v1.NodeConditionType]time.Time // when a condition was last seen
}

// key tells thresholds apart: there is at most one of each kind on a signal.
type key struct {
	signal Signal
	soft   bool
}

// Verdict is what follows from a moment's observations.
type Verdict struct {
	// Conditions that the node has: a condition stays for the transition period after it was last seen.
	Conditions []v1.NodeConditionType
	// Act is the threshold for which pods must go now, nil when none must. Memory comes first.
	Act *Threshold
	// Resource is what Act's signal is about.
	Resource v1.ResourceName
}

// Judge takes a moment's observations. Signals that could not be measured are passed over.
//
//	available < value ──► crossed ── grace over (hard: at once) ──► acting ── available > value + reclaim ──► resolved
//	                         └──► condition, until it has not been seen for the transition period
func Judge(s State, thresholds []Threshold, seen map[Signal]Observation, transition time.Duration, now time.Time) (State, Verdict) {
	next := State{map[key]time.Time{}, map[key]bool{}, maps.Clone(s.pressure)}
	if next.pressure == nil {
		next.pressure = map[v1.NodeConditionType]time.Time{}
	}
	var v Verdict
	for _, t := range thresholds {
		o, ok := seen[t.Signal]
		if !ok {
			continue
		}
		k := key{t.Signal, t.Soft}
		limit := t.Value.of(o.Capacity)
		if s.acting[k] {
			more := t.Reclaim.of(o.Capacity)
			limit.Add(more)
		}
		if o.Available.Cmp(limit) >= 0 {
			continue
		}
		since, before := s.crossed[k]
		if !before {
			since = now
		}
		next.crossed[k] = since
		next.pressure[meanings[t.Signal].condition] = now
		if t.Soft && now.Sub(since) < t.Grace {
			continue
		}
		next.acting[k] = true
		if v.Act == nil || meanings[v.Act.Signal].resource != v1.ResourceMemory && meanings[t.Signal].resource == v1.ResourceMemory {
			v.Act, v.Resource = &t, meanings[t.Signal].resource
		}
	}
	for c, at := range next.pressure {
		if now.Sub(at) > transition {
			delete(next.pressure, c)
			continue
		}
		v.Conditions = append(v.Conditions, c)
	}
	slices.Sort(v.Conditions)
	return next, v
}
