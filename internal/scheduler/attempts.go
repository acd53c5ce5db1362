package scheduler

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"podo.dev/podo/internal/scheduler/extender"
	"podo.dev/podo/internal/scheduler/framework"
	"podo.dev/podo/internal/scheduler/plan"
	"podo.dev/podo/internal/scheduler/queue"
	"podo.dev/podo/internal/timeline"
)

// burst bounds how many pods are tried before looking at changes again.
const burst = 64

// cycle tries pods, batch after batch of equal ones, and binds all that found a node together, unless that takes too long.
func (r *run) cycle() {
	for left := burst; left > 0 && r.out.room() > 0; {
		tried := r.batch(min(left, r.out.room()))
		if left -= tried; tried == 0 {
			break
		}
	}
	r.out.handOver()
}

// batch places equal pods, as many as stand at the head of the queue, and returns how many it tried. Each decision sees the ones
// before it and what those did to the queue, so a batch decides what single attempts would.
func (r *run) batch(most int) (tried int) {
	var profile string
	var later bool
	for item := range r.queue.Equal(time.Now(), most) {
		profile = item.Pod.Shape.SchedulerName
		tried++
		now := time.Now()
		r.out.handOverLate(now)
		if later = r.attempt(item, now); later {
			break // the next pod could not see the decision about this one
		}
	}
	ended := ""
	switch {
	case tried == 0:
		return 0
	case r.queue.Count(queue.Active) == 0: // all are tried
	case later:
		ended = notBatchable
	case tried == most:
		ended = expired
	default:
		ended = incompatible
	}
	r.config.Metrics.batch(profile, tried, ended)
	return tried
}

// attempt tries to place one pod. later: extenders are asked first.
func (r *run) attempt(item *queue.Item, now time.Time) (later bool) {
	pod := item.Pod.Object
	if _, assumed := r.cluster.Placed(pod.UID); assumed {
		// Its bind was reported as failed but then seen bound, or the reverse: the view will tell.
		r.queue.Retry(item, "bind not settled", now)
		r.unclaimed(item, "", now)
		return false
	}
	planner := r.planner[pod.Spec.SchedulerName]
	r.stage = now
	if r.cycles++; r.cycles%sampled == 1 {
		planner.Timed = r.timed
	}
	if who := r.extenders.who(pod, (*extender.Extender).Judges); len(who) > 0 {
		nodes, d := planner.Feasible(r.cluster, item.Pod)
		planner.Timed = nil
		if d.Diagnosis == nil {
			r.consult(item, who, nodes, now)
			return true
		}
		r.decided(item, d, now)
		return false
	}
	d := planner.Schedule(r.cluster, item.Pod)
	planner.Timed = nil
	r.config.Metrics.decided.Observe(time.Since(now).Seconds())
	r.decided(item, d, now)
	return false
}

// decided acts on a decision. began is when the attempt began.
func (r *run) decided(item *queue.Item, d plan.Decision, began time.Time) {
	pod := item.Pod.Object
	if d.Node != nil {
		r.config.Append(timeline.New(began, timeline.RefOf(pod), timeline.Attempt).Move("", d.Node.Name).With("try", item.Attempts).
			With("evaluated", d.Evaluated).With("feasible", d.Feasible).With("score", d.Score))
		r.assume(item, d.Node, began)
		return
	}
	if room, asked := r.makeRoom(item, d.Diagnosis, began); !asked {
		r.rejected(item, d.Diagnosis, room, began)
	}
}

