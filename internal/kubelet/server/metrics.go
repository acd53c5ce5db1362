package server

import (
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"podo.dev/podo/internal/about"
)

// requests are the server's own metrics, under upstream's names.
type requests struct {
	total    *prometheus.CounterVec
	took     *prometheus.HistogramVec
	inflight *prometheus.GaugeVec
	streams  *prometheus.CounterVec
}

func newRequests() *requests {
	labels := []string{"method", "path", "server_type", "long_running"}
	return &requests{
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kubelet_http_requests_total", Help: "[ALPHA] Number of the http requests received since the server started",
		}, labels),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "kubelet_http_requests_duration_seconds", Help: "[ALPHA] Duration in seconds to serve http requests", Buckets: prometheus.DefBuckets,
		}, labels),
		inflight: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "kubelet_http_inflight_requests", Help: "[ALPHA] Number of the inflight http requests",
		}, labels),
		streams: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kubelet_websocket_streaming_requests_total",
			Help: "[ALPHA] Total number of WebSocket streaming requests (exec/attach/portforward) received by the kubelet.",
		}, []string{"subresource"}),
	}
}

// longRunning are the paths that upstream counts as lasting as long as their clients want: portForward is not among them.
var longRunning = []string{"exec", "attach", "debug"}

// counted measures the requests to next.
func (q *requests) counted(mux *router, serverType string, next http.Handler) http.Handler {
	methods := []string{"OPTIONS", "GET", "HEAD", "POST", "PUT", "DELETE", "TRACE", "CONNECT"}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		method := r.Method
		if !slices.Contains(methods, method) {
			method = "other"
		}
		path := mux.bucket(r.URL.Path)
		labels := []string{method, path, serverType, strconv.FormatBool(slices.Contains(longRunning, path))}
		q.total.WithLabelValues(labels...).Inc()
		q.inflight.WithLabelValues(labels...).Inc()
		defer q.inflight.WithLabelValues(labels...).Dec()
		begin := time.Now()
		defer func() { q.took.WithLabelValues(labels...).Observe(time.Since(begin).Seconds()) }()
		next.ServeHTTP(w, r)
	})
}

// metrics adds the paths under /metrics that are the server's; those about containers come with Extra.
func (s *Server) metrics(mux *router) {
	own := prometheus.NewRegistry()
	own.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		s.requests.total, s.requests.took, s.requests.inflight, s.requests.streams)
	own.MustRegister(s.cfg.Metrics...)
	own.MustRegister(about.Metrics(about.Program(s.cfg.Version), own)...)
	mux.Handle("/metrics", promhttp.HandlerFor(about.Gatherer(own), promhttp.HandlerOpts{}))
	mux.Handle("/metrics/slis", s.health.went)
}
