package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
)

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
	m := &Metrics{starts: starts{pods: map[types.UID]*starting{}}, fresh: fresh{pods: map[types.UID]struct{}{}}}
	m.makeCalls()
	m.makeStarts()
	m.makeEnds()
	m.makeResizes()
	m.makeImages()
	m.makeVolumes()
	m.makeNode()
	m.cgroupVersion.Set(map[bool]float64{false: 1, true: 2}[v2])
	return m
}

// makeCalls makes the metrics of the runtime's calls and of asking it what it has.
func (m *Metrics) makeCalls() {
	m.operations = m.newCounts("kubelet_runtime_operations_total", "Cumulative number of runtime operations by operation type.", "operation_type")
	m.operationErrors = m.newCounts("kubelet_runtime_operations_errors_total", "Cumulative number of runtime operation errors by operation type.", "operation_type")
	m.operationTook = m.newTimesOf("kubelet_runtime_operations_duration_seconds", "Duration in seconds of runtime operations. Broken down by operation type.",
		prometheus.ExponentialBuckets(.005, 2.5, 14), "operation_type")
	m.sandboxTook = m.newTimesOf("kubelet_run_podsandbox_duration_seconds",
		"Duration in seconds of the run_podsandbox operations. Broken down by RuntimeClass.Handler.", prometheus.DefBuckets, "runtime_handler")
	m.sandboxErrors = m.newCounts("kubelet_run_podsandbox_errors_total",
		"Cumulative number of the run_podsandbox operation errors by RuntimeClass.Handler.", "runtime_handler")
	m.relistTook = m.newTimes("kubelet_pleg_relist_duration_seconds", "Duration in seconds for relisting pods in PLEG.", prometheus.DefBuckets)
	m.relistInterval = m.newTimes("kubelet_pleg_relist_interval_seconds", "Interval in seconds between relisting in PLEG.", prometheus.DefBuckets)
	m.inspected = m.newTimes("kubelet_pleg_pod_relist_duration_seconds", "Duration in seconds for relisting a single pod in PLEG.", prometheus.DefBuckets)
	m.relisted = m.newGauge("kubelet_pleg_last_seen_seconds", "Timestamp in seconds when PLEG was last seen active.")
}

