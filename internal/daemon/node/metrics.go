package node

import (
	"path/filepath"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"podo.dev/podo/internal/kubelet/disk"
	"podo.dev/podo/internal/kubelet/metrics"
)

// metrics are the kubelet's own beyond its server's.
func (k *run) metrics() []prometheus.Collector {
	name := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "kubelet_node_name", Help: "[ALPHA] The node's name. The count is always 1.", ConstLabels: prometheus.Labels{"node": k.c.Name},
	}, func() float64 { return 1 })
	k.counts.Pods, k.counts.Mirrors = k.kubelet.Workers, k.kubelet.Mirrors
	k.counts.Looks = metrics.Looks{
		Volumes: k.volumes.Count, Certificates: k.certs.Count, Records: k.pulled.Count,
		LogBytes: func(p *v1.Pod, container string) int64 {
			bytes, _ := disk.Walk(filepath.Join(k.logsOf(p.Namespace, p.Name, p.UID), container))
			return bytes
		},
	}
	return append([]prometheus.Collector{name, k.counts}, k.cluster.Metrics...)
}

// logsOf is the folder of a pod's logs.
func (k *run) logsOf(namespace, name string, uid types.UID) string {
	return filepath.Join(k.c.Kubelet.PodLogsDir, namespace+"_"+name+"_"+string(uid))
}
