package metrics

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"

	"podo.dev/podo/internal/kubelet/worker"
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
	c := newCensus()
	for _, p := range m.Pods() {
		c.add(&p)
	}
	c.tell(out)
	if m.Mirrors != nil {
		tell(out, mirrorPods, float64(m.Mirrors()))
	}
}

// census is how many pods, containers and resizes there are of each kind. Kinds without any are told, too, but for resizes.
type census struct {
	working         map[work]float64
	desired, active map[string]float64 // by whether they are static: "true" or ""
	containers      map[string]float64 // by state
	pending         map[[2]string]float64
	sandboxes       float64
	ephemeral       float64
	resizing        float64
}

// work is what a pod's worker is doing, for a pod from where.
type work struct{ life, config, static string }

func newCensus() *census {
	c := &census{
		working: map[work]float64{},
		desired: map[string]float64{"": 0, "true": 0}, active: map[string]float64{"": 0, "true": 0},
		containers: map[string]float64{"running": 0, "exited": 0, "created": 0},
		pending:    map[[2]string]float64{},
	}
	for _, life := range []string{"sync", "terminating", "terminated"} {
		for _, config := range []string{"desired", "orphan"} {
			c.working[work{life, config, ""}], c.working[work{life, config, "true"}] = 0, 0
		}
		c.working[work{life, "runtime_only", "unknown"}] = 0
	}
	return c
}

func (c *census) add(p *worker.Snapshot) {
	w := work{life(p.Stage), "desired", ""}
	if podlife.Static(p.Pod) {
		w.static = "true"
	}
	switch {
	case p.Removed && p.Pod.ResourceVersion == "" && w.static == "":
		w.config, w.static = "runtime_only", "unknown"
	case p.Removed:
		w.config = "orphan"
	default:
		c.desired[w.static]++
	}
	c.working[w]++
	if p.Stage > podlife.Admitting && p.Stage < podlife.Releasing {
		c.active[w.static]++
	}
	status := p.Status()
	if status.PodIP != "" && p.Stage < podlife.Releasing {
		c.sandboxes++
	}
	c.ephemeral += float64(len(p.Pod.Spec.EphemeralContainers))
	for _, list := range [][]v1.ContainerStatus{status.InitContainerStatuses, status.ContainerStatuses, status.EphemeralContainerStatuses} {
		for i := range list {
			switch s := list[i].State; {
			case s.Running != nil:
				c.containers["running"]++
			case s.Terminated != nil:
				c.containers["exited"]++
			case list[i].ContainerID != "":
				c.containers["created"]++
			}
		}
	}
	for i := range status.Conditions {
		switch status.Conditions[i].Type {
		case v1.PodResizePending:
			c.pending[[2]string{strings.ToLower(status.Conditions[i].Reason), bucket(p.Pod)}]++
		case v1.PodResizeInProgress:
			c.resizing++
		}
	}
}

func (c *census) tell(out chan<- prometheus.Metric) {
	tell(out, runningPods, c.sandboxes)
	for state, n := range c.containers {
		tell(out, runningContainers, n, state)
	}
	for static, n := range c.desired {
		tell(out, desiredPods, n, static)
		tell(out, activePods, c.active[static], static)
	}
	for w, n := range c.working {
		tell(out, workingPods, n, w.life, w.config, w.static)
	}
	tell(out, ephemerals, c.ephemeral)
	for k, n := range c.pending {
		tell(out, pendingResizes, n, k[0], k[1])
	}
	tell(out, inProgress, c.resizing)
}

func tell(out chan<- prometheus.Metric, d *prometheus.Desc, n float64, labels ...string) {
	out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, n, labels...)
}
