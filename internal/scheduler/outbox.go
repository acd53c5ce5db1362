package scheduler

import (
	"context"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"podo.dev/podo/internal/client"
)

// outbox passes decisions on to the API server. Binds go through a bounded number of workers, as many at once as are ready, and
// come back as results. Failures are reported in the background, only the newest for each pod.
type outbox struct {
	config   Config
	events   map[string]Recorder // by profile
	ctx      context.Context     // the workers' life
	inFlight int                 // owned by the scheduling goroutine
	ready    []bindJob           // not handed over yet
	jobs     chan []bindJob
	slow     chan bindJob      // binds with something to do first, or by an extender; of the same size
	results  chan []bindResult // as large as jobs: workers never block

	preemptions chan preemption
	cleared     chan cleared  // of the same size: these workers never block either
	evicting    chan struct{} // holds one for each victim that is being deleted

	reports *reports
}

// reporters is how many conditions are written at once; preemptors, for how many pods victims are deleted at once.
const (
	reporters  = 4
	preemptors = 32
)

// maxEvicting bounds how many victims are deleted at once.
const maxEvicting = 64

// maxPreempting bounds for how many pods room is being made.
const maxPreempting = 512

func newOutbox(c Config) *outbox {
	events := map[string]Recorder{}
	for i := range c.Profiles.Profiles {
		name := c.Profiles.Profiles[i].Name
		events[name] = c.Events(name)
	}
	return &outbox{
		config: c, events: events, jobs: make(chan []bindJob, c.MaxInFlight), slow: make(chan bindJob, c.MaxInFlight), results: make(chan []bindResult, c.MaxInFlight),
		preemptions: make(chan preemption, maxPreempting), cleared: make(chan cleared, maxPreempting), evicting: make(chan struct{}, maxEvicting),
		reports: newReports(),
	}
}

// start runs the workers until ctx ends; the returned function waits for their end.
func (o *outbox) start(ctx context.Context) (wait func()) {
	var wg sync.WaitGroup
	o.ctx = ctx
	for range o.config.Binders {
		wg.Go(func() {
			for {
				select {
				case <-ctx.Done():
					return
				case jobs := <-o.jobs:
					o.bindAll(ctx, jobs, &wg)
				}
			}
		})
	}
	wg.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case job := <-o.slow:
				wg.Go(func() { o.bindSlowly(ctx, job, &wg) })
			}
		}
	})
	for range preemptors {
		wg.Go(func() {
			for {
				select {
				case <-ctx.Done():
					return
				case p := <-o.preemptions:
					o.cleared <- cleared{p.pod.UID, o.doPreempt(ctx, p)}
				}
			}
		})
	}
	for range reporters {
		wg.Go(func() {
			for {
				if r, ok := o.reports.next(); ok {
					o.doReport(ctx, r)
					continue
				}
				select {
				case <-ctx.Done():
					return
				case <-o.reports.wake:
				}
			}
		})
	}
	return wg.Wait
}

// eventsOf is the recorder of the pod's profile.
func (o *outbox) eventsOf(pod *v1.Pod) Recorder { return o.events[pod.Spec.SchedulerName] }

func (o *outbox) preempt(p preemption) { o.preemptions <- p } // has room for all that may be under way

func (o *outbox) report(r report) { o.reports.add(r) }

func (o *outbox) doReport(ctx context.Context, r report) {
	if ctx.Err() != nil {
		return
	}
	if r.tries == 0 && r.reason != "" {
		o.eventsOf(r.pod).Eventf(r.pod, nil, v1.EventTypeWarning, "FailedScheduling", "Scheduling", "%s", shortened(r.message))
	}
	_, err := o.config.Client.Mutate(ctx, client.Pods.At(r.pod.Namespace, r.pod.Name).Sub("status"), func(obj runtime.Object) (bool, error) {
		pod := obj.(*v1.Pod)
		if pod.UID != r.pod.UID || pod.Spec.NodeName != "" {
			return false, nil
		}
		moved := pod.Status.NominatedNodeName != r.nominate
		pod.Status.NominatedNodeName = r.nominate
		if r.reason == "" {
			return moved, nil
		}
		told := setCondition(pod, v1.PodCondition{
			Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: r.reason, Message: r.message, ObservedGeneration: pod.Generation,
		}, time.Now())
		return moved || told, nil
	})
	if err == nil || apierrors.IsNotFound(err) || ctx.Err() != nil {
		o.reports.told(r.pod.UID)
		return
	}
	o.config.Logger.Warn("could not tell a pod why it is not scheduled", "pod", r.pod.Namespace+"/"+r.pod.Name, "tries", r.tries+1, "error", err)
	if r.tries++; r.tries == maxTries {
		o.reports.told(r.pod.UID)
		return
	}
	time.AfterFunc(retryReport, func() { o.reports.failed(r) })
}

// maxNote bounds the text of an event, as upstream's does.
const maxNote = 1024

func shortened(text string) string {
	const rest = " ..."
	if len(text) <= maxNote {
		return text
	}
	return text[:maxNote-len(rest)] + rest
}

const (
	retryReport = 2 * time.Second
	maxTries    = 5
)

// setCondition tells whether it changed anything. The transition time moves only with the status.
func setCondition(pod *v1.Pod, c v1.PodCondition, now time.Time) bool {
	for i := range pod.Status.Conditions {
		old := &pod.Status.Conditions[i]
		if old.Type != c.Type {
			continue
		}
		c.LastProbeTime, c.LastTransitionTime = old.LastProbeTime, old.LastTransitionTime
		if old.Status != c.Status {
			c.LastTransitionTime = metav1.NewTime(now)
		}
		if *old == c {
			return false
		}
		*old = c
		return true
	}
	c.LastTransitionTime = metav1.NewTime(now)
	pod.Status.Conditions = append(pod.Status.Conditions, c)
	return true
}

type noEvents struct{}

func (noEvents) Eventf(_, _ runtime.Object, _, _, _, _ string, _ ...any) {}
