package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"podo.dev/podo/internal/view"
)

// ledger reads every change of every pod and keeps what no snapshot tells: whom evictions took while how many others served, and what
// became of each pod of a Job.
type ledger struct {
	w *World

	mu     sync.Mutex
	groups map[string]*group     // those that a budget is for, by its name
	jobs   map[types.UID]*workOf // by Job
}

// group are the pods of a budget.
type group struct {
	serving map[types.UID]bool
	// spared are those that ceased to serve of themselves, and when: whoever counts them hears of that later.
	spared map[types.UID]time.Time
	taken  int // by evictions
}

// workOf is what ran for a Job.
type workOf struct {
	made      map[types.UID]bool
	succeeded map[types.UID]time.Time // and when that was heard of
	// late are those that succeeded while they were ended already: they may count as either.
	late map[types.UID]bool
	// given are those that a Job counted as failed while it failed itself: it ends what runs then, and may not have heard yet that one of
	// them had succeeded.
	given map[types.UID]time.Time
}

// hearsay is how long a budget may take to hear that a pod serves no more, and a Job that one has succeeded: faults of the store last
// ten seconds.
const hearsay = time.Minute

func newLedger(w *World) *ledger {
	return &ledger{w: w, groups: map[string]*group{}, jobs: map[types.UID]*workOf{}}
}

// Name is the component's.
func (l *ledger) Name() string { return "ledger" }

// Run reads until ctx ends.
func (l *ledger) Run(ctx context.Context, ready func()) error {
	s, err := l.w.View.Fresh(ctx)
	if err != nil {
		return quiet(ctx, err)
	}
	g, ctx := errgroup.WithContext(ctx)
	for kind, take := range map[schema.GroupResource]func(view.Change){podKind: l.pod, schema.GroupResource(jobs): l.job} {
		w, err := l.w.View.Watch(kind, s.Rev())
		if err != nil {
			return err
		}
		defer w.Close()
		g.Go(func() error { return l.read(ctx, w, kind, take) })
	}
	ready()
	return g.Wait()
}

func (l *ledger) read(ctx context.Context, w *view.Watcher, kind schema.GroupResource, take func(view.Change)) error {
	for {
		changes, _, err := w.Next(ctx)
		if errors.Is(err, view.ErrGone) {
			l.w.t.Errorf("the ledger missed changes of %s: what it says is worth nothing", kind)
		}
		if err != nil {
			return quiet(ctx, err)
		}
		l.mu.Lock()
		for _, c := range changes {
			take(c)
		}
		l.mu.Unlock()
	}
}

// job notes what a Job that fails gives up.
func (l *ledger) job(c view.Change) {
	if c.New == nil {
		return
	}
	j := c.New.Object.(*batchv1.Job)
	fails := slices.ContainsFunc(j.Status.Conditions, func(c batchv1.JobCondition) bool {
		return c.Type == batchv1.JobFailureTarget && c.Status == v1.ConditionTrue
	})
	if u := j.Status.UncountedTerminatedPods; fails && u != nil {
		given := l.of(j.UID).given
		for _, uid := range u.Failed {
			if given[uid].IsZero() {
				given[uid] = time.Now()
			}
		}
	}
}

// of is what ran for a Job.
func (l *ledger) of(job types.UID) *workOf {
	r := l.jobs[job]
	if r == nil {
		r = &workOf{made: map[types.UID]bool{}, succeeded: map[types.UID]time.Time{}, late: map[types.UID]bool{}, given: map[types.UID]time.Time{}}
		l.jobs[job] = r
	}
	return r
}

func (l *ledger) pod(c view.Change) {
	var old, now *v1.Pod
	if c.Old != nil {
		old = c.Old.Object.(*v1.Pod)
	}
	if c.New != nil {
		now = c.New.Object.(*v1.Pod)
	}
	for _, p := range []*v1.Pod{now, old} {
		if p == nil {
			continue
		}
		if name := p.Labels[setLabel]; name != "" {
			l.served(name, old, now)
		}
		if ref := metav1.GetControllerOf(p); ref != nil && ref.Kind == "Job" && now != nil {
			l.worked(ref.UID, now)
		}
		return
	}
}

// served follows who of a group serves, and judges evictions.
func (l *ledger) served(name string, old, now *v1.Pod) {
	g := l.groups[name]
	if g == nil {
		g = &group{serving: map[types.UID]bool{}, spared: map[types.UID]time.Time{}}
		l.groups[name] = g
	}
	if now != nil && serving(now) {
		g.serving[now.UID] = true
		delete(g.spared, now.UID)
		return
	}
	pod := now
	if pod == nil {
		pod = old
	}
	if !g.serving[pod.UID] {
		return
	}
	delete(g.serving, pod.UID)
	if !evicted(pod) {
		g.spared[pod.UID] = time.Now()
		return
	}
	g.taken++
	left := len(g.serving)
	for uid, since := range g.spared {
		if time.Since(since) > hearsay {
			delete(g.spared, uid)
		} else {
			left++
		}
	}
	if least, _ := strconv.Atoi(pod.Labels[leastLabel]); left < least {
		l.w.t.Errorf("seed %d: %s was evicted although only %d others serve, of %d at least", l.w.opts.Seed, pod.Name, left, least)
	}
}

// serving tells of a pod what its budget counts.
func serving(p *v1.Pod) bool { return ready(p) && p.DeletionTimestamp == nil && !evicted(p) }

func ready(p *v1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == v1.PodReady {
			return c.Status == v1.ConditionTrue
		}
	}
	return false
}

func evicted(p *v1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == v1.DisruptionTarget && c.Status == v1.ConditionTrue && c.Reason == "EvictionByEvictionAPI" {
			return true
		}
	}
	return false
}

// worked notes what became of a Job's pod.
func (l *ledger) worked(job types.UID, p *v1.Pod) {
	r := l.of(job)
	r.made[p.UID] = true
	switch {
	case p.Status.Phase != v1.PodSucceeded || !r.succeeded[p.UID].IsZero() || r.late[p.UID]:
	case p.DeletionTimestamp != nil:
		r.late[p.UID] = true
	default:
		r.succeeded[p.UID] = time.Now()
	}
}

// either says how many pods of a Job may count as succeeded or as failed.
func (r *workOf) either() (n int) {
	for uid, at := range r.given {
		if done := r.succeeded[uid]; !done.IsZero() && at.Sub(done) < hearsay {
			n++
		}
	}
	return n + len(r.late)
}

// shown tells how much there was to judge.
func (l *ledger) shown() (evictions, worked int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, g := range l.groups {
		evictions += g.taken
	}
	for _, r := range l.jobs {
		worked += len(r.made)
	}
	return evictions, worked
}

// counted checks what a Job says that ran against what did.
func (l *ledger) counted(j *batchv1.Job) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	r, s := l.of(j.UID), j.Status
	most, either := len(r.succeeded)+len(r.late), r.either()
	if n := int(s.Succeeded); n < most-either || n > most || int(s.Succeeded+s.Failed) != len(r.made) {
		return fmt.Sprintf("%d pods ran, of which %d succeeded, %d more or less as they were to end", len(r.made), most, either)
	}
	return ""
}
