package quota

import (
	"iter"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Content are the objects of a resource in a quota's namespace.
type Content func(r schema.GroupResource) iter.Seq[runtime.Object]

// Count is the status that a quota should have: bounds as its spec says, and what is used of them now. What no resource measures
// keeps the usage that was there. resources are all that are served in namespaces.
func Count(q *v1.ResourceQuota, resources []schema.GroupResource, content Content, now time.Time) v1.ResourceQuotaStatus {
	hard := add(q.Spec.Hard, nil)
	used := add(only(q.Status.Used, hard), nil)
	for _, r := range resources {
		if !Counted(r) {
			continue
		}
		m := of(r)
		names := tracked(m, hard)
		if len(names) == 0 {
			continue
		}
		sum := v1.ResourceList{}
		for _, name := range names {
			sum[name] = resource.Quantity{Format: resource.DecimalSI}
		}
		for obj := range content(r) {
			if m.inScopes(q, obj) {
				for name, amount := range m.usage(obj, now) {
					if total, ok := sum[name]; ok {
						total.Add(amount)
						sum[name] = total
					}
				}
			}
		}
		for name, amount := range sum {
			used[name] = amount
		}
	}
	return v1.ResourceQuotaStatus{Hard: hard, Used: used}
}

// Matters says whether a change of an object can have freed something, or moved it from one quota to another: what a count has to
// look at again, because admission did not charge for it. obj is nil when the object has gone.
func Matters(r schema.GroupResource, obj, old runtime.Object, now time.Time) bool {
	if !Counted(r) {
		return false
	}
	if obj == nil {
		return true
	}
	if old == nil {
		return false // charged by its creation
	}
	m := of(r)
	if !Equal(m.usage(obj, now), m.usage(old, now)) {
		return true
	}
	return m.moved != nil && m.moved(obj, old)
}
