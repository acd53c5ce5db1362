package about

import (
	"io"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
)

// Checks counts how health checks went, and tells of it at /metrics/slis.
type Checks struct {
	last  *prometheus.GaugeVec
	total *prometheus.CounterVec
	serve http.Handler
}

// NewChecks has counted nothing.
func NewChecks() *Checks {
	c := &Checks{
		last: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "kubernetes_healthcheck", Help: "[STABLE] This metric records the result of a single healthcheck.",
		}, []string{"name", "type"}),
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kubernetes_healthchecks_total", Help: "[STABLE] This metric records the results of all healthcheck.",
		}, []string{"name", "type", "status"}),
	}
	own := prometheus.NewRegistry()
	own.MustRegister(c.last, c.total)
	c.serve = promhttp.HandlerFor(prometheus.Gatherers{own, startTime()}, promhttp.HandlerOpts{})
	return c
}

// Went takes the result of a check that was made for an endpoint: healthz, livez or readyz.
func (c *Checks) Went(name, endpoint string, err error) {
	value, status := 1.0, "success"
	if err != nil {
		value, status = 0, "error"
	}
	c.last.WithLabelValues(name, endpoint).Set(value)
	c.total.WithLabelValues(name, endpoint, status).Inc()
}

// ServeHTTP is /metrics/slis; a DELETE begins anew.
func (c *Checks) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodDelete {
		c.serve.ServeHTTP(w, r)
		return
	}
	c.last.Reset()
	c.total.Reset()
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = io.WriteString(w, "metrics reset\n")
}

// startTime is of all that a process tells when it began.
func startTime() prometheus.Gatherer {
	process := prometheus.NewRegistry()
	process.MustRegister(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		all, err := process.Gather()
		for _, f := range all {
			if f.GetName() == "process_start_time_seconds" {
				return []*dto.MetricFamily{f}, err
			}
		}
		return nil, err
	})
}
