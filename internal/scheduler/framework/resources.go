// Package framework has the scheduler's model: pods reduced to their shapes, nodes with what is used of them, the cluster made of
// both, and the interfaces of plug-ins. It is pure: no clock, no goroutine, no I/O. Nothing in it is safe for concurrent use: the
// scheduler's one goroutine owns it.
package framework

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// Resources is a vector of amounts: millicores, bytes, bytes, and the rest by name in sorted order.
type Resources struct {
	MilliCPU, Memory, Ephemeral int64
	Scalars                     []Scalar
}

// Scalar is an amount of an extended resource, huge pages, or another named one.
type Scalar struct {
	Name  v1.ResourceName
	Value int64
}

// ResourcesOf reads a list; pods is the number of pods allowed, which is no part of the vector.
func ResourcesOf(list v1.ResourceList) (r Resources, pods int64) {
	for name, q := range list {
		switch name {
		case v1.ResourceCPU:
			r.MilliCPU = q.MilliValue()
		case v1.ResourceMemory:
			r.Memory = q.Value()
		case v1.ResourceEphemeralStorage:
			r.Ephemeral = q.Value()
		case v1.ResourcePods:
			pods = q.Value()
		default:
			if isScalar(name) {
				r.Scalars = append(r.Scalars, Scalar{name, q.Value()})
			}
		}
	}
	slices.SortFunc(r.Scalars, func(a, b Scalar) int { return strings.Compare(string(a.Name), string(b.Name)) })
	return r, pods
}

func isScalar(name v1.ResourceName) bool {
	s := string(name)
	return strings.HasPrefix(s, v1.ResourceHugePagesPrefix) || strings.HasPrefix(s, v1.ResourceAttachableVolumesPrefix) ||
		strings.Contains(s, "/") && !strings.HasPrefix(s, v1.DefaultResourceRequestsPrefix)
}

// Get is the amount of a scalar.
func (r *Resources) Get(name v1.ResourceName) int64 {
	for i := range r.Scalars {
		if r.Scalars[i].Name == name {
			return r.Scalars[i].Value
		}
	}
	return 0
}

// IsZero tells whether nothing is asked for.
func (r *Resources) IsZero() bool {
	return r.MilliCPU == 0 && r.Memory == 0 && r.Ephemeral == 0 && len(r.Scalars) == 0
}

// Add adds o times sign (1 or -1).
func (r *Resources) Add(o *Resources, sign int64) {
	r.MilliCPU += sign * o.MilliCPU
	r.Memory += sign * o.Memory
	r.Ephemeral += sign * o.Ephemeral
	for _, s := range o.Scalars {
		i, found := slices.BinarySearchFunc(r.Scalars, s.Name, func(x Scalar, n v1.ResourceName) int {
			return strings.Compare(string(x.Name), string(n))
		})
		if !found {
			r.Scalars = slices.Insert(r.Scalars, i, Scalar{Name: s.Name})
		}
		r.Scalars[i].Value += sign * s.Value
	}
}

// Equal compares.
func (r *Resources) Equal(o *Resources) bool {
	return r.MilliCPU == o.MilliCPU && r.Memory == o.Memory && r.Ephemeral == o.Ephemeral && slices.Equal(r.Scalars, o.Scalars)
}
