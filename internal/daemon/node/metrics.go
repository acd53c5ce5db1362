package node

import (
	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the kubelet's own beyond its server's.
func (k *run) metrics() []prometheus.Collector {
	name := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "kubelet_node_name", Help: "[ALPHA] The node's name. The count is always 1.", ConstLabels: prometheus.Labels{"node": k.c.Name},
	}, func() float64 { return 1 })
	k.counts.Pods, k.counts.Mirrors = k.kubelet.Workers, k.kubelet.Mirrors
	return append([]prometheus.Collector{name, k.counts}, k.cluster.Metrics...)
}
