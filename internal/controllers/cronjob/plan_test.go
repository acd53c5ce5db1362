package cronjob

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"podo.dev/podo/internal/registry/batchobject"
)

var morning = time.Date(2026, 1, 5, 8, 30, 0, 0, time.UTC) // a Monday

func cronJob(schedule string, edit func(*batchv1.CronJobSpec)) *batchv1.CronJob {
	c := &batchv1.CronJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c", UID: "u", CreationTimestamp: metav1.NewTime(morning)},
		Spec:       batchv1.CronJobSpec{Schedule: schedule},
	}
	if edit != nil {
		edit(&c.Spec)
	}
	batchobject.DefaultCronJob(c)
	return c
}

func child(name string, started time.Time, end batchv1.JobConditionType) *batchv1.Job {
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}}
	j.Status.StartTime = new(metav1.NewTime(started))
	if end != "" {
		j.Status.Conditions = []batchv1.JobCondition{{Type: end, Status: v1.ConditionTrue}}
		if end == batchv1.JobComplete {
			j.Status.CompletionTime = new(metav1.NewTime(started.Add(time.Minute)))
		}
	}
	return j
}

// started is a Job that the controller made for a start.
func started(j *batchv1.Job, at time.Time) *batchv1.Job {
	j.Annotations = map[string]string{batchv1.CronJobScheduledTimestampAnnotation: at.Format(time.RFC3339)}
	return j
}

// text is a plan in a line.
func text(p Plan) string {
	var out []string
	for _, j := range slices.Concat(p.Replace, p.Delete) {
		out = append(out, "delete "+j.Name)
	}
	if p.Start != nil {
		out = append(out, "start "+p.Start.Name+" for "+p.Start.Annotations[batchv1.CronJobScheduledTimestampAnnotation])
	}
	for _, e := range p.Tell {
		out = append(out, e.Reason)
	}
	for _, r := range p.Status.Active {
		out = append(out, "active "+r.Name)
	}
	return strings.Join(append(out, fmt.Sprintf("again %s", p.Again)), ", ")
}

