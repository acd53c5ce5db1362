package nodeipam

import (
	"net/netip"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"

	"podo.dev/podo/internal/view"
)

// meter is what upstream's controller tells, under its names (one of which it has misspelt).
type meter struct {
	given, back *prometheus.CounterVec
	tries       *prometheus.HistogramVec
	most, used  prometheus.GaugeFunc
	running     prometheus.Gauge
}

func newMeter(r Ranges, used func() int) meter {
	const subsystem = "node_ipam_controller"
	labels := []string{"clusterCIDR"}
	gauge := func(name, help string, of func() float64) prometheus.GaugeFunc {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Subsystem: subsystem, Name: name, Help: help, ConstLabels: prometheus.Labels{"clusterCIDR": r.Cluster.String()},
		}, of)
	}
	running := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "running_managed_controllers", Help: "1 while the controller runs here.",
		ConstLabels: prometheus.Labels{"manager": "kube-controller-manager", "name": "nodeipam"},
	})
	running.Set(1) // it is shown only then
	return meter{
		running: running,
		given: prometheus.NewCounterVec(prometheus.CounterOpts{
			Subsystem: subsystem, Name: "cidrset_cidrs_allocations_total", Help: "Ranges that nodes got.",
		}, labels),
		back: prometheus.NewCounterVec(prometheus.CounterOpts{
			Subsystem: subsystem, Name: "cidrset_cidrs_releases_total", Help: "Ranges that are free again.",
		}, labels),
		tries: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Subsystem: subsystem, Name: "cidrset_allocation_tries_per_request", Help: "How many ranges that were taken were met before a free one.",
			Buckets: prometheus.ExponentialBuckets(1, 5, 5),
		}, labels),
		most: gauge("cirdset_max_cidrs", "How many ranges there are.", func() float64 { return float64(r.count()) }),
		used: gauge("cidrset_usage_cidrs", "How much of the ranges is taken, 1 being all.", func() float64 { return float64(used()) / float64(r.count()) }),
	}
}

func (m meter) all() []prometheus.Collector {
	return []prometheus.Collector{m.given, m.back, m.tries, m.most, m.used, m.running}
}

// taken are the ranges that nodes have, and those that are kept from them.
func (k *controller) taken(s view.Snapshot) []netip.Prefix {
	out := k.Reserved[:len(k.Reserved):len(k.Reserved)]
	for e := range s.All(nodes, "", view.Key{}) {
		out = append(out, Of(e.Object.(*v1.Node))...)
	}
	return out
}

// used is how many ranges are taken.
func (k *controller) used() int {
	seen := map[netip.Prefix]bool{}
	for _, p := range k.taken(k.View.Snapshot()) {
		if k.Ranges.Cluster.Overlaps(p) {
			seen[p] = true
		}
	}
	return len(seen)
}
