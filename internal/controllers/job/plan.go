// Package job runs pods to completion.
//
//	plan.go        pure: a Job and its pods -> what to do, and the status that says so
//	verdict.go     pure: whether the Job ends now, and how
//	manage.go      pure: which pods to create and which are too many
//	track.go       pure: counting pods that ended, each once
//	policy.go      pure: policies of failure and success
//	backoff.go     pure: how long to wait after failures
//	indexes.go     pure: sets of indexes
//	pods.go        pure: what is asked of pods, and how they are made
//	controller.go  does it
//	orphans.go     lets go of pods whose Job does not count any more
//
// A pod of a Job has a finalizer, so that it cannot go before it is counted. It is counted in steps, each of them one write, and a crash
// between any two repeats at most the last one:
//
//	ended, with the finalizer ─► its UID in status.uncountedTerminatedPods ─► without the finalizer ─► UID gone, counter raised
//
// A pod that completes an index needs no UID: the index is in status.completedIndexes. A Job ends in steps too: first the status says
// how (SuccessCriteriaMet, FailureTarget), then the pods that are left are ended, and when the last one has gone it is Complete or Failed.
package job

import (
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podo.dev/podo/internal/registry/batchobject"
)

// Plan is what to do, in this order.
type Plan struct {
	Create []Creation
	Why    string    // pods are created, as upstream's metric calls it
	Remove []*v1.Pod // too many: they lose the finalizer and go, and are not counted
	// Status is what is stored then, if all of Create and Remove has worked.
	Status batchv1.JobStatus
	// Untrack are pods that need the finalizer no more once that is stored.
	Untrack []*v1.Pod
	// Handled is what the pod failure policy has said of the failures that are counted with that, and of those that it ignores.
	Handled []batchv1.PodFailurePolicyAction
	// End are pods that go because the Job ends.
	End  []*v1.Pod
	Tell []Event // once the status is stored

	Backoff Backoff       // from then on
	Again   time.Duration // 0 for when something changes
}

// Creation is a pod to be made; Index is noIndex, or the part of the work that it does, and how often that has failed.
type Creation struct{ Index, Failures, Ignored int }

// Event is what users are told.
type Event struct{ Type, Reason, Message string }

// work is a Job under consideration.
type work struct {
	job       *batchv1.Job
	spec      *batchv1.JobSpec
	now       time.Time
	pods      []*v1.Pod // of the Job
	active    []*v1.Pod // of those
	uncounted map[string]bool

	running, ready, terminating int32 // pods, once the plan is done
	succeeded, failed           int32 // pods that count, those that are to be counted included
	completed                   indexes
	failedIndexes               indexes
	kept                        map[int]*v1.Pod // failed pods that wait for their replacement, by index
	end                         *end
	plan                        Plan
}

// Decide takes a Job that has not finished and its pods.
func Decide(j *batchv1.Job, pods []*v1.Pod, b Backoff, now time.Time) Plan {
	w := &work{job: j, spec: &j.Spec, now: now, pods: slices.Clone(pods)}
	slices.SortStableFunc(w.pods, func(a, b *v1.Pod) int { return index(a) - index(b) })
	w.plan.Status = *j.Status.DeepCopy()
	w.active = filter(w.pods, active)
	w.running, w.ready = int32(len(w.active)), int32(len(filter(w.active, ready)))
	w.terminating = int32(len(filter(w.pods, terminating)))
	w.settle()
	w.count(b)
	if s := &w.plan.Status; s.StartTime == nil && !suspended(j) {
		s.StartTime = w.stamp()
	}
	w.end = w.verdict()
	if w.end == nil {
		if j.DeletionTimestamp == nil {
			w.manage()
		}
		if w.complete() {
			w.end = &end{what: batchv1.JobSuccessCriteriaMet, reason: batchv1.JobReasonCompletionsReached, message: "Reached expected number of succeeded pods"}
		} else if j.DeletionTimestamp == nil {
			w.tellSuspension()
		}
	}
	w.track()
	w.finish()
	s := &w.plan.Status
	s.Active, s.Ready, s.Terminating = w.running, &w.ready, &w.terminating
	return w.plan
}

