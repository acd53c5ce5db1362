package scheduler

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/scheduler/extender"
	"podo.dev/podo/internal/scheduler/queue"
	"podo.dev/podo/internal/timeline"
)

type bindJob struct {
	item  *queue.Item
	pod   *v1.Pod
	node  string
	since time.Time
	// before is what has to be done before the bind, ahead its progress; nil: nothing.
	before []PreBinder
	ahead  *ahead
	by     []*extender.Extender // who binds it; nil: we do
}

// ahead is what happens before a pod is bound. It can be ended as long as the bind itself has not begun.
//
//	ahead ──begin──► being bound
//	  └────end────► given up
type ahead struct {
	mu      sync.Mutex
	ctx     context.Context // what is under way has it
	cancel  context.CancelFunc
	begun   bool
	givenUp error
}

func newAhead(ctx context.Context) *ahead {
	a := &ahead{}
	a.ctx, a.cancel = context.WithCancel(ctx)
	return a
}

// end gives up for a reason; it returns false when it is too late.
func (a *ahead) end(why error) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.begun {
		return false
	}
	a.givenUp = why
	a.cancel()
	return true
}

// begin is called before the bind; an error says why the bind must not happen.
func (a *ahead) begin() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.begun = a.givenUp == nil
	return a.givenUp
}

type bindResult struct {
	job bindJob
	err error
}

// room is how many more pods may be assumed.
func (o *outbox) room() int { return o.config.MaxInFlight - o.inFlight }

// bind queues a pod to be bound once handOver is called.
func (o *outbox) bind(job bindJob) {
	o.inFlight++
	if len(job.before) > 0 || len(job.by) > 0 {
		o.slow <- job // has room for all that may be in flight, as jobs has
		return
	}
	o.ready = append(o.ready, job)
}

// handOver has all that are ready bound together.
func (o *outbox) handOver() {
	if len(o.ready) > 0 {
		o.jobs <- o.ready
		o.ready = nil
	}
}

// linger is how long a pod that has a node waits for others to be bound with it, unless a single decision takes longer.
const linger = 5 * time.Millisecond

// handOverLate hands over what has waited for linger, so that long decisions, as when others have to leave, delay nobody else's
// bind.
func (o *outbox) handOverLate(now time.Time) {
	if len(o.ready) > 0 && now.Sub(o.ready[0].since) >= linger {
		o.handOver()
	}
}

// drain waits until nothing is in flight.
func (o *outbox) drain(ctx context.Context) error {
	o.handOver()
	for o.inFlight > 0 {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case results := <-o.results:
			o.inFlight -= len(results)
		}
	}
	return nil
}

// bindSlowly binds a pod for which something has to be done first, or that an extender binds.
func (o *outbox) bindSlowly(ctx context.Context, job bindJob, running *sync.WaitGroup) {
	if err := o.prepare(job); err != nil {
		o.results <- []bindResult{{job, err}}
		return
	}
	o.bindAll(ctx, []bindJob{job}, running)
}

// bindAll binds pods together. Each pod's outcome is recorded as soon as it is certain, since its node sees a bound pod at once;
// they are settled together. A pod whose outcome is uncertain is looked up by itself.
func (o *outbox) bindAll(ctx context.Context, jobs []bindJob, running *sync.WaitGroup) {
	var mu sync.Mutex
	results := make([]bindResult, 0, len(jobs))
	o.tellBinder(ctx, jobs, func(job bindJob, err error) {
		if err != nil && !certain(err) {
			running.Go(func() { o.results <- []bindResult{o.ended(job, o.findOut(ctx, job, err))} })
			return
		}
		result := o.ended(job, err)
		mu.Lock()
		defer mu.Unlock()
		results = append(results, result)
	})
	if len(results) > 0 {
		o.results <- results
	}
}

// tellBinder passes binds to the API, or a single one to the extender whose task it is, and returns when told has had every
// answer.
func (o *outbox) tellBinder(ctx context.Context, jobs []bindJob, told func(job bindJob, err error)) {
	bindings := make([]*v1.Binding, len(jobs))
	for i, job := range jobs {
		bindings[i] = &v1.Binding{
			ObjectMeta: metav1.ObjectMeta{Namespace: job.pod.Namespace, Name: job.pod.Name, UID: job.pod.UID},
			Target:     v1.ObjectReference{Kind: "Node", Name: job.node},
		}
	}
	began := time.Now()
	answer := func(i int, err error) {
		o.config.Metrics.plugin("DefaultBinder", "Bind", status(err), jobs[i].pod.Spec.SchedulerName, time.Since(began))
		told(jobs[i], err)
	}
	if done, err := o.tellExtender(ctx, jobs[0].by, bindings[0]); done {
		answer(0, err)
		return
	}
	o.config.Client.Bind(ctx, bindings, func(i int, err error) {
		if err != nil {
			err = fmt.Errorf("running Bind plugin %q: %w", "DefaultBinder", err)
		}
		answer(i, err)
	})
}

// tellExtender passes a bind to the first extender that is not ignored after a failure; done says that there was one.
func (o *outbox) tellExtender(ctx context.Context, by []*extender.Extender, b *v1.Binding) (done bool, answer error) {
	for _, e := range by {
		err := e.Bind(ctx, b)
		if err == nil || !e.Ignorable() {
			return true, err
		}
		o.config.Logger.Info("extender failed to bind and is left out", "extender", e.Name(), "error", err)
	}
	return false, nil
}

// ended records how a pod's bind ended.
func (o *outbox) ended(job bindJob, err error) bindResult {
	pod := job.pod
	if err != nil {
		o.config.Logger.Debug("bind failed", "pod", pod.Namespace+"/"+pod.Name, "node", job.node, "error", err)
		return bindResult{job, err}
	}
	now := time.Now()
	o.config.Append(timeline.New(now, timeline.RefOf(pod), timeline.Bound).Move("", job.node).With("took", now.Sub(job.since)))
	o.eventsOf(pod).Eventf(pod, nil, v1.EventTypeNormal, "Scheduled", "Binding", "Successfully assigned %v/%v to %v", pod.Namespace, pod.Name, job.node)
	return bindResult{job, nil}
}

// certain tells whether an error says that the bind did not happen.
func certain(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsConflict(err) || apierrors.IsForbidden(err) || apierrors.IsInvalid(err) ||
		apierrors.IsBadRequest(err) || apierrors.IsUnauthorized(err) || apierrors.IsTooManyRequests(err)
}

var errElsewhere = errors.New("the pod has been assigned to another node")

// findOut looks up whether a bind whose answer was lost has happened. Until that is known the pod stays assumed: giving its room
// away could over-commit the node.
func (o *outbox) findOut(ctx context.Context, job bindJob, lost error) error {
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		obj, err := o.config.Client.Get(ctx, client.Pods.At(job.pod.Namespace, job.pod.Name))
		if err == nil {
			switch pod := obj.(*v1.Pod); {
			case pod.UID != job.pod.UID || pod.Spec.NodeName == "":
				return lost
			case pod.Spec.NodeName == job.node:
				return nil
			default:
				return errElsewhere
			}
		}
		if apierrors.IsNotFound(err) {
			return lost
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C:
		}
	}
}
