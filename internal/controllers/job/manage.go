package job

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"podo.dev/podo/internal/registry/batchobject"
)

// burst is how many pods are created or deleted at most before looking again.
const burst = 500

// manage says how many pods there should be: never more than parallelism, nor than are left to complete. Pods go before others come, and
// none come until the back-off after a failure is over.
func (w *work) manage() {
	if suspended(w.job) {
		w.remove(len(w.active))
		return
	}
	want := w.wanted()
	w.remove(max(0, len(w.active)-want))
	if len(w.plan.Remove) > 0 {
		return
	}
	missing := want - len(w.active)
	if replacesLate(w.job) {
		missing -= int(w.terminating)
	}
	if missing = min(missing, burst); missing <= 0 {
		return
	}
	if w.spec.BackoffLimitPerIndex == nil {
		if left := w.plan.Backoff.Left(w.now); left > 0 {
			w.again(left)
			return
		}
	}
	if batchobject.Indexed(w.spec) {
		w.createIndexes(missing)
	} else {
		for range missing {
			w.plan.Create = append(w.plan.Create, Creation{Index: noIndex})
		}
	}
	w.running += int32(len(w.plan.Create))
	w.plan.Why = w.why()
}

// why says for upstream's metric why pods are created.
func (w *work) why() string {
	switch {
	case w.failed > 0 && replacesLate(w.job):
		return "recreate_failed"
	case w.failed > 0 || w.terminating > 0:
		return "recreate_terminating_or_failed"
	}
	return "new"
}

func (w *work) wanted() int {
	parallelism := int(*w.spec.Parallelism)
	switch {
	case w.spec.Completions != nil:
		return max(0, min(parallelism, int(*w.spec.Completions-w.succeeded)))
	case w.succeeded > 0:
		return len(w.active) // nobody else has to start; those that run may end
	}
	return parallelism
}

// remove deletes at least n active pods: of an indexed Job also those that have no index of it, or one that another pod has.
func (w *work) remove(n int) {
	left := slices.Clone(w.active)
	spareFirst(left)
	if batchobject.Indexed(w.spec) {
		// From the end, which has come the farthest: the first pod of an index that is met stays.
		seen := map[int]bool{}
		var extra []*v1.Pod
		for _, p := range slices.Backward(left) {
			if i := index(p); !w.countable(p) || seen[i] {
				extra = append(extra, p)
			} else {
				seen[i] = true
			}
		}
		left = slices.DeleteFunc(left, func(p *v1.Pod) bool { return slices.Contains(extra, p) })
		w.plan.Remove = extra
	}
	if more := n - len(w.plan.Remove); more > 0 {
		w.plan.Remove = append(w.plan.Remove, left[:more]...)
	}
	w.plan.Remove = w.plan.Remove[:min(len(w.plan.Remove), burst)]
	w.leave(w.plan.Remove)
}

// createIndexes makes pods for the lowest indexes that nobody does or has done. With a limit of failures for each index, each has a
// back-off of its own.
func (w *work) createIndexes(n int) {
	busy := w.completed.merge(w.failedIndexes)
	for _, p := range w.pods {
		if i := index(p); i != noIndex && (active(p) || replacesLate(w.job) && terminating(p)) {
			busy = busy.with(i)
		}
	}
	var soonest time.Duration
	for _, i := range busy.missing(n, int(*w.spec.Completions)) {
		c := Creation{Index: i}
		if before := w.kept[i]; before != nil {
			if left := (Backoff{Failures: all(before) + 1, Last: w.plan.Backoff.Kept[before.UID]}).Left(w.now); left > 0 {
				if soonest == 0 || left < soonest {
					soonest = left
				}
				continue
			}
			c.Failures, c.Ignored = failures(before)
			if handle(w.spec.PodFailurePolicy, before).counts() {
				c.Failures++
			} else {
				c.Ignored++
			}
		}
		w.plan.Create = append(w.plan.Create, c)
	}
	w.again(soonest)
}
