// Package quotas keeps the status of ResourceQuotas: it counts what a namespace uses when a quota is new or different, and when
// something that was charged is freed. What is used more, admission has charged already (package quota says how the two agree).
package quotas

import (
	"iter"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"podo.dev/podo/internal/quota"
)

// Due says whether a change of the quota itself calls for a count. old is nil for one that is new. After the bounds in its status have
// changed it is counted once more: until then nothing was charged.
func Due(q, old *v1.ResourceQuota) bool {
	if old == nil || !equality.Semantic.DeepEqual(q.Spec, old.Spec) || !quota.Equal(q.Status.Hard, old.Status.Hard) {
		return true
	}
	for name := range q.Status.Used { // by another hand than admission's, which only adds
		used, was := q.Status.Used[name], old.Status.Used[name]
		if used.Cmp(was) < 0 {
			return true
		}
	}
	return len(q.Status.Used) < len(old.Status.Used)
}

// Same says that the status is as it should be.
func Same(want, is v1.ResourceQuotaStatus) bool {
	return is.Hard != nil && is.Used != nil && quota.Equal(want.Hard, is.Hard) && quota.Equal(want.Used, is.Used)
}

// Recount is how often a quota is counted although nothing called for it.
const Recount = 5 * time.Minute

var pods = schema.GroupResource{Resource: "pods"}

// Next is how long the count of a quota holds when nothing changes: until a pod that is being deleted should have gone.
func Next(q *v1.ResourceQuota, content iter.Seq[runtime.Object], now time.Time) time.Duration {
	next := Recount
	if !quota.Bounds(q, pods) {
		return next
	}
	for obj := range content {
		if due, ok := quota.Overdue(obj.(*v1.Pod)); ok && due.After(now) {
			next = min(next, due.Sub(now)+time.Millisecond)
		}
	}
	return next
}
