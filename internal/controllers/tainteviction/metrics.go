package tainteviction

import "github.com/prometheus/client_golang/prometheus"

// meter is what upstream's controller tells of the pods that it deletes, under its names.
type meter struct {
	deleted prometheus.Counter
	late    prometheus.Histogram
}

func newMeter() meter {
	return meter{
		deleted: prometheus.NewCounter(prometheus.CounterOpts{
			Subsystem: "taint_eviction_controller", Name: "pod_deletions_total", Help: "Pods that were deleted since a taint of their node ends them.",
		}),
		late: prometheus.NewHistogram(prometheus.HistogramOpts{
			Subsystem: "taint_eviction_controller", Name: "pod_deletion_duration_seconds", Help: "How long after a taint was to end a pod it was deleted.",
			Buckets: []float64{0.005, 0.025, 0.1, 0.5, 1, 2.5, 10, 30, 60, 120, 180, 240},
		}),
	}
}

func (m meter) all() []prometheus.Collector { return []prometheus.Collector{m.deleted, m.late} }
