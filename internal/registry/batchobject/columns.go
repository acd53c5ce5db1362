package batchobject

import (
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"podo.dev/podo/internal/registry/podobject"
)

// wideCells are those of the columns that `kubectl get -o wide` adds.
func wideCells(s *batchv1.JobSpec) []any {
	names, images := podobject.Containers(&s.Template.Spec)
	return []any{names, images, metav1.FormatLabelSelector(s.Selector)}
}

// JobColumns are a Job's, without the wide ones.
func JobColumns(name, age metav1.TableColumnDefinition) []metav1.TableColumnDefinition {
	return []metav1.TableColumnDefinition{
		name,
		{Name: "Status", Type: "string", Description: "Status of the job."},
		{Name: "Completions", Type: "string", Description: batchv1.JobStatus{}.SwaggerDoc()["succeeded"]},
		{Name: "Duration", Type: "string", Description: "Time required to complete the job."},
		age,
	}
}

// JobRow has a cell a column.
func JobRow(j *batchv1.Job, age string, now time.Time) []any {
	return append([]any{j.Name, jobState(j), completions(j), took(j, now), age}, wideCells(&j.Spec)...)
}

func jobState(j *batchv1.Job) string {
	switch {
	case Has(j, batchv1.JobComplete):
		return "Complete"
	case Has(j, batchv1.JobFailed):
		return "Failed"
	case j.DeletionTimestamp != nil:
		return "Terminating"
	case Has(j, batchv1.JobSuspended):
		return "Suspended"
	case Has(j, batchv1.JobFailureTarget):
		return "FailureTarget"
	case Has(j, batchv1.JobSuccessCriteriaMet):
		return "SuccessCriteriaMet"
	}
	return "Running"
}

func completions(j *batchv1.Job) string {
	if n := j.Spec.Completions; n != nil {
		return fmt.Sprintf("%d/%d", j.Status.Succeeded, *n)
	}
	if n := j.Spec.Parallelism; n != nil && *n > 1 {
		return fmt.Sprintf("%d/1 of %d", j.Status.Succeeded, *n)
	}
	return fmt.Sprintf("%d/1", j.Status.Succeeded)
}

func took(j *batchv1.Job, now time.Time) string {
	if j.Status.StartTime == nil {
		return ""
	}
	if end := j.Status.CompletionTime; end != nil {
		now = end.Time
	}
	return duration.HumanDuration(now.Sub(j.Status.StartTime.Time))
}

// CronJobColumns are a CronJob's, without the wide ones.
func CronJobColumns(name, age metav1.TableColumnDefinition) []metav1.TableColumnDefinition {
	spec := batchv1.CronJobSpec{}.SwaggerDoc()
	status := batchv1.CronJobStatus{}.SwaggerDoc()
	return []metav1.TableColumnDefinition{
		name,
		{Name: "Schedule", Type: "string", Description: spec["schedule"]},
		{Name: "Timezone", Type: "string", Description: spec["timeZone"]},
		{Name: "Suspend", Type: "boolean", Description: spec["suspend"]},
		{Name: "Active", Type: "integer", Description: status["active"]},
		{Name: "Last Schedule", Type: "string", Description: status["lastScheduleTime"]},
		age,
	}
}

// CronJobRow has a cell a column; since shows how long ago a time was.
func CronJobRow(c *batchv1.CronJob, since func(metav1.Time) string) []any {
	last, zone, suspended := "<none>", "<none>", "<unset>"
	if t := c.Status.LastScheduleTime; t != nil {
		last = since(*t)
	}
	if c.Spec.TimeZone != nil {
		zone = *c.Spec.TimeZone
	}
	if s := c.Spec.Suspend; s != nil {
		suspended = map[bool]string{true: "True", false: "False"}[*s]
	}
	cells := []any{c.Name, c.Spec.Schedule, zone, suspended, int64(len(c.Status.Active)), last, since(c.CreationTimestamp)}
	return append(cells, wideCells(&c.Spec.JobTemplate.Spec)...)
}
