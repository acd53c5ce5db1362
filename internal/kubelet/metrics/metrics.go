// Package metrics counts what happens on the node, under upstream's names. Nothing is counted in two places: what becomes of pods
// is read from the transitions of their states, how many there are of each kind is asked at each scrape, and only what neither
// tells has a method of its own.
package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"podo.dev/podo/internal/kubelet/worker"
	"podo.dev/podo/internal/podlife"
)

// Metrics implements worker.Metrics and prometheus.Collector.
type Metrics struct {
	// Pods are the pods as their workers have them, Mirrors how many mirror pods there are; asked when somebody looks. Set before that.
	Pods    func() []worker.Snapshot
	Mirrors func() int
	Looks

	starts starts
	fresh  fresh
	all    []prometheus.Collector

	operations, operationErrors, sandboxErrors                           *prometheus.CounterVec
	operationTook, sandboxTook                                           *prometheus.HistogramVec
	started, startErrors, terminated, rejected                           *prometheus.CounterVec
	startedPods, startedPodErrors, startedUserPods, startedUserPodErrors prometheus.Counter
	containersPerPod, podStart, workerStart, statusSync                  prometheus.Histogram
	worked, statsAge                                                     *prometheus.HistogramVec
	relistTook, relistInterval                                           prometheus.Histogram
	relisted                                                             prometheus.Gauge
	startSLI, startTotal                                                 *prometheus.HistogramVec
	firstNetwork                                                         prometheus.Gauge
	orphans                                                              prometheus.Counter
	restarted, evictions, preemptions                                    *prometheus.CounterVec
	shutdownStart, shutdownEnd                                           prometheus.Gauge
	resizes, infeasible, deferredAccepted                                *prometheus.CounterVec
	resizeTook, deferredFor                                              *prometheus.HistogramVec
	imagesCollected                                                      *prometheus.CounterVec
	imagePull                                                            *prometheus.HistogramVec
	httpFallbacks, sleepsCut                                             prometheus.Counter
	imageVolumesRequested, imageVolumesMounted, imageVolumesFailed       prometheus.Counter
	cgroupVersion, sweptVolumes, unsweptVolumes                          prometheus.Gauge
	inspected                                                            prometheus.Histogram
	volumeTook, cgroupTook                                               *prometheus.HistogramVec
	imagesAsked, imageChecks, admitted                                   *prometheus.CounterVec
	node                                                                 nodeStart
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(out chan<- *prometheus.Desc) {
	for _, c := range m.all {
		c.Describe(out)
	}
	for _, g := range append(gauges, looks...) {
		out <- g
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(out chan<- prometheus.Metric) {
	for _, c := range m.all {
		c.Collect(out)
	}
	m.count(out)
	m.look(out)
}

// Preempted counts a pod that ends so that a critical one gets what it lacks most.
func (m *Metrics) Preempted(lacks string) { m.preemptions.WithLabelValues(lacks).Inc() }

// Evicted counts an eviction by the signal that made it necessary.
func (m *Metrics) Evicted(signal string) { m.evictions.WithLabelValues(signal).Inc() }

// ShutdownBegan and ShutdownEnded are about the last shutdown of the machine that waited for pods.
func (m *Metrics) ShutdownBegan(at time.Time) {
	m.shutdownStart.Set(seconds(at))
	m.shutdownEnd.Set(0)
}

// ShutdownEnded says that the shutdown need not wait any more.
func (m *Metrics) ShutdownEnded(at time.Time) { m.shutdownEnd.Set(seconds(at)) }

func seconds(t time.Time) float64 { return float64(t.UnixNano()) / 1e9 }

// ResizeAccepted counts a resize that there was no room for until something happened.
func (m *Metrics) ResizeAccepted(trigger string) { m.deferredAccepted.WithLabelValues(trigger).Inc() }

// ResizeInfeasible counts a verdict that no freed resource changes.
func (m *Metrics) ResizeInfeasible(detail string) { m.infeasible.WithLabelValues(detail).Inc() }

// ResizeTried counts one attempt to change what runs.
func (m *Metrics) ResizeTried(took time.Duration, err error) {
	success := "true"
	if err != nil {
		success = "false"
	}
	m.resizeTook.WithLabelValues(success).Observe(float64(took.Milliseconds()))
}

// HTTPFallback counts a hook that was heard over plain HTTP although its handler says HTTPS.
func (m *Metrics) HTTPFallback() { m.httpFallbacks.Inc() }

// SleepCut counts a sleep hook that did not come to its end.
func (m *Metrics) SleepCut() { m.sleepsCut.Inc() }

// Restarted implements worker.Metrics.
func (m *Metrics) Restarted(pod *v1.Pod) {
	m.restarted.WithLabelValues(map[bool]string{true: "true"}[podlife.Static(pod)]).Inc()
}

// Worked implements worker.Metrics.
func (m *Metrics) Worked(on worker.Operation, took time.Duration) {
	m.worked.WithLabelValues(string(on)).Observe(took.Seconds())
}

// StatusWritten counts a status that is in the API, so long after it changed.
func (m *Metrics) StatusWritten(after time.Duration) { m.statusSync.Observe(after.Seconds()) }

// Relisted counts a list of all that the runtime has, and the time since the one before it began; 0 when there was none.
func (m *Metrics) Relisted(began time.Time, took, since time.Duration) {
	m.relistTook.Observe(took.Seconds())
	if since > 0 {
		m.relistInterval.Observe(since.Seconds())
	}
	m.relisted.Set(float64(began.Unix()))
}

// Inspected counts how long it took to ask the runtime for one pod.
func (m *Metrics) Inspected(took time.Duration) { m.inspected.Observe(took.Seconds()) }

// Shortage records the age of the figures for which a pod was evicted.
func (m *Metrics) Shortage(signal string, age time.Duration) {
	m.statsAge.WithLabelValues(signal).Observe(age.Seconds())
}

// Swept records how many pods nobody knew that still had volumes, at the last look, and how many of those were removed.
func (m *Metrics) Swept(removed, failed int) {
	m.sweptVolumes.Set(float64(removed))
	m.unsweptVolumes.Set(float64(failed))
}

// Orphan counts a pod that runs and that nobody knows.
func (m *Metrics) Orphan() { m.orphans.Inc() }

// Taken counts a pod that is new to the kubelet, which saw it at a moment.
func (m *Metrics) Taken(pod *v1.Pod, seen time.Time) {
	m.containersPerPod.Observe(float64(len(pod.Spec.Containers)))
	m.workerStart.Observe(time.Since(seen).Seconds())
	m.starts.begin(pod, seen)
}

// starts are the pods that have not started yet.
type starts struct {
	mu      sync.Mutex
	pods    map[types.UID]*starting
	network bool // a pod with a network of its own has started
}

// starting is one of them, with the time that does not count as the node's.
type starting struct {
	seen     time.Time
	excluded time.Duration
	since    time.Time // when what is excluded began; zero while nothing is
}
