package horizontalpodautoscaler

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"podo.dev/podo/internal/view"
)

// errSpec is in errors that only another specification helps.
var errSpec = errors.New("")

// computed is what one metric came to.
type computed struct {
	kind, action, failed string // metric_type, action and error of upstream's metrics
	took                 time.Duration
}

// meter is what upstream's controller tells, under its names.
type meter struct {
	looks, computations *prometheus.CounterVec
	took, computing     *prometheus.HistogramVec
	desired             *prometheus.GaugeVec
	known               prometheus.GaugeFunc
}

const subsystem = "horizontal_pod_autoscaler_controller"

func newMeter(known func() int) meter {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Subsystem: subsystem, Name: name, Help: help}, labels)
	}
	histogram := func(name, help string, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Subsystem: subsystem, Name: name, Help: help, Buckets: prometheus.ExponentialBuckets(0.001, 2, 15),
		}, labels)
	}
	return meter{
		looks:        counter("reconciliations_total", "How often an autoscaler was looked at.", "action", "error"),
		took:         histogram("reconciliation_duration_seconds", "How long it took to look at an autoscaler.", "action", "error"),
		computations: counter("metric_computation_total", "How often it was found out what a metric asks for.", "action", "error", "metric_type"),
		computing:    histogram("metric_computation_duration_seconds", "How long it took to find out what a metric asks for.", "action", "error", "metric_type"),
		desired: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Subsystem: subsystem, Name: "desired_replicas", Help: "How many replicas an autoscaler wants.",
		}, []string{"namespace", "hpa_name"}),
		known: prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Subsystem: subsystem, Name: "num_horizontal_pod_autoscalers", Help: "How many autoscalers there are.",
		}, func() float64 { return float64(known()) }),
	}
}

func (m meter) all() []prometheus.Collector {
	return []prometheus.Collector{m.looks, m.took, m.computations, m.computing, m.desired, m.known}
}

// looked takes in what came of a look.
func (m meter) looked(key view.Key, d *decision, took time.Duration) {
	action := "none"
	if d.rescale {
		action = direction(d.from, d.to)
	}
	what := []string{action, failing(d.failed)}
	m.looks.WithLabelValues(what...).Inc()
	m.took.WithLabelValues(what...).Observe(took.Seconds())
	for _, c := range d.computed {
		m.computations.WithLabelValues(c.action, c.failed, c.kind).Inc()
		m.computing.WithLabelValues(c.action, c.failed, c.kind).Observe(c.took.Seconds())
	}
	m.desired.WithLabelValues(key.Namespace, key.Name).Set(float64(d.status.DesiredReplicas))
}

// direction is what becomes of a number of replicas.
func direction(from, to int32) string {
	switch {
	case to > from:
		return "scale_up"
	case to < from:
		return "scale_down"
	}
	return "none"
}

// failing is whose an error is.
func failing(err error) string {
	switch {
	case err == nil:
		return "none"
	case errors.Is(err, errSpec):
		return "spec"
	}
	return "internal"
}
