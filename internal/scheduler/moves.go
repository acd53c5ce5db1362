package scheduler

import (
	"time"

	"podo.dev/podo/internal/scheduler/queue"
	"podo.dev/podo/internal/timeline"
)

// tellMoved tells of a pod's change of queue.
func (r *run) tellMoved(i *queue.Item, from queue.State, why string, now time.Time) {
	r.config.Metrics.moved(i.State, r.eventOf(i, from))
	r.config.Metrics.rejectedBy(i.Pod.Object, keptBy(i, from), -1)
	if i.State == queue.Gated {
		r.config.Metrics.rejectedBy(i.Pod.Object, []string{why}, 1)
	}
	if i.State == queue.InFlight {
		return // the attempt's record tells
	}
	if i.State == queue.Unschedulable {
		why = "" // so does this one
	}
	r.config.Append(timeline.New(now, timeline.RefOf(i.Pod.Object), timeline.Queued).Move(shown(from), string(i.State)).Because(why))
}

// keptBy are the plug-ins that keep a pod in a state.
func keptBy(i *queue.Item, state queue.State) []string {
	switch state {
	case queue.Unschedulable:
		return i.RejectedBy
	case queue.Gated:
		return []string{i.GatedBy}
	}
	return nil
}

// eventOf names that by which a pod comes to a queue. What happened exactly is in the timeline: as a label it would be endless.
func (r *run) eventOf(i *queue.Item, from queue.State) string {
	switch {
	case from == "":
		return "UnscheduledPodAdd"
	case from == queue.InFlight:
		return "ScheduleAttemptFailure"
	case from == queue.Backoff:
		return "BackoffComplete"
	case i.Flushed:
		return "UnschedulableTimeout"
	}
	return r.event
}

// shown hides the state in which only an attempt is.
func shown(s queue.State) string {
	if s == queue.InFlight {
		return ""
	}
	return string(s)
}
