package worker

import (
	"context"
	"maps"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"podo.dev/podo/internal/podlife"
	"podo.dev/podo/internal/timeline"
)

// pod is one worker. One goroutine at a time steps the state, and only while there is something in the inbox, so that a pod of which
// nothing is heard has none:
//
//	at rest ──► an event comes ──► at work ──► the inbox is empty ──► at rest
//	                                  └─ nothing is left of the pod, or the process ends: for good
type pod struct {
	w   *Workers
	uid types.UID

	// Guarded by Workers.mu.
	admitted bool
	removed  bool // no source has it any more
	desired  *v1.Pod
	grant    *podlife.Grant // what it may use, by the newest verdict; see allocate.go

	mu     sync.Mutex
	inbox  []podlife.Event
	under  int            // effects under way, and those whose results are not in the inbox yet
	atWork bool           // a goroutine steps the state, and will look into the inbox
	box    *sandboxConfig // nil at rest
	state  podlife.State  // changed only by whoever is at work, who may therefore read it without mu

	// Owned by who is at work.
	status   *v1.PodStatus // as last reported; nil at rest, when it follows from the state
	timer    *time.Timer   // nil before the first WakeAt
	due      time.Time     // of the last WakeAt
	unsaved  *unsaved      // nil while everything is saved
	work     work
	reported bool
	told     *v1.Pod // the form of the pod for which the reporter was last told Finished
	mounting *v1.Pod // the form of the pod whose volumes are being mounted
	// early ends what is pointless once the pod stops: pulls and mounts. nil at rest.
	early       context.Context
	cancelEarly context.CancelFunc
}

// unsaved is a state that could not be written, as on a full disk. Writing is tried again until it succeeds or there is a newer
// state.
type unsaved struct {
	save podlife.Save
	wait time.Duration
	at   time.Time // when it is tried again
}

const firstSaveWait, maxSaveWait = time.Second, time.Minute

// work is a period in which effects are under way without a pause: what upstream calls one sync. began is zero while none are.
type work struct {
	on    Operation
	began time.Time
}

func newPod(w *Workers, p *v1.Pod, s podlife.State) *pod {
	return &pod{w: w, uid: p.UID, desired: p, state: s, atWork: true, work: work{on: Create}}
}

// untilStop ends when the pod stops.
func (n *pod) untilStop() context.Context {
	if n.early == nil {
		n.early, n.cancelEarly = context.WithCancel(n.w.ctx)
	}
	return n.early
}

// endEarly ends untilStop's context when nothing depends on it any more.
func (n *pod) endEarly() {
	if n.early != nil {
		n.cancelEarly()
		n.early, n.cancelEarly = nil, nil
	}
}

// begin takes the first step in its caller's goroutine, so that pods are admitted in order. Events that arrive meanwhile wait.
func (n *pod) begin(ev podlife.Event) {
	n.step(ev)
	n.rest()
	if n.state.Stage == podlife.Gone {
		n.w.spawn(n.leave)
		return
	}
	n.mu.Lock()
	n.atWork = len(n.inbox) > 0
	more := n.atWork
	n.mu.Unlock()
	if more {
		n.w.spawn(n.run)
	}
}

// run works until the inbox is empty.
func (n *pod) run() {
	for {
		events := n.take()
		if len(events) == 0 || n.w.ctx.Err() != nil {
			return
		}
		for _, ev := range events {
			n.step(ev)
		}
		n.saveAgain()
		n.rest()
		if n.state.Stage == podlife.Gone {
			n.leave()
			return // atWork stays true, so that later events start nothing
		}
	}
}

// leave is the end of a pod of which nothing is left.
func (n *pod) leave() {
	n.endEarly()
	if n.timer != nil {
		n.timer.Stop()
	}
	if err := n.w.cfg.Checkpoints.Remove(n.uid); err != nil {
		n.w.cfg.Log.Warn("cannot forget a pod's state", "pod", fullName(n.state.Pod), "err", err)
	}
	n.w.forget(n, func() {
		if n.w.cfg.Gone != nil {
			n.w.cfg.Gone(n.state.Pod)
		}
	})
}

