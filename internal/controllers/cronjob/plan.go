// Package cronjob starts Jobs by the clock.
//
//	schedule.go    pure: which starts were missed, and when the next one is
//	plan.go        pure: a CronJob and its Jobs -> what to start and to delete, and the status that says so
//	controller.go  does it, and is woken when the next start is due
//
// A Job is called by the minute of its start, so that it cannot be started twice: who crashes between starting it and noting that finds
// it by its name.
package cronjob

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"podo.dev/podo/internal/registry/batchobject"
)

var kind = batchv1.SchemeGroupVersion.WithKind("CronJob")

// Plan is what to do, in this order.
type Plan struct {
	Delete  []*batchv1.Job // more history than is kept: it goes first, since a quota may count it
	Replace []*batchv1.Job // run still, and go before Start comes
	Start   *batchv1.Job   // nil for none
	At      time.Time      // the start that Start is for
	Status  batchv1.CronJobStatus
	Tell    []Event
	Again   time.Duration // until the next start; 0 for when something changes
}

// Event is what users are told.
type Event struct{ Type, Reason, Message string }

func (p *Plan) tell(kind, reason, format string, args ...any) {
	p.Tell = append(p.Tell, Event{kind, reason, fmt.Sprintf(format, args...)})
}

// Started notes a Job that has been started.
func (p *Plan) Started(ref v1.ObjectReference) {
	p.Status.Active = append(p.Status.Active, ref)
	p.Status.LastScheduleTime = new(metav1.NewTime(p.At))
}

// Decide takes a CronJob and the Jobs that it controls.
func Decide(c *batchv1.CronJob, jobs []*batchv1.Job, now time.Time) Plan {
	p := Plan{Status: *c.Status.DeepCopy()}
	p.history(c, jobs)
	p.observe(c, jobs)
	seen := c.DeepCopy()
	seen.Status = p.Status
	s, at := p.due(seen, now)
	if s == nil || c.DeletionTimestamp != nil {
		return p
	}
	if !at.IsZero() {
		p.start(c, jobs, at, now)
	}
	seen.Status = p.Status
	if p.Start != nil {
		seen.Status.LastScheduleTime = new(metav1.NewTime(at))
	}
	p.Again = next(s, seen, now)
	return p
}

// history deletes the oldest finished Jobs beyond the limits; not one whose start is not noted, since only that it is there keeps it from
// being started again.
func (p *Plan) history(c *batchv1.CronJob, jobs []*batchv1.Job) {
	for _, l := range []struct {
		end   batchv1.JobConditionType
		limit *int32
	}{{batchv1.JobComplete, c.Spec.SuccessfulJobsHistoryLimit}, {batchv1.JobFailed, c.Spec.FailedJobsHistoryLimit}} {
		if l.limit == nil {
			continue
		}
		var ended []*batchv1.Job
		for _, j := range jobs {
			if batchobject.Has(j, l.end) && j.DeletionTimestamp == nil && unnoted(c, j).IsZero() {
				ended = append(ended, j)
			}
		}
		slices.SortFunc(ended, byStart)
		for _, j := range ended[:max(0, len(ended)-int(*l.limit))] {
			p.Delete = append(p.Delete, j)
			p.drop(j.UID) // without the word about its end, as upstream
		}
	}
}

// byStart orders Jobs by when they started; those that never did are last.
func byStart(a, b *batchv1.Job) int {
	sa, sb := a.Status.StartTime, b.Status.StartTime
	switch {
	case sa == nil && sb != nil:
		return 1
	case sa != nil && sb == nil:
		return -1
	case sa != nil:
		if c := sa.Compare(sb.Time); c != 0 {
			return c
		}
	}
	return cmp.Compare(a.Name, b.Name)
}

// unnoted is the start that a Job was made for, when the controller made it and crashed, or met with a conflict, before it noted that.
func unnoted(c *batchv1.CronJob, j *batchv1.Job) (at time.Time) {
	at, err := time.Parse(time.RFC3339, j.Annotations[batchv1.CronJobScheduledTimestampAnnotation])
	if last := c.Status.LastScheduleTime; err != nil || j.Name != jobName(c, at) || last != nil && !at.After(last.Time) {
		return time.Time{}
	}
	return at
}

// observe brings the list of running Jobs up to date, and the last start.
func (p *Plan) observe(c *batchv1.CronJob, jobs []*batchv1.Job) {
	there := map[types.UID]bool{}
	for _, j := range jobs {
		there[j.UID] = true
		listed := slices.ContainsFunc(p.Status.Active, func(r v1.ObjectReference) bool { return r.UID == j.UID })
		ended := batchobject.Finished(j)
		at := unnoted(c, j)
		if last := p.Status.LastScheduleTime; !at.IsZero() && (last == nil || at.After(last.Time)) {
			p.Status.LastScheduleTime = new(metav1.NewTime(at))
		}
		switch {
		case !listed && !ended && !at.IsZero():
			p.Status.Active = append(p.Status.Active, Ref(j))
		case !listed && !ended:
			p.tell(v1.EventTypeWarning, "UnexpectedJob", "Saw a job that the controller did not create or forgot: %s", j.Name)
		case listed && ended:
			end := batchv1.JobComplete
			if !batchobject.Has(j, end) {
				end = batchv1.JobFailed
			}
			p.drop(j.UID)
			p.tell(v1.EventTypeNormal, "SawCompletedJob", "Saw completed job: %s, condition: %v", j.Name, end)
		}
		if t := j.Status.CompletionTime; t != nil && batchobject.Has(j, batchv1.JobComplete) {
			if last := p.Status.LastSuccessfulTime; last == nil || t.After(last.Time) {
				p.Status.LastSuccessfulTime = t
			}
		}
	}
	for _, r := range slices.Clone(p.Status.Active) {
		if !there[r.UID] {
			p.drop(r.UID)
			p.tell(v1.EventTypeNormal, "MissingJob", "Active job went missing: %v", r.Name)
		}
	}
}

