package batchobject

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"podo.dev/podo/internal/registry/check"
)

// statusChange is a status report. Another controller than ours may manage a Job, so that the states it can go through are judged:
//
//	running ─► SuccessCriteriaMet ─► Complete
//	   └─────► FailureTarget ──────► Failed
//
// What a report does not touch is not judged, so that a Job which is in a bad state already can still be reported on.
type statusChange struct {
	check.Errors
	job, old *batchv1.Job
	s, was   *batchv1.JobStatus
}

// ValidateJobStatus judges a status report.
func ValidateJobStatus(j, old *batchv1.Job) field.ErrorList {
	c := &statusChange{job: j, old: old, s: &j.Status, was: &old.Status}
	c.counts()
	c.uncounted()
	c.ends()
	c.finished()
	c.indexes()
	if n := c.s.Terminating; n != nil && *n > 0 && Finished(j) && (c.changed(Finished) || !equal(n, c.was.Terminating)) {
		c.Invalid(statusPath.Child("terminating"), n, "terminating>0 is invalid for finished job")
	}
	if n := c.s.Ready; n != nil && *n > c.s.Active && (!equal(n, c.was.Ready) || c.s.Active != c.was.Active) {
		c.Invalid(statusPath.Child("ready"), *n, "cannot set more ready pods than active")
	}
	c.contradictions()
	c.history()
	return c.List()
}

func equal[T comparable](a, b *T) bool { return a == b || a != nil && b != nil && *a == *b }

// sameTime compares as upstream does: one moment said in two zones is two.
func sameTime(a, b *metav1.Time) bool { return equal(a, b) }

func (c *statusChange) changed(of func(*batchv1.Job) bool) bool { return of(c.job) != of(c.old) }

func (c *statusChange) has(what batchv1.JobConditionType) bool { return Has(c.job, what) }
func (c *statusChange) had(what batchv1.JobConditionType) bool { return Has(c.old, what) }

// turned tells that a condition has become true, or is not any more.
func (c *statusChange) turned(what batchv1.JobConditionType) bool { return c.has(what) != c.had(what) }

func (c *statusChange) condition(detail string) {
	c.Invalid(statusPath.Child("conditions"), field.OmitValueType{}, detail)
}

func (c *statusChange) counts() {
	c.NonNegative(statusPath.Child("active"), int64(c.s.Active))
	c.NonNegative(statusPath.Child("succeeded"), int64(c.s.Succeeded))
	c.NonNegative(statusPath.Child("failed"), int64(c.s.Failed))
	if n := c.s.Ready; n != nil {
		c.NonNegative(statusPath.Child("ready"), int64(*n))
	}
	if n := c.s.Terminating; n != nil {
		c.NonNegative(statusPath.Child("terminating"), int64(*n))
	}
}

func (c *statusChange) uncounted() {
	u := c.s.UncountedTerminatedPods
	if u == nil {
		return
	}
	p, seen := statusPath.Child("uncountedTerminatedPods"), map[types.UID]bool{}
	for _, l := range []struct {
		name string
		uids []types.UID
	}{{"succeeded", u.Succeeded}, {"failed", u.Failed}} {
		for i, uid := range l.uids {
			switch at := p.Child(l.name).Index(i); {
			case uid == "":
				c.Invalid(at, uid, "must not be empty")
			case seen[uid]:
				c.Duplicate(at, uid)
			}
			seen[uid] = true
		}
	}
}

// ends: how a Job can end, and when it did.
func (c *statusChange) ends() {
	complete, failed := c.has(batchv1.JobComplete), c.has(batchv1.JobFailed)
	completes, fails := c.turned(batchv1.JobComplete), c.turned(batchv1.JobFailed)
	started, ended := c.s.StartTime, c.s.CompletionTime
	endMoved := !sameTime(ended, c.was.CompletionTime)
	at := statusPath.Child("completionTime")
	if complete && failed && (completes || fails) {
		c.condition("cannot set Complete=True and Failed=true conditions")
	}
	if complete && c.has(batchv1.JobFailureTarget) && (completes || c.turned(batchv1.JobFailureTarget)) {
		c.condition("cannot set Complete=True and FailureTarget=true conditions")
	}
	if ended != nil && !complete && (completes || endMoved) {
		c.Invalid(at, ended, "cannot set completionTime when there is no Complete=True condition")
	}
	if ended == nil && complete && (completes || endMoved) {
		c.Required(at, "completionTime is required for Complete jobs")
	}
	if started != nil && ended != nil && ended.Before(started) && (endMoved || !sameTime(started, c.was.StartTime)) {
		c.Invalid(at, ended, "must be equal to or after `startTime`")
	}
	if failed && !c.has(batchv1.JobFailureTarget) && (fails || c.failedIndexesMoved()) {
		c.condition("cannot set Failed=True condition without the FailureTarget=true condition")
	}
	if complete && !c.has(batchv1.JobSuccessCriteriaMet) && (completes || c.turned(batchv1.JobSuccessCriteriaMet)) {
		c.condition("cannot set Complete=True condition without the SuccessCriteriaMet=true condition")
	}
}

