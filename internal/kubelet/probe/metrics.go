package probe

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"podo.dev/podo/internal/podlife"
)

// metrics count what probes said, under upstream's names. They are kept as long as their probe runs.
type metrics struct {
	total *prometheus.CounterVec
	took  *prometheus.HistogramVec
}

func newMetrics() metrics {
	return metrics{
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "prober_probe_total", Help: "[BETA] Cumulative number of a liveness, readiness or startup probe for a container by result.",
		}, []string{"probe_type", "result", "container", "pod", "namespace", "pod_uid"}),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "prober_probe_duration_seconds", Help: "[ALPHA] Duration in seconds for a probe response.", Buckets: prometheus.DefBuckets,
		}, []string{"probe_type", "container", "pod", "namespace"}),
	}
}

// title is what a probe is called in messages and metrics.
func title(kind podlife.Probe) string {
	return map[podlife.Probe]string{podlife.Startup: "Startup", podlife.Liveness: "Liveness", podlife.Readiness: "Readiness"}[kind]
}

// add counts one run. A failed one has no duration: it may be its timeout.
func (m metrics) add(t Target, kind podlife.Probe, res Result, err error, took time.Duration) {
	result := "successful"
	switch {
	case err != nil:
		result = "unknown"
	case !res.OK:
		result = "failed"
	}
	m.total.WithLabelValues(title(kind), result, t.Container.Name, t.Pod.Name, t.Pod.Namespace, string(t.Pod.UID)).Inc()
	if result != "failed" {
		m.took.WithLabelValues(title(kind), t.Container.Name, t.Pod.Name, t.Pod.Namespace).Observe(took.Seconds())
	}
}

func (m metrics) forget(t Target, kind podlife.Probe) {
	for _, result := range []string{"successful", "failed", "unknown"} {
		m.total.DeleteLabelValues(title(kind), result, t.Container.Name, t.Pod.Name, t.Pod.Namespace, string(t.Pod.UID))
	}
	m.took.DeleteLabelValues(title(kind), t.Container.Name, t.Pod.Name, t.Pod.Namespace)
}

// Metrics serves /metrics/probes.
func (m *Manager) Metrics() http.Handler {
	r := prometheus.NewRegistry()
	r.MustRegister(m.metrics.total, m.metrics.took)
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{})
}
