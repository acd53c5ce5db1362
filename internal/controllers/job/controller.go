package job

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/controllers/loop"
	"podo.dev/podo/internal/controllers/podset"
	"podo.dev/podo/internal/registry/batchobject"
	"podo.dev/podo/internal/view"
)

const workers = 5

// Jobs is the resource.
var Jobs = client.Resource{Group: batchv1.GroupName, Resource: "jobs"}

var (
	jobs = schema.GroupResource(Jobs)
	pods = schema.GroupResource(client.Pods)
)

// Kind is what podset knows of Jobs.
var Kind = podset.Kind{
	Resource: Jobs, GVK: batchv1.SchemeGroupVersion.WithKind("Job"), Finalizer: batchv1.JobTrackingFinalizer,
	Selector: func(obj runtime.Object) (labels.Selector, bool) {
		j := obj.(*batchv1.Job)
		s, err := metav1.LabelSelectorAsSelector(j.Spec.Selector)
		return s, err == nil && ours(j) && !batchobject.Finished(j)
	},
}

// ours says that nobody else manages the Job.
func ours(j *batchv1.Job) bool {
	return j.Spec.ManagedBy == nil || *j.Spec.ManagedBy == batchv1.JobControllerName
}

// Config is what a controller is made of. All but Logger are required.
type Config = loop.Parts

type controller struct {
	Config
	meter    meter
	mu       sync.Mutex
	backoffs map[view.Key]remembered
}

// remembered is the back-off of a Job. After a restart it is made anew from the pods that are still there.
type remembered struct {
	uid types.UID
	Backoff
}

// New makes the controller. Its keys are Jobs.
func New(c Config) (*loop.Loop, error) {
	if err := c.Check("job"); err != nil {
		return nil, err
	}
	k := &controller{Config: c, meter: newMeter(), backoffs: map[view.Key]remembered{}}
	watches := Kind.Watches(c.View)
	watches[0].Keys = func(ch view.Change) []view.Key {
		if ch.New == nil {
			return []view.Key{ch.Old.Key} // to forget it
		}
		if j := ch.New.Object.(*batchv1.Job); ch.Old == nil && !ours(j) {
			k.meter.others.WithLabelValues(*j.Spec.ManagedBy).Inc()
		}
		return []view.Key{ch.New.Key}
	}
	podKeys := watches[1].Keys
	watches[1].Keys = func(ch view.Change) []view.Key {
		k.meter.saw(ch)
		return podKeys(ch)
	}
	return loop.New(loop.Config{
		Name: "job-controller", View: c.View, Reconcile: k.reconcile, Workers: workers, Logger: c.Logger, Watches: watches, Metrics: k.meter.all(),
		Skips: loop.SkippedLooks("job_controller"),
	})
}

func (k *controller) reconcile(ctx context.Context, s view.Snapshot, key view.Key) (loop.Result, error) {
	e := s.Get(jobs, key.Namespace, key.Name)
	if e == nil {
		k.remember(key, nil)
		return loop.Result{}, nil
	}
	j := e.Object.(*batchv1.Job)
	selector, ok := Kind.Selector(j)
	if !ok {
		k.remember(key, nil)
		return loop.Result{}, nil
	}
	matches := func(p *v1.Pod) bool { return selector.Matches(labels.Set(p.Labels)) }
	mine, adopt, release := podset.Claim(j, matches, podset.Candidates(s, j))
	if len(adopt)+len(release) > 0 {
		rev, err := Kind.Settle(ctx, k.Client, j, adopt, release)
		return loop.Result{Wrote: rev}, err // they make the Job come again
	}
	now := time.Now()
	p := Decide(j, mine, k.backoff(key, j, mine), now)
	if podset.Ending(s, key.Namespace) {
		p.refuse(len(p.Create))
		p.Create = nil
	}
	rev, err := k.apply(ctx, key, j, p)
	k.meter.synced(j, p, time.Since(now), err)
	return loop.Result{Wrote: rev, Deleted: len(p.Remove)+len(p.End) > 0, Again: p.Again}, err
}

func (k *controller) backoff(key view.Key, j *batchv1.Job, mine []*v1.Pod) Backoff {
	k.mu.Lock()
	defer k.mu.Unlock()
	if r, ok := k.backoffs[key]; ok && r.uid == j.UID {
		return r.Backoff
	}
	return Seed(j, mine)
}

// Seed is the back-off that the pods which are counted already show.
func Seed(j *batchv1.Job, mine []*v1.Pod) Backoff {
	noted := func(p *v1.Pod) bool {
		u := j.Status.UncountedTerminatedPods
		return !tracked(p) || u != nil && (slices.Contains(u.Succeeded, p.UID) || slices.Contains(u.Failed, p.UID))
	}
	of := func(phase v1.PodPhase) []*v1.Pod {
		return filter(mine, func(p *v1.Pod) bool { return p.Status.Phase == phase && noted(p) })
	}
	return Backoff{}.After(of(v1.PodSucceeded), of(v1.PodFailed))
}

