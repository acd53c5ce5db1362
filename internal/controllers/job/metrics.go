package job

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
)

// meter is what upstream's controller tells of Jobs, under its names.
type meter struct {
	syncs, finished, pods *prometheus.CounterVec
	took                  *prometheus.HistogramVec
}

func newMeter() meter {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Subsystem: "job_controller", Name: name, Help: help}, labels)
	}
	return meter{
		syncs:    counter("job_syncs_total", "How often a Job was looked at.", "completion_mode", "result", "action"),
		finished: counter("jobs_finished_total", "Jobs that have finished.", "completion_mode", "result", "reason"),
		pods:     counter("job_pods_finished_total", "Pods that have ended and are counted in their Job's status.", "completion_mode", "result"),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Subsystem: "job_controller", Name: "job_sync_duration_seconds", Help: "How long it took to look at a Job.",
			Buckets: prometheus.ExponentialBuckets(0.004, 2, 15),
		}, []string{"completion_mode", "result", "action"}),
	}
}

func (m meter) all() []prometheus.Collector {
	return []prometheus.Collector{m.syncs, m.finished, m.pods, m.took}
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

// stored takes in a new status of a Job, whose last one was not finished.
func (m meter) stored(j *batchv1.Job, now batchv1.JobStatus) {
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
