package node

import (
	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
)

// metrics are the kubelet's own beyond its server's.
func (k *run) metrics() []prometheus.Collector {
	name := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "kubelet_node_name", Help: "[ALPHA] The node's name. The count is always 1.", ConstLabels: prometheus.Labels{"node": k.c.Name},
	}, func() float64 { return 1 })
	pods := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "kubelet_running_pods", Help: "[ALPHA] Number of pods that have a running pod sandbox",
	}, func() float64 {
		n := 0
		for _, p := range k.kubelet.Pods() {
			if p.Status.PodIP != "" || p.Status.Phase == "Running" {
				n++
			}
		}
		return float64(n)
	})
	return append([]prometheus.Collector{name, pods, containerStates{k}}, k.cluster.Metrics...)
}

// containerStates counts the containers by their state, as the pods' statuses tell it.
type containerStates struct{ k *run }

var runningContainers = prometheus.NewDesc("kubelet_running_containers", "[ALPHA] Number of containers currently running", []string{"container_state"}, nil)

func (containerStates) Describe(out chan<- *prometheus.Desc) { out <- runningContainers }

func (c containerStates) Collect(out chan<- prometheus.Metric) {
	n := map[string]float64{"running": 0, "exited": 0, "created": 0}
	for _, p := range c.k.kubelet.Pods() {
		for _, list := range [][]v1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses, p.Status.EphemeralContainerStatuses} {
			for i := range list {
				switch s := list[i].State; {
				case s.Running != nil:
					n["running"]++
				case s.Terminated != nil:
					n["exited"]++
				case list[i].ContainerID != "":
					n["created"]++
				}
			}
		}
	}
	for state, count := range n {
		out <- prometheus.MustNewConstMetric(runningContainers, prometheus.GaugeValue, count, state)
	}
}
