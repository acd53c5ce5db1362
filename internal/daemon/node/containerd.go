package node

import (
	"log/slog"

	"podo.dev/podo/internal/cri/containerd"
	"podo.dev/podo/internal/runtime"
	"podo.dev/podo/internal/runtime/payload"
)

// Containerd is the embedded containerd of a data directory.
func Containerd(dataDir string, systemd bool, network runtime.Network, log *slog.Logger) (*runtime.Runtime, error) {
	carried, err := payload.Embedded()
	if err != nil {
		return nil, err
	}
	return runtime.New(runtime.Config{
		DataDir:  dataDir,
		PodCIDRs: network.Pods, ClusterCIDRs: network.Cluster, Redirects: network.Redirects,
		SystemdCgroup: systemd,
		Payload:       carried,
		Connect:       func(socket string) (runtime.Client, error) { return containerd.New("unix://" + socket) },
		Log:           log,
	})
}
