package wire

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the server's own, under upstream's names and labels.
type metrics struct {
	total       *prometheus.CounterVec
	duration    *prometheus.HistogramVec
	longRunning prometheus.Gauge
	panics      prometheus.Counter
}

func newMetrics(r *prometheus.Registry) (*metrics, error) {
	m := &metrics{
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_request_total",
			Help: "Requests served, by verb, group, version, resource, scope, component and HTTP code.",
		}, []string{"verb", "group", "version", "resource", "subresource", "scope", "component", "code", "dry_run"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "apiserver_request_duration_seconds",
			Help:    "How long requests took, long-running ones excepted.",
			Buckets: []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60},
		}, []string{"verb", "group", "version", "resource", "subresource", "scope", "component"}),
		longRunning: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "apiserver_longrunning_requests",
			Help: "Watches, streams and followed logs that are open.",
		}),
		panics: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "podo_apiserver_request_panics_total",
			Help: "Requests that panicked.",
		}),
	}
	for _, c := range []prometheus.Collector{m.total, m.duration, m.longRunning, m.panics} {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// observe counts a request that has ended. What a client can make up (an unknown resource or method) has no label of its own.
func (m *metrics) observe(c *call, long bool, start time.Time, now func() time.Time) {
	i := &c.info
	resource, sub, verb := i.Resource, i.Subresource, metricVerb(c.r.Method, i.Verb)
	if i.Resource != "" && c.kind == nil && i.Resource != "bindings" {
		resource, sub = "", ""
	}
	if c.w.code == http.StatusNotFound || c.w.code == http.StatusMethodNotAllowed {
		sub = ""
	}
	group, version := i.GV.Group, i.GV.Version
	if resource == "" {
		group, version = "", ""
	}
	dry := ""
	if c.r.URL.Query().Get("dryRun") != "" {
		dry = "All"
	}
	m.total.WithLabelValues(verb, group, version, resource, sub, i.scope(), "apiserver", strconv.Itoa(c.w.code), dry).Inc()
	if !long {
		m.duration.WithLabelValues(verb, group, version, resource, sub, i.scope(), "apiserver").Observe(now().Sub(start).Seconds())
	}
}

func metricVerb(method, verb string) string {
	switch verb {
	case "create":
		return "POST"
	case "update":
		return "PUT"
	case "patch":
		return "PATCH"
	case "delete":
		return "DELETE"
	case "deletecollection":
		return "DELETECOLLECTION"
	case "get":
		return "GET"
	case "list":
		return "LIST"
	case "watch":
		return "WATCH"
	}
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return method
	}
	return "other"
}
