package job

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"

	"podo.dev/podo/internal/registry/batchobject"
	"podo.dev/podo/internal/view"
)

// meter is what upstream's controller tells of Jobs, under its names.
type meter struct {
	syncs, finished, pods              *prometheus.CounterVec
	created, indexes, handled, waiting *prometheus.CounterVec
	others                             *prometheus.CounterVec
	took                               *prometheus.HistogramVec
}

func newMeter() meter {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Subsystem: "job_controller", Name: name, Help: help}, labels)
	}
	return meter{
		syncs:    counter("job_syncs_total", "How often a Job was looked at.", "completion_mode", "result", "action"),
		finished: counter("jobs_finished_total", "Jobs that have finished.", "completion_mode", "result", "reason"),
		pods:     counter("job_pods_finished_total", "Pods that have ended and are counted in their Job's status.", "completion_mode", "result"),
		created:  counter("job_pods_creation_total", "Pods that were made, or could not be.", "reason", "status"),
		indexes:  counter("job_finished_indexes_total", "Indexes that are done, or have failed for good.", "status", "backoffLimit"),
		handled:  counter("pod_failures_handled_by_failure_policy_total", "Failed pods that a rule of their Job's policy was for.", "action"),
		waiting:  counter("terminated_pods_tracking_finalizer_total", "Pods that ended with the finalizer by which they are counted, and those that lost it.", "event"),
		others:   counter("jobs_by_external_controller_total", "Jobs that others manage.", "controller_name"),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Subsystem: "job_controller", Name: "job_sync_duration_seconds", Help: "How long it took to look at a Job.",
			Buckets: prometheus.ExponentialBuckets(0.004, 2, 15),
		}, []string{"completion_mode", "result", "action"}),
	}
}

func (m meter) all() []prometheus.Collector {
	return []prometheus.Collector{m.syncs, m.finished, m.pods, m.created, m.indexes, m.handled, m.waiting, m.others, m.took}
}

func mode(j *batchv1.Job) string {
	if j.Spec.CompletionMode != nil {
		return string(*j.Spec.CompletionMode)
	}
	return string(batchv1.NonIndexedCompletion)
}

// synced takes in that a Job was looked at.
func (m meter) synced(j *batchv1.Job, p Plan, took time.Duration, err error) {
	result, action := "success", "reconciling"
	if err != nil {
		result = "error"
	}
	switch {
	case len(p.Create) > 0:
		action = "pods_created"
	case len(p.Remove)+len(p.End) > 0:
		action = "pods_deleted"
	case len(p.Untrack) > 0:
		action = "tracking"
	}
	m.syncs.WithLabelValues(mode(j), result, action).Inc()
	m.took.WithLabelValues(mode(j), result, action).Observe(took.Seconds())
}

// saw takes in a change of a pod.
func (m meter) saw(c view.Change) {
	waits := func(e *view.Entry) bool {
		if e == nil {
			return false
		}
		p := e.Object.(*v1.Pod)
		return finished(p) && tracked(p)
	}
	switch was, is := waits(c.Old), waits(c.New); {
	case is && !was:
		m.waiting.WithLabelValues("add").Inc()
	case was && !is:
		m.waiting.WithLabelValues("delete").Inc()
	}
}

// made takes in that a pod was created, or could not be.
func (m meter) made(why string, err error) {
	status := "succeeded"
	if err != nil {
		status = "failed"
	}
	m.created.WithLabelValues(why, status).Inc()
}

// judged takes in what policies have said of failures.
func (m meter) judged(actions []batchv1.PodFailurePolicyAction) {
	for _, a := range actions {
		m.handled.WithLabelValues(string(a)).Inc()
	}
}

// indexed takes in how many more indexes of a Job are done or have failed.
func (m meter) indexed(j *batchv1.Job, now batchv1.JobStatus) {
	if !batchobject.Indexed(&j.Spec) {
		return
	}
	limit := "global"
	if j.Spec.BackoffLimitPerIndex != nil {
		limit = "perIndex"
	}
	more := func(now, was string) float64 {
		n := int(*j.Spec.Completions)
		return float64(max(parseIndexes(now, n).total()-parseIndexes(was, n).total(), 0))
	}
	m.indexes.WithLabelValues("succeeded", limit).Add(more(now.CompletedIndexes, j.Status.CompletedIndexes))
	if now.FailedIndexes != nil {
		was := ""
		if f := j.Status.FailedIndexes; f != nil {
			was = *f
		}
		m.indexes.WithLabelValues("failed", limit).Add(more(*now.FailedIndexes, was))
	}
}

// stored takes in a new status of a Job, whose last one was not finished.
func (m meter) stored(j *batchv1.Job, now batchv1.JobStatus) {
	m.indexed(j, now)
	m.pods.WithLabelValues(mode(j), "succeeded").Add(float64(max(now.Succeeded-j.Status.Succeeded, 0)))
	m.pods.WithLabelValues(mode(j), "failed").Add(float64(max(now.Failed-j.Status.Failed, 0)))
	for _, c := range now.Conditions {
		if c.Status != v1.ConditionTrue {
			continue
		}
		switch c.Type {
		case batchv1.JobComplete:
			m.finished.WithLabelValues(mode(j), "succeeded", c.Reason).Inc()
		case batchv1.JobFailed:
			m.finished.WithLabelValues(mode(j), "failed", c.Reason).Inc()
		}
	}
}
