package about

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// levels are upstream's promises about metrics whose help does not begin with one. Of all others it is ALPHA.
var levels = map[string]string{
	"apiserver_current_inflight_requests":                                      "STABLE",
	"apiserver_longrunning_requests":                                           "STABLE",
	"apiserver_request_duration_seconds":                                       "STABLE",
	"apiserver_request_total":                                                  "STABLE",
	"apiserver_requested_deprecated_apis":                                      "STABLE",
	"apiserver_response_sizes":                                                 "STABLE",
	"apiserver_watch_events_sizes":                                             "BETA",
	"apiserver_watch_events_total":                                             "BETA",
	"node_collector_evictions_total":                                           "STABLE",
	"running_managed_controllers":                                              "BETA",
	"scheduler_goroutines":                                                     "BETA",
	"scheduler_pending_pods":                                                   "STABLE",
	"scheduler_plugin_evaluation_total":                                        "BETA",
	"scheduler_pod_scheduling_attempts":                                        "STABLE",
	"scheduler_preemption_attempts_total":                                      "STABLE",
	"scheduler_preemption_victims":                                             "STABLE",
	"scheduler_queue_incoming_pods_total":                                      "STABLE",
	"scheduler_schedule_attempts_total":                                        "STABLE",
	"scheduler_unschedulable_pods":                                             "BETA",
	"workqueue_adds_total":                                                     "BETA",
	"workqueue_depth":                                                          "BETA",
	"workqueue_queue_duration_seconds":                                         "BETA",
	"workqueue_retries_total":                                                  "BETA",
	"workqueue_unfinished_work_seconds":                                        "BETA",
	"workqueue_work_duration_seconds":                                          "BETA",
	"job_controller_job_sync_duration_seconds":                                 "STABLE",
	"job_controller_job_syncs_total":                                           "STABLE",
	"job_controller_jobs_finished_total":                                       "STABLE",
	"job_controller_job_pods_finished_total":                                   "STABLE",
	"job_controller_pod_failures_handled_by_failure_policy_total":              "BETA",
	"job_controller_terminated_pods_tracking_finalizer_total":                  "BETA",
	"cronjob_controller_job_creation_skew_duration_seconds":                    "STABLE",
	"horizontal_pod_autoscaler_controller_metric_computation_duration_seconds": "BETA",
	"horizontal_pod_autoscaler_controller_metric_computation_total":            "BETA",
	"horizontal_pod_autoscaler_controller_reconciliation_duration_seconds":     "BETA",
	"horizontal_pod_autoscaler_controller_reconciliations_total":               "BETA",
	"scheduler_framework_extension_point_duration_seconds":                     "STABLE",
	"scheduler_plugin_execution_duration_seconds":                              "BETA",
	"scheduler_pod_scheduling_sli_duration_seconds":                            "BETA",
	"scheduler_scheduling_algorithm_duration_seconds":                          "BETA",
	"scheduler_scheduling_attempt_duration_seconds":                            "STABLE",
	"volume_operation_total_seconds":                                           "BETA",
	"workqueue_longest_running_processor_seconds":                              "BETA",
}

// level is what is promised about a metric, "" of one that is of no program's own but of its runtime, and the length of what its help says
// of that.
func level(name, help string) (level string, said int) {
	if text, ok := strings.CutPrefix(help, "["); ok {
		if text, _, ok = strings.Cut(text, "] "); ok && strings.ToUpper(text) == text {
			return text, len(text) + 3
		}
	}
	for _, of := range []string{"go_", "process_", "promhttp_"} {
		if strings.HasPrefix(name, of) {
			return "", 0
		}
	}
	if l := levels[name]; l != "" {
		return l, 0
	}
	return "ALPHA", 0
}

// Gatherer is what is gathered from all, with what is promised about each metric at the beginning of its help, as upstream has it.
func Gatherer(all ...prometheus.Gatherer) prometheus.Gatherer {
	return prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		families, err := prometheus.Gatherers(all).Gather()
		for _, f := range families {
			if l, said := level(f.GetName(), f.GetHelp()); l != "" && said == 0 {
				help := "[" + l + "] " + f.GetHelp()
				f.Help = &help
			}
		}
		return families, err
	})
}

// registered counts the metrics of a registry, those that have no value yet too. What comes and goes with a controller is not counted.
type registered struct{ r *prometheus.Registry }

var total = prometheus.NewDesc("registered_metrics_total", "[BETA] Metrics that there are, by what is promised about them.",
	[]string{"stability_level", "deprecated_version"}, nil)

// Describe implements prometheus.Collector.
func (registered) Describe(ch chan<- *prometheus.Desc) { ch <- total }

// Collect implements prometheus.Collector.
func (c registered) Collect(ch chan<- prometheus.Metric) {
	all := make(chan *prometheus.Desc)
	go func() {
		defer close(all)
		c.r.Describe(all)
	}()
	seen, count := map[string]bool{}, map[string]int{}
	for d := range all {
		name, help := words(d)
		if l, _ := level(name, help); l != "" && !seen[name] {
			seen[name] = true
			count[l]++
		}
	}
	for l, n := range count {
		ch <- prometheus.MustNewConstMetric(total, prometheus.CounterValue, float64(n), l, "")
	}
}

// words are the name and the help of a metric, which it gives away in its text alone.
func words(d *prometheus.Desc) (name, help string) {
	text := strings.TrimPrefix(d.String(), `Desc{fqName: "`)
	name, text, _ = strings.Cut(text, `", help: "`)
	return name, text
}
