// Package batchobject has the rules of Jobs and CronJobs: how they are defaulted, what a creation, an update and a status report may do,
// and how `kubectl get` shows them. It is pure.
//
//	job.go       a Job whole: defaults, generated selector and labels, what an update may change
//	jobspec.go   what a Job asks for; a CronJob's template asks for the same
//	policy.go    its policies of failure and success
//	template.go  which parts of a suspended Job's template may change
//	status.go    which states a status may go from and to
//	indexes.go   index intervals as text: "1,3-5,7"
//	cronjob.go   schedules and time zones
//	columns.go   kubectl get
package batchobject

import (
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var (
	metaPath   = field.NewPath("metadata")
	specPath   = field.NewPath("spec")
	statusPath = field.NewPath("status")
)

// is tells whether a condition is there with the status.
func is(list []batchv1.JobCondition, what batchv1.JobConditionType, status v1.ConditionStatus) bool {
	for i := range list {
		if list[i].Type == what && list[i].Status == status {
			return true
		}
	}
	return false
}

// Has tells whether a condition of the Job's is true.
func Has(job *batchv1.Job, what batchv1.JobConditionType) bool {
	return is(job.Status.Conditions, what, v1.ConditionTrue)
}

// Finished tells a Job that has completed or failed: nothing about it changes any more.
func Finished(job *batchv1.Job) bool {
	return Has(job, batchv1.JobComplete) || Has(job, batchv1.JobFailed)
}

// Indexed tells a Job whose pods each do a numbered part of the work.
func Indexed(s *batchv1.JobSpec) bool {
	return s.CompletionMode != nil && *s.CompletionMode == batchv1.IndexedCompletion
}
