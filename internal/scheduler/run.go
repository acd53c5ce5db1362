package scheduler

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"podo.dev/podo/internal/scheduler/extender"
	"podo.dev/podo/internal/scheduler/framework"
	"podo.dev/podo/internal/scheduler/plan"
	"podo.dev/podo/internal/scheduler/queue"
	"podo.dev/podo/internal/timeline"
	"podo.dev/podo/internal/view"
)

// run is the state of one go from a snapshot on. Only loop's goroutine touches it.
type run struct {
	config  Config
	cluster *framework.Cluster
	queue   *queue.Queue
	planner map[string]*plan.Planner // by the profile's name
	out     *outbox
	nodes   *view.Watcher
	pods    *view.Watcher
	spaces  *view.Watcher // namespaces
	// preempting are the pods whose victims are being told to leave.
	preempting preempting
	postponed  []types.UID // those that found others to leave while victims of too many were being told
	hints      *hints
	extenders  *extenders
	// reserved are the reservations of pods whose bind has not come back.
	reserved map[types.UID][]framework.Reservation
	event    string    // what is being taken in, under upstream's name
	stage    time.Time // when the stage of the decision began that is under way
	cycles   uint64    // attempts
}

// sampled: of every so many attempts one has the plug-ins timed, as with upstream's.
const sampled = 10

// timed is a plan.Planner's Timed.
func (r *run) timed(plugin, point string, ask func() *framework.Rejection) *framework.Rejection {
	began := time.Now()
	answer := ask()
	r.config.Metrics.asked(plugin, point, answer, time.Since(began))
	return answer
}

// stopwatch tells how long the stages of decisions take.
func (r *run) stopwatch(profile string) func(point string, ok bool) {
	return func(point string, ok bool) {
		said, now := "Success", time.Now()
		if !ok {
			said = "UnschedulableAndUnresolvable"
		}
		r.config.Metrics.point(point, said, profile, now.Sub(r.stage))
		r.stage = now
	}
}

func newRun(c Config, out *outbox, snapshot view.Snapshot) (*run, error) {
	r := &run{
		config: c, cluster: framework.NewCluster(), planner: map[string]*plan.Planner{}, out: out,
		preempting: preempting{}, reserved: map[types.UID][]framework.Reservation{},
	}
	gates := gates{}
	for i := range c.Profiles.Profiles {
		p := &c.Profiles.Profiles[i]
		r.planner[p.Name] = plan.New(p.Set, c.Seed)
		r.planner[p.Name].Percent = p.Percent
		r.planner[p.Name].Ended = r.stopwatch(p.Name)
		gates[p.Name] = p.Set.PreEnqueue
	}
	r.queue = queue.New(queue.Config{
		PreEnqueue: []framework.PreEnqueue{gates, r.preempting}, Less: c.Profiles.Profiles[0].Set.Sort.Less, Moved: r.tellMoved,
		FirstBackoff: c.Profiles.FirstBackoff, MaxBackoff: c.Profiles.MaxBackoff,
	})
	var err error
	if r.nodes, err = c.View.Watch(nodes, snapshot.Rev()); err != nil {
		return r, err
	}
	if r.pods, err = c.View.Watch(pods, snapshot.Rev()); err != nil {
		return r, err
	}
	if r.spaces, err = c.View.Watch(namespaces, snapshot.Rev()); err != nil {
		return r, err
	}
	if r.hints, err = newHints(c, snapshot.Rev()); err != nil {
		return r, err
	}
	if r.extenders, err = newExtenders(c); err != nil {
		return r, err
	}
	for e := range snapshot.All(namespaces, "", view.Key{}) {
		r.cluster.SetNamespace(e.Key.Name, e.Meta.GetLabels())
	}
	for e := range snapshot.All(nodes, "", view.Key{}) {
		r.cluster.SetNode(e.Object.(*v1.Node))
	}
	now := time.Now()
	for e := range snapshot.All(pods, "", view.Key{}) {
		r.setPod(e.Object.(*v1.Pod), now)
	}
	return r, nil
}

// gates keeps pods out of the queue as their profile says.
type gates map[string][]framework.PreEnqueue

func (gates) Name() string { return "profile" }

