package cronjob

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/controllers/loop"
	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/view"
)

const workers = 5

// CronJobs is the resource.
var CronJobs = client.Resource{Group: batchv1.GroupName, Resource: "cronjobs"}

var (
	jobs     = client.Resource{Group: batchv1.GroupName, Resource: "jobs"}
	cronjobs = schema.GroupResource(CronJobs)
)

// Config is what a controller is made of. All but Logger are required.
type Config = loop.Parts

type controller struct {
	Config
	skew prometheus.Histogram // between when a Job was due and when it was made
}

// New makes the controller. Its keys are CronJobs.
func New(c Config) (*loop.Loop, error) {
	if err := c.Check("cronjob"); err != nil {
		return nil, err
	}
	k := &controller{c, prometheus.NewHistogram(prometheus.HistogramOpts{
		Subsystem: "cronjob_controller", Name: "job_creation_skew_duration_seconds", Help: "How much later than it was due a CronJob's Job was made.",
		Buckets: prometheus.ExponentialBuckets(1, 2, 10),
	})}
	return loop.New(loop.Config{
		Name: "cronjob-controller", View: c.View, Reconcile: k.reconcile, ByClock: true, Workers: workers, Logger: c.Logger, Metrics: []prometheus.Collector{k.skew},
		Watches: []loop.Watch{
			{Resource: cronjobs, Keys: loop.Itself},
			{Resource: schema.GroupResource(jobs), Keys: func(ch view.Change) (out []view.Key) {
				for _, e := range []*view.Entry{ch.Old, ch.New} {
					if e == nil {
						continue
					}
					if ref := metav1.GetControllerOfNoCopy(e.Meta); ref != nil && ref.Kind == kind.Kind && ref.APIVersion == kind.GroupVersion().String() {
						out = append(out, view.Key{Namespace: e.Key.Namespace, Name: ref.Name})
					}
				}
				return out
			}},
		},
	})
}

func (k *controller) reconcile(ctx context.Context, s view.Snapshot, key view.Key) (loop.Result, error) {
	e := s.Get(cronjobs, key.Namespace, key.Name)
	if e == nil {
		return loop.Result{}, nil
	}
	c := e.Object.(*batchv1.CronJob)
	var children []*batchv1.Job
	for j := range s.By(schema.GroupResource(jobs), registry.ControllerIndex, string(c.UID)) {
		children = append(children, j.Object.(*batchv1.Job))
	}
	p := Decide(c, children, time.Now())
	for _, j := range p.Delete {
		_ = k.remove(ctx, c, j) // what cannot be deleted is told, tried at the next look, and keeps no Job from its start
	}
	for _, j := range p.Replace {
		if err := k.remove(ctx, c, j); err != nil {
			return loop.Result{}, err
		}
	}
	var rev int64
	if p.Start != nil {
		out, err := k.start(ctx, c, p.Start)
		if err != nil {
			return loop.Result{}, err
		}
		if out != nil {
			rev = loop.Revision(out)
			p.Started(Ref(out))
			if due := p.Status.LastScheduleTime; due != nil {
				k.skew.Observe(out.CreationTimestamp.Sub(due.Time).Seconds())
			}
		}
	}
	for _, t := range p.Tell {
		k.Events.Event(c, t.Type, t.Reason, t.Message)
	}
	if !equality.Semantic.DeepEqual(p.Status, c.Status) {
		next := c.DeepCopy()
		next.Status = p.Status
		out, err := k.Client.Update(ctx, CronJobs.At(c.Namespace, c.Name).Sub("status"), next)
		if err != nil {
			return loop.Result{Wrote: rev}, err
		}
		rev = max(rev, loop.Revision(out))
	}
	return loop.Result{Wrote: rev, Again: p.Again}, nil
}

// start creates a Job. One of its name that is ours is the one that was wanted; anybody else's is left alone, and nil is returned.
func (k *controller) start(ctx context.Context, c *batchv1.CronJob, j *batchv1.Job) (*batchv1.Job, error) {
	out, err := k.Client.Create(ctx, jobs.At(j.Namespace, ""), j)
	switch {
	case apierrors.HasStatusCause(err, v1.NamespaceTerminatingCause):
		return nil, nil
	case apierrors.IsAlreadyExists(err):
		there, err := k.Client.Get(ctx, jobs.At(j.Namespace, j.Name))
		if err != nil {
			return nil, err
		}
		if job := there.(*batchv1.Job); metav1.IsControlledBy(job, c) {
			return job, nil
		}
		return nil, nil
	case err != nil:
		k.Events.Eventf(c, v1.EventTypeWarning, "FailedCreate", "Error creating job: %v", err)
		return nil, err
	}
	k.Events.Eventf(c, v1.EventTypeNormal, "SuccessfulCreate", "Created job %v", out.(*batchv1.Job).Name)
	return out.(*batchv1.Job), nil
}

func (k *controller) remove(ctx context.Context, c *batchv1.CronJob, j *batchv1.Job) error {
	background := metav1.DeletePropagationBackground
	err := k.Client.Delete(ctx, jobs.At(j.Namespace, j.Name), metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &j.UID}, PropagationPolicy: &background,
	})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		k.Events.Eventf(c, v1.EventTypeWarning, "FailedDelete", "Deleted job: %v", err)
		return err
	}
	k.Events.Eventf(c, v1.EventTypeNormal, "SuccessfulDelete", "Deleted job %v", j.Name)
	return nil
}
