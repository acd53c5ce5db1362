package nodelifecycle

import "github.com/prometheus/client_golang/prometheus"

// meter is what upstream's controller tells of nodes and zones, under its names. How zones are is read when it is asked for.
type meter struct {
	givenUp               *prometheus.CounterVec
	took                  prometheus.Histogram
	size, unready, health *prometheus.Desc
	zones                 func(each func(zone string, ready, unready int))
}

func newMeter(zones func(each func(zone string, ready, unready int))) *meter {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("node_collector_"+name, help, []string{"zone"}, nil)
	}
	return &meter{
		givenUp: prometheus.NewCounterVec(prometheus.CounterOpts{
			Subsystem: "node_collector", Name: "evictions_total", Help: "Nodes whose pods were given up.",
		}, []string{"zone"}),
		took: prometheus.NewHistogram(prometheus.HistogramOpts{
			Subsystem: "node_collector", Name: "update_node_health_duration_seconds", Help: "How long it took to look at a node.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 8),
		}),
		size:    desc("zone_size", "Nodes of a zone."),
		unready: desc("unhealthy_nodes_in_zone", "Nodes of a zone that are not ready."),
		health:  desc("zone_health", "How many of a hundred nodes of a zone are ready."),
		zones:   zones,
	}
}

// Describe implements prometheus.Collector.
func (m *meter) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(m, ch) }

// Collect implements prometheus.Collector.
func (m *meter) Collect(ch chan<- prometheus.Metric) {
	m.givenUp.Collect(ch)
	m.took.Collect(ch)
	m.zones(func(zone string, ready, unready int) {
		tell := func(d *prometheus.Desc, v float64) {
			ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, zone)
		}
		tell(m.size, float64(ready+unready))
		tell(m.unready, float64(unready))
		tell(m.health, 100*float64(ready)/float64(ready+unready))
	})
}
