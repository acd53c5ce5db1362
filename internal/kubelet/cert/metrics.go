package cert

import (
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are upstream's of its certificate managers, under its names.
type metrics struct {
	errors   map[string]prometheus.Counter // by kind
	rotation prometheus.Histogram
	ttl      []prometheus.Collector
}

func newMetrics(client, serving *keeper) *metrics {
	const renewals = "[ALPHA] Counter of certificate renewal errors."
	day := 24 * time.Hour.Seconds()
	left := func(k *keeper, name, help string) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 {
			if c := k.current.Load(); c != nil {
				return math.Trunc(c.Leaf.NotAfter.Sub(k.m.c.Now()).Seconds())
			}
			return math.Inf(1)
		})
	}
	return &metrics{
		errors: map[string]prometheus.Counter{
			clientKind.name:  prometheus.NewCounter(prometheus.CounterOpts{Name: "kubelet_certificate_manager_client_expiration_renew_errors", Help: renewals}),
			servingKind.name: prometheus.NewCounter(prometheus.CounterOpts{Name: "kubelet_server_expiration_renew_errors", Help: renewals}),
		},
		rotation: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "kubelet_certificate_manager_server_rotation_seconds",
			Help:    "[ALPHA] Histogram of the number of seconds the previous certificate lived before being rotated.",
			Buckets: []float64{60, 3600, 4 * 3600, day, 7 * day, 30 * day, 90 * day, 180 * day, 360 * day, 1440 * day},
		}),
		ttl: []prometheus.Collector{
			left(client, "kubelet_certificate_manager_client_ttl_seconds", "[ALPHA] Gauge of the TTL (time-to-live) of the Kubelet's client certificate. "+
				"The value is in seconds until certificate expiry (negative if already expired). If client certificate is invalid or unused, the value will be +INF."),
			left(serving, "kubelet_certificate_manager_server_ttl_seconds", "[ALPHA] Gauge of the shortest TTL (time-to-live) of the Kubelet's serving certificate. "+
				"The value is in seconds until certificate expiry (negative if already expired). If serving certificate is invalid or unused, the value will be +INF."),
		},
	}
}

func (m *metrics) failed(k kind) { m.errors[k.name].Inc() }

func (m *metrics) rotated(k kind, lived time.Duration) {
	if k == servingKind {
		m.rotation.Observe(lived.Seconds())
	}
}

// Collectors are upstream's metrics of its certificate managers.
func (m *Manager) Collectors() []prometheus.Collector {
	return append([]prometheus.Collector{m.metrics.errors[clientKind.name], m.metrics.errors[servingKind.name], m.metrics.rotation}, m.metrics.ttl...)
}