func (p *Plan) drop(uid types.UID) {
	p.Status.Active = slices.DeleteFunc(p.Status.Active, func(r v1.ObjectReference) bool { return r.UID == uid })
}

// due is the start that has come and was not taken yet, and the schedule; the latter is nil when nothing is to be started at all.
func (p *Plan) due(c *batchv1.CronJob, now time.Time) (s cron.Schedule, at time.Time) {
	if c.DeletionTimestamp != nil {
		return nil, at
	}
	if z := c.Spec.TimeZone; z != nil {
		if _, err := time.LoadLocation(*z); err != nil {
			p.tell(v1.EventTypeWarning, "UnknownTimeZone", "invalid timeZone: %q: %s", *z, err)
			return nil, at
		}
	}
	if c.Spec.Suspend != nil && *c.Spec.Suspend {
		return nil, at
	}
	if strings.Contains(c.Spec.Schedule, "TZ") {
		p.tell(v1.EventTypeWarning, "UnsupportedSchedule", "CRON_TZ or TZ used in schedule %q is not officially supported, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details", c.Spec.Schedule)
	}
	parsed, err := batchobject.Schedule(&c.Spec)
	if err != nil {
		p.tell(v1.EventTypeWarning, "UnparseableSchedule", "unparseable schedule: %q : %s", c.Spec.Schedule, err)
		return nil, at
	}
	from := since(c)
	if d := c.Spec.StartingDeadlineSeconds; d != nil {
		if earliest := now.Add(-time.Duration(*d) * time.Second); earliest.After(from) {
			from = earliest // what lies before is too late
		}
	}
	at, n, err := missed(parsed, from, now)
	if err != nil {
		p.tell(v1.EventTypeWarning, "InvalidSchedule", "invalid schedule: %s : %s", c.Spec.Schedule, err)
		return nil, time.Time{}
	}
	if n > manyMissed && !at.IsZero() {
		p.tell(v1.EventTypeWarning, "TooManyMissedTimes", "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew")
	}
	return parsed, at
}

// start starts the Job of a time, unless that was done, is too late, or others that run forbid it.
func (p *Plan) start(c *batchv1.CronJob, jobs []*batchv1.Job, at, now time.Time) {
	p.At = at
	if d := c.Spec.StartingDeadlineSeconds; d != nil && at.Add(time.Duration(*d)*time.Second).Before(now) {
		p.tell(v1.EventTypeWarning, "MissSchedule", "Missed scheduled time to start a job: %s", at.UTC().Format(time.RFC1123Z))
		return
	}
	name := jobName(c, at)
	if last := p.Status.LastScheduleTime; last != nil && last.Time.Equal(at) ||
		slices.ContainsFunc(p.Status.Active, func(r v1.ObjectReference) bool { return r.Name == name }) {
		return
	}
	if i := slices.IndexFunc(jobs, func(j *batchv1.Job) bool { return j.Name == name }); i >= 0 {
		if !batchobject.Finished(jobs[i]) { // started, and that was not noted
			p.Started(Ref(jobs[i]))
		} else {
			p.Status.LastScheduleTime = new(metav1.NewTime(at))
		}
		return
	}
	switch {
	case c.Spec.ConcurrencyPolicy == batchv1.ForbidConcurrent && len(p.Status.Active) > 0:
		p.tell(v1.EventTypeNormal, "JobAlreadyActive", "Not starting job because prior execution is running and concurrency policy is Forbid")
		return
	case c.Spec.ConcurrencyPolicy == batchv1.ReplaceConcurrent:
		for _, j := range jobs {
			if slices.ContainsFunc(p.Status.Active, func(r v1.ObjectReference) bool { return r.UID == j.UID }) {
				p.Replace = append(p.Replace, j)
				p.drop(j.UID)
			}
		}
	}
	p.Start = newJob(c, name, at)
}

func jobName(c *batchv1.CronJob, at time.Time) string {
	return fmt.Sprintf("%s-%d", c.Name, at.Unix()/60)
}

// Ref is how a status names a Job.
func Ref(j *batchv1.Job) v1.ObjectReference {
	return v1.ObjectReference{
		APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job", Namespace: j.Namespace, Name: j.Name, UID: j.UID, ResourceVersion: j.ResourceVersion,
	}
}

func newJob(c *batchv1.CronJob, name string, at time.Time) *batchv1.Job {
	t := c.Spec.JobTemplate.DeepCopy()
	zone := time.UTC
	if z := c.Spec.TimeZone; z != nil {
		if l, err := time.LoadLocation(*z); err == nil {
			zone = l
		}
	}
	notes := maps.Clone(t.Annotations)
	if notes == nil {
		notes = map[string]string{}
	}
	notes[batchv1.CronJobScheduledTimestampAnnotation] = at.In(zone).Format(time.RFC3339)
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: c.Namespace, Name: name, Labels: t.Labels, Annotations: notes,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(c, kind)},
		},
		Spec: t.Spec,
	}
}
