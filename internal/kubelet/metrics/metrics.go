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

	"podo.dev/podo/internal/kubelet/podmanager"
	"podo.dev/podo/internal/kubelet/worker"
)

// Metrics implements worker.Metrics and prometheus.Collector.
type Metrics struct {
	// Pods are the pods as their workers have them, Mirrors how many mirror pods there are; asked when somebody looks. Set before that.
	Pods    func() []worker.Snapshot
	Mirrors func() int
	Looks

	starts starts
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

var (
	startBuckets    = []float64{0.5, 1, 2, 3, 4, 5, 6, 8, 10, 20, 30, 45, 60, 120, 180, 240, 300, 360, 480, 600, 900, 1200, 1800, 2700, 3600}
	syncBuckets     = []float64{0.010, 0.050, 0.100, 0.500, 1, 5, 10, 20, 30, 45, 60}
	pullBuckets     = []float64{1, 5, 10, 20, 30, 60, 120, 180, 240, 300, 360, 480, 600, 900, 1200, 1800, 2700, 3600}
	resizeBuckets   = []float64{10, 50, 100, 500, 1000, 2000, 5000, 10000, 20000, 30000, 60000, 120000, 300000, 600000} // milliseconds
	storageBuckets  = []float64{.1, .25, .5, 1, 2.5, 5, 10, 15, 25, 50, 120, 300, 600}
	deferredBuckets = []float64{5, 10, 15, 20, 30, 45, 60, 90, 120, 150, 180, 300, 600, 1200, 1800, 3600}
)

const (
	alpha    = "[ALPHA] "
	beta     = "[BETA] "
	priority = "Label 'priority_bucket' classifies the pod priority (system-critical: >=2000000000, high: 100000..1999999999, " +
		"medium: 1..99999, normal: 0/default, low: -999..-1, very-low: <=-1000, unknown: nil pod). "
)

// New makes Metrics. v2 says which cgroups the machine has.
func New(v2 bool) *Metrics {
	m := &Metrics{starts: starts{pods: map[types.UID]*starting{}}}
	count := func(name, help string) prometheus.Counter {
		return keep(m, prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help}))
	}
	counts := func(name, help string, labels ...string) *prometheus.CounterVec {
		return keep(m, prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: alpha + help}, labels))
	}
	gauge := func(name, help string) prometheus.Gauge {
		return keep(m, prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: alpha + help}))
	}
	times := func(name, help string, buckets []float64) prometheus.Histogram {
		return keep(m, prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: alpha + help, Buckets: buckets}))
	}
	timesOf := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		return keep(m, prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: alpha + help, Buckets: buckets}, labels))
	}

	m.operations = counts("kubelet_runtime_operations_total", "Cumulative number of runtime operations by operation type.", "operation_type")
	m.operationErrors = counts("kubelet_runtime_operations_errors_total", "Cumulative number of runtime operation errors by operation type.", "operation_type")
	m.operationTook = timesOf("kubelet_runtime_operations_duration_seconds", "Duration in seconds of runtime operations. Broken down by operation type.",
		prometheus.ExponentialBuckets(.005, 2.5, 14), "operation_type")
	m.sandboxTook = timesOf("kubelet_run_podsandbox_duration_seconds",
		"Duration in seconds of the run_podsandbox operations. Broken down by RuntimeClass.Handler.", prometheus.DefBuckets, "runtime_handler")
	m.sandboxErrors = counts("kubelet_run_podsandbox_errors_total",
		"Cumulative number of the run_podsandbox operation errors by RuntimeClass.Handler.", "runtime_handler")

	m.started = counts("kubelet_started_containers_total", "Cumulative number of containers started", "container_type")
	m.startErrors = counts("kubelet_started_containers_errors_total", "Cumulative number of errors when starting containers", "container_type", "code")
	m.terminated = counts("kubelet_terminated_containers_total", "Cumulative number of container terminations.", "container_type", "exit_code", "reason")
	m.startedPods = count("kubelet_started_pods_total", alpha+"Cumulative number of pods started")
	m.startedPodErrors = count("kubelet_started_pods_errors_total", alpha+"Cumulative number of errors when starting pods")
	m.startedUserPods = count("kubelet_started_user_namespaced_pods_total",
		alpha+"Cumulative number of pods with user namespaces started. This metric will only be collected on Linux.")
	m.startedUserPodErrors = count("kubelet_started_user_namespaced_pods_errors_total",
		alpha+"Cumulative number of errors when starting pods with user namespaces. This metric will only be collected on Linux.")
	m.containersPerPod = times("kubelet_containers_per_pod_count", "The number of containers per pod.", prometheus.ExponentialBuckets(1, 2, 5))
	m.podStart = times("kubelet_pod_start_duration_seconds",
		"Duration in seconds from kubelet seeing a pod for the first time to the pod starting to run", startBuckets)
	m.workerStart = times("kubelet_pod_worker_start_duration_seconds",
		"Duration in seconds from kubelet seeing a pod to starting a worker.", prometheus.DefBuckets)
	m.worked = timesOf("kubelet_pod_worker_duration_seconds",
		"Duration in seconds to sync a single pod. Broken down by operation type: create, update, or sync", prometheus.DefBuckets, "operation_type")
	m.statusSync = times("kubelet_pod_status_sync_duration_seconds", "Duration in seconds to sync a pod status update. Measures time from detection of "+
		"a change to pod status until the API is successfully updated for that pod, even if multiple intevening changes to pod status occur.", syncBuckets)
	m.relistTook = times("kubelet_pleg_relist_duration_seconds", "Duration in seconds for relisting pods in PLEG.", prometheus.DefBuckets)
	m.relistInterval = times("kubelet_pleg_relist_interval_seconds", "Interval in seconds between relisting in PLEG.", prometheus.DefBuckets)
	m.inspected = times("kubelet_pleg_pod_relist_duration_seconds", "Duration in seconds for relisting a single pod in PLEG.", prometheus.DefBuckets)
	m.relisted = gauge("kubelet_pleg_last_seen_seconds", "Timestamp in seconds when PLEG was last seen active.")
	const observed = "measured from pod creation timestamp to when all its containers are reported as started and observed via watch"
	m.startSLI = timesOf("kubelet_pod_start_sli_duration_seconds",
		"Duration in seconds to start a pod, excluding time to pull images and run init containers, "+observed, startBuckets)
	m.startTotal = timesOf("kubelet_pod_start_total_duration_seconds",
		"Duration in seconds to start a pod since creation, including time to pull images and run init containers, "+observed, startBuckets)
	m.firstNetwork = keep(m, prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "kubelet_first_network_pod_start_sli_duration_seconds",
		Help: "[INTERNAL] Duration in seconds to start the first network pod, excluding time to pull images and run init containers, " + observed,
	}))
	m.rejected = counts("kubelet_admission_rejections_total", "Cumulative number pod admission rejections by the Kubelet.", "reason")
	m.admitted = counts("kubelet_pod_level_resources_admission_total", "Total number of pods admitted during Kubelet admission, categorized by "+
		"resource configuration mode (pod_and_container_level, pod_level, container_level, or empty for unconfigured/BestEffort) and QoS class.",
		"config_mode", "qos_class")
	m.orphans = count("kubelet_orphaned_runtime_pods_total", alpha+"Number of pods that have been detected in the container runtime without being "+
		"already known to the pod worker. This typically indicates the kubelet was restarted while a pod was force deleted in the API or in the "+
		"local configuration, which is unusual.")

	m.restarted = counts("kubelet_restarted_pods_total", "Number of pods that have been restarted because they were deleted and recreated with the same "+
		"UID while the kubelet was watching them (common for static pods, extremely uncommon for API pods)", "static")

	m.evictions = counts("kubelet_evictions", "Cumulative number of pod evictions by eviction signal", "eviction_signal")
	m.statsAge = timesOf("kubelet_eviction_stats_age_seconds",
		"Time between when stats are collected, and when pod is evicted based on those stats by eviction signal", prometheus.DefBuckets, "eviction_signal")
	m.preemptions = counts("kubelet_preemptions", "Cumulative number of pod preemptions by preemption resource", "preemption_signal")
	m.shutdownStart = gauge("kubelet_graceful_shutdown_start_time_seconds", "Last graceful shutdown start time since unix epoch in seconds")
	m.shutdownEnd = gauge("kubelet_graceful_shutdown_end_time_seconds", "Last graceful shutdown end time since unix epoch in seconds")

	m.resizes = counts("kubelet_container_requested_resizes_total", "Number of requested resizes, counted at the container level. Different resources "+
		"on the same container are counted separately. The 'requirement' label refers to 'memory' or 'limits'; the 'operation' label can be one of "+
		"'add', 'remove', 'increase' or 'decrease'.", "resource", "requirement", "operation")
	m.resizeTook = timesOf("kubelet_pod_resize_duration_milliseconds", "Duration in milliseconds to actuate a pod resize", resizeBuckets, "success")
	m.infeasible = counts("kubelet_pod_infeasible_resizes_total", "Number of infeasible resizes for pods.", "reason_detail")
	m.deferredAccepted = counts("kubelet_pod_deferred_accepted_resizes_total",
		"Cumulative number of resizes that were accepted after being deferred.", "retry_trigger")
	m.deferredFor = timesOf("kubelet_pod_deferred_resize_duration_seconds", "Duration in seconds that a pod resize remains deferred before completion. "+
		priority+"Label 'resolution' describes how the deferred resize was resolved (accepted, reverted, terminated).", deferredBuckets,
		"resolution", "priority_bucket")

	m.imagesCollected = counts("kubelet_image_garbage_collected_total",
		"Total number of images garbage collected by the kubelet, whether through disk usage or image age.", "reason")
	m.imagesAsked = counts("kubelet_image_manager_ensure_image_requests_total", "Number of ensure-image requests processed by the kubelet.",
		"pull_policy", "present_locally", "pull_required")
	m.imageChecks = counts("kubelet_imagemanager_image_mustpull_checks_total",
		"Counter for how many times kubelet checked whether credentials need to be re-verified to access an image", "result")
	m.imagePull = timesOf("kubelet_image_pull_duration_seconds", "Duration in seconds to pull an image.", pullBuckets, "image_size_in_bytes")
	m.httpFallbacks = count("kubelet_lifecycle_handler_http_fallbacks_total",
		alpha+"The number of times lifecycle handlers successfully fell back to http from https.")
	m.sleepsCut = count("kubelet_sleep_action_terminated_early_total",
		alpha+"The number of times lifecycle sleep handler got terminated before it finishes")
	m.imageVolumesRequested = count("kubelet_image_volume_requested_total", beta+"Number of requested image volumes.")
	m.imageVolumesMounted = count("kubelet_image_volume_mounted_succeed_total", beta+"Number of successful image volume mounts.")
	m.imageVolumesFailed = count("kubelet_image_volume_mounted_errors_total", beta+"Number of failed image volume mounts.")
	m.volumeTook = keep(m, prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "storage_operation_duration_seconds", Help: beta + "Storage operation duration", Buckets: storageBuckets,
	}, []string{"volume_plugin", "operation_name", "status", "migrated"}))
	m.sweptVolumes = gauge("kubelet_orphan_pod_cleaned_volumes",
		"The total number of orphaned Pods whose volumes were cleaned in the last periodic sweep.")
	m.unsweptVolumes = gauge("kubelet_orphan_pod_cleaned_volumes_errors",
		"The number of orphaned Pods whose volumes failed to be cleaned in the last periodic sweep.")
	m.node = nodeStart{
		began:            time.Now(),
		preKubelet:       gauge("kubelet_node_startup_pre_kubelet_duration_seconds", "Duration in seconds of node startup before kubelet starts."),
		preRegistration:  gauge("kubelet_node_startup_pre_registration_duration_seconds", "Duration in seconds of node startup before registration."),
		registration:     gauge("kubelet_node_startup_registration_duration_seconds", "Duration in seconds of node startup during registration."),
		postRegistration: gauge("kubelet_node_startup_post_registration_duration_seconds", "Duration in seconds of node startup after registration."),
		whole:            gauge("kubelet_node_startup_duration_seconds", "Duration in seconds of node startup in total."),
	}
	m.cgroupTook = timesOf("kubelet_cgroup_manager_duration_seconds",
		"Duration in seconds for cgroup manager operations. Broken down by method.", prometheus.DefBuckets, "operation_type")
	m.cgroupVersion = gauge("kubelet_cgroup_version", "cgroup version on the hosts.")
	m.cgroupVersion.Set(map[bool]float64{false: 1, true: 2}[v2])
	return m
}

func keep[C prometheus.Collector](m *Metrics, c C) C {
	m.all = append(m.all, c)
	return c
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
	m.restarted.WithLabelValues(map[bool]string{true: "true"}[podmanager.IsStatic(pod)]).Inc()
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
