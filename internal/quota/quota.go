// Package quota is the arithmetic of ResourceQuotas: what an object uses, which quotas bound it, whether a write fits, and what a
// namespace uses in all. Admission charges writes with it, and the quota controller counts with it, so that both agree. It is pure.
//
// A quota bounds what its status.hard names: a quota that nobody has counted for yet bounds nothing. Its status.used is never less than
// what is used, as long as every write is charged in its own transaction and every count is written only over the status that it saw.
package quota

import (
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Counted says whether quotas can bound a resource. Events never were.
func Counted(r schema.GroupResource) bool {
	return r.Resource != "events" || r.Group != "" && r.Group != "events.k8s.io"
}

// CountName is the name under which a quota bounds the number of objects of a resource.
func CountName(r schema.GroupResource) v1.ResourceName {
	return v1.ResourceName("count/" + r.String())
}

// Bounds says whether the quota has, or is about to have, a bound on what objects of the resource use, whatever their scope.
func Bounds(q *v1.ResourceQuota, r schema.GroupResource) bool {
	m := of(r)
	return len(tracked(m, q.Status.Hard)) > 0 || len(tracked(m, q.Spec.Hard)) > 0
}

// Equal compares amounts, not how they are written.
func Equal(a, b v1.ResourceList) bool {
	return maps.EqualFunc(a, b, func(x, y resource.Quantity) bool { return x.Cmp(y) == 0 })
}

var one = *resource.NewQuantity(1, resource.DecimalSI)

// add sums two lists into a new one.
func add(a, b v1.ResourceList) v1.ResourceList {
	out := make(v1.ResourceList, len(a)+len(b))
	for name, q := range a {
		out[name] = q.DeepCopy()
	}
	for name, q := range b {
		sum, ok := out[name]
		if !ok {
			out[name] = q.DeepCopy()
			continue
		}
		sum.Add(q)
		out[name] = sum
	}
	return out
}

// growth is what a has more than b.
func growth(a, b v1.ResourceList) v1.ResourceList {
	out := v1.ResourceList{}
	for name, q := range a {
		more := q.DeepCopy()
		more.Sub(b[name])
		if more.Sign() > 0 {
			out[name] = more
		}
	}
	return out
}

// only keeps the amounts whose names are in names.
func only[V any](list v1.ResourceList, names map[v1.ResourceName]V) v1.ResourceList {
	out := v1.ResourceList{}
	for name, q := range list {
		if _, ok := names[name]; ok {
			out[name] = q
		}
	}
	return out
}

// tracked are the names in list that m measures, in order.
func tracked(m *measure, list v1.ResourceList) (out []v1.ResourceName) {
	for name := range list {
		if m.tracks(name) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// amounts is a list as messages show it.
func amounts(list v1.ResourceList) string {
	parts := make([]string, 0, len(list))
	for _, name := range slices.Sorted(maps.Keys(list)) {
		q := list[name]
		parts = append(parts, string(name)+"="+q.String())
	}
	return strings.Join(parts, ",")
}

func join[S ~string](names []S, separator string) string {
	parts := make([]string, len(names))
	for i, n := range names {
		parts[i] = string(n)
	}
	return strings.Join(parts, separator)
}
