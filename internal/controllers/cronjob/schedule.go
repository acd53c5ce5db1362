package cronjob

import (
	"errors"
	"time"

	"github.com/robfig/cron/v3"
	batchv1 "k8s.io/api/batch/v1"
)

// slack is how long after a start the controller looks, so that a clock that is a little late does not miss it.
const slack = 100 * time.Millisecond

// manyMissed is how many starts are missed before that is told.
const manyMissed = 100

// missed is the last start between since, exclusively, and now, and roughly how many there were. The zero time is none.
func missed(s cron.Schedule, since, now time.Time) (last time.Time, n int64, err error) {
	first := s.Next(since)
	second := s.Next(first)
	switch {
	case first.IsZero() && second.IsZero(), second.Sub(first).Round(time.Second) < time.Second:
		// The schedule can be read, and never comes: the 31st of February.
		if !first.IsZero() && now.Before(first) {
			return time.Time{}, 0, nil
		}
		return time.Time{}, 0, errors.New("time difference between two schedules is less than 1 second")
	case now.Before(first):
		return time.Time{}, 0, nil
	case now.Before(second):
		return first, 0, nil
	}
	// Counting from the start of a long pause would take for ever: jump near its end. Schedules need not be regular, so look from
	// one period before.
	period := second.Sub(first).Round(time.Second)
	n = int64(now.Sub(first)/period) + 1
	for t := s.Next(first.Add(time.Duration(n-2) * period)); !t.After(now) && !t.IsZero(); t = s.Next(t) {
		last = t
	}
	return last, n, nil
}

// since is where looking for starts begins: at the last one, or at the CronJob's creation.
func since(c *batchv1.CronJob) time.Time {
	if t := c.Status.LastScheduleTime; t != nil {
		return t.Time
	}
	return c.CreationTimestamp.Time
}

// next is how long it is until the controller has to look again.
func next(s cron.Schedule, c *batchv1.CronJob, now time.Time) time.Duration {
	last, n, err := missed(s, since(c), now)
	switch {
	case err != nil, last.IsZero() && n > 0:
		last = now
	case last.IsZero():
		last = since(c)
	}
	t := s.Next(last)
	if t.IsZero() {
		return 0 // never
	}
	return max(t.Add(slack).Sub(now), time.Millisecond)
}
