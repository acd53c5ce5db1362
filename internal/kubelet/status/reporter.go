package status

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/podlife"
	"podo.dev/podo/internal/timeline"
)

// Config is what a Reporter needs.
type Config struct {
	Client client.Client
	Append timeline.Append // told of phases and conditions as they commit
	// Written is called for each status that was written, with the time since it first differed from the API's; may be nil.
	Written  func(after time.Duration)
	Log      *slog.Logger
	Parallel int           // pods written at the same time; default 8
	Timeout  time.Duration // of one write; default 30 s
	// A failed write is tried again after RetryMin, doubling up to RetryMax; defaults 50 ms and 10 s.
	RetryMin, RetryMax time.Duration
}

// Validate fills in defaults and says what is missing.
func (c *Config) Validate() error {
	if c.Client == nil || c.Append == nil || c.Log == nil {
		return errors.New("status: Client, Append and Log must be set")
	}
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&c.Timeout, 30*time.Second)
	def(&c.RetryMin, 50*time.Millisecond)
	def(&c.RetryMax, 10*time.Second)
	if c.Parallel <= 0 {
		c.Parallel = 8
	}
	return nil
}

// Reporter implements worker.Reporter.
type Reporter struct {
	cfg Config

	mu   sync.Mutex
	pods map[types.UID]*entry
	news chan struct{} // closed when the API has been told something; nil while nobody waits for that
	// queue holds the UIDs that have something to write; it never hands one UID to two workers. A new one is made for each Run.
	queue workqueue.TypedRateLimitingInterface[types.UID]
}

// entry is what is known about one pod. Guarded by Reporter.mu; the objects in it are not changed once they are there.
type entry struct {
	pod      *v1.Pod
	status   *v1.PodStatus // as reported, or the API's own equal one (settle); the zero value until version 1
	changed  time.Time     // when it first differed from the API's; zero while it does not
	version  uint64        // grows with each report that differs
	told     uint64        // newest version that the API has
	finished bool          // the pod has ended and holds nothing
	deleted  bool          // the API object is gone, or belongs to another pod
}

// New makes a Reporter. It collects reports at once and writes them while Run runs.
func New(cfg Config) (*Reporter, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Reporter{cfg: cfg, pods: map[types.UID]*entry{}}, nil
}

// Report takes the newest status of pod, which is shared from then on. It never blocks on the API.
func (r *Reporter) Report(pod *v1.Pod, status v1.PodStatus) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.entry(pod)
	status.Conditions = dated(status.Conditions, e.status.Conditions, metav1.Now())
	if e.version > 0 && equality.Semantic.DeepEqual(*e.status, status) && e.told == e.version {
		return
	}
	e.status = &status
	e.version++
	if e.changed.IsZero() {
		e.changed = time.Now()
	}
	r.wake(pod.UID)
}

// Finished says that the pod has ended and holds nothing any more. When its deletion was asked for, now or later, its API
// object is deleted after its last status has been written.
func (r *Reporter) Finished(pod *v1.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.entry(pod)
	e.finished = true
	if e.deleted {
		delete(r.pods, pod.UID)
		r.heard()
		return
	}
	r.wake(pod.UID)
}

// Refresh takes the pod as the API has it now. The Reporter writes again when someone else changed what the kubelet owns, a
// readiness gate turned, or the pod is finished and its deletion has been asked for. Unknown pods are ignored.
func (r *Reporter) Refresh(pod *v1.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.pods[pod.UID]
	if e == nil {
		return
	}
	e.pod = pod
	if e.version > 0 && e.told == e.version && !e.deleted {
		if _, differs := merge(&pod.Status, *e.status, pod, metav1.Now()); differs {
			e.told = 0
		} else {
			e.settle()
		}
	}
	if e.told != e.version || e.finished {
		r.wake(pod.UID)
	}
}

// Forget drops what is known about a pod that has left the node.
func (r *Reporter) Forget(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.pods, uid)
	r.heard()
	if r.queue != nil {
		r.queue.Forget(uid)
	}
}

