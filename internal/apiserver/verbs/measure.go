package verbs

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"podo.dev/podo/internal/about"
	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/store"
	"podo.dev/podo/internal/view"
)

// measured is a store that counts and times the verbs' calls, under upstream's names.
type measured struct {
	store.Store
	duration      *prometheus.HistogramVec
	total, failed *prometheus.CounterVec
	objects       *objects
	kinds         map[string]*measures // by folder
}

// measures are a kind's, so that calls need no look-up of labels.
type measures struct {
	kind *registry.Kind
	ops  map[string]measure
}

type measure struct {
	duration prometheus.Observer
	total    prometheus.Counter
}

func newMeasured(s store.Store, v *view.View, kinds []*registry.Kind) *measured {
	labels := []string{"operation", "group", "resource"}
	m := &measured{
		Store: s,
		duration: prometheus.NewHistogramVec(about.Native(prometheus.HistogramOpts{
			Name:    "etcd_request_duration_seconds",
			Help:    "How long requests to the store took, by operation and resource.",
			Buckets: []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60},
		}), labels),
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "etcd_requests_total", Help: "Requests to the store, by operation and resource.",
		}, labels),
		failed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "etcd_request_errors_total", Help: "Requests to the store that failed, by operation and resource.",
		}, labels),
		objects: &objects{view: v, kinds: kinds, desc: prometheus.NewDesc("apiserver_resource_objects",
			"Objects that are stored, by resource.", []string{"group", "resource"}, nil)},
		kinds: map[string]*measures{},
	}
	for _, k := range kinds {
		if k.Unstored || m.kinds[k.Dir] != nil {
			continue
		}
		of := &measures{kind: k, ops: map[string]measure{}}
		for _, op := range []string{"create", "delete", "get", "list", "update"} {
			of.ops[op] = measure{m.duration.WithLabelValues(op, k.GVK.Group, k.Resource), m.total.WithLabelValues(op, k.GVK.Group, k.Resource)}
		}
		m.kinds[k.Dir] = of
	}
	return m
}

// of finds the kind of a key such as /registry/services/specs/ns/name: folders have one part, or two.
func (m *measured) of(key string) *measures {
	rest := strings.TrimPrefix(key, "/registry/")
	dir, rest, _ := strings.Cut(rest, "/")
	if k := m.kinds[dir]; k != nil {
		return k
	}
	second, _, _ := strings.Cut(rest, "/")
	return m.kinds[dir+"/"+second]
}

func (m *measured) done(op, key string, start time.Time, err error) {
	k := m.of(key)
	if k == nil {
		return // what admission stores besides the objects
	}
	one := k.ops[op]
	one.duration.Observe(time.Since(start).Seconds())
	one.total.Inc()
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		m.failed.WithLabelValues(op, k.kind.GVK.Group, k.kind.Resource).Inc()
	}
}

func (m *measured) Get(ctx context.Context, key string) (store.KV, error) {
	start := time.Now()
	kv, err := m.Store.Get(ctx, key)
	m.done("get", key, start, err)
	return kv, err
}

func (m *measured) List(ctx context.Context, prefix string, o store.ListOptions) (store.ListResult, error) {
	start := time.Now()
	res, err := m.Store.List(ctx, prefix, o)
	m.done("list", prefix, start, err)
	return res, err
}

func (m *measured) Txn(ctx context.Context, conds []store.Cond, ops []store.Op) (store.TxnResult, error) {
	start := time.Now()
	res, err := m.Store.Txn(ctx, conds, ops)
	if len(ops) > 0 {
		m.done(operation(conds, &ops[0]), ops[0].Key, start, err)
	}
	return res, err
}

// operation is what a transaction does to its object, which comes first.
func operation(conds []store.Cond, op *store.Op) string {
	switch {
	case op.Delete:
		return "delete"
	case len(conds) > 0 && conds[0].Revision == 0:
		return "create"
	}
	return "update"
}

// objects counts what is stored, at each scrape.
type objects struct {
	view  *view.View
	kinds []*registry.Kind
	desc  *prometheus.Desc
}

func (o *objects) Describe(ch chan<- *prometheus.Desc) { ch <- o.desc }

func (o *objects) Collect(ch chan<- prometheus.Metric) {
	s := o.view.Snapshot()
	for _, k := range o.kinds {
		if !k.Unstored && !k.NotCached && k.Served == nil {
			ch <- prometheus.MustNewConstMetric(o.desc, prometheus.GaugeValue, float64(s.Len(k.GroupResource())), k.GVK.Group, k.Resource)
		}
	}
}

// Metrics are what the verbs measure.
func (v *Verbs) Metrics() []prometheus.Collector {
	out := append(v.c.Authorizer.Metrics(), v.store.duration, v.store.total, v.store.failed, v.store.objects)
	for _, rule := range v.c.Admission {
		if r, ok := rule.(interface{ Metrics() []prometheus.Collector }); ok {
			out = append(out, r.Metrics()...)
		}
	}
	return out
}
