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
		return // the attempt has a record of its own
	}
	if i.State == queue.Unschedulable {
		why = "" // so does this one
	}
	r.config.Append(timeline.New(now, timeline.RefOf(i.Pod.Object), timeline.Queued).Move(shown(from), string(i.State)).Because(why))
}

// keptBy are the plug-ins that hold a pod in a state.
func keptBy(i *queue.Item, state queue.State) []string {
	switch state {
	case queue.Unschedulable:
		return i.RejectedBy
	case queue.Gated:
		return []string{i.GatedBy}
	}
	return nil
}

// eventOf is the metric's label for what brought a pod to a queue. The exact cause is in the timeline: as a label it would have
// no bounds.
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

// shown is a state as users see it: the state of a pod during an attempt is hidden.
func shown(s queue.State) string {
	if s == queue.InFlight {
		return ""
	}
	return string(s)
}