// AwaitEnds returns when the API knows that the pods have ended, or ctx ends. Static pods are not waited for.
func (r *Reporter) AwaitEnds(ctx context.Context, pods []types.UID) {
	for {
		r.mu.Lock()
		known := !slices.ContainsFunc(pods, r.untold)
		if r.news == nil {
			r.news = make(chan struct{})
		}
		news := r.news
		r.mu.Unlock()
		if known {
			return
		}
		select {
		case <-news:
		case <-ctx.Done():
			return
		}
	}
}

// untold tells whether the API has yet to learn that a pod has ended. Called with mu held.
func (r *Reporter) untold(uid types.UID) bool {
	e := r.pods[uid]
	return e != nil && !e.deleted && !static(e.pod) && (e.told != e.version || !terminal(e.status.Phase))
}

// heard wakes those who wait for the API to be told. Called with mu held.
func (r *Reporter) heard() {
	if r.news != nil {
		close(r.news)
		r.news = nil
	}
}

// Status returns the newest status reported for a pod. It is shared and must not be changed.
func (r *Reporter) Status(uid types.UID) (v1.PodStatus, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.pods[uid]
	if e == nil || e.version == 0 {
		return v1.PodStatus{}, false
	}
	return *e.status, true
}

// Pending returns how many pods have something that the API has not been told yet.
func (r *Reporter) Pending() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, e := range r.pods {
		if !e.deleted && e.told != e.version {
			n++
		}
	}
	return n
}

func (r *Reporter) entry(pod *v1.Pod) *entry {
	e := r.pods[pod.UID]
	if e == nil {
		e = &entry{status: &v1.PodStatus{}}
		r.pods[pod.UID] = e
	}
	e.pod = pod
	return e
}

// settle is called when the API has what was reported. From then on the API's own status, which is in memory anyway, takes the
// place of the reported one. Readiness gates are judged by what was reported.
func (e *entry) settle() {
	if len(e.pod.Spec.ReadinessGates) == 0 {
		e.status = &e.pod.Status
	}
}

func (r *Reporter) wake(uid types.UID) {
	if r.queue != nil {
		r.queue.Add(uid)
	}
}

// Run writes until ctx ends. What is unwritten then is reported again by the workers after a restart.
func (r *Reporter) Run(ctx context.Context, ready func()) error {
	queue := workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[types.UID](r.cfg.RetryMin, r.cfg.RetryMax))
	r.mu.Lock()
	r.queue = queue
	for uid := range r.pods {
		queue.Add(uid)
	}
	r.mu.Unlock()
	var workers sync.WaitGroup
	for range r.cfg.Parallel {
		workers.Go(func() {
			for r.next(ctx, queue) {
			}
		})
	}
	ready()
	<-ctx.Done()
	r.mu.Lock()
	r.queue = nil
	r.mu.Unlock()
	queue.ShutDown()
	workers.Wait()
	return nil
}

// next handles one pod of the queue and tells whether to go on.
func (r *Reporter) next(ctx context.Context, queue workqueue.TypedRateLimitingInterface[types.UID]) bool {
	uid, down := queue.Get()
	if down {
		return false
	}
	defer queue.Done(uid)
	if ctx.Err() != nil {
		return true // drain; nothing more is written
	}
	if err := r.sync(ctx, uid); err != nil && ctx.Err() == nil {
		r.cfg.Log.Warn("pod status could not be written, will try again",
			"uid", uid, "attempt", queue.NumRequeues(uid)+1, "err", err)
		queue.AddRateLimited(uid)
		return true
	}
	queue.Forget(uid)
	return true
}