// rest is called when all known events have been handled: unless effects are under way, the work is done.
func (n *pod) rest() {
	n.mu.Lock()
	done := n.under == 0 && len(n.inbox) == 0
	if done && n.state.Stage >= podlife.Running {
		n.box = nil
	}
	n.mu.Unlock()
	switch {
	case !done:
		return
	case !n.work.began.IsZero():
		n.w.cfg.Metrics.Worked(n.work.on, time.Since(n.work.began))
	case n.work.on == Create:
		return // the pod's first work has yet to begin
	}
	n.work = work{}
	n.status = nil
	n.endEarly()
}

// operation names the work that an event causes. Once the pod's source has removed it, all work is that of its end.
func operation(ev podlife.Event, removed bool) Operation {
	if removed {
		return Kill
	}
	switch ev.(type) {
	case podlife.Desired:
		return Change
	case podlife.StopAsked:
		return Kill
	}
	return Sync
}

// send puts an event into the inbox. A newer observation or desire replaces an older one that was not taken yet.
func (n *pod) send(ev podlife.Event) { n.put(ev, 0) }

// put is send for a result that stands for that many finished effects.
func (n *pod) put(ev podlife.Event, effects int) {
	n.mu.Lock()
	n.under -= effects
	if k := len(n.inbox) - 1; k >= 0 && supersedes(n.inbox[k], ev) {
		n.inbox[k] = ev
	} else {
		n.inbox = append(n.inbox, ev)
	}
	wake := !n.atWork
	n.atWork = true
	n.mu.Unlock()
	if wake {
		n.w.spawn(n.run)
	}
}

func supersedes(old, ev podlife.Event) bool {
	switch e := ev.(type) {
	case podlife.Tick:
		_, ok := old.(podlife.Tick)
		return ok
	case podlife.Desired:
		_, ok := old.(podlife.Desired)
		return ok
	case podlife.Observation:
		o, ok := old.(podlife.Observation)
		whole := !o.Observed.At.IsZero() && !e.Observed.At.IsZero()
		return ok && whole && !o.Asked && !e.Asked && o.Fail == nil && e.Fail == nil
	}
	return false
}

// take empties the inbox; the work ends when there is nothing in it.
func (n *pod) take() []podlife.Event {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := n.inbox
	n.inbox = nil
	n.atWork = len(out) > 0
	return out
}

func (n *pod) snapshot() Snapshot {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := &n.state
	return Snapshot{
		Pod: s.Pod, Stage: s.Stage, Removed: s.Removed, Given: s.Given(), Resizing: s.Progress != nil, Pending: s.Pending, Status: n.says,
	}
}

func (n *pod) says() v1.PodStatus {
	n.mu.Lock()
	s := n.state
	n.mu.Unlock()
	return podlife.Status(s)
}

// step takes one event in and begins what follows from it.
func (n *pod) step(ev podlife.Event) {
	if n.state.Stage == podlife.Gone || n.w.ctx.Err() != nil {
		return // what is learnt while the process ends is left to the next one
	}
	now := time.Now()
	old := n.state
	next, fx := podlife.Step(old, ev, now)
	n.mu.Lock()
	n.state = next
	n.mu.Unlock()
	switch e := ev.(type) {
	case podlife.Desired:
		n.w.mu.Lock()
		n.desired = e.Pod
		n.w.mu.Unlock()
	case podlife.Tick:
		if now.Before(n.due) { // too early: the clock was set back meanwhile
			n.wakeAt(n.due)
		}
	}
	n.record(old, next, now)
	n.w.cfg.Metrics.Moved(old, next, now)
	was := old.Given()
	if _, ok := ev.(podlife.VolumesDone); ok && n.mounting != nil { // a form that arrived before the mount had begun could not replace anything yet
		was, n.mounting = n.mounting, nil
	}
	if given := next.Given(); was != given {
		n.w.cfg.Volumes.Replace(given)
		if next.Stage <= podlife.Running && shownAnew(was, given) {
			n.refresh()
		}
	}
	if next.Stage > podlife.Running {
		n.endEarly()
	}
	if n.work.on != Create && n.work.began.IsZero() { // the work is named after the event that first asks for an effect
		n.work.on = operation(ev, next.Removed)
	}
	var verdict podlife.Event
	for _, e := range fx {
		if v := n.begun(e); v != nil {
			verdict = v
		}
	}
	if verdict != nil { // the inner step reports; of a rejected pod nothing else may be reported
		n.step(verdict)
		return
	}
	n.report(&old)
}

