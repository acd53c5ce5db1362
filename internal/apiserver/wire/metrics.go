package wire

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/component-base/metrics/legacyregistry"

	"podo.dev/podo/internal/about"
	"podo.dev/podo/internal/apiserver/authn"
)

// metrics are the server's own metrics, under upstream's names and labels.
type metrics struct {
	total       *prometheus.CounterVec
	duration    *prometheus.HistogramVec
	sizes       *prometheus.HistogramVec
	longRunning *prometheus.GaugeVec
	inFlight    *prometheus.GaugeVec
	watchEvents *prometheus.CounterVec
	watchSizes  *prometheus.HistogramVec
	panics      prometheus.Counter
	sli         *prometheus.HistogramVec
	ended       *prometheus.CounterVec // refused before they were served
	aborted     *prometheus.CounterVec
	deprecated  *prometheus.GaugeVec
	handshakes  prometheus.Counter
	who         *prometheus.CounterVec
	known       map[string]known // authentication, by its result
	checks      *about.Checks
}

// known counts and times authentication.
type known struct {
	attempts prometheus.Counter
	duration prometheus.Observer
}

// whatLabels say what a request is about.
var whatLabels = []string{"verb", "group", "version", "resource", "subresource", "scope", "component"}

// newMetrics registers the server's metrics, those in more, and the program's version with r.
func newMetrics(r *prometheus.Registry, program version.Info, more []prometheus.Collector) (*metrics, error) {
	m := &metrics{
		checks: about.NewChecks(),
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_request_total",
			Help: "Requests served, by verb, group, version, resource, scope, component and HTTP code.",
		}, append(slices.Clone(whatLabels), "code", "dry_run")),
		duration: prometheus.NewHistogramVec(about.Native(prometheus.HistogramOpts{
			Name:    "apiserver_request_duration_seconds",
			Help:    "How long requests took, long-running ones excepted.",
			Buckets: []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60},
		}), append(slices.Clone(whatLabels), "dry_run")),
		sizes: prometheus.NewHistogramVec(about.Native(prometheus.HistogramOpts{
			Name:    "apiserver_response_sizes",
			Help:    "Bytes of answers to reads, before they are compressed.",
			Buckets: prometheus.ExponentialBuckets(1000, 10, 7),
		}), whatLabels),
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
		watchSizes: prometheus.NewHistogramVec(about.Native(prometheus.HistogramOpts{
			Name: "apiserver_watch_events_sizes", Help: "Bytes of events sent to watches.", Buckets: prometheus.ExponentialBuckets(1024, 2, 8),
		}), []string{"group", "version", "resource"}),
		panics: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "podo_apiserver_request_panics_total",
			Help: "Requests that panicked.",
		}),
	}
	more = append(more, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), about.VersionInfo(program))
	more = append(more, about.Metrics(program, r)...)
	more = append(more, m.total, m.duration, m.sizes, m.longRunning, m.inFlight, m.watchEvents, m.watchSizes, m.panics)
	for _, c := range append(more, m.further()...) {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// further makes the metrics of failing requests, of authentication, and of how long served requests took.
func (m *metrics) further() []prometheus.Collector {
	m.sli = prometheus.NewHistogramVec(about.Native(prometheus.HistogramOpts{
		Name:    "apiserver_request_sli_duration_seconds",
		Help:    "How long requests took that were served, without waiting for others' webhooks; long-running ones excepted.",
		Buckets: []float64{0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60},
	}), whatLabels)
	m.ended = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "apiserver_request_terminations_total", Help: "Requests that the server ended to protect itself.",
	}, append(slices.Clone(whatLabels), "code"))
	m.aborted = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "apiserver_request_aborts_total", Help: "Requests that were cut, perhaps after a part of the answer was out.",
	}, whatLabels[:6])
	m.deprecated = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "apiserver_requested_deprecated_apis", Help: "Deprecated APIs that somebody has asked for.",
	}, []string{"group", "version", "resource", "subresource", "removed_release"})
	m.handshakes = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "apiserver_tls_handshake_errors_total", Help: "Connections that were dropped with a TLS handshake error.",
	})
	m.who = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "authenticated_user_requests", Help: "Requests that are from somebody known, by who that is; most are \"other\".",
	}, []string{"username"})
	attempts := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "authentication_attempts", Help: "Attempts to find out who a request is from, by their result.",
	}, []string{"result"})
	duration := prometheus.NewHistogramVec(about.Native(prometheus.HistogramOpts{
		Name: "authentication_duration_seconds", Help: "How long it took to find out who a request is from, by the result.",
		Buckets: prometheus.ExponentialBuckets(0.001, 2, 15),
	}), []string{"result"})
	m.known = map[string]known{}
	for _, result := range []string{"success", "failure", "error"} {
		m.known[result] = known{attempts.WithLabelValues(result), duration.WithLabelValues(result)}
	}
	return []prometheus.Collector{m.sli, m.ended, m.aborted, m.deprecated, m.handshakes, m.who, attempts, duration}
}

// userNames are the users with a label of their own, as upstream has it. Other names get none, since clients could make up any
// number.
var userNames = map[string]bool{"admin": true, "client": true, "kube_proxy": true, "kubelet": true, "system:serviceaccount:kube-system:default": true}

// authenticated records how the authentication of a request ended; u is nil when it failed.
func (m *metrics) authenticated(u user.Info, err error, took time.Duration) {
	result := "success"
	switch {
	case errors.Is(err, authn.ErrUnauthorized):
		result = "failure"
	case err != nil:
		result = "error"
	default:
		name := u.GetName()
		if !userNames[name] {
			name = "other"
		}
		m.who.WithLabelValues(name).Inc()
	}
	m.known[result].attempts.Inc()
	m.known[result].duration.Observe(took.Seconds())
}

// auditMetrics are the audit library's, which it keeps in a registry of its own.
func auditMetrics() prometheus.Gatherer {
	return prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		all, err := legacyregistry.DefaultGatherer.Gather()
		return slices.DeleteFunc(all, func(f *dto.MetricFamily) bool { return !strings.HasPrefix(f.GetName(), "apiserver_audit_") }), err
	})
}

// observe records a request that has ended. Unknown resources and methods, which clients can make up, get no label of their own.
func (m *metrics) observe(c *call, long bool, start time.Time, now func() time.Time) {
	what := c.what()
	dry := ""
	if c.r.URL.Query().Get("dryRun") != "" {
		dry = "All"
	}
	m.total.WithLabelValues(append(what[:len(what):len(what)], strconv.Itoa(c.w.code), dry)...).Inc()
	if c.kind != nil && c.kind.Deprecated != "" {
		m.deprecated.WithLabelValues(what[1], what[2], what[3], what[4], "").Set(1)
	}
	if long {
		return
	}
	took := now().Sub(start).Seconds()
	m.duration.WithLabelValues(append(what[:len(what):len(what)], dry)...).Observe(took)
	m.sli.WithLabelValues(what...).Observe(took)
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