// makeStarts makes the metrics of pods from their admission until they run.
func (m *Metrics) makeStarts() {
	m.rejected = m.newCounts("kubelet_admission_rejections_total", "Cumulative number pod admission rejections by the Kubelet.", "reason")
	m.admitted = m.newCounts("kubelet_pod_level_resources_admission_total", "Total number of pods admitted during Kubelet admission, categorized by "+
		"resource configuration mode (pod_and_container_level, pod_level, container_level, or empty for unconfigured/BestEffort) and QoS class.",
		"config_mode", "qos_class")
	m.orphans = m.newCount("kubelet_orphaned_runtime_pods_total", alpha+"Number of pods that have been detected in the container runtime without being "+
		"already known to the pod worker. This typically indicates the kubelet was restarted while a pod was force deleted in the API or in the "+
		"local configuration, which is unusual.")
	m.restarted = m.newCounts("kubelet_restarted_pods_total", "Number of pods that have been restarted because they were deleted and recreated with the same "+
		"UID while the kubelet was watching them (common for static pods, extremely uncommon for API pods)", "static")
	m.started = m.newCounts("kubelet_started_containers_total", "Cumulative number of containers started", "container_type")
	m.startErrors = m.newCounts("kubelet_started_containers_errors_total", "Cumulative number of errors when starting containers", "container_type", "code")
	m.terminated = m.newCounts("kubelet_terminated_containers_total", "Cumulative number of container terminations.", "container_type", "exit_code", "reason")
	m.startedPods = m.newCount("kubelet_started_pods_total", alpha+"Cumulative number of pods started")
	m.startedPodErrors = m.newCount("kubelet_started_pods_errors_total", alpha+"Cumulative number of errors when starting pods")
	m.startedUserPods = m.newCount("kubelet_started_user_namespaced_pods_total",
		alpha+"Cumulative number of pods with user namespaces started. This metric will only be collected on Linux.")
	m.startedUserPodErrors = m.newCount("kubelet_started_user_namespaced_pods_errors_total",
		alpha+"Cumulative number of errors when starting pods with user namespaces. This metric will only be collected on Linux.")
	m.containersPerPod = m.newTimes("kubelet_containers_per_pod_count", "The number of containers per pod.", prometheus.ExponentialBuckets(1, 2, 5))
	m.podStart = m.newTimes("kubelet_pod_start_duration_seconds",
		"Duration in seconds from kubelet seeing a pod for the first time to the pod starting to run", startBuckets)
	m.workerStart = m.newTimes("kubelet_pod_worker_start_duration_seconds",
		"Duration in seconds from kubelet seeing a pod to starting a worker.", prometheus.DefBuckets)
	m.worked = m.newTimesOf("kubelet_pod_worker_duration_seconds",
		"Duration in seconds to sync a single pod. Broken down by operation type: create, update, or sync", prometheus.DefBuckets, "operation_type")
	m.statusSync = m.newTimes("kubelet_pod_status_sync_duration_seconds", "Duration in seconds to sync a pod status update. Measures time from detection of "+
		"a change to pod status until the API is successfully updated for that pod, even if multiple intevening changes to pod status occur.", syncBuckets)
	const observed = "measured from pod creation timestamp to when all its containers are reported as started and observed via watch"
	m.startSLI = m.newTimesOf("kubelet_pod_start_sli_duration_seconds",
		"Duration in seconds to start a pod, excluding time to pull images and run init containers, "+observed, startBuckets)
	m.startTotal = m.newTimesOf("kubelet_pod_start_total_duration_seconds",
		"Duration in seconds to start a pod since creation, including time to pull images and run init containers, "+observed, startBuckets)
	m.firstNetwork = keep(m, prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "kubelet_first_network_pod_start_sli_duration_seconds",
		Help: "[INTERNAL] Duration in seconds to start the first network pod, excluding time to pull images and run init containers, " + observed,
	}))
	m.httpFallbacks = m.newCount("kubelet_lifecycle_handler_http_fallbacks_total",
		alpha+"The number of times lifecycle handlers successfully fell back to http from https.")
	m.sleepsCut = m.newCount("kubelet_sleep_action_terminated_early_total",
		alpha+"The number of times lifecycle sleep handler got terminated before it finishes")
}

// makeEnds makes the metrics of what ends pods.
func (m *Metrics) makeEnds() {
	m.evictions = m.newCounts("kubelet_evictions", "Cumulative number of pod evictions by eviction signal", "eviction_signal")
	m.statsAge = m.newTimesOf("kubelet_eviction_stats_age_seconds",
		"Time between when stats are collected, and when pod is evicted based on those stats by eviction signal", prometheus.DefBuckets, "eviction_signal")
	m.preemptions = m.newCounts("kubelet_preemptions", "Cumulative number of pod preemptions by preemption resource", "preemption_signal")
	m.shutdownStart = m.newGauge("kubelet_graceful_shutdown_start_time_seconds", "Last graceful shutdown start time since unix epoch in seconds")
	m.shutdownEnd = m.newGauge("kubelet_graceful_shutdown_end_time_seconds", "Last graceful shutdown end time since unix epoch in seconds")
}

func (m *Metrics) makeResizes() {
	m.resizes = m.newCounts("kubelet_container_requested_resizes_total", "Number of requested resizes, counted at the container level. Different resources "+
		"on the same container are counted separately. The 'requirement' label refers to 'memory' or 'limits'; the 'operation' label can be one of "+
		"'add', 'remove', 'increase' or 'decrease'.", "resource", "requirement", "operation")
	m.resizeTook = m.newTimesOf("kubelet_pod_resize_duration_milliseconds", "Duration in milliseconds to actuate a pod resize", resizeBuckets, "success")
	m.infeasible = m.newCounts("kubelet_pod_infeasible_resizes_total", "Number of infeasible resizes for pods.", "reason_detail")
	m.deferredAccepted = m.newCounts("kubelet_pod_deferred_accepted_resizes_total",
		"Cumulative number of resizes that were accepted after being deferred.", "retry_trigger")
	m.deferredFor = m.newTimesOf("kubelet_pod_deferred_resize_duration_seconds", "Duration in seconds that a pod resize remains deferred before completion. "+
		priority+"Label 'resolution' describes how the deferred resize was resolved (accepted, reverted, terminated).", deferredBuckets,
		"resolution", "priority_bucket")
}

