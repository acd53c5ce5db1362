package replicas

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"

	"podo.dev/podo/internal/controllers/podset"
)

// newAges is what upstream's controller of ReplicaSets tells of the pods that it chooses to delete, under its name.
func newAges() prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{
		Subsystem: "replicaset_controller", Name: "sorting_deletion_age_ratio",
		Help:    "How many times as old as the youngest one the ready pods are that were chosen to be deleted, of several.",
		Buckets: prometheus.ExponentialBuckets(0.25, 2, 6),
	})
}

// ages are those of the ready ones of the chosen pods, in ages of the youngest ready one of all.
func ages(chosen, all []*v1.Pod, now time.Time) (out []float64) {
	if len(chosen) >= len(all) {
		return nil // nothing was chosen
	}
	age := func(p *v1.Pod) int64 { return now.Sub(p.CreationTimestamp.Time).Milliseconds() }
	youngest := int64(-1)
	for _, p := range all {
		if _, ready := podset.Ready(p); ready && (youngest < 0 || age(p) < youngest) {
			youngest = age(p)
		}
	}
	for _, p := range chosen {
		if _, ready := podset.Ready(p); ready {
			out = append(out, float64(age(p)/max(youngest, 1)))
		}
	}
	return out
}
