package node

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"podo.dev/podo/internal/kubelet/localvolume"
	nodestatus "podo.dev/podo/internal/kubelet/node"
	kubeletserver "podo.dev/podo/internal/kubelet/server"
	"podo.dev/podo/internal/kubelet/stats"
	"podo.dev/podo/internal/kubelet/volume"
)

// buildServer makes the kubelet's own server, with its statistics.
func (k *run) buildServer() error {
	c := k.c.Kubelet
	facts, err := nodestatus.ReadFacts(k.c.Host)
	if err != nil {
		return err
	}
	usage, err := stats.New(stats.Config{
		Node: k.c.Name, Runtime: k.c.Runtime, Files: k.c.Host, DataDir: k.c.DataDir, Pod: k.kubelet.Pod,
		Volumes: func(uid types.UID) string {
			return filepath.Join(volume.Layout{Root: k.c.Dir}.Pod(uid), "volumes")
		},
		Logs: k.logsOf,
		Pods: k.podsUsage, Cgroup: k.cgroups.Figures,
		Machine: stats.Machine{MachineID: facts.MachineID, SystemUUID: facts.SystemUUID, BootID: facts.BootID},
	})
	if err != nil {
		return err
	}
	if k.c.Stats != nil {
		k.c.Stats.Store(usage)
	}
	checkpoints := filepath.Join(k.c.Dir, "checkpoints")
	if err := os.MkdirAll(checkpoints, 0o700); err != nil {
		return err
	}
	if c.EnableContentionProfiling {
		runtime.SetBlockProfileRate(1)
	}
	k.server, err = kubeletserver.New(kubeletserver.Config{
		Addr:       net.JoinHostPort(c.Address, strconv.Itoa(k.c.Port)),
		HealthAddr: portAt(c.HealthzBindAddress, c.HealthzPort),
		ReadOnly:   portAt(c.Address, &c.ReadOnlyPort),
		TLS:        k.cluster.Serving,
		Pods:       k.kubelet, Runtime: k.c.Runtime, Log: k.log().of("kubelet-server"), Authenticate: k.cluster.Authenticate,
		Authorize: k.cluster.Authorize,
		Event:     k.event,
		Ended:     kubeletserver.EndedBy(k.c.Runtime, &k.bell, 30*time.Second),
		Healthy:   k.kubelet.Healthy,
		Configz:   func() any { return c },
		Flags:     func() map[string]string { return k.c.Flags },
		Granted:   k.granted,
		Version:   k.c.Version,
		PodLogs:   c.PodLogsDir, Checkpoints: checkpoints, LocalVolumes: k.localFolders(),
		Debugging: kubeletserver.Debugging{
			Off: !*c.EnableDebuggingHandlers, NoLogs: !*c.EnableSystemLogHandler, NoProfiling: !*c.EnableProfilingHandler,
			NoVerbosity: !*c.EnableDebugFlagsHandler, SetVerbosity: k.c.SetVerbosity,
		},
		Metrics: append(k.metrics(), usage.Claims(k.kubelet.Pods)),
		Summary: usage.ServeSummary,
		Extra: map[string]http.Handler{
			"/metrics/resource": usage.Resource(),
			"/metrics/cadvisor": usage.Containers(),
			"/metrics/probes":   k.probes.Metrics(),
		},
	})
	return err
}

// localFolders are the volumes of this node's own.
func (k *run) localFolders() localvolume.Folders {
	return localvolume.Folders{
		Dir: filepath.Join(k.c.DataDir, "volumes"), Mounts: func(name string) []string { return volume.Layout{Root: k.c.Dir}.LocalMounts(name) },
	}
}

// granted are the pods with the resources that they were granted.
func (k *run) granted() []*v1.Pod {
	var out []*v1.Pod
	for _, s := range k.kubelet.Workers() {
		if s.Given != nil {
			out = append(out, s.Given)
		}
	}
	return out
}

// podsUsage is the cpu time that all pods together have used, in nanoseconds, and their memory.
func (k *run) podsUsage() (cpu, memory uint64, ok bool) {
	cpu, cpuOK := k.cgroups.PodsCPU()
	used, _, ok := k.cgroups.PodsMemory()
	return cpu, uint64(used), ok && cpuOK //nolint:gosec // never negative
}

// portAt is the address of a configured port; "" where there is none.
func portAt(address string, port *int32) string {
	if port == nil || *port <= 0 {
		return ""
	}
	return net.JoinHostPort(address, strconv.Itoa(int(*port)))
}
