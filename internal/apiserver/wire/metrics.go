package wire

import (
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the server's own, under upstream's names and labels.
type metrics struct {
	total       *prometheus.CounterVec
	duration    *prometheus.HistogramVec
	sizes       *prometheus.HistogramVec
	longRunning *prometheus.GaugeVec
	inFlight    *prometheus.GaugeVec
	watchEvents *prometheus.CounterVec
	panics      prometheus.Counter
}

// whatLabels say what a request is about.
var whatLabels = []string{"verb", "group", "version", "resource", "subresource", "scope", "component"}

func newMetrics(r *prometheus.Registry, more []prometheus.Collector) (*metrics, error) {
	m := &metrics{
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_request_total",
			Help: "Requests served, by verb, group, version, resource, scope, component and HTTP code.",
		}, append(slices.Clone(whatLabels), "code", "dry_run")),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "apiserver_request_duration_seconds",
			Help:    "How long requests took, long-running ones excepted.",
			Buckets: []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60},
		}, append(slices.Clone(whatLabels), "dry_run")),
		sizes: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "apiserver_response_sizes",
			Help:    "Bytes of answers to reads, before they are compressed.",
			Buckets: prometheus.ExponentialBuckets(1000, 10, 7),
		}, whatLabels),
		longRunning: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "apiserver_longrunning_requests",
			Help: "Watches, streams and followed logs that are open.",
		}, whatLabels),
		inFlight: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "apiserver_current_inflight_requests",
			Help: "Requests for resources that are being served, long-running ones excepted.",
		}, []string{"request_kind"}),
		watchEvents: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_watch_events_total",
			Help: "Events sent to watches.",
		}, []string{"group", "version", "resource"}),
		panics: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "podo_apiserver_request_panics_total",
			Help: "Requests that panicked.",
		}),
	}
	for _, c := range append(more, m.total, m.duration, m.sizes, m.longRunning, m.inFlight, m.watchEvents, m.panics) {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// observe counts a request that has ended. What a client can make up (an unknown resource or method) has no label of its own.
func (m *metrics) observe(c *call, long bool, start time.Time, now func() time.Time) {
	what := c.what()
	dry := ""
	if c.r.URL.Query().Get("dryRun") != "" {
		dry = "All"
	}
	m.total.WithLabelValues(append(what[:len(what):len(what)], strconv.Itoa(c.w.code), dry)...).Inc()
	if long {
		return
	}
	m.duration.WithLabelValues(append(what[:len(what):len(what)], dry)...).Observe(now().Sub(start).Seconds())
	if c.r.Method == http.MethodGet && c.info.Resource != "" {
		m.sizes.WithLabelValues(what...).Observe(float64(c.size))
	}
}

// what are the values of whatLabels.
func (c *call) what() []string {
	i := &c.info
	resource, sub := i.Resource, i.Subresource
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
	return []string{metricVerb(c.r.Method, i.Verb), group, version, resource, sub, i.scope(), "apiserver"}
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
