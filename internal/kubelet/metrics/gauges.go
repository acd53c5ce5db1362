package metrics

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"

	"podo.dev/podo/internal/kubelet/podmanager"
	"podo.dev/podo/internal/podlife"
)

// What is counted when somebody looks.
var (
	runningPods       = prometheus.NewDesc("kubelet_running_pods", alpha+"Number of pods that have a running pod sandbox", nil, nil)
	runningContainers = prometheus.NewDesc("kubelet_running_containers", alpha+"Number of containers currently running", []string{"container_state"}, nil)
	desiredPods       = prometheus.NewDesc("kubelet_desired_pods",
		alpha+"The number of pods the kubelet is being instructed to run. static is true if the pod is not from the apiserver.", []string{"static"}, nil)
	activePods = prometheus.NewDesc("kubelet_active_pods", alpha+"The number of pods the kubelet considers active and which are being considered "+
		"when admitting new pods. static is true if the pod is not from the apiserver.", []string{"static"}, nil)
	mirrorPods = prometheus.NewDesc("kubelet_mirror_pods",
		alpha+"The number of mirror pods the kubelet will try to create (one per admitted static pod)", nil, nil)
	workingPods = prometheus.NewDesc("kubelet_working_pods", alpha+"Number of pods the kubelet is actually running, broken down by lifecycle phase, "+
		"whether the pod is desired, orphaned, or runtime only (also orphaned), and whether the pod is static. An orphaned pod has been removed from "+
		"local configuration or force deleted in the API and consumes resources that are not otherwise visible.",
		[]string{"lifecycle", "config", "static"}, nil)
	ephemerals = prometheus.NewDesc("kubelet_managed_ephemeral_containers",
		alpha+"Current number of ephemeral containers in pods managed by this kubelet.", nil, nil)
	pendingResizes = prometheus.NewDesc("kubelet_pod_pending_resizes",
		alpha+"Number of pending resizes for pods. "+priority+"Label 'reason' describes the state (deferred, infeasible).",
		[]string{"reason", "priority_bucket"}, nil)
	inProgress = prometheus.NewDesc("kubelet_pod_in_progress_resizes", alpha+"Number of in-progress resizes for pods.", nil, nil)

	gauges = []*prometheus.Desc{
		runningPods, runningContainers, desiredPods, activePods, mirrorPods, workingPods, ephemerals, pendingResizes, inProgress,
	}
)

// life is upstream's name for the state of a pod's worker.
func life(s podlife.Stage) string {
	switch {
	case s < podlife.Stopping:
		return "sync"
	case s < podlife.Releasing:
		return "terminating"
	}
	return "terminated"
}

// count tells how many pods there are of each kind.
func (m *Metrics) count(out chan<- prometheus.Metric) {
	if m.Pods == nil {
		return
	}
	type work struct{ life, config, static string }
	working := map[work]float64{}
	for _, l := range []string{"sync", "terminating", "terminated"} {
		for _, c := range []string{"desired", "orphan"} {
			for _, s := range []string{"", "true"} {
				working[work{l, c, s}] = 0
			}
		}
		working[work{l, "runtime_only", "unknown"}] = 0
	}
	desired, active := map[string]float64{"": 0, "true": 0}, map[string]float64{"": 0, "true": 0}
	states := map[string]float64{"running": 0, "exited": 0, "created": 0}
	pending := map[[2]string]float64{}
	var sandboxes, resizing, debugging float64
	for _, p := range m.Pods() {
		w := work{life(p.Stage), "desired", ""}
		if podmanager.IsStatic(p.Pod) {
			w.static = "true"
		}
		switch {
		case p.Removed && p.Pod.ResourceVersion == "" && w.static == "":
			w.config, w.static = "runtime_only", "unknown"
		case p.Removed:
			w.config = "orphan"
		default:
			desired[w.static]++
		}
		working[w]++
		if p.Stage > podlife.Admitting && p.Stage < podlife.Releasing {
			active[w.static]++
		}
		st := p.Status()
		if st.PodIP != "" && p.Stage < podlife.Releasing {
			sandboxes++
		}
		debugging += float64(len(p.Pod.Spec.EphemeralContainers))
		for _, list := range [][]v1.ContainerStatus{st.InitContainerStatuses, st.ContainerStatuses, st.EphemeralContainerStatuses} {
			for i := range list {
				switch s := list[i].State; {
				case s.Running != nil:
					states["running"]++
				case s.Terminated != nil:
					states["exited"]++
				case list[i].ContainerID != "":
					states["created"]++
				}
			}
		}
		for _, c := range st.Conditions {
			switch c.Type {
			case v1.PodResizePending:
				pending[[2]string{strings.ToLower(c.Reason), bucket(p.Pod)}]++
			case v1.PodResizeInProgress:
				resizing++
			}
		}
	}
	tell := func(d *prometheus.Desc, n float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, n, labels...)
	}
	tell(runningPods, sandboxes)
	for state, n := range states {
		tell(runningContainers, n, state)
	}
	for static, n := range desired {
		tell(desiredPods, n, static)
		tell(activePods, active[static], static)
	}
	if m.Mirrors != nil {
		tell(mirrorPods, float64(m.Mirrors()))
	}
	for w, n := range working {
		tell(workingPods, n, w.life, w.config, w.static)
	}
	tell(ephemerals, debugging)
	for k, n := range pending {
		tell(pendingResizes, n, k[0], k[1])
	}
	tell(inProgress, resizing)
}