// refresh updates the pod's volumes that show the pod itself.
func (n *pod) refresh() {
	until := n.untilStop()
	n.mu.Lock()
	n.under++
	n.mu.Unlock()
	n.w.spawn(func() {
		n.bounded(until, n.w.cfg.CallTimeout, false, func(ctx context.Context) podlife.Event {
			n.w.cfg.Volumes.Refresh(ctx, n.uid)
			return nil
		})
		n.put(podlife.Tick{}, 1)
	})
}

// shownAnew tells whether anything of the pod that volumes may show has changed: labels, annotations, granted resources.
func shownAnew(old, now *v1.Pod) bool {
	return !(maps.Equal(old.Labels, now.Labels) && maps.Equal(old.Annotations, now.Annotations) &&
		equality.Semantic.DeepEqual(podlife.GrantOf(old), podlife.GrantOf(now)))
}

func (n *pod) record(old, next podlife.State, now time.Time) {
	ref := timeline.RefOf(next.Pod)
	for _, r := range podlife.Records(old, next) {
		r.At, r.Pod = now, ref
		n.w.cfg.Append(r)
	}
}

// report passes the status on when it differs from the one of old, the state before, and says when the pod holds nothing any
// more.
func (n *pod) report(old *podlife.State) {
	switch {
	case old.Stage < podlife.Releasing && n.state.Stage >= podlife.Releasing:
		n.w.RetryResizes(PodTerminated)
		n.w.haveEnded()
	case old.Progress != nil && n.state.Progress == nil:
		n.w.RetryResizes(PodResized)
	}
	if n.status == nil && n.reported {
		was := podlife.Status(*old)
		n.status = &was
	}
	if now := podlife.Status(n.state); n.status == nil || !equality.Semantic.DeepEqual(*n.status, now) {
		n.reported, n.status = true, &now
		n.w.cfg.Reporter.Report(n.state.Pod, now)
	}
	if n.state.Stage < podlife.Finished || n.told == n.state.Pod {
		return
	}
	first := n.told == nil
	n.told = n.state.Pod
	n.w.cfg.Reporter.Finished(n.state.Pod) // called again for each newer form, since deletion may have been requested only now
	if first {
		n.w.ended(n)
	}
}

// begun begins an effect. Effects that are quick and must keep their order are done at once; Admit's verdict is returned.
func (n *pod) begun(e podlife.Effect) podlife.Event {
	pod := n.state.Pod
	if n.reached(pod, e, "before"); n.w.ctx.Err() != nil {
		return nil // the process ends: the effect is left to the next one
	}
	switch e.(type) {
	case podlife.Admit, podlife.Allocate, podlife.Save, podlife.Tell, podlife.WakeAt, podlife.SetProbes:
		defer n.reached(pod, e, "after")
		return n.atOnce(e)
	}
	do := n.prepare(e)
	if n.work.began.IsZero() {
		n.work.began = time.Now()
	}
	n.mu.Lock()
	n.under++
	n.mu.Unlock()
	n.w.spawn(func() {
		ev := do()
		n.reached(pod, e, "after")
		if ev != nil { // nil only when the process ends
			n.put(ev, 1)
		}
	})
	return nil
}

