package job

import (
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"podo.dev/podo/internal/registry/batchobject"
)

// mostUncounted bounds how many pods are counted at once, and so the size of the status.
const mostUncounted = 500

// settle counts the pods whose UIDs are noted and that have lost the finalizer.
func (w *work) settle() {
	s := &w.plan.Status
	if s.UncountedTerminatedPods == nil {
		s.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{}
	}
	held := map[types.UID]bool{}
	for _, p := range w.pods {
		held[p.UID] = tracked(p)
	}
	w.uncounted = map[string]bool{}
	for _, l := range []struct {
		counter *int32
		uids    *[]types.UID
	}{{&s.Succeeded, &s.UncountedTerminatedPods.Succeeded}, {&s.Failed, &s.UncountedTerminatedPods.Failed}} {
		before := len(*l.uids)
		*l.uids = slices.DeleteFunc(*l.uids, func(uid types.UID) bool { return !held[uid] })
		*l.counter += int32(before - len(*l.uids))
		for _, uid := range *l.uids {
			w.uncounted[string(uid)] = true
		}
	}
}

// fresh tells a pod that nothing has been noted of yet.
func (w *work) fresh(p *v1.Pod) bool {
	return tracked(p) && !w.uncounted[string(p.UID)] && w.countable(p)
}

// count finds how many pods have succeeded and failed, and which indexes, with what is not in the status yet.
func (w *work) count(b Backoff) {
	s := &w.plan.Status
	succeeded := filter(w.pods, func(p *v1.Pod) bool { return w.fresh(p) && p.Status.Phase == v1.PodSucceeded })
	failed := filter(w.pods, func(p *v1.Pod) bool { return w.fresh(p) && w.failedPod(p) })
	counted := filter(failed, func(p *v1.Pod) bool { return handle(w.spec.PodFailurePolicy, p).counts() })
	w.plan.Backoff = b.After(succeeded, failed).by(w.now)
	w.succeeded = s.Succeeded + int32(len(succeeded)+len(s.UncountedTerminatedPods.Succeeded))
	w.failed = s.Failed + int32(len(counted)+len(s.UncountedTerminatedPods.Failed))
	if !batchobject.Indexed(w.spec) {
		return
	}
	n := int(*w.spec.Completions)
	w.completed = parseIndexes(s.CompletedIndexes, n)
	for _, p := range succeeded {
		w.completed = w.completed.with(index(p))
	}
	w.succeeded = int32(w.completed.total())
	if w.spec.BackoffLimitPerIndex != nil {
		w.countFailedIndexes(n)
	}
}

// countFailedIndexes finds the indexes that have failed for good, and the failed pods of others that cannot be let go before the pod
// that replaces them is there: it inherits their count of failures.
func (w *work) countFailedIndexes(n int) {
	if text := w.plan.Status.FailedIndexes; text != nil {
		w.failedIndexes = parseIndexes(*text, n)
	}
	failed := filter(w.pods, func(p *v1.Pod) bool { return tracked(p) && w.countable(p) && w.failedPod(p) })
	for _, p := range failed {
		h := handle(w.spec.PodFailurePolicy, p)
		before, _ := failures(p)
		if h.action == batchv1.PodFailurePolicyActionFailIndex || h.counts() && before >= int(*w.spec.BackoffLimitPerIndex) {
			w.failedIndexes = w.failedIndexes.with(index(p))
		}
	}
	runs := map[int]bool{}
	for _, p := range w.active {
		runs[index(p)] = true
	}
	w.kept = map[int]*v1.Pod{}
	for _, p := range failed {
		i := index(p)
		if w.completed.has(i) || w.failedIndexes.has(i) || runs[i] {
			continue
		}
		if other := w.kept[i]; other == nil || all(p) > all(other) || all(p) == all(other) && !ended(p).Before(ended(other)) {
			w.kept[i] = p
		}
	}
	w.plan.Backoff.keep(w.kept, w.now)
}

// all is how often pods of the index have failed before this one, whatever counts.
func all(p *v1.Pod) int {
	counted, ignored := failures(p)
	return counted + ignored
}

// track notes pods that have ended, and says which need the finalizer no more. When the Job ends, those that still run are among them.
func (w *work) track() {
	s := &w.plan.Status
	u := s.UncountedTerminatedPods
	indexed, done := batchobject.Indexed(w.spec), parseIndexes(s.CompletedIndexes, w.limit())
	going := map[types.UID]bool{}
	noted := 0
	for _, p := range w.pods {
		if !tracked(p) || !w.lettable(p) {
			continue
		}
		if noted >= mostUncounted {
			break // the rest when these are counted: their going makes the Job come again
		}
		w.plan.Untrack = append(w.plan.Untrack, p)
		going[p.UID] = true
		switch {
		case !w.countable(p) || w.uncounted[string(p.UID)]:
		case p.Status.Phase == v1.PodSucceeded && indexed:
			if !done.has(index(p)) {
				done = done.with(index(p))
				noted++
			}
		case p.Status.Phase == v1.PodSucceeded:
			u.Succeeded = append(u.Succeeded, p.UID)
			noted++
		case w.failedPod(p) || w.end.fails():
			h := handle(w.spec.PodFailurePolicy, p)
			if h.action != "" {
				w.plan.Handled = append(w.plan.Handled, h.action)
			}
			if h.counts() {
				u.Failed = append(u.Failed, p.UID)
				noted++
			}
		}
	}
	if indexed {
		s.CompletedIndexes, s.Succeeded = done.String(), int32(done.total())
		if w.spec.BackoffLimitPerIndex != nil {
			s.FailedIndexes = new(w.failedIndexes.String())
		}
	}
	if w.end != nil {
		w.plan.End = filter(w.active, func(p *v1.Pod) bool { return !tracked(p) || going[p.UID] })
		w.leave(w.plan.End)
	}
}

func (w *work) limit() int {
	if w.spec.Completions == nil {
		return 0
	}
	return int(*w.spec.Completions)
}

// lettable says whether a tracked pod may lose its finalizer once it is noted.
func (w *work) lettable(p *v1.Pod) bool {
	switch {
	case slices.Contains(w.plan.Remove, p):
		return false // it does so by itself
	case w.job.DeletionTimestamp != nil || w.end != nil || p.Status.Phase == v1.PodSucceeded:
		return true
	case !w.failedPod(p):
		return false
	}
	return w.kept[index(p)] != p
}

// leave: pods that are deleted are active no more.
func (w *work) leave(pods []*v1.Pod) {
	n := int32(len(pods))
	w.running -= n
	w.terminating += n
	w.ready -= int32(len(filter(pods, ready)))
}
