package stats

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"
)

var cadvisorError = prometheus.NewDesc("container_scrape_error", "1 if there was an error while getting container metrics, 0 otherwise", nil, nil)

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

// exact is the metric whose exact value comes from the runtime's statistics: as a metric the runtime rounds it to whole seconds.
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
	used, err := c.used(ctx)
	if err != nil {
		return err
	}
	waits := pressures(descriptors)
	for _, p := range pods {
		tell(out, kinds, p.Metrics, used, waits)
		for _, k := range p.ContainerMetrics {
			tell(out, kinds, k.Metrics, used, waits)
		}
	}
	return nil
}

// used is what containers have used, by id.
func (c runtimes) used(ctx context.Context) (map[string]*runtimev1.ContainerStats, error) {
	used, err := c.s.cfg.Runtime.ListPodSandboxStats(ctx, nil)
	if err != nil {
		return nil, err
	}
	out := map[string]*runtimev1.ContainerStats{}
	for _, u := range used {
		for _, k := range u.GetLinux().GetContainers() {
			out[k.GetAttributes().GetId()] = k
		}
	}
	return out, nil
}

// wait is a metric of how long a container waited for a resource.
type wait struct {
	desc *prometheus.Desc
	of   func(*runtimev1.ContainerStats) *runtimev1.PsiStats
	all  bool // no task got on
}

// pressures are the metrics of pressure that the runtime has only in its statistics, with the labels of its other container
// metrics; none when it has them as metrics.
func pressures(descriptors []*runtimev1.MetricDescriptor) (out []wait) {
	of := func(name string) int {
		return slices.IndexFunc(descriptors, func(d *runtimev1.MetricDescriptor) bool { return d.Name == name })
	}
	i := of(exact)
	if i < 0 || of("container_pressure_cpu_waiting_seconds_total") >= 0 {
		return nil
	}
	for _, r := range []struct {
		name, word string
		psi        func(*runtimev1.ContainerStats) *runtimev1.PsiStats
	}{
		{"cpu", "CPU", func(s *runtimev1.ContainerStats) *runtimev1.PsiStats { return s.GetCpu().GetPsi() }},
		{"memory", "memory", func(s *runtimev1.ContainerStats) *runtimev1.PsiStats { return s.GetMemory().GetPsi() }},
		{"io", "IO", func(s *runtimev1.ContainerStats) *runtimev1.PsiStats { return s.GetIo().GetPsi() }},
	} {
		desc := func(how, help string) *prometheus.Desc {
			return prometheus.NewDesc("container_pressure_"+r.name+"_"+how+"_seconds_total", help+" due to "+r.word+" congestion.", descriptors[i].LabelKeys, nil)
		}
		out = append(out,
			wait{desc("stalled", "Total time duration no tasks in the container could make progress"), r.psi, true},
			wait{desc("waiting", "Total time duration tasks in the container have waited"), r.psi, false})
	}
	return out
}

// tell passes on what the kernel said of a container; nothing where it does not say it.
func (w wait) tell(out chan<- prometheus.Metric, s *runtimev1.ContainerStats, labels []string) {
	p := w.of(s)
	if p == nil {
		return
	}
	data := either(w.all, p.GetFull(), p.GetSome())
	m, err := prometheus.NewConstMetric(w.desc, prometheus.CounterValue, float64(data.GetTotal())/float64(time.Second), labels...)
	if err == nil { // as tell
		at(out, stamp(s.GetCpu().GetTimestamp()), m)
	}
}

// tell passes metrics on. One that does not fit its own description is left out, so that a fault of the runtime costs nothing
// else.
func tell(
	out chan<- prometheus.Metric, kinds map[string]*prometheus.Desc, metrics []*runtimev1.Metric, used map[string]*runtimev1.ContainerStats, waits []wait,
) {
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
				s := used[label]
				if s == nil {
					continue
				}
				if n := s.GetCpu().GetUsageCoreNanoSeconds(); n != nil {
					value = float64(n.Value) / float64(time.Second)
				}
				for _, w := range waits {
					w.tell(out, s, m.LabelValues)
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