func (m *Metrics) makeImages() {
	m.imagesCollected = m.newCounts("kubelet_image_garbage_collected_total",
		"Total number of images garbage collected by the kubelet, whether through disk usage or image age.", "reason")
	m.imagesAsked = m.newCounts("kubelet_image_manager_ensure_image_requests_total", "Number of ensure-image requests processed by the kubelet.",
		"pull_policy", "present_locally", "pull_required")
	m.imageChecks = m.newCounts("kubelet_imagemanager_image_mustpull_checks_total",
		"Counter for how many times kubelet checked whether credentials need to be re-verified to access an image", "result")
	m.imagePull = m.newTimesOf("kubelet_image_pull_duration_seconds", "Duration in seconds to pull an image.", pullBuckets, "image_size_in_bytes")
	m.imageVolumesRequested = m.newCount("kubelet_image_volume_requested_total", beta+"Number of requested image volumes.")
	m.imageVolumesMounted = m.newCount("kubelet_image_volume_mounted_succeed_total", beta+"Number of successful image volume mounts.")
	m.imageVolumesFailed = m.newCount("kubelet_image_volume_mounted_errors_total", beta+"Number of failed image volume mounts.")
}

func (m *Metrics) makeVolumes() {
	m.volumeTook = keep(m, prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "storage_operation_duration_seconds", Help: beta + "Storage operation duration", Buckets: storageBuckets,
	}, []string{"volume_plugin", "operation_name", "status", "migrated"}))
	m.sweptVolumes = m.newGauge("kubelet_orphan_pod_cleaned_volumes",
		"The total number of orphaned Pods whose volumes were cleaned in the last periodic sweep.")
	m.unsweptVolumes = m.newGauge("kubelet_orphan_pod_cleaned_volumes_errors",
		"The number of orphaned Pods whose volumes failed to be cleaned in the last periodic sweep.")
}

// makeNode makes the metrics of the node's own start and of its cgroups.
func (m *Metrics) makeNode() {
	m.node = nodeStart{
		began:            time.Now(),
		preKubelet:       m.newGauge("kubelet_node_startup_pre_kubelet_duration_seconds", "Duration in seconds of node startup before kubelet starts."),
		preRegistration:  m.newGauge("kubelet_node_startup_pre_registration_duration_seconds", "Duration in seconds of node startup before registration."),
		registration:     m.newGauge("kubelet_node_startup_registration_duration_seconds", "Duration in seconds of node startup during registration."),
		postRegistration: m.newGauge("kubelet_node_startup_post_registration_duration_seconds", "Duration in seconds of node startup after registration."),
		whole:            m.newGauge("kubelet_node_startup_duration_seconds", "Duration in seconds of node startup in total."),
	}
	m.cgroupTook = m.newTimesOf("kubelet_cgroup_manager_duration_seconds",
		"Duration in seconds for cgroup manager operations. Broken down by method.", prometheus.DefBuckets, "operation_type")
	m.cgroupVersion = m.newGauge("kubelet_cgroup_version", "cgroup version on the hosts.")
}

// newCount makes a counter whose help says how stable it is; the others are all ALPHA.
func (m *Metrics) newCount(name, help string) prometheus.Counter {
	return keep(m, prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help}))
}

func (m *Metrics) newCounts(name, help string, labels ...string) *prometheus.CounterVec {
	return keep(m, prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: alpha + help}, labels))
}

func (m *Metrics) newGauge(name, help string) prometheus.Gauge {
	return keep(m, prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: alpha + help}))
}

func (m *Metrics) newTimes(name, help string, buckets []float64) prometheus.Histogram {
	return keep(m, prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: alpha + help, Buckets: buckets}))
}

func (m *Metrics) newTimesOf(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return keep(m, prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: alpha + help, Buckets: buckets}, labels))
}

func keep[C prometheus.Collector](m *Metrics, c C) C {
	m.all = append(m.all, c)
	return c
}
