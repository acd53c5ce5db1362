package modes

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"podo.dev/podo/internal/about"
	"podo.dev/podo/internal/apiserver/authz"
)

// measures count and time decisions, under upstream's names.
type measures struct {
	decisions *prometheus.CounterVec
	attempts  *prometheus.CounterVec
	duration  *prometheus.HistogramVec

	// Kept ready for the most frequent questions, so that a decision needs no look-up of labels.
	by              map[string]prometheus.Counter
	allowed, denied outcome
}

type outcome struct {
	attempts prometheus.Counter
	duration prometheus.Observer
}

func newMeasures() *measures {
	m := &measures{
		decisions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_authorization_decisions_total", Help: "Decisions of an authorizer that settled what was asked, by its type and name.",
		}, []string{"type", "name", "decision"}),
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "authorization_attempts_total", Help: "Decisions about what was asked, by their result.",
		}, []string{"result"}),
		duration: prometheus.NewHistogramVec(about.Native(prometheus.HistogramOpts{
			Name: "authorization_duration_seconds", Help: "How long decisions took, by their result.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 15),
		}), []string{"result"}),
	}
	rbac := m.decisions.WithLabelValues("RBAC", "rbac", "allowed")
	m.by = map[string]prometheus.Counter{nodeName: m.decisions.WithLabelValues("Node", "node", "allowed"), rbacName: rbac, defaultName: rbac}
	of := func(result string) outcome {
		return outcome{m.attempts.WithLabelValues(result), m.duration.WithLabelValues(result)}
	}
	m.allowed, m.denied = of("allowed"), of("no-opinion") // an authorizer allows, or has no opinion; none forbids
	return m
}

// Metrics are what is measured of decisions.
func (z *Authorizer) Metrics() []prometheus.Collector {
	return []prometheus.Collector{z.measures.decisions, z.measures.attempts, z.measures.duration}
}

// Authorize implements authz.Authorizer.
func (z *Authorizer) Authorize(ctx context.Context, a *authz.Attributes) (bool, string) {
	start := time.Now()
	by, ok, reason := z.Decide(ctx, a)
	if c := z.measures.by[by]; c != nil {
		c.Inc()
	}
	o := &z.measures.denied
	if ok {
		o = &z.measures.allowed
	}
	o.attempts.Inc()
	o.duration.Observe(time.Since(start).Seconds())
	return ok, reason
}
