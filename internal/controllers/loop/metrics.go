package loop

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/util/workqueue"
)

// queueMetrics are what upstream tells of its work queues, under its names, the queues' too.
type queueMetrics struct {
	depth, unfinished, longest *prometheus.GaugeVec
	adds, retries              *prometheus.CounterVec
	latency, duration          *prometheus.HistogramVec
}

func newQueueMetrics() *queueMetrics {
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Subsystem: "workqueue", Name: name, Help: help}, []string{"name"})
	}
	counter := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Subsystem: "workqueue", Name: name, Help: help}, []string{"name"})
	}
	histogram := func(name, help string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Subsystem: "workqueue", Name: name, Help: help, Buckets: prometheus.ExponentialBuckets(10e-9, 10, 10),
		}, []string{"name"})
	}
	return &queueMetrics{
		depth:      gauge("depth", "How many keys wait in a controller's queue."),
		adds:       counter("adds_total", "How often a key was put into a controller's queue."),
		latency:    histogram("queue_duration_seconds", "How long keys waited in a controller's queue."),
		duration:   histogram("work_duration_seconds", "How long a controller took for a key."),
		unfinished: gauge("unfinished_work_seconds", "For how long the keys under work have been that, in all. It grows without end where a controller hangs."),
		longest:    gauge("longest_running_processor_seconds", "For how long the key has been under work that is it longest."),
		retries:    counter("retries_total", "How often a key came again after an error."),
	}
}

func (m *queueMetrics) all() []prometheus.Collector {
	return []prometheus.Collector{m.depth, m.adds, m.latency, m.duration, m.unfinished, m.longest, m.retries}
}

// What follows is workqueue.MetricsProvider.

func (m *queueMetrics) NewDepthMetric(name string) workqueue.GaugeMetric {
	g := m.depth.WithLabelValues(name)
	g.Set(0) // a controller that starts anew has an empty queue
	return g
}

func (m *queueMetrics) NewAddsMetric(name string) workqueue.CounterMetric {
	return m.adds.WithLabelValues(name)
}

func (m *queueMetrics) NewLatencyMetric(name string) workqueue.HistogramMetric {
	return m.latency.WithLabelValues(name)
}

func (m *queueMetrics) NewWorkDurationMetric(name string) workqueue.HistogramMetric {
	return m.duration.WithLabelValues(name)
}

func (m *queueMetrics) NewUnfinishedWorkSecondsMetric(name string) workqueue.SettableGaugeMetric {
	return m.unfinished.WithLabelValues(name)
}

func (m *queueMetrics) NewLongestRunningProcessorSecondsMetric(name string) workqueue.SettableGaugeMetric {
	return m.longest.WithLabelValues(name)
}

func (m *queueMetrics) NewRetriesMetric(name string) workqueue.CounterMetric {
	return m.retries.WithLabelValues(name)
}
