// Package ttlafterfinished deletes finished Jobs that are not to be kept.
//
//	plan.go        pure: when a Job goes
//	controller.go  deletes it then
package ttlafterfinished

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/controllers/loop"
	"podo.dev/podo/internal/view"
)

var jobs = client.Resource{Group: batchv1.GroupName, Resource: "jobs"}

// New makes the controller. Its keys are Jobs.
func New(v *view.View, c client.Client, log *slog.Logger) (*loop.Loop, error) {
	late := prometheus.NewHistogram(prometheus.HistogramOpts{
		Subsystem: "ttl_after_finished_controller", Name: "job_deletion_duration_seconds", Help: "How long after its time was over a finished Job was deleted.",
		Buckets: prometheus.ExponentialBuckets(0.1, 2, 14),
	})
	return loop.New(loop.Config{
		Name: "ttl-after-finished-controller", View: v, Logger: log, ByClock: true, Workers: 5, Metrics: []prometheus.Collector{late},
		Watches: []loop.Watch{{Resource: schema.GroupResource(jobs), Keys: func(ch view.Change) []view.Key {
			if ch.New == nil {
				return nil
			}
			if _, goes := Goes(ch.New.Object.(*batchv1.Job)); !goes {
				return nil
			}
			return []view.Key{ch.New.Key}
		}}},
		Reconcile: func(ctx context.Context, s view.Snapshot, key view.Key) (loop.Result, error) {
			e := s.Get(schema.GroupResource(jobs), key.Namespace, key.Name)
			if e == nil {
				return loop.Result{}, nil
			}
			j := e.Object.(*batchv1.Job)
			at, goes := Goes(j)
			if !goes {
				return loop.Result{}, nil
			}
			if left := time.Until(at); left > 0 {
				return loop.Result{Again: left}, nil
			}
			// A Job that has changed since may be meant to stay: it comes again.
			foreground := metav1.DeletePropagationForeground
			err := c.Delete(ctx, jobs.At(j.Namespace, j.Name), metav1.DeleteOptions{
				PropagationPolicy: &foreground, Preconditions: &metav1.Preconditions{UID: &j.UID, ResourceVersion: &j.ResourceVersion},
			})
			switch {
			case err == nil:
				late.Observe(time.Since(at).Seconds())
			case apierrors.IsNotFound(err):
				err = nil
			}
			return loop.Result{}, err
		},
	})
}
