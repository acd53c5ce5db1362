package scheduler

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	v1 "k8s.io/api/core/v1"
	helper "k8s.io/component-helpers/resource"

	"podo.dev/podo/internal/view"
)

var (
	resourceLabels = []string{"namespace", "pod", "node", "scheduler", "priority", "resource", "unit"}
	podRequest     = prometheus.NewDesc("kube_pod_resource_request", "[STABLE] What a pod asks for, as the scheduler and the kubelet count it.", resourceLabels, nil)
	podLimit       = prometheus.NewDesc("kube_pod_resource_limit", "[STABLE] What a pod may have at most, as the scheduler and the kubelet count it.", resourceLabels, nil)
)

// PodResources is upstream's page /metrics/resources: the requests and limits of each pod, unscheduled ones included, ended ones
// not.
func PodResources(v *view.View) http.Handler {
	r := prometheus.NewRegistry()
	r.MustRegister(podResources{v})
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{})
}

type podResources struct{ view *view.View }

// Describe implements prometheus.Collector.
func (podResources) Describe(out chan<- *prometheus.Desc) { out <- podRequest; out <- podLimit }

// Collect implements prometheus.Collector.
func (p podResources) Collect(out chan<- prometheus.Metric) {
	for e := range p.view.Snapshot().All(pods, "", view.Key{}) {
		pod := e.Object.(*v1.Pod)
		if pod.Spec.NodeName != "" && (pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed) {
			continue
		}
		tell := func(desc *prometheus.Desc, list v1.ResourceList) {
			priority := ""
			if pod.Spec.Priority != nil {
				priority = strconv.Itoa(int(*pod.Spec.Priority))
			}
			for name, q := range list {
				if !q.IsZero() {
					out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, q.AsApproximateFloat64(),
						pod.Namespace, pod.Name, pod.Spec.NodeName, pod.Spec.SchedulerName, priority, string(name), unitOf(name))
				}
			}
		}
		tell(podRequest, helper.PodRequests(pod, helper.PodResourcesOptions{}))
		tell(podLimit, helper.PodLimits(pod, helper.PodResourcesOptions{}))
	}
}

// unitOf is "" for what has none that is known.
func unitOf(name v1.ResourceName) string {
	switch {
	case name == v1.ResourceCPU:
		return "cores"
	case name == v1.ResourceMemory, name == v1.ResourceStorage, name == v1.ResourceEphemeralStorage, strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix):
		return "bytes"
	case strings.HasPrefix(string(name), v1.ResourceAttachableVolumesPrefix):
		return "integer"
	}
	return ""
}
