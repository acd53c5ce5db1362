package rootca

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/controllers/loop"
	"podo.dev/podo/internal/view"
)

var (
	namespaces = schema.GroupResource(client.Namespaces)
	configMaps = schema.GroupResource(client.ConfigMaps)
)

// New makes the controller, whose keys are namespaces. ca is the authority's certificate in PEM. log may be nil.
func New(v *view.View, c client.Client, ca []byte, log *slog.Logger) (*loop.Loop, error) {
	if len(ca) == 0 {
		return nil, errors.New("rootca: the authority's certificate is required")
	}
	k := &controller{c, string(ca), newMeter()}
	return loop.New(loop.Config{
		Name: "root-ca", View: v, Reconcile: k.reconcile, Workers: 4, Logger: log, Metrics: []prometheus.Collector{k.meter.syncs, k.meter.took},
		Watches: []loop.Watch{
			{Resource: namespaces, Keys: func(c view.Change) []view.Key {
				if c.New == nil {
					return nil
				}
				return []view.Key{{Name: c.New.Key.Name}}
			}},
			{Resource: configMaps, Keys: func(c view.Change) []view.Key {
				e := c.New
				if e == nil {
					e = c.Old
				}
				if e.Key.Name != Name {
					return nil
				}
				return []view.Key{{Name: e.Key.Namespace}}
			}},
		},
	})
}

type controller struct {
	client client.Client
	ca     string
	meter  meter
}

// meter is what upstream's controller tells, under its names: each look at a namespace by the code of the answer to what it wrote.
type meter struct {
	syncs *prometheus.CounterVec
	took  *prometheus.HistogramVec
}

func newMeter() meter {
	labels := []string{"code"}
	return meter{
		prometheus.NewCounterVec(prometheus.CounterOpts{
			Subsystem: "root_ca_cert_publisher", Name: "sync_total", Help: "How often a namespace was looked at.",
		}, labels),
		prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Subsystem: "root_ca_cert_publisher", Name: "sync_duration_seconds", Help: "How long it took to look at a namespace.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 15),
		}, labels),
	}
}

func (m meter) synced(err error, took time.Duration) {
	code := "500"
	var status apierrors.APIStatus
	switch {
	case err == nil:
		code = "200"
	case errors.As(err, &status) && status.Status().Code != 0:
		code = strconv.Itoa(int(status.Status().Code))
	}
	m.syncs.WithLabelValues(code).Inc()
	m.took.WithLabelValues(code).Observe(took.Seconds())
}

func (k *controller) reconcile(ctx context.Context, s view.Snapshot, key view.Key) (loop.Result, error) {
	began := time.Now()
	res, err := k.publish(ctx, s, key)
	k.meter.synced(err, time.Since(began))
	return res, err
}

func (k *controller) publish(ctx context.Context, s view.Snapshot, key view.Key) (res loop.Result, err error) {
	var ns *v1.Namespace
	if e := s.Get(namespaces, "", key.Name); e != nil {
		ns = e.Object.(*v1.Namespace)
	}
	var has *v1.ConfigMap
	if e := s.Get(configMaps, key.Name, Name); e != nil {
		has = e.Object.(*v1.ConfigMap)
	}
	var obj runtime.Object
	switch Decide(ns, has, k.ca) {
	case Leave:
		return res, nil
	case Create:
		obj, err = k.client.Create(ctx, client.ConfigMaps.At(key.Name, ""), Wanted(key.Name, k.ca))
	case Change:
		obj, err = k.client.Mutate(ctx, client.ConfigMaps.At(key.Name, Name), func(o runtime.Object) (bool, error) {
			return Repair(o.(*v1.ConfigMap), k.ca), nil
		})
	}
	switch {
	case err == nil:
		res.Wrote = loop.Revision(obj)
	case apierrors.IsAlreadyExists(err), apierrors.IsNotFound(err), apierrors.HasStatusCause(err, v1.NamespaceTerminatingCause):
		// Somebody was faster, or the namespace is going or has gone. What comes after that comes as a change.
		err = nil
	}
	return res, err
}