// PreEnqueue implements framework.PreEnqueue.
func (g gates) PreEnqueue(pod *v1.Pod) *framework.Rejection {
	for _, p := range g[pod.Spec.SchedulerName] {
		if r := p.PreEnqueue(pod); r != nil {
			return r
		}
	}
	return nil
}

func (r *run) close() {
	for _, w := range []*view.Watcher{r.nodes, r.pods, r.spaces} {
		if w != nil {
			w.Close()
		}
	}
	if r.hints != nil {
		r.hints.close()
	}
	if r.extenders != nil {
		r.extenders.close()
	}
}

// release gives back what is set aside for pods whose binds have ended without being settled.
func (r *run) release() {
	for _, held := range r.reserved {
		plan.End(held, false)
	}
}

// burst bounds how many pods are tried before looking at changes again.
const burst = 64

// loop runs until ctx ends or a watcher does.
func (r *run) loop(ctx context.Context) error {
	defer r.close()
	for {
		if err := r.absorb(ctx); err != nil {
			return err
		}
		for n := 0; n < burst && r.out.room(); n++ {
			item := r.queue.Pop(time.Now())
			if item == nil {
				break
			}
			r.attempt(item, time.Now())
		}
		r.config.Metrics.look(r.queue, r.cluster, r.out.inFlight, len(r.preempting))
		for profile, planner := range r.planner {
			r.config.Metrics.evaluated(profile, planner)
		}
		at, ok := r.queue.Next()
		if ok && !at.After(time.Now()) && r.out.room() {
			continue
		}
		if !r.out.room() {
			ok = false // nothing to do before something comes back
		}
		timer, stop := after(at, ok)
		select {
		case <-ctx.Done():
		case <-r.nodes.Ready():
		case <-r.pods.Ready():
		case <-r.spaces.Ready():
		case res := <-r.out.results:
			r.settle(res)
		case res := <-r.out.cleared:
			r.roomMade(res)
		case t := <-r.hints.told:
			if t.err != nil {
				return t.err
			}
			r.heard(t, time.Now())
		case a := <-r.extenders.answers:
			r.extenders.answered(a, time.Now())
		case answer := <-r.config.Page.asks:
			answer <- r.dump(time.Now())
		case <-timer:
		}
		stop()
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// absorb takes in all that is there without waiting.
func (r *run) absorb(ctx context.Context) error {
	for {
		select {
		case res := <-r.out.results:
			r.settle(res)
			continue
		case res := <-r.out.cleared:
			r.roomMade(res)
			continue
		case t := <-r.hints.told:
			if t.err != nil {
				return t.err
			}
			r.heard(t, time.Now())
			continue
		case a := <-r.extenders.answers:
			r.extenders.answered(a, time.Now())
			continue
		case answer := <-r.config.Page.asks:
			answer <- r.dump(time.Now())
			continue
		case <-r.nodes.Ready():
			changes, _, err := r.nodes.Next(ctx)
			if err != nil {
				return err
			}
			now := time.Now()
			for _, c := range changes {
				r.nodeChanged(c, now)
			}
			continue
		case <-r.spaces.Ready():
			changes, _, err := r.spaces.Next(ctx)
			if err != nil {
				return err
			}
			now := time.Now()
			for _, c := range changes {
				r.namespaceChanged(c, now)
			}
			continue
		case <-r.pods.Ready():
			changes, _, err := r.pods.Next(ctx)
			if err != nil {
				return err
			}
			now := time.Now()
			for _, c := range changes {
				r.podChanged(c, now)
			}
			continue
		default:
			return nil
		}
	}
}

func (r *run) nodeChanged(c view.Change, now time.Time) {
	r.event = "Node" + verb(c)
	defer r.config.Metrics.took(r.event, time.Now())
	if c.New == nil {
		r.cluster.RemoveNode(c.Old.Key.Name)
		r.wakeSpread("node "+c.Old.Key.Name+" left", now)
		return
	}
	node := c.New.Object.(*v1.Node)
	if r.cluster.SetNode(node) {
		r.wake("node "+node.Name+" changed", r.cluster.Node(node.Name), now)
		r.wakeSpread("node "+node.Name+" changed", now)
	}
}

// verb is upstream's word for a change.
func verb(c view.Change) string {
	switch {
	case c.New == nil:
		return "Delete"
	case c.Old == nil:
		return "Add"
	}
	return "Update"
}

func (r *run) namespaceChanged(c view.Change, now time.Time) {
	r.event = "Namespace" + verb(c)
	if c.New == nil {
		r.cluster.RemoveNamespace(c.Old.Key.Name)
		return
	}
	if name := c.New.Key.Name; r.cluster.SetNamespace(name, c.New.Meta.GetLabels()) {
		r.queue.Wake("namespace "+name+" changed", related, now)
	}
}

func (r *run) podChanged(c view.Change, now time.Time) {
	of := c.New
	if of == nil {
		of = c.Old
	}
	switch pod := of.Object.(*v1.Pod); {
	case pod.Spec.NodeName == "":
		r.event = "UnscheduledPod" + verb(c)
	case c.Old != nil && c.Old.Object.(*v1.Pod).Spec.NodeName == "":
		r.event = "AssignedPodAdd" // as one that came to its node
	default:
		r.event = "AssignedPod" + verb(c)
	}
	defer r.config.Metrics.took(r.event, time.Now())
	if c.Old != nil && (c.New == nil || c.Old.Meta.GetUID() != c.New.Meta.GetUID()) {
		r.dropPod(c.Old.Object.(*v1.Pod), "left", now)
	}
	if c.New != nil {
		r.setPod(c.New.Object.(*v1.Pod), now)
	}
}

func (r *run) setPod(pod *v1.Pod, now time.Time) {
	switch {
	case pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed:
		r.dropPod(pod, "ended", now)
	case pod.Spec.NodeName != "":
		r.forgetWaiting(pod, now)
		was := r.cluster.PlacedAs(pod.UID)
		if freed := r.cluster.SetPod(pod); freed != nil {
			r.wake("pod "+pod.Name+" shrank", freed, now)
		}
		if is := r.cluster.PlacedAs(pod.UID); is != was {
			r.wakeRelated("pod "+pod.Name+" placed", was, is, now)
		}
	case pod.DeletionTimestamp != nil:
		// Never bound from here on: if it is assumed, its bind is under way and the API server decides.
		r.forgetWaiting(pod, now)
	case r.planner[pod.Spec.SchedulerName] != nil:
		known := r.queue.Item(pod.UID) != nil
		r.queue.Set(pod, r.cluster.Shape, now)
		if item := r.queue.Item(pod.UID); !known && pod.Status.NominatedNodeName != "" {
			r.cluster.Nominate(item.Pod, pod.Status.NominatedNodeName)
		}
	}
}

// forgetWaiting ends a pod's waiting. Room that was held for it may be another's.
func (r *run) forgetWaiting(pod *v1.Pod, now time.Time) {
	i := r.queue.Item(pod.UID)
	if i != nil {
		r.config.Metrics.rejectedBy(i.Pod.Object, keptBy(i, i.State), -1)
	}
	r.queue.Delete(pod.UID)
	r.denominate(pod.UID, now)
	if i != nil {
		r.unclaimed(i, "", now)
	}
}

// denominate ends a pod's waiting for room, which others may have now.
func (r *run) denominate(uid types.UID, now time.Time) {
	if held := r.cluster.Denominate(uid); held != nil {
		r.wake("room on "+held.Name+" is not wanted any more", held, now)
	}
}

// unclaimed tells others of the room for which a pod was woken, if it did not take it.
func (r *run) unclaimed(i *queue.Item, took string, now time.Time) {
	left := i.For
	if i.For = ""; left != "" && left != took {
		r.wake("room on "+left+" is left", r.cluster.Node(left), now)
	}
}

func (r *run) dropPod(pod *v1.Pod, how string, now time.Time) {
	r.forgetWaiting(pod, now)
	was := r.cluster.PlacedAs(pod.UID)
	if freed := r.cluster.RemovePod(pod.UID); freed != nil {
		r.wake("pod "+pod.Name+" "+how, freed, now)
		r.wakeRelated("pod "+pod.Name+" "+how, was, nil, now)
	}
}

// wake moves the pods that an event on one node helps: those for whom room is made there if it is there, as many of the others as would
// fit besides, and those that could make room there unless they wait for room that is being made. Those for whom nobody leaves any more
// without the room being there have lost it to a pod of higher priority: they look elsewhere, or leave what there is of it to others.
func (r *run) wake(why string, on *framework.Node, now time.Time) {
	if on == nil || on.Object == nil {
		return
	}
	for _, w := range on.Nominated {
		i := r.queue.Item(w.Object.UID)
		if i == nil || i.State != queue.Unschedulable {
			continue
		}
		if r.planner[w.Shape.SchedulerName].Helps(r.cluster, i.Pod, on) == plan.Room || !plan.Leaving(w, on) {
			r.queue.WakeOne(w.Object.UID, why, now)
		}
	}
	r.queue.Wake(why, func(s *framework.Shape) queue.Help {
		planner := r.planner[s.SchedulerName]
		switch planner.Helps(r.cluster, &framework.Pod{Shape: s}, on) {
		case plan.Room:
			if most := planner.Rooms(s, on); most > 0 && !r.extenders.judge() {
				return queue.Help{Of: func(i *queue.Item) bool { return planner.Helps(r.cluster, i.Pod, on) != plan.NoHelp }, Most: most, For: on.Name}
			}
			return queue.Help{Of: anyItem}
		case plan.Victims:
			return queue.Help{Of: r.waitsForNoRoom}
		}
		return queue.Help{}
	}, now)
}

func anyItem(*queue.Item) bool { return true }

func (r *run) waitsForNoRoom(i *queue.Item) bool {
	return r.cluster.NominatedTo(i.Pod.Object.UID) == nil
}

// attempt tries to place one pod.
func (r *run) attempt(item *queue.Item, now time.Time) {
	pod := item.Pod.Object
	if _, assumed := r.cluster.Placed(pod.UID); assumed {
		// Its bind came back as failed but was seen bound meanwhile, or the reverse: the view will tell.
		r.queue.Retry(item, "bind not settled", now)
		r.unclaimed(item, "", now)
		return
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
			return
		}
		r.decided(item, d, now)
		return
	}
	d := planner.Schedule(r.cluster, item.Pod)
	planner.Timed = nil
	r.config.Metrics.decided.Observe(time.Since(now).Seconds())
	r.decided(item, d, now)
}

// decided goes by a decision. began is when the attempt did.
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
	if d.Refused {
		r.unclaimed(item, "", now) // others may have it
	}
	r.queue.Rejected(item, now)
	r.config.Metrics.attempt(pod, unschedulable, now.Sub(began))
	r.out.report(report{pod: pod, reason: v1.PodReasonUnschedulable, message: d.Message(room.Text), nominate: r.waitsOn(pod.UID)})
}

