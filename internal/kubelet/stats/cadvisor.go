package stats

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"
)

var (
	machineCores  = prometheus.NewDesc("machine_cpu_cores", "Number of logical CPU cores.", nil, nil)
	machineMemory = prometheus.NewDesc("machine_memory_bytes", "Amount of memory installed on the machine.", nil, nil)
	cadvisorError = prometheus.NewDesc("container_scrape_error", "1 if there was an error while getting container metrics, 0 otherwise", nil, nil)
)

// Containers serves /metrics/cadvisor: the runtime's metrics of containers, which have cAdvisor's names, under the pods' names.
func (s *Source) Containers() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reg := prometheus.NewRegistry()
		reg.MustRegister(runtimes{s, r.Context()})
		promhttp.HandlerFor(reg, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError}).ServeHTTP(w, r)
	})
}

// runtimes collects once, for one scrape.
type runtimes struct {
	s   *Source
	ctx context.Context //nolint:containedctx // a collector lives as long as its request
}

// Describe says nothing: what there is depends on the runtime.
func (c runtimes) Describe(chan<- *prometheus.Desc) {}

// exact is the metric that the runtime rounds to whole seconds, and its statistics have to the nanosecond.
const exact = "container_cpu_usage_seconds_total"

func (c runtimes) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(c.ctx, 30*time.Second)
	defer cancel()
	c.machine(out)
	failed := 0.0
	if err := c.containers(ctx, out); err != nil {
		failed = 1
	}
	out <- prometheus.MustNewConstMetric(cadvisorError, prometheus.GaugeValue, failed)
}

func (c runtimes) machine(out chan<- prometheus.Metric) {
	if text, err := c.s.cfg.Files.ReadFile("/proc/stat"); err == nil {
		cores := 0
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, "cpu") && !strings.HasPrefix(line, "cpu ") {
				cores++
			}
		}
		out <- prometheus.MustNewConstMetric(machineCores, prometheus.GaugeValue, float64(cores))
	}
	if text, err := c.s.cfg.Files.ReadFile("/proc/meminfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if f := strings.Fields(line); len(f) >= 2 && f[0] == "MemTotal:" {
				kb, _ := strconv.ParseFloat(f[1], 64)
				out <- prometheus.MustNewConstMetric(machineMemory, prometheus.GaugeValue, kb*1024)
			}
		}
	}
}

func (c runtimes) containers(ctx context.Context, out chan<- prometheus.Metric) error {
	descriptors, err := c.s.cfg.Runtime.ListMetricDescriptors(ctx)
	if err != nil {
		return err
	}
	kinds := map[string]*prometheus.Desc{}
	for _, d := range descriptors {
		kinds[d.Name] = prometheus.NewDesc(d.Name, d.Help, d.LabelKeys, nil)
	}
	pods, err := c.s.cfg.Runtime.ListPodSandboxMetrics(ctx)
	if err != nil {
		return err
	}
	times, err := c.times(ctx)
	if err != nil {
		return err
	}
	for _, p := range pods {
		tell(out, kinds, p.Metrics, times)
		for _, k := range p.ContainerMetrics {
			tell(out, kinds, k.Metrics, times)
		}
	}
	return nil
}

// times are the seconds of processors that containers and sandboxes have used, by id.
func (c runtimes) times(ctx context.Context) (map[string]float64, error) {
	used, err := c.s.cfg.Runtime.ListPodSandboxStats(ctx, nil)
	if err != nil {
		return nil, err
	}
	out := map[string]float64{}
	for _, u := range used {
		for _, k := range u.GetLinux().GetContainers() {
			if n := k.GetCpu().GetUsageCoreNanoSeconds(); n != nil {
				out[k.GetAttributes().GetId()] = float64(n.Value) / float64(time.Second)
			}
		}
	}
	return out, nil
}

// tell passes metrics on. One that does not fit its own description is left out: it is the runtime's fault, and only its own.
func tell(out chan<- prometheus.Metric, kinds map[string]*prometheus.Desc, metrics []*runtimev1.Metric, times map[string]float64) {
	for _, m := range metrics {
		kind := prometheus.GaugeValue
		if m.MetricType == runtimev1.MetricType_COUNTER {
			kind = prometheus.CounterValue
		}
		if kinds[m.Name] == nil {
			continue
		}
		value := float64(m.GetValue().GetValue())
		if m.Name == exact {
			for _, label := range m.LabelValues { // one of them is the id, which nothing else can be
				if t, ok := times[label]; ok {
					value = t
				}
			}
		}
		pm, err := prometheus.NewConstMetric(kinds[m.Name], kind, value, m.LabelValues...)
		if err != nil {
			continue
		}
		if m.Timestamp > 0 {
			pm = prometheus.NewMetricWithTimestamp(time.Unix(0, m.Timestamp), pm)
		}
		out <- pm
	}
}
