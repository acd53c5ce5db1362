package podgc

import "github.com/prometheus/client_golang/prometheus"

// Why pods are removed, as upstream's metrics say it.
const (
	terminated   = "terminated" // more have ended than are kept
	orphaned     = "orphaned"
	outOfService = "out-of-service"
	unscheduled  = "unscheduled" // to end, and never bound
)

// meter is what upstream's controller tells of the pods that it removes, under its names.
type meter struct{ removed, failed *prometheus.CounterVec }

func newMeter() meter {
	counter := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Subsystem: "pod_gc_collector", Name: name, Help: help}, []string{"namespace", "reason"})
	}
	return meter{
		removed: counter("force_delete_pods_total", "Pods that were removed without grace since nobody else ends them."),
		failed:  counter("force_delete_pod_errors_total", "How often that failed."),
	}
}

func (m meter) all() []prometheus.Collector { return []prometheus.Collector{m.removed, m.failed} }