func TestDecide(t *testing.T) {
	at := func(d time.Duration) time.Time { return morning.Add(d) }
	name := func(d time.Duration) string { return fmt.Sprintf("c-%d", at(d).Unix()/60) }
	for _, c := range []struct {
		what string
		cron *batchv1.CronJob
		jobs []*batchv1.Job
		then func(*batchv1.CronJobStatus)
		now  time.Duration
		want string
	}{
		{"not yet", cronJob("0 9 * * *", nil), nil, nil, time.Minute, "again 29m0.1s"},
		{"now", cronJob("0 9 * * *", nil), nil, nil, 30*time.Minute + 50*time.Millisecond, "start " + name(30*time.Minute) + " for 2026-01-05T09:00:00Z, again 24h0m0.05s"},
		{
			"in another zone", cronJob("0 10 * * *", func(s *batchv1.CronJobSpec) { s.TimeZone = new("Europe/Berlin") }), nil, nil, 30 * time.Minute,
			"start " + name(30*time.Minute) + " for 2026-01-05T10:00:00+01:00, again 24h0m0.1s",
		},
		{"with a zone in its schedule, as was allowed once", cronJob("TZ=Europe/Berlin 0 11 * * *", nil), nil, nil, time.Minute, "UnsupportedSchedule, again 1h29m0.1s"},
		{"missed twice, the last one counts", cronJob("0 * * * *", nil), nil, nil, 100 * time.Minute, "start " + name(90*time.Minute) + " for 2026-01-05T10:00:00Z, again 50m0.1s"},
		{"missed very often", cronJob("* * * * *", nil), nil, nil, 200 * time.Minute, "start " + name(200*time.Minute) + " for 2026-01-05T11:50:00Z, TooManyMissedTimes, again 1m0.1s"},
		{
			"missed very often, within a deadline", cronJob("* * * * *", func(s *batchv1.CronJobSpec) { s.StartingDeadlineSeconds = new(int64(200)) }), nil, nil, 200 * time.Minute,
			"start " + name(200*time.Minute) + " for 2026-01-05T11:50:00Z, again 1m0.1s",
		},
		{"too late", cronJob("0 9 * * *", func(s *batchv1.CronJobSpec) { s.StartingDeadlineSeconds = new(int64(10)) }), nil, nil, time.Hour, "again 23h30m0.1s"},
		{"suspended", cronJob("0 9 * * *", func(s *batchv1.CronJobSpec) { s.Suspend = new(true) }), nil, nil, time.Hour, "again 0s"},
		{"on the 31st of February", cronJob("59 23 31 2 *", nil), nil, nil, time.Hour, "InvalidSchedule, again 0s"},
		{"in a zone that is none any more", cronJob("* * * * *", func(s *batchv1.CronJobSpec) { s.TimeZone = new("Mars/Olympus") }), nil, nil, time.Hour, "UnknownTimeZone, again 0s"},
		{"done already", cronJob("0 9 * * *", nil), nil, func(s *batchv1.CronJobStatus) { s.LastScheduleTime = new(metav1.NewTime(at(30 * time.Minute))) }, time.Hour, "again 23h30m0.1s"},
		{
			"started, and not noted", cronJob("0 9 * * *", nil),
			[]*batchv1.Job{started(child(name(30*time.Minute), at(30*time.Minute), ""), at(30*time.Minute))},
			nil, 31 * time.Minute,
			"active " + name(30*time.Minute) + ", again 23h59m0.1s",
		},
		{"somebody else's", cronJob("0 9 * * *", nil), []*batchv1.Job{child("x", morning, "")}, nil, time.Minute, "UnexpectedJob, again 29m0.1s"},
		{"ended and gone", cronJob("0 9 * * *", nil), []*batchv1.Job{child("x", morning, batchv1.JobFailed)}, func(s *batchv1.CronJobStatus) {
			s.Active = []v1.ObjectReference{{Name: "x", UID: "x"}, {Name: "y", UID: "y"}}
		}, time.Minute, "SawCompletedJob, MissingJob, again 29m0.1s"},
		{
			"ended, and not kept", cronJob("0 9 * * *", func(s *batchv1.CronJobSpec) { s.SuccessfulJobsHistoryLimit = new(int32(0)) }),
			[]*batchv1.Job{child("x", morning, batchv1.JobComplete)},
			func(s *batchv1.CronJobStatus) { s.Active = []v1.ObjectReference{{Name: "x", UID: "x"}} }, time.Minute,
			"delete x, again 29m0.1s",
		},
		{
			"one runs and forbids", cronJob("0 9 * * *", func(s *batchv1.CronJobSpec) { s.ConcurrencyPolicy = batchv1.ForbidConcurrent }),
			[]*batchv1.Job{child("x", morning, "")},
			func(s *batchv1.CronJobStatus) { s.Active = []v1.ObjectReference{{Name: "x", UID: "x"}} }, 31 * time.Minute, "JobAlreadyActive, active x, again 23h59m0.1s",
		},
		{
			"one runs and is replaced", cronJob("0 9 * * *", func(s *batchv1.CronJobSpec) { s.ConcurrencyPolicy = batchv1.ReplaceConcurrent }),
			[]*batchv1.Job{child("x", morning, "")},
			func(s *batchv1.CronJobStatus) { s.Active = []v1.ObjectReference{{Name: "x", UID: "x"}} }, 31 * time.Minute,
			"delete x, start " + name(30*time.Minute) + " for 2026-01-05T09:00:00Z, again 23h59m0.1s",
		},
		{"history", cronJob("0 9 * * *", func(s *batchv1.CronJobSpec) { s.SuccessfulJobsHistoryLimit = new(int32(1)) }), []*batchv1.Job{
			child("new", at(time.Second), batchv1.JobComplete), child("old", at(0), batchv1.JobComplete), child("bad", at(0), batchv1.JobFailed),
		}, nil, time.Minute, "delete old, again 29m0.1s"},
	} {
		if c.then != nil {
			c.then(&c.cron.Status)
		}
		if got := text(Decide(c.cron, c.jobs, at(c.now))); got != c.want {
			t.Errorf("%s:\nhave %s\nwant %s", c.what, got, c.want)
		}
	}
}