// rejected puts a pod aside that no node takes.
func (r *run) rejected(item *queue.Item, d *plan.Diagnosis, room plan.Preemption, began time.Time) {
	pod := item.Pod.Object
	rec := timeline.New(began, timeline.RefOf(pod), timeline.Attempt).Move("", "unschedulable").Because(v1.PodReasonUnschedulable).
		With("try", item.Attempts).With("nodes", d.Nodes)
	rec.Fields = append(rec.Fields, d.Fields()...)
	if room.Node != nil {
		r.config.Metrics.preempted(room)
		rec = rec.With("nominated", room.Node.Name).With("victims", names(room.Victims))
	}
	r.config.Append(rec)
	item.RejectedBy, item.Refused = d.Plugins(), d.Refused
	r.config.Metrics.rejectedBy(pod, item.RejectedBy, 1)
	now := time.Now()
	r.unclaimed(item, "", now) // others may have it
	r.queue.Rejected(item, now)
	r.config.Metrics.attempt(pod, unschedulable, now.Sub(began))
	r.out.report(report{pod: pod, reason: v1.PodReasonUnschedulable, message: d.Message(room.Text), nominate: r.waitsOn(pod.UID)})
}

// failed puts aside a pod about which nothing could be decided.
func (r *run) failed(item *queue.Item, err error, began time.Time) {
	pod, now := item.Pod.Object, time.Now()
	r.config.Metrics.attempt(pod, failed, now.Sub(began))
	r.out.report(report{pod: pod, reason: v1.PodReasonSchedulerError, message: err.Error(), nominate: r.waitsOn(pod.UID)})
	r.queue.Retry(item, "an error", now)
	r.unclaimed(item, "", now)
}

// assume treats a decision as a fact from here on, and starts the bind.
func (r *run) assume(item *queue.Item, n *framework.Node, now time.Time) {
	pod := item.Pod.Object
	began := time.Now()
	held, err := r.planner[pod.Spec.SchedulerName].Reserve(n)
	if held != nil || err != nil {
		r.config.Metrics.point("Reserve", status(err), pod.Spec.SchedulerName, time.Since(began))
	}
	if err != nil {
		r.failed(item, err, now)
		return
	}
	if held != nil {
		r.reserved[pod.UID] = held
	}
	if waited := r.cluster.NominatedTo(pod.UID); waited != n {
		r.denominate(pod.UID, now)
	}
	r.cluster.Assume(item.Pod, n.Name)
	r.unclaimed(item, n.Name, now)
	r.wakeRelated("pod "+pod.Name+" placed", nil, item.Pod, now)
	job := bindJob{item: item, pod: pod, node: n.Name, since: now, before: preBinders(held), by: r.extenders.who(pod, (*extender.Extender).Binds)}
	if len(job.before) > 0 {
		r.out.report(report{pod: pod, nominate: n.Name}) // the bind may take long: others should know where the pod will be
		job.ahead = newAhead(r.out.ctx)
		r.ahead[pod.UID] = job.ahead
	}
	r.out.bind(job)
}

// settle takes in how binds ended.
func (r *run) settle(results []bindResult) {
	for _, res := range results {
		r.settleOne(res)
	}
}

func (r *run) settleOne(res bindResult) {
	r.event = "AssignedPodDelete" // if the bind fails, it is as if the pod had left
	r.out.inFlight--
	now, item := time.Now(), res.job.item
	plan.End(r.reserved[res.job.pod.UID], res.err == nil)
	delete(r.reserved, res.job.pod.UID)
	delete(r.ahead, res.job.pod.UID)
	if res.err == nil {
		r.config.Metrics.attempt(res.job.pod, scheduled, now.Sub(res.job.since))
		r.config.Metrics.bound(item, now.Sub(item.Entered))
		return // the view will show whether it is bound or gone
	}
	r.config.Metrics.attempt(res.job.pod, failed, now.Sub(res.job.since))
	pod := res.job.pod
	if item := r.queue.Item(pod.UID); item != nil {
		r.out.report(report{pod: pod, reason: v1.PodReasonSchedulerError, message: res.err.Error()})
		r.queue.Retry(item, "bind failed", now)
	}
	r.vacate(pod.UID, "bind of "+pod.Name+" failed", r.cluster.Forget, now)
}
