package scheduler

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"podo.dev/podo/internal/scheduler/framework"
	"podo.dev/podo/internal/scheduler/plan"
	"podo.dev/podo/internal/scheduler/queue"
	"podo.dev/podo/internal/view"
)

// run is the state from one snapshot on. Only loop's goroutine touches it.
type run struct {
	config  Config
	cluster *framework.Cluster
	queue   *queue.Queue
	planner map[string]*plan.Planner // by the profile's name
	out     *outbox
	nodes   *view.Watcher
	pods    *view.Watcher
	spaces  *view.Watcher // namespaces
	// preempting are the pods whose victims are being deleted.
	preempting preempting
	postponed  []types.UID // those whose preemption waits because too many are under way
	hints      *hints
	extenders  *extenders
	// reserved are the reservations of pods whose bind has not come back.
	reserved map[types.UID][]framework.Reservation
	ahead    map[types.UID]*ahead // what is being done before pods of these are bound
	event    string               // upstream's name of the event that is being handled
	stage    time.Time            // when the current stage of the decision began
	cycles   uint64               // attempts
	news     uint64               // grows with everything that may help a pod or matter to an extender
	asked    map[question]prometheus.Observer
}

// sampled: one of so many attempts times its plug-ins, as upstream does.
const sampled = 10

// question is a question to a plug-in about a node, with its answer. Finding the observer by its labels costs more than
// observing, and an attempt asks thousands.
type question struct{ plugin, point, said string }

// timed is a plan.Planner's Timed.
func (r *run) timed(plugin, point string, ask func() *framework.Rejection) *framework.Rejection {
	began := time.Now()
	rejection := ask()
	took := time.Since(began)
	q := question{plugin, point, verdict(rejection)}
	of := r.asked[q]
	if of == nil {
		of = r.config.Metrics.asked(plugin, point, q.said)
		r.asked[q] = of
	}
	of.Observe(took.Seconds())
	return rejection
}

// stopwatch records how long the stages of decisions take.
func (r *run) stopwatch(profile string) func(point string, ok bool) {
	type stage struct {
		point string
		ok    bool
	}
	told := map[stage]prometheus.Observer{} // finding one by its labels costs more than observing
	return func(point string, ok bool) {
		of := told[stage{point, ok}]
		if of == nil {
			said := "Success"
			if !ok {
				said = "UnschedulableAndUnresolvable"
			}
			of = r.config.Metrics.points.WithLabelValues(point, said, profile)
			told[stage{point, ok}] = of
		}
		now := time.Now()
		of.Observe(now.Sub(r.stage).Seconds())
		r.stage = now
	}
}

func newRun(c Config, out *outbox, snapshot view.Snapshot) (*run, error) {
	r := &run{
		config: c, cluster: framework.NewCluster(), planner: map[string]*plan.Planner{}, out: out,
		preempting: preempting{}, reserved: map[types.UID][]framework.Reservation{}, ahead: map[types.UID]*ahead{},
		asked: map[question]prometheus.Observer{},
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

// gates are the plug-ins that keep pods out of the queue, by profile.
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

// release gives back the reservations of pods whose binds were never settled.
func (r *run) release() {
	for _, held := range r.reserved {
		plan.End(held, false)
	}
}

// loop runs until ctx ends or a watcher does.
func (r *run) loop(ctx context.Context) error {
	defer r.close()
	for {
		if err := r.absorb(ctx); err != nil {
			return err
		}
		r.cycle()
		r.config.Metrics.look(r.queue, r.cluster, r.out.inFlight, len(r.preempting))
		for profile, planner := range r.planner {
			r.config.Metrics.evaluated(profile, planner)
		}
		at, ok := r.queue.Next()
		if ok && !at.After(time.Now()) && r.out.room() > 0 {
			continue
		}
		if r.out.room() == 0 {
			ok = false // nothing to do before something comes back
		}
		timer, stop := after(at, ok)
		select {
		case <-ctx.Done():
		case <-r.nodes.Ready():
		case <-r.pods.Ready():
		case <-r.spaces.Ready():
		case results := <-r.out.results:
			r.settle(results)
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

// absorb handles everything that is there without waiting.
func (r *run) absorb(ctx context.Context) error {
	for {
		select {
		case results := <-r.out.results:
			r.settle(results)
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
