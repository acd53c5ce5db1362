package loop

import (
	"errors"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Publications are what upstream's publishers of certificates tell, under their names: each look by the code of the answer to what it wrote.
type Publications struct {
	syncs *prometheus.CounterVec
	took  *prometheus.HistogramVec
}

// NewPublications are those of a publisher, which looks at what.
func NewPublications(subsystem, what string) Publications {
	labels := []string{"code"}
	return Publications{
		prometheus.NewCounterVec(prometheus.CounterOpts{
			Subsystem: subsystem, Name: "sync_total", Help: "How often " + what + " was looked at.",
		}, labels),
		prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Subsystem: subsystem, Name: "sync_duration_seconds", Help: "How long it took to look at " + what + ".",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 15),
		}, labels),
	}
}

// All are the metrics.
func (p Publications) All() []prometheus.Collector { return []prometheus.Collector{p.syncs, p.took} }

// Done takes in what came of a look.
func (p Publications) Done(err error, took time.Duration) {
	code := "500"
	var status apierrors.APIStatus
	switch {
	case err == nil:
		code = "200"
	case errors.As(err, &status) && status.Status().Code != 0:
		code = strconv.Itoa(int(status.Status().Code))
	}
	p.syncs.WithLabelValues(code).Inc()
	p.took.WithLabelValues(code).Observe(took.Seconds())
}