func (n *pod) atOnce(e podlife.Effect) podlife.Event {
	switch x := e.(type) {
	case podlife.Admit:
		return n.w.admit(n, n.state.Pod)
	case podlife.Allocate:
		n.w.allocate(n)
	case podlife.Save:
		n.save(x)
	case podlife.Tell:
		n.w.cfg.Event(n.state.Pod, x.Container, x.Type, x.Reason, x.Message)
	case podlife.WakeAt:
		n.wakeAt(x.At)
	case podlife.SetProbes:
		if c := n.state.Container(x.Container); c != nil && n.w.cfg.Probes != nil {
			n.w.cfg.Probes.SetProbes(n.state.Pod, c.Spec(), x.ID, first(n.state.PodIPs()), x.Set)
		}
	}
	return nil
}

// wakeAt sends a Tick at the time, or never when at is zero. A Tick at another time does no harm.
func (n *pod) wakeAt(at time.Time) {
	n.due = at
	switch {
	case n.timer != nil && at.IsZero():
		n.timer.Stop()
	case n.timer != nil:
		n.timer.Reset(max(0, time.Until(at)))
	case !at.IsZero():
		n.timer = time.AfterFunc(max(0, time.Until(at)), func() { n.send(podlife.Tick{}) })
	}
}

func (n *pod) save(x podlife.Save) {
	err := n.w.cfg.Checkpoints.Save(x.Saved, x.Durable)
	if err == nil {
		n.unsaved = nil
		return
	}
	wait := firstSaveWait
	if u := n.unsaved; u != nil {
		wait = min(2*u.wait, maxSaveWait)
		// A newer state that need not be durable replaces an older one that must be: so it must be, too.
		x.Durable = x.Durable || u.save.Durable
	}
	n.unsaved = &unsaved{save: x, wait: wait, at: time.Now().Add(wait)}
	time.AfterFunc(wait, func() { n.send(podlife.Tick{}) })
	n.w.cfg.Log.Error("cannot save a pod's state: a restart may repeat what was done; it is tried again", "pod", fullName(n.state.Pod), "after", wait, "err", err)
}

// saveAgain retries a failed save when its time has come.
func (n *pod) saveAgain() {
	if u := n.unsaved; u != nil && n.state.Stage != podlife.Gone && !time.Now().Before(u.at) {
		n.save(u.save)
	}
}

// reached reports a boundary of an effect to Config.Reached.
func (n *pod) reached(pod *v1.Pod, e podlife.Effect, side string) {
	if f := n.w.cfg.Reached; f != nil {
		f(pod, podlife.Name(e)+"."+side)
	}
}

func first(s []string) string {
	if len(s) == 0 {
		return ""
	}
	return s[0]
}

// sandboxConfig is the configuration of the pod's sandbox. It is made once while the pod starts, so that containers are created
// with the very configuration of their sandbox; a failure is not kept. A pod at rest drops it: for a container that restarts it
// is made again, as after a restart of this process.
type sandboxConfig struct {
	attempt uint32
	get     func() (*runtimev1.PodSandboxConfig, error)
	// images holds a token while a container with image volumes is being created. The runtime mounts an image once for all
	// containers of a sandbox; two creations that both find it unmounted undo each other's mount for good. Only containers with
	// image volumes wait for it.
	images chan struct{}
}

func (n *pod) config(s *podlife.State, attempt uint32) *sandboxConfig {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.box != nil && n.box.attempt == attempt {
		return n.box
	}
	pod, parent := s.Given(), s.CgroupParent
	box := &sandboxConfig{attempt: attempt, images: make(chan struct{}, 1)}
	box.get = sync.OnceValues(func() (*runtimev1.PodSandboxConfig, error) {
		conf, err := n.w.cfg.Specs.Sandbox(pod, attempt, parent)
		if err != nil {
			n.mu.Lock()
			defer n.mu.Unlock()
			if n.box == box {
				n.box = nil
			}
		}
		return conf, err
	})
	n.box = box
	return box
}
