package daemon

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	kubeletserver "podo.dev/podo/internal/kubelet/server"
	"podo.dev/podo/internal/kubelet/stats"
	"podo.dev/podo/internal/kubelet/volume"
)

// buildServer makes the kubelet's own server, with the statistics that it tells.
func (k *kubeletRun) buildServer() error {
	p, c := k.p, k.p.node.config
	usage, err := stats.New(stats.Config{
		Node: p.cfg.NodeName, Runtime: p.node.runtime, Files: p.node.host, DataDir: p.cfg.DataDir, Pod: k.kubelet.Pod,
		Volumes: func(uid types.UID) string {
			return filepath.Join(volume.Layout{Root: p.dirs.Kubelet()}.Pod(uid), "volumes")
		},
		Logs: func(namespace, name string, uid types.UID) string {
			return filepath.Join(c.PodLogsDir, namespace+"_"+name+"_"+string(uid))
		},
		Pods: k.podsUsage,
	})
	if err != nil {
		return err
	}
	checkpoints := filepath.Join(p.dirs.Kubelet(), "checkpoints")
	if err := os.MkdirAll(checkpoints, 0o700); err != nil {
		return err
	}
	if c.EnableContentionProfiling {
		runtime.SetBlockProfileRate(1)
	}
	k.server, err = kubeletserver.New(kubeletserver.Config{
		Addr:       net.JoinHostPort(p.cfg.NodeIP, strconv.Itoa(p.cfg.KubeletPort)),
		HealthAddr: portAt(c.HealthzBindAddress, c.HealthzPort),
		ReadOnly:   portAt(p.cfg.NodeIP, &c.ReadOnlyPort),
		TLS:        k.cluster.serving,
		Pods:       k.kubelet, Runtime: p.node.runtime, Log: k.log().of("kubelet-server"), Authenticate: k.cluster.authenticate,
		Authorize: k.cluster.authorize,
		Ended:     kubeletserver.EndedBy(p.node.runtime, &k.bell, 30*time.Second),
		Healthy:   k.kubelet.Healthy,
		Configz:   func() any { return c },
		Flags:     func() map[string]string { return p.cfg.Flags },
		Granted:   k.granted,
		Version:   kubernetesVersion,
		PodLogs:   c.PodLogsDir, Checkpoints: checkpoints,
		Debugging: kubeletserver.Debugging{
			Off: !*c.EnableDebuggingHandlers, NoLogs: !*c.EnableSystemLogHandler, NoProfiling: !*c.EnableProfilingHandler,
			NoVerbosity: !*c.EnableDebugFlagsHandler, SetVerbosity: p.setVerbosity,
		},
		Metrics: k.metrics(),
		Extra: map[string]http.Handler{
			"/stats/summary":    http.HandlerFunc(usage.ServeSummary),
			"/metrics/resource": usage.Resource(),
			"/metrics/cadvisor": usage.Containers(),
			"/metrics/probes":   k.probes.Metrics(),
		},
	})
	return err
}

// granted are the pods with the resources that they were granted.
func (k *kubeletRun) granted() []*v1.Pod {
	var out []*v1.Pod
	for _, s := range k.kubelet.Workers() {
		if s.Given != nil {
			out = append(out, s.Given)
		}
	}
	return out
}

// podsUsage is what all pods together use of the processors, in nanoseconds, and of the memory.
func (k *kubeletRun) podsUsage() (cpu, memory uint64, ok bool) {
	cpu, cpuOK := k.cgroups.PodsCPU()
	used, _, ok := k.cgroups.PodsMemory()
	return cpu, uint64(used), ok && cpuOK //nolint:gosec // never negative
}

// portAt is where a port of the configuration listens; "" where there is none.
func portAt(address string, port *int32) string {
	if port == nil || *port <= 0 {
		return ""
	}
	return net.JoinHostPort(address, strconv.Itoa(int(*port)))
}

// setVerbosity changes what is logged from now on; a restart begins with the flag's.
func (p *process) setVerbosity(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return fmt.Errorf("%q is no number of 0 or more", text)
	}
	p.cfg.level.Set(slog.Level(-n))
	return nil
}

// metrics are the kubelet's own beyond its server's.
func (k *kubeletRun) metrics() []prometheus.Collector {
	name := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "kubelet_node_name", Help: "[ALPHA] The node's name. The count is always 1.", ConstLabels: prometheus.Labels{"node": k.p.cfg.NodeName},
	}, func() float64 { return 1 })
	pods := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "kubelet_running_pods", Help: "[ALPHA] Number of pods that have a running pod sandbox",
	}, func() float64 {
		n := 0
		for _, p := range k.kubelet.Pods() {
			if p.Status.PodIP != "" || p.Status.Phase == "Running" {
				n++
			}
		}
		return float64(n)
	})
	return append([]prometheus.Collector{name, pods, containerStates{k}}, k.cluster.metrics...)
}

// containerStates counts the containers by their state, as the pods' statuses tell it.
type containerStates struct{ k *kubeletRun }

var runningContainers = prometheus.NewDesc("kubelet_running_containers", "[ALPHA] Number of containers currently running", []string{"container_state"}, nil)

func (containerStates) Describe(out chan<- *prometheus.Desc) { out <- runningContainers }

func (c containerStates) Collect(out chan<- prometheus.Metric) {
	n := map[string]float64{"running": 0, "exited": 0, "created": 0}
	for _, p := range c.k.kubelet.Pods() {
		for _, list := range [][]v1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses, p.Status.EphemeralContainerStatuses} {
			for i := range list {
				switch s := list[i].State; {
				case s.Running != nil:
					n["running"]++
				case s.Terminated != nil:
					n["exited"]++
				case list[i].ContainerID != "":
					n["created"]++
				}
			}
		}
	}
	for state, count := range n {
		out <- prometheus.MustNewConstMetric(runningContainers, prometheus.GaugeValue, count, state)
	}
}