// sync brings the API up to date for one pod: its status, then the deletion of its object once it is finished.
func (r *Reporter) sync(ctx context.Context, uid types.UID) error {
	r.mu.Lock()
	e := r.pods[uid]
	if e == nil || e.deleted {
		r.mu.Unlock()
		return nil
	}
	pod, status, version, finished, changed := e.pod, *e.status, e.version, e.finished, e.changed
	write := e.told != version
	r.mu.Unlock()

	ctx, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()
	deleting := pod.DeletionTimestamp != nil
	if write {
		seen, err := r.write(ctx, pod, status)
		if gone(err) {
			r.drop(uid, e)
			return nil
		}
		if err != nil {
			return err
		}
		deleting = deleting || seen
		r.mu.Lock()
		e.told = version
		if e.version == version {
			e.changed = time.Time{}
		}
		r.heard()
		r.mu.Unlock()
		if r.cfg.Written != nil && !changed.IsZero() {
			r.cfg.Written(time.Since(changed))
		}
	}
	if !finished || !deleting || static(pod) {
		return nil
	}
	zero := int64(0)
	err := r.cfg.Client.Delete(ctx, client.Pods.At(pod.Namespace, pod.Name),
		metav1.DeleteOptions{GracePeriodSeconds: &zero, Preconditions: &metav1.Preconditions{UID: &uid}})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return err
	}
	r.drop(uid, e)
	return nil
}

// drop marks a pod whose API object is gone, and forgets it when it is finished too. A static pod's mirror may come back: then
// Refresh or the next report writes again.
func (r *Reporter) drop(uid types.UID, e *entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if static(e.pod) {
		e.told = 0
		return
	}
	e.deleted = true
	if e.finished && r.pods[uid] == e {
		delete(r.pods, uid)
	}
	r.heard()
}

// errOther says that the name now belongs to another pod.
var errOther = errors.New("the API object has another UID")

func gone(err error) bool { return errors.Is(err, errOther) || apierrors.IsNotFound(err) }

// write changes the API object's status and records in the timeline what committed. deleting tells whether the object's deletion
// has been asked for.
func (r *Reporter) write(ctx context.Context, pod *v1.Pod, status v1.PodStatus) (deleting bool, err error) {
	var before, after *v1.PodStatus
	_, err = r.cfg.Client.Mutate(ctx, client.Pods.At(pod.Namespace, pod.Name).Sub("status"), func(obj runtime.Object) (bool, error) {
		have, ok := obj.(*v1.Pod)
		if !ok {
			return false, errors.New("status: the client returned something that is no pod")
		}
		before, after = nil, nil
		if !same(pod, have) {
			return false, errOther
		}
		deleting = have.DeletionTimestamp != nil
		merged, changed := merge(&have.Status, status, pod, metav1.Now())
		if !changed {
			return false, nil
		}
		before, after = have.Status.DeepCopy(), merged
		have.Status = *merged.DeepCopy()
		return true, nil
	})
	if err != nil {
		return deleting, err
	}
	if after != nil {
		r.record(pod, before, after)
	}
	return deleting, nil
}

// same tells whether have is the API object of pod: by UID, or for a static pod by the hash that its mirror carries.
func same(pod, have *v1.Pod) bool {
	if static(pod) {
		return podlife.Mirrors(have, pod)
	}
	return have.UID == pod.UID
}

// static tells whether a pod is known in the API by its mirror.
func static(pod *v1.Pod) bool {
	return podlife.Static(pod) && pod.Annotations[podlife.HashAnnotation] != ""
}

// record appends what committed: the phase first, then each condition whose status turned.
func (r *Reporter) record(pod *v1.Pod, before, after *v1.PodStatus) {
	now := time.Now()
	ref := timeline.PodRef{Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID)}
	if before.Phase != after.Phase {
		r.cfg.Append(timeline.Record{
			At: now, Pod: ref, Stage: timeline.Phase, From: string(before.Phase), To: string(after.Phase), Cause: after.Reason,
		})
	}
	for _, c := range after.Conditions {
		from := ""
		if old := find(before.Conditions, c.Type); old != nil {
			from = string(old.Status)
		}
		if from != string(c.Status) {
			r.cfg.Append(timeline.Record{
				At: now, Pod: ref, Stage: timeline.Condition, Subject: string(c.Type), From: from, To: string(c.Status), Cause: c.Reason,
			})
		}
	}
}
