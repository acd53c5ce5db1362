package scheduler

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"

	"podo.dev/podo/internal/scheduler/framework"
	"podo.dev/podo/internal/scheduler/plan"
	"podo.dev/podo/internal/scheduler/queue"
)

// Metrics are the scheduler's, under upstream's names and labels. One outlives the runs of its scheduler.
type Metrics struct {
	attempts      *prometheus.CounterVec
	attemptTook   *prometheus.HistogramVec
	decided       prometheus.Histogram
	sli           *prometheus.HistogramVec
	tries         prometheus.Histogram
	pending       *prometheus.GaugeVec
	incoming      *prometheus.CounterVec
	unschedulable *prometheus.GaugeVec
	preemptions   prometheus.Counter
	victims       prometheus.Histogram
	cache         *prometheus.GaugeVec
	points        *prometheus.HistogramVec
	plugins       *prometheus.HistogramVec
	events        *prometheus.HistogramVec
	goroutines    *prometheus.GaugeVec
	flushed       prometheus.Counter
	inFlight      *prometheus.GaugeVec
	hints         *prometheus.HistogramVec
	entities      *prometheus.GaugeVec
	comers        *prometheus.CounterVec
	evaluations   *prometheus.CounterVec
	tellings      *prometheus.CounterVec
	tellingTook   *prometheus.HistogramVec
	batches       *prometheus.CounterVec
	batchEnds     *prometheus.CounterVec
}

// NewMetrics makes them. A profile is what pods name in spec.schedulerName.
func NewMetrics() *Metrics {
	const ns = "scheduler"
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: ns, Name: name, Help: help}, labels)
	}
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: ns, Name: name, Help: help}, labels)
	}
	hist := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: ns, Name: name, Help: help, Buckets: buckets}, labels)
	}
	one := func(name, help string, buckets []float64) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: ns, Name: name, Help: help, Buckets: buckets})
	}
	exp := prometheus.ExponentialBuckets
	return &Metrics{
		attempts:    counter("schedule_attempts_total", "Attempts to place a pod, by how they ended: scheduled, unschedulable, error.", "result", "profile"),
		attemptTook: hist("scheduling_attempt_duration_seconds", "How long attempts took, the binding included.", exp(0.001, 2, 15), "result", "profile"),
		decided:     one("scheduling_algorithm_duration_seconds", "How long deciding took.", exp(0.001, 2, 15)),
		sli:         hist("pod_scheduling_sli_duration_seconds", "From a pod's coming to the queue, when nothing gated it any more, until it was bound.", exp(0.01, 2, 20), "attempts"),
		tries:       one("pod_scheduling_attempts", "Attempts until a pod was bound.", exp(1, 2, 5)),
		pending:     gauge("pending_pods", "Pods that wait, by queue: active, backoff, unschedulable, gated.", "queue"),
		incoming:    counter("queue_incoming_pods_total", "Pods that came to a queue, by what brought them.", "queue", "event"),
		unschedulable: gauge("unschedulable_pods", "Unschedulable pods by the plug-in that rejected them on some node; a pod counts for each.",
			"plugin", "profile"),
		preemptions: prometheus.NewCounter(prometheus.CounterOpts{Namespace: ns, Name: "preemption_attempts_total", Help: "How often it was asked whether others may leave for a pod."}),
		victims:     one("preemption_victims", "How many pods had to leave for one.", exp(1, 2, 7)),
		points: hist("framework_extension_point_duration_seconds", "How long the plug-ins of an extension point took together, for one pod.",
			exp(0.0001, 2, 12), "extension_point", "status", "profile"),
		plugins: hist("plugin_execution_duration_seconds", "How long a plug-in took, once for a pod or, of a tenth of the attempts, for each node that it was asked about.",
			exp(0.00001, 1.5, 20), "plugin", "extension_point", "status"),
		events:     hist("event_handling_duration_seconds", "How long it took to take in what happened.", exp(0.0001, 2, 12), "event"),
		goroutines: gauge("goroutines", "How much is under way at once, by what it is: binding, preemption.", "operation"),
		flushed: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: ns, Name: "pod_scheduled_after_flush_total", Help: "Pods that were bound after they were only tried again because five minutes were over.",
		}),
		inFlight: gauge("inflight_events", "Pods that are being decided on. Nothing that happens meanwhile is kept for later.", "event"),
		hints: hist("queueing_hint_execution_duration_seconds", "How long a plug-in took to tell whether something that happened may help a pod that it rejected.",
			exp(0.00001, 1.5, 20), "plugin", "event", "hint"),
		cache:    gauge("cache_size", "Nodes, pods and assumed pods that the scheduler knows.", "type"),
		entities: gauge("queued_entities", "What waits, by queue and by what it is: pods only.", "queue", "type"),
		comers:   counter("queue_incoming_entities_total", "What came to a queue, by what brought it and what it is: pods only.", "queue", "event", "type"),
		evaluations: counter("plugin_evaluation_total", "How often a plug-in was asked, about a pod or a node: what it has said before is not asked for again.",
			"plugin", "extension_point", "profile"),
		tellings: counter("preemption_goroutines_execution_total", "How often the victims of a pod were told to leave, by how it ended.", "result"),
		tellingTook: hist("preemption_goroutines_duration_seconds", "How long it took to tell all victims of a pod to leave.",
			exp(0.01, 2, 20), "result"),
		batches: counter("batch_attempts_total", "Attempts to place a pod, by whether they went on where an equal pod's ended: hint_used, no_hint.",
			"profile", "result"),
		batchEnds: counter("batch_cache_flushed_total", "Batches of equal pods that ended although pods waited, by what ended them.", "profile", "reason"),
	}
}