// failed puts a pod aside about which nothing could be decided.
func (r *run) failed(item *queue.Item, err error, began time.Time) {
	pod, now := item.Pod.Object, time.Now()
	r.config.Metrics.attempt(pod, failed, now.Sub(began))
	r.out.report(report{pod: pod, reason: v1.PodReasonSchedulerError, message: err.Error(), nominate: r.waitsOn(pod.UID)})
	r.queue.Retry(item, "an error", now)
	r.unclaimed(item, "", now)
}

// assume goes by a decision from here on, and has it bound.
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
	r.out.bind(bindJob{item: item, pod: pod, node: n.Name, since: now, before: preBinders(held), by: r.extenders.who(pod, (*extender.Extender).Binds)})
}

// settle takes in how a bind ended.
func (r *run) settle(res bindResult) {
	r.event = "AssignedPodDelete" // when it fails: as if it had left
	r.out.inFlight--
	now, item := time.Now(), res.job.item
	plan.End(r.reserved[res.job.pod.UID], res.err == nil)
	delete(r.reserved, res.job.pod.UID)
	if res.err == nil {
		r.config.Metrics.attempt(res.job.pod, scheduled, now.Sub(res.job.since))
		r.config.Metrics.bound(item, now.Sub(item.Since))
		return // the view will show it bound, or gone
	}
	r.config.Metrics.attempt(res.job.pod, failed, now.Sub(res.job.since))
	pod := res.job.pod
	was := r.cluster.PlacedAs(pod.UID)
	freed := r.cluster.Forget(pod.UID)
	if item := r.queue.Item(pod.UID); item != nil {
		r.out.report(report{pod: pod, reason: v1.PodReasonSchedulerError, message: res.err.Error()})
		r.queue.Retry(item, "bind failed", now)
	}
	if freed != nil {
		r.wake("bind of "+pod.Name+" failed", freed, now)
		r.wakeRelated("bind of "+pod.Name+" failed", was, nil, now)
	}
}

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
