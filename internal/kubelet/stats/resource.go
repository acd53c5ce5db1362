package stats

import (
	"context"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

var (
	nodeCPU        = prometheus.NewDesc("node_cpu_usage_seconds_total", "[STABLE] Cumulative cpu time consumed by the node in core-seconds", nil, nil)
	nodeMemory     = prometheus.NewDesc("node_memory_working_set_bytes", "[STABLE] Current working set of the node in bytes", nil, nil)
	containerLabel = []string{"container", "pod", "namespace"}
	containerCPU   = prometheus.NewDesc("container_cpu_usage_seconds_total", "[STABLE] Cumulative cpu time consumed by the container in core-seconds", containerLabel, nil)
	containerMem   = prometheus.NewDesc("container_memory_working_set_bytes", "[STABLE] Current working set of the container in bytes", containerLabel, nil)
	containerStart = prometheus.NewDesc("container_start_time_seconds", "[STABLE] Start time of the container since unix epoch in seconds", containerLabel, nil)
	nodeSwap       = prometheus.NewDesc("node_swap_usage_bytes", "[ALPHA] Current swap usage of the node in bytes. Reported only on non-windows systems", nil, nil)
	containerSwap  = prometheus.NewDesc("container_swap_usage_bytes", "[ALPHA] Current amount of the container swap usage in bytes. Reported only on non-windows systems", containerLabel, nil)
	containerMost  = prometheus.NewDesc("container_swap_limit_bytes", "[ALPHA] Current amount of the container swap limit in bytes. Reported only on non-windows systems", containerLabel, nil)
	podLabel       = []string{"pod", "namespace"}
	podCPU         = prometheus.NewDesc("pod_cpu_usage_seconds_total", "[STABLE] Cumulative cpu time consumed by the pod in core-seconds", podLabel, nil)
	podMemory      = prometheus.NewDesc("pod_memory_working_set_bytes", "[STABLE] Current working set of the pod in bytes", podLabel, nil)
	podSwap        = prometheus.NewDesc("pod_swap_usage_bytes", "[ALPHA] Current amount of the pod swap usage in bytes. Reported only on non-windows systems", podLabel, nil)
	scrapeError    = prometheus.NewDesc("resource_scrape_error", "[STABLE] 1 if there was an error while getting container metrics, 0 otherwise", nil, nil)
)

// Resource serves /metrics/resource.
func (s *Source) Resource() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		promhttp.HandlerFor(s.Gatherer(r.Context()), promhttp.HandlerOpts{}).ServeHTTP(w, r)
	})
}

// Gatherer measures what /metrics/resource tells each time it gathers.
func (s *Source) Gatherer(ctx context.Context) prometheus.Gatherer {
	reg := prometheus.NewRegistry()
	reg.MustRegister(collector{s, ctx})
	return reg
}

// collector measures once, for one scrape.
type collector struct {
	s   *Source
	ctx context.Context //nolint:containedctx // a collector lives as long as its request
}

// Describe says nothing: what there is depends on the pods.
func (c collector) Describe(chan<- *prometheus.Desc) {}

func (c collector) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(c.ctx, 30*time.Second)
	defer cancel()
	sum, err := c.s.Summary(ctx, true)
	failed := 0.0
	if err != nil {
		failed = 1
	}
	out <- prometheus.MustNewConstMetric(scrapeError, prometheus.GaugeValue, failed)
	if err != nil {
		return
	}
	cpu(out, nodeCPU, sum.Node.CPU)
	memory(out, nodeMemory, sum.Node.Memory)
	swap(out, nodeSwap, nil, sum.Node.Swap)
	for _, p := range sum.Pods {
		cpu(out, podCPU, p.CPU, p.PodRef.Name, p.PodRef.Namespace)
		memory(out, podMemory, p.Memory, p.PodRef.Name, p.PodRef.Namespace)
		swap(out, podSwap, nil, p.Swap, p.PodRef.Name, p.PodRef.Namespace)
		for _, k := range p.Containers {
			names := []string{k.Name, p.PodRef.Name, p.PodRef.Namespace}
			cpu(out, containerCPU, k.CPU, names...)
			memory(out, containerMem, k.Memory, names...)
			swap(out, containerSwap, containerMost, k.Swap, names...)
			out <- prometheus.MustNewConstMetric(containerStart, prometheus.GaugeValue, float64(k.StartTime.UnixNano())/float64(time.Second), names...)
		}
	}
}

func cpu(out chan<- prometheus.Metric, d *prometheus.Desc, s *v1alpha1.CPUStats, labels ...string) {
	if s != nil && s.UsageCoreNanoSeconds != nil {
		at(out, s.Time, prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(*s.UsageCoreNanoSeconds)/float64(time.Second), labels...))
	}
}

func memory(out chan<- prometheus.Metric, d *prometheus.Desc, s *v1alpha1.MemoryStats, labels ...string) {
	if s != nil && s.WorkingSetBytes != nil {
		at(out, s.Time, prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(*s.WorkingSetBytes), labels...))
	}
}

// swap tells what is used, and with limit what may be.
func swap(out chan<- prometheus.Metric, used, limit *prometheus.Desc, s *v1alpha1.SwapStats, labels ...string) {
	if s == nil || s.SwapUsageBytes == nil {
		return
	}
	at(out, s.Time, prometheus.MustNewConstMetric(used, prometheus.GaugeValue, float64(*s.SwapUsageBytes), labels...))
	if limit != nil && s.SwapAvailableBytes != nil {
		at(out, s.Time, prometheus.MustNewConstMetric(limit, prometheus.GaugeValue, float64(*s.SwapUsageBytes+*s.SwapAvailableBytes), labels...))
	}
}

// at gives a measurement its time.
func at(out chan<- prometheus.Metric, t metav1.Time, m prometheus.Metric) {
	out <- prometheus.NewMetricWithTimestamp(t.Time, m)
}