func (m *Metrics) all() []prometheus.Collector {
	return []prometheus.Collector{
		m.attempts, m.attemptTook, m.decided, m.sli, m.tries, m.pending, m.incoming, m.unschedulable, m.preemptions, m.victims, m.cache,
		m.points, m.plugins, m.events, m.goroutines, m.flushed, m.inFlight, m.hints,
		m.entities, m.comers, m.evaluations, m.tellings, m.tellingTook, m.batches, m.batchEnds,
	}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(c chan<- *prometheus.Desc) {
	for _, x := range m.all() {
		x.Describe(c)
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(c chan<- prometheus.Metric) {
	for _, x := range m.all() {
		x.Collect(c)
	}
}

// What ends a batch: the next pod differs; the batch is full; extenders are asked, whose answer comes later.
const (
	incompatible = "pod_incompatible"
	expired      = "expired"
	notBatchable = "pod_not_batchable"
)

// batch records a batch of so many pods; ended is "" when no pod was left.
func (m *Metrics) batch(profile string, pods int, ended string) {
	m.batches.WithLabelValues(profile, "no_hint").Inc()
	if pods > 1 {
		m.batches.WithLabelValues(profile, "hint_used").Add(float64(pods - 1))
	}
	if ended != "" {
		m.batchEnds.WithLabelValues(profile, ended).Inc()
	}
}

// Results of an attempt.
const (
	scheduled     = "scheduled"
	unschedulable = "unschedulable"
	failed        = "error"
)

func (m *Metrics) attempt(pod *v1.Pod, result string, took time.Duration) {
	m.attempts.WithLabelValues(result, pod.Spec.SchedulerName).Inc()
	m.attemptTook.WithLabelValues(result, pod.Spec.SchedulerName).Observe(took.Seconds())
}

func (m *Metrics) bound(i *queue.Item, waited time.Duration) {
	m.tries.Observe(float64(i.Attempts))
	m.sli.WithLabelValues(attempts(i.Attempts)).Observe(waited.Seconds())
	if i.Flushed {
		m.flushed.Inc()
	}
}

// attempts is a number of them as a label.
func attempts(n int) string {
	if n >= 15 {
		return "15+"
	}
	return strconv.Itoa(n)
}

// status is upstream's word for how an extension point ended.
func status(err error) string {
	if err != nil {
		return "Error"
	}
	return "Success"
}

// point records how long the plug-ins of an extension point took for a pod.
func (m *Metrics) point(name, status, profile string, took time.Duration) {
	m.points.WithLabelValues(name, status, profile).Observe(took.Seconds())
}

// plugin records an extension point that has only one plug-in.
func (m *Metrics) plugin(plugin, point, status, profile string, took time.Duration) {
	m.plugins.WithLabelValues(plugin, point, status).Observe(took.Seconds())
	m.point(point, status, profile, took)
}

// asked is the observer of how long a plug-in took for one answer about a node.
func (m *Metrics) asked(plugin, point, said string) prometheus.Observer {
	return m.plugins.WithLabelValues(plugin, point, said)
}

func verdict(r *framework.Rejection) string {
	switch {
	case r == nil:
		return "Success"
	case r.Unresolvable:
		return "UnschedulableAndUnresolvable"
	}
	return "Unschedulable"
}

// hinted records how long a plug-in took to say whether an event may help a pod.
func (m *Metrics) hinted(plugin, event string, helps bool, took time.Duration) {
	hint := "QueueSkip"
	if helps {
		hint = "Queue"
	}
	m.hints.WithLabelValues(plugin, event, hint).Observe(took.Seconds())
}

// took records how long an event took to be handled, under upstream's name for it.
func (m *Metrics) took(event string, since time.Time) {
	m.events.WithLabelValues(event).Observe(time.Since(since).Seconds())
}

func (m *Metrics) preempted(p plan.Preemption) {
	m.victims.Observe(float64(len(p.Victims)))
}

// told records how the eviction of a pod's victims ended, and how long it took.
func (m *Metrics) told(err error, took time.Duration) {
	result := "success"
	if err != nil {
		result = "error"
	}
	m.tellings.WithLabelValues(result).Inc()
	m.tellingTook.WithLabelValues(result).Observe(took.Seconds())
}

// evaluated records how often each plug-in of a profile was asked since the last call.
func (m *Metrics) evaluated(profile string, p *plan.Planner) {
	p.Asked(func(plugin, point string, times int) {
		m.evaluations.WithLabelValues(plugin, point, profile).Add(float64(times))
	})
}

// entity is the kind of what waits in the queue: pods, never groups of pods.
const entity = "pod"

// moved counts a pod that came to a queue, by upstream's name of the event.
func (m *Metrics) moved(to queue.State, event string) {
	if to != queue.InFlight {
		m.incoming.WithLabelValues(string(to), event).Inc()
		m.comers.WithLabelValues(string(to), event, entity).Inc()
	}
}

// look records the sizes of what the scheduler holds, and how many pods are being bound or have room made for them.
func (m *Metrics) look(q *queue.Queue, c *framework.Cluster, binding, preempting int) {
	m.goroutines.WithLabelValues("binding").Set(float64(binding))
	m.goroutines.WithLabelValues("preemption").Set(float64(preempting))
	for _, s := range []queue.State{queue.Active, queue.Backoff, queue.Unschedulable, queue.Gated} {
		m.pending.WithLabelValues(string(s)).Set(float64(q.Count(s)))
		m.entities.WithLabelValues(string(s), entity).Set(float64(q.Count(s)))
	}
	m.inFlight.WithLabelValues("PodPopped").Set(float64(q.Count(queue.InFlight)))
	pods, assumed := c.Count()
	m.cache.WithLabelValues("nodes").Set(float64(len(c.Nodes)))
	m.cache.WithLabelValues("pods").Set(float64(pods))
	m.cache.WithLabelValues("assumed_pods").Set(float64(assumed))
}

// rejectedBy counts an unschedulable pod for each plug-in that rejected it; n is 1, or -1 to take it back.
func (m *Metrics) rejectedBy(pod *v1.Pod, plugins []string, n float64) {
	for _, p := range plugins {
		m.unschedulable.WithLabelValues(p, pod.Spec.SchedulerName).Add(n)
	}
}