// However late the controller looks, wherever it crashes, and though it is suspended now and then: every start that it takes is one of the
// schedule's, none is taken twice, none lies in the future, none beside another one that runs where that is forbidden, it never sleeps
// beyond the next one, and of the history the oldest go, as many as are too many.
func TestStartsAreTheSchedules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := cronJob(rapid.SampledFrom([]string{"*/7 * * * *", "0 9-17/4 * * 1-5", "@hourly", "30 2 * * *", "@every 90m", "0 0 1 * *"}).Draw(t, "schedule"), func(s *batchv1.CronJobSpec) {
			s.TimeZone = new(rapid.SampledFrom([]string{"Etc/UTC", "Europe/Berlin", "America/New_York"}).Draw(t, "zone"))
			s.SuccessfulJobsHistoryLimit = new(rapid.Int32Range(0, 3).Draw(t, "kept"))
			s.ConcurrencyPolicy = batchv1.ForbidConcurrent
		})
		s, err := batchobject.Schedule(&c.Spec)
		if err != nil {
			t.Fatal(err)
		}
		now, taken := morning, map[string]bool{}
		var jobs []*batchv1.Job
		for range rapid.IntRange(1, 30).Draw(t, "looks") {
			now = now.Add(time.Duration(rapid.IntRange(1, 3*24*3600).Draw(t, "seconds")) * time.Second)
			for i := range jobs {
				if !batchobject.Finished(jobs[i]) && rapid.Bool().Draw(t, "ends") {
					notes := jobs[i].Annotations
					jobs[i] = child(jobs[i].Name, jobs[i].Status.StartTime.Time, batchv1.JobComplete)
					jobs[i].Annotations = notes
				}
			}
			c.Spec.Suspend = new(rapid.IntRange(0, 4).Draw(t, "suspended") == 0)
			p := Decide(c, jobs, now)
			jobs = forgotten(t, c, jobs, p)
			if rapid.IntRange(0, 3).Draw(t, "what") == 0 {
				continue // it crashes
			}
			if p.Start != nil {
				if taken[p.Start.Name] || p.At.After(now) || !p.At.After(since(c)) {
					t.Fatalf("%s for %s at %s", p.Start.Name, p.At, now)
				}
				if interval := strings.HasPrefix(c.Spec.Schedule, "@every"); !interval && !s.Next(p.At.Add(-time.Second)).Equal(p.At) {
					t.Fatalf("%s is none of the schedule's", p.At)
				}
				if slices.ContainsFunc(jobs, func(j *batchv1.Job) bool { return !batchobject.Finished(j) }) {
					t.Fatalf("%s starts while another one runs", p.Start.Name)
				}
				taken[p.Start.Name] = true
				j := started(child(p.Start.Name, now, ""), p.At)
				jobs = append(jobs, j)
				if rapid.Bool().Draw(t, "crashes") {
					continue
				}
				p.Started(Ref(j))
			}
			c.Status = p.Status
			if more := Decide(c, jobs, now); more.Start != nil || len(more.Replace) > 0 {
				t.Fatalf("applied, a plan leaves to do: %s", text(more))
			}
			if !*c.Spec.Suspend && (p.Again <= 0 || now.Add(p.Again).After(s.Next(now).Add(slack))) {
				t.Fatalf("at %s it looks again after %s", now, p.Again)
			}
		}
	})
}

// forgotten are the Jobs that are left when a plan has deleted of its history what is too much. Those whose start is not noted stay besides.
func forgotten(t *rapid.T, c *batchv1.CronJob, jobs []*batchv1.Job, p Plan) (left []*batchv1.Job) {
	kept, most := 0, int(*c.Spec.SuccessfulJobsHistoryLimit)
	for _, j := range jobs {
		if slices.Contains(p.Delete, j) {
			continue
		}
		left = append(left, j)
		if !batchobject.Finished(j) || !unnoted(c, j).IsZero() {
			continue
		}
		kept++
		for _, gone := range p.Delete {
			if j.Status.StartTime.Before(gone.Status.StartTime) {
				t.Fatalf("%s goes, and %s, which is older, stays", gone.Name, j.Name)
			}
		}
	}
	if kept > most || kept < most && len(p.Delete) > 0 {
		t.Fatalf("%d Jobs go and %d stay, %d may", len(p.Delete), kept, most)
	}
	return left
}