func (k *controller) remember(key view.Key, r *remembered) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if r == nil {
		delete(k.backoffs, key)
	} else {
		k.backoffs[key] = *r
	}
}

// apply does what the plan says and returns the revision of its last write.
func (k *controller) apply(ctx context.Context, key view.Key, j *batchv1.Job, p Plan) (int64, error) {
	w := &writes{}
	var made atomic.Int64
	created := podset.Slowly(len(p.Create), func(i int) error {
		there, err := k.create(ctx, j, p.Create[i], w)
		if there {
			made.Add(1)
		}
		k.meter.made(p.Why, err)
		return err
	})
	p.refuse(len(p.Create) - int(made.Load()))
	stays := make([]bool, len(p.Remove))
	removed := k.each(p.Remove, func(i int) error {
		err := k.remove(ctx, j, p.Remove[i], w)
		stays[i] = err != nil
		return err
	})
	for i, pod := range p.Remove {
		if stays[i] {
			p.keep(pod)
		}
	}
	managed := errors.Join(created, removed)
	if err := k.report(ctx, j, p, w); err != nil {
		return w.rev, errors.Join(managed, err)
	}
	k.meter.judged(p.Handled)
	k.remember(key, &remembered{j.UID, p.Backoff})
	if err := k.each(p.Untrack, func(i int) error { return k.untrack(ctx, p.Untrack[i], w) }); err != nil {
		return w.rev, errors.Join(managed, err)
	}
	return w.rev, errors.Join(managed, k.each(p.End, func(i int) error { return k.remove(ctx, j, p.End[i], w) }))
}

// report stores the status, under the condition that the Job is still the one that the plan was made for.
func (k *controller) report(ctx context.Context, j *batchv1.Job, p Plan, w *writes) error {
	if equality.Semantic.DeepEqual(p.Status, j.Status) {
		return nil
	}
	next := j.DeepCopy()
	next.Status = p.Status
	out, err := k.Client.Update(ctx, Jobs.At(j.Namespace, j.Name).Sub("status"), next)
	if err != nil {
		return err
	}
	w.note(out)
	k.meter.stored(j, p.Status)
	for _, e := range p.Tell {
		k.Events.Event(j, e.Type, e.Reason, e.Message)
	}
	return nil
}

// writes is the revision of the last write, of several at a time.
type writes struct {
	mu  sync.Mutex
	rev int64
}

func (w *writes) note(obj runtime.Object) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rev = max(w.rev, loop.Revision(obj))
}

// each does something for all pods of a list, a few at a time, and tells what failed.
func (k *controller) each(list []*v1.Pod, do func(i int) error) error {
	errs := make([]error, len(list))
	gate := make(chan struct{}, 16)
	var wg sync.WaitGroup
	for i := range list {
		gate <- struct{}{}
		wg.Go(func() {
			errs[i] = do(i)
			<-gate
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// create makes a pod. There is none, and no error, in a namespace that goes.
func (k *controller) create(ctx context.Context, j *batchv1.Job, c Creation, w *writes) (there bool, err error) {
	out, err := Kind.Create(ctx, k.Client, k.Events, j, newPod(j, c))
	if out != nil {
		w.note(out)
	}
	return out != nil, err
}

// remove deletes a pod that is not to be counted, or is already.
func (k *controller) remove(ctx context.Context, j *batchv1.Job, pod *v1.Pod, w *writes) error {
	out, err := untrack(ctx, k.Client, pod)
	w.note(out)
	if err != nil {
		return err
	}
	if now, ok := out.(*v1.Pod); ok && now.UID == pod.UID && metav1.IsControlledBy(now, j) {
		pod = now
	}
	err = podset.Remove(ctx, k.Client, pod)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		k.Events.Eventf(j, v1.EventTypeWarning, "FailedDelete", "Error deleting: %v", err)
		return err
	}
	k.Events.Eventf(j, v1.EventTypeNormal, "SuccessfulDelete", "Deleted pod: %v", pod.Name)
	return nil
}

func (k *controller) untrack(ctx context.Context, pod *v1.Pod, w *writes) error {
	out, err := untrack(ctx, k.Client, pod)
	w.note(out)
	return err
}

// untrack removes the finalizer.
func untrack(ctx context.Context, c client.Client, pod *v1.Pod) (runtime.Object, error) {
	if !tracked(pod) {
		return nil, nil
	}
	out, err := c.Mutate(ctx, client.Pods.At(pod.Namespace, pod.Name), func(o runtime.Object) (bool, error) {
		m := o.(*v1.Pod)
		if m.UID != pod.UID || !tracked(m) {
			return false, nil
		}
		m.Finalizers = slices.DeleteFunc(m.Finalizers, func(f string) bool { return f == batchv1.JobTrackingFinalizer })
		return true, nil
	})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return out, err
}
