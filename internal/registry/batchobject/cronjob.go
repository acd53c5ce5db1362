package batchobject

import (
	"fmt"
	"regexp"
	"strings"
	"time"
	_ "time/tzdata" // a machine without a database of time zones uses this one, as upstream's components do

	"github.com/robfig/cron/v3"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"podo.dev/podo/internal/registry/check"
)

// DefaultCronJob fills what a CronJob's author left out. Its Jobs are defaulted when they are made.
func DefaultCronJob(c *batchv1.CronJob) {
	if c.Spec.ConcurrencyPolicy == "" {
		c.Spec.ConcurrencyPolicy = batchv1.AllowConcurrent
	}
	orElse(&c.Spec.Suspend, false)
	orElse(&c.Spec.SuccessfulJobsHistoryLimit, 3)
	orElse(&c.Spec.FailedJobsHistoryLimit, 1)
	defaultSpec(&c.Spec.JobTemplate.Spec)
}

// PrepareCronJob starts a new CronJob's history.
func PrepareCronJob(c *batchv1.CronJob) {
	c.Status = batchv1.CronJobStatus{}
	c.Generation = 1
	drop(&c.Spec.JobTemplate.Spec, nil)
}

// PrepareCronJobUpdate keeps the status and counts changes of the spec.
func PrepareCronJobUpdate(c, old *batchv1.CronJob) {
	c.Status = *old.Status.DeepCopy()
	drop(&c.Spec.JobTemplate.Spec, &old.Spec.JobTemplate.Spec)
	if !equality.Semantic.DeepEqual(c.Spec, old.Spec) {
		c.Generation = old.Generation + 1
	}
}

// longestCronJob leaves room for what its Jobs have behind its name: a dash and the scheduled minute.
const longestCronJob = 52

// ValidateCronJob judges a CronJob; old is nil on create.
func ValidateCronJob(c, old *batchv1.CronJob) field.ErrorList {
	var e check.Errors
	var was *batchv1.CronJobSpec
	if old != nil {
		was = &old.Spec
	}
	cronSpec(&e, &c.Spec, was)
	if old == nil && len(c.Name) > longestCronJob {
		e.Invalid(metaPath.Child("name"), c.Name, fmt.Sprintf("must be no more than %d characters", longestCronJob))
	}
	if c.Spec.Schedule == "" { // upstream's last finding
		e.Required(specPath.Child("schedule"), "")
	}
	return e.List()
}

func cronSpec(e *check.Errors, s, old *batchv1.CronJobSpec) {
	if s.Schedule != "" {
		schedule(e, s, old != nil && strings.Contains(old.Schedule, "TZ"), specPath.Child("schedule"))
	}
	if n := s.StartingDeadlineSeconds; n != nil {
		e.NonNegative(specPath.Child("startingDeadlineSeconds"), *n)
	}
	if s.TimeZone != nil && (old == nil || !equal(s.TimeZone, old.TimeZone)) {
		timeZone(e, *s.TimeZone, specPath.Child("timeZone"))
	}
	check.RequiredOneOf(e, specPath.Child("concurrencyPolicy"), s.ConcurrencyPolicy,
		batchv1.AllowConcurrent, batchv1.ForbidConcurrent, batchv1.ReplaceConcurrent)
	var was *batchv1.JobSpec
	if old != nil {
		was = &old.JobTemplate.Spec
	}
	t, p := &s.JobTemplate.Spec, specPath.Child("jobTemplate", "spec")
	common(e, t, was, p)
	if t.Selector != nil {
		e.Invalid(p.Child("selector"), t.Selector, "`selector` will be auto-generated")
	}
	if m := t.ManualSelector; m != nil && *m {
		e.Put(field.NotSupported(p.Child("manualSelector"), *m, []string{"nil", "false"}))
	}
	if n := s.SuccessfulJobsHistoryLimit; n != nil {
		e.NonNegative(specPath.Child("successfulJobsHistoryLimit"), int64(*n))
	}
	if n := s.FailedJobsHistoryLimit; n != nil {
		e.NonNegative(specPath.Child("failedJobsHistoryLimit"), int64(*n))
	}
}

// schedule judges the text of a schedule; zoned says that it named its time zone itself before there was a field for that.
func schedule(e *check.Errors, s *batchv1.CronJobSpec, zoned bool, p *field.Path) {
	if _, err := ParseSchedule(s.Schedule); err != nil {
		e.Invalid(p, s.Schedule, err.Error())
	}
	if !strings.Contains(s.Schedule, "TZ") {
		return
	}
	if !zoned {
		e.Invalid(p, s.Schedule, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead")
	} else if s.TimeZone != nil {
		e.Invalid(p, s.Schedule, "cannot use both timeZone field and TZ or CRON_TZ in schedule")
	}
}

// Schedule is when a CronJob starts; a time zone of its own field goes before one in the schedule.
func Schedule(s *batchv1.CronJobSpec) (cron.Schedule, error) {
	text := s.Schedule
	if s.TimeZone != nil && !strings.Contains(text, "TZ") {
		text = fmt.Sprintf("TZ=%s %s", *s.TimeZone, text)
	}
	return ParseSchedule(text)
}

// ParseSchedule reads a schedule of five fields, or one by name ("@daily"). The library panics on some that it cannot read.
func ParseSchedule(text string) (s cron.Schedule, err error) {
	defer func() {
		if p := recover(); p != nil {
			s, err = nil, fmt.Errorf("invalid schedule format: %v", p)
		}
	}()
	return cron.ParseStandard(text)
}

// zonePart is one part of a time zone's name, between slashes.
var zonePart = regexp.MustCompile(`^[A-Za-z._0-9+][A-Za-z._0-9+-]{0,13}$`)

func timeZone(e *check.Errors, name string, p *field.Path) {
	if name == "" {
		e.Invalid(p, name, "timeZone must be nil or non-empty string")
		return
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "." || part == ".." || !zonePart.MatchString(part) {
			e.Invalid(p, name, "unknown time zone "+name)
			return
		}
	}
	if strings.EqualFold(name, "Local") {
		e.Invalid(p, name, "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones")
	}
	if _, err := time.LoadLocation(name); err != nil {
		e.Invalid(p, name, err.Error())
	}
}

// CronJobWarnings tells what is accepted of a CronJob but unwise.
func CronJobWarnings(c *batchv1.CronJob) []string {
	return SpecWarnings(&c.Spec.JobTemplate.Spec, specPath.Child("jobTemplate", "spec"))
}

// CronJobUpdateWarnings: a schedule that names its time zone itself is from earlier times.
func CronJobUpdateWarnings(c, old *batchv1.CronJob) (out []string) {
	if c.Generation != old.Generation {
		out = CronJobWarnings(c)
	}
	if strings.Contains(c.Spec.Schedule, "TZ") {
		out = append(out, "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, "+
			"see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details")
	}
	return out
}