// finished: nothing of a finished Job runs or is left to count.
func (c *statusChange) finished() {
	if !Finished(c.job) {
		return
	}
	finishes := c.changed(Finished)
	if c.s.Active > 0 && (finishes || c.s.Active != c.was.Active) {
		c.Invalid(statusPath.Child("active"), c.s.Active, "active>0 is invalid for finished job")
	}
	nothingToDo := equal(c.job.Spec.Suspend, new(true)) && equal(c.job.Spec.Completions, new(int32(0)))
	if c.s.StartTime == nil && !nothingToDo && (finishes || c.was.StartTime != nil) {
		c.Required(statusPath.Child("startTime"), "startTime is required for finished job")
	}
	u := c.s.UncountedTerminatedPods
	if u != nil && len(u.Succeeded)+len(u.Failed) > 0 && (finishes || !equality.Semantic.DeepEqual(u, c.was.UncountedTerminatedPods)) {
		c.Invalid(statusPath.Child("uncountedTerminatedPods"), u, "must be empty for finished job")
	}
}

func (c *statusChange) failedIndexesMoved() bool {
	return !equal(c.s.FailedIndexes, c.was.FailedIndexes)
}

func (c *statusChange) indexes() {
	spec := &c.job.Spec
	completed, failed := c.s.CompletedIndexes, c.s.FailedIndexes
	completedMoved, failedMoved := completed != c.was.CompletedIndexes, c.failedIndexesMoved()
	at, atFailed := statusPath.Child("completedIndexes"), statusPath.Child("failedIndexes")
	if completedMoved && spec.Completions != nil {
		if _, err := intervals(completed, *spec.Completions); err != nil {
			c.Invalid(at, completed, "error parsing completedIndexes: "+err.Error())
		}
	}
	if failedMoved && spec.Completions != nil && spec.BackoffLimitPerIndex != nil && failed != nil {
		if _, err := intervals(*failed, *spec.Completions); err != nil {
			c.Invalid(atFailed, failed, "error parsing failedIndexes: "+err.Error())
		}
	}
	if completedMoved && completed != "" && !Indexed(spec) {
		c.Invalid(at, completed, "cannot set non-empty completedIndexes when non-indexed completion mode")
	}
	if failedMoved && spec.BackoffLimitPerIndex == nil && failed != nil {
		c.Invalid(atFailed, *failed, "cannot set non-null failedIndexes when backoffLimitPerIndex is null")
	}
	if (failedMoved || completedMoved) && spec.Completions != nil && failed != nil {
		if i, both := overlap(completed, *failed, *spec.Completions); both {
			c.Invalid(atFailed, *failed, fmt.Sprintf("failedIndexes and completedIndexes overlap at index: %d", i))
		}
	}
}

// contradictions are never accepted, whoever made them.
func (c *statusChange) contradictions() {
	met := c.has(batchv1.JobSuccessCriteriaMet)
	if met && c.has(batchv1.JobFailed) {
		c.condition("cannot set SuccessCriteriaMet=True and Failed=true conditions")
	}
	if met && c.has(batchv1.JobFailureTarget) {
		c.condition("cannot set SuccessCriteriaMet=True and FailureTarget=true conditions")
	}
	if c.job.Spec.SuccessPolicy != nil && !met && c.has(batchv1.JobComplete) {
		c.condition("cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True")
	}
}

// history: what was, stays.
func (c *statusChange) history() {
	for _, end := range []batchv1.JobConditionType{batchv1.JobFailed, batchv1.JobComplete, batchv1.JobFailureTarget} {
		if c.had(end) && !c.has(end) {
			c.condition(fmt.Sprintf("cannot disable the terminal %s=True condition", end))
		}
	}
	if c.s.Failed < c.was.Failed {
		c.Invalid(statusPath.Child("failed"), c.s.Failed, "cannot decrease the failed counter")
	}
	// Elastic Jobs, which have as many pods as completions, can have fewer of both than before.
	if elastic := Indexed(&c.job.Spec) && equal(c.job.Spec.Completions, c.job.Spec.Parallelism); !elastic && c.s.Succeeded < c.was.Succeeded {
		c.Invalid(statusPath.Child("succeeded"), c.s.Succeeded, "cannot decrease the succeeded counter")
	}
	if ended, was := c.s.CompletionTime, c.was.CompletionTime; ended != nil && was != nil && !sameTime(ended, was) {
		c.Invalid(statusPath.Child("completionTime"), ended, "field is immutable")
	}
	resumes := c.had(batchv1.JobSuspended) && is(c.s.Conditions, batchv1.JobSuspended, v1.ConditionFalse)
	suspended := c.job.Spec.Suspend != nil && *c.job.Spec.Suspend
	if c.was.StartTime != nil && !sameTime(c.s.StartTime, c.was.StartTime) && !resumes && !suspended {
		c.Invalid(statusPath.Child("startTime"), c.s.StartTime, "field is immutable for unsuspended job once set")
	}
	if c.had(batchv1.JobSuccessCriteriaMet) && !c.has(batchv1.JobSuccessCriteriaMet) {
		c.condition("cannot disable the SuccessCriteriaMet=True condition")
	}
	if c.had(batchv1.JobComplete) && !c.had(batchv1.JobSuccessCriteriaMet) && c.has(batchv1.JobSuccessCriteriaMet) {
		c.condition("cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions")
	}
}