// refuse is for n pods that are not made: the status does not count them.
func (p *Plan) refuse(n int) { p.Status.Active -= int32(n) }

// keep is for a pod of Remove that is still there.
func (p *Plan) keep(pod *v1.Pod) {
	p.Status.Active++
	*p.Status.Terminating--
	if ready(pod) {
		*p.Status.Ready++
	}
}

// stamp is now as statuses have it.
func (w *work) stamp() *metav1.Time { return new(metav1.NewTime(w.now.Truncate(time.Second))) }

func suspended(j *batchv1.Job) bool { return j.Spec.Suspend != nil && *j.Spec.Suspend }

// replacesLate says that a pod is replaced only when it has ended, not already when it is asked to.
func replacesLate(j *batchv1.Job) bool {
	return j.Spec.PodReplacementPolicy != nil && *j.Spec.PodReplacementPolicy == batchv1.Failed
}

// failedPod tells a pod that has failed. One that is being deleted counts as that, since it may never get to say so, unless the Job
// waits for it.
func (w *work) failedPod(p *v1.Pod) bool {
	return p.Status.Phase == v1.PodFailed || !replacesLate(w.job) && p.DeletionTimestamp != nil && p.Status.Phase != v1.PodSucceeded
}

// countable tells a pod that does a part of the work that there is.
func (w *work) countable(p *v1.Pod) bool {
	if !batchobject.Indexed(w.spec) {
		return true
	}
	i := index(p)
	return i != noIndex && i < int(*w.spec.Completions)
}

// complete says that everything that was asked for has succeeded and that nothing runs any more.
func (w *work) complete() bool {
	if w.spec.Completions == nil { // any pod's success is the Job's
		return w.succeeded > 0 && w.running == 0
	}
	return w.succeeded >= *w.spec.Completions && w.running == 0
}

// tellSuspension keeps the condition that says whether the Job is suspended. Its deadline starts anew when it is resumed.
func (w *work) tellSuspension() {
	s := &w.plan.Status
	if suspended(w.job) {
		if w.set(batchv1.JobSuspended, v1.ConditionTrue, "JobSuspended", "Job suspended") {
			s.StartTime = nil
			w.tell(v1.EventTypeNormal, "Suspended", "Job suspended")
		}
	} else if w.set(batchv1.JobSuspended, v1.ConditionFalse, "JobResumed", "Job resumed") {
		s.StartTime = w.stamp()
		w.tell(v1.EventTypeNormal, "Resumed", "Job resumed")
	}
}

func (w *work) tell(kind, reason, message string) {
	w.plan.Tell = append(w.plan.Tell, Event{kind, reason, message})
}

// set puts a condition in its place and says whether that changes anything. What never was need not be said not to be.
func (w *work) set(what batchv1.JobConditionType, status v1.ConditionStatus, reason, message string) bool {
	list := &w.plan.Status.Conditions
	c := batchv1.JobCondition{Type: what, Status: status, Reason: reason, Message: message, LastProbeTime: *w.stamp(), LastTransitionTime: *w.stamp()}
	i := slices.IndexFunc(*list, func(c batchv1.JobCondition) bool { return c.Type == what })
	switch {
	case i < 0 && status == v1.ConditionFalse:
		return false
	case i < 0:
		*list = append(*list, c)
		return true
	}
	old := &(*list)[i]
	if old.Status == status && old.Reason == reason && old.Message == message {
		return false
	}
	*old = c
	return true
}

// again asks for another look after a time, the shortest one that is asked for.
func (w *work) again(d time.Duration) {
	if d > 0 && (w.plan.Again == 0 || d < w.plan.Again) {
		w.plan.Again = d
	}
}
