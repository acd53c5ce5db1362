package job

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"

	"podo.dev/podo/internal/registry/batchobject"
)

// end is how a Job ends: what is the condition that comes first, stored that it has been said.
type end struct {
	what            batchv1.JobConditionType
	reason, message string
	stored          bool
}

func (e *end) fails() bool { return e != nil && e.what == batchv1.JobFailureTarget }

// verdict says whether the Job ends, apart from having done all that was asked for. What was said once stays; failures come before
// successes.
func (w *work) verdict() *end {
	for _, what := range []batchv1.JobConditionType{batchv1.JobSuccessCriteriaMet, batchv1.JobFailureTarget} {
		for _, c := range w.job.Status.Conditions {
			if c.Type == what && c.Status == v1.ConditionTrue {
				return &end{what, c.Reason, c.Message, true}
			}
		}
	}
	fails := func(reason, message string) *end { return &end{batchv1.JobFailureTarget, reason, message, false} }
	for _, p := range w.pods {
		if w.failedPod(p) {
			if why := handle(w.spec.PodFailurePolicy, p).failJob; why != "" {
				return fails(batchv1.JobReasonPodFailurePolicy, why)
			}
		}
	}
	if w.failed > *w.spec.BackoffLimit || w.restartedTooOften() {
		return fails(batchv1.JobReasonBackoffLimitExceeded, "Job has reached the specified backoff limit")
	}
	if d := w.spec.ActiveDeadlineSeconds; d != nil && !suspended(w.job) {
		since := w.plan.Status.StartTime.Time
		if batchobject.Has(w.job, batchv1.JobSuspended) {
			since = w.now // it is resumed now: what time it had before its rest counts no more, though an older controller left it there
		}
		left := since.Add(time.Duration(*d) * time.Second).Sub(w.now)
		if left <= 0 {
			return fails(batchv1.JobReasonDeadlineExceeded, "Job was active longer than specified deadline")
		}
		w.again(left)
	}
	if !batchobject.Indexed(w.spec) {
		return nil
	}
	if n := w.failedIndexes.total(); n > 0 {
		if most := w.spec.MaxFailedIndexes; most != nil && n > int(*most) {
			return fails(batchv1.JobReasonMaxFailedIndexesExceeded, "Job has exceeded the specified maximal number of failed indexes")
		}
		if n+w.completed.total() >= int(*w.spec.Completions) {
			return fails(batchv1.JobReasonFailedIndexes, "Job has failed indexes")
		}
	}
	if message, ok := succeeds(w.spec.SuccessPolicy, int(*w.spec.Completions), w.completed); ok {
		return &end{batchv1.JobSuccessCriteriaMet, batchv1.JobReasonSuccessPolicy, message, false}
	}
	return nil
}

// restartedTooOften counts the restarts of containers where pods restart them themselves.
func (w *work) restartedTooOften() bool {
	if w.spec.Template.Spec.RestartPolicy != v1.RestartPolicyOnFailure {
		return false
	}
	var n int32
	for _, p := range w.pods {
		if p.Status.Phase != v1.PodRunning && p.Status.Phase != v1.PodPending {
			continue
		}
		for _, list := range [][]v1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
			for i := range list {
				n += list[i].RestartCount
			}
		}
	}
	return n > 0 && n >= *w.spec.BackoffLimit
}

// finish says that the Job is over, once it has been said how it ends, and nothing of it is left to count or to wait for.
func (w *work) finish() {
	if w.end == nil {
		return
	}
	if !w.end.stored {
		w.set(w.end.what, v1.ConditionTrue, w.end.reason, w.end.message)
		return
	}
	s := &w.plan.Status
	u := s.UncountedTerminatedPods
	if len(u.Succeeded)+len(u.Failed) > 0 || w.running+w.terminating > 0 || len(filter(w.pods, tracked)) > 0 {
		return
	}
	if w.end.fails() {
		w.set(batchv1.JobFailed, v1.ConditionTrue, w.end.reason, w.end.message)
		w.tell(v1.EventTypeWarning, w.end.reason, w.end.message)
		return
	}
	w.set(batchv1.JobComplete, v1.ConditionTrue, w.end.reason, w.end.message)
	s.CompletionTime = w.stamp()
	if n := w.spec.Completions; n != nil && s.Succeeded > *n {
		w.tell(v1.EventTypeWarning, "TooManySucceededPods", "Too many succeeded pods running after completion count reached")
	}
	w.tell(v1.EventTypeNormal, "Completed", "Job completed")
}
