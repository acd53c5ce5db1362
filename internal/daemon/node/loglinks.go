package node

import (
	"context"
	"log/slog"
	"path/filepath"

	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"podo.dev/podo/internal/cri"
	"podo.dev/podo/internal/kubelet/logs"
)

// linking is the runtime as the kubelet's modules see it: each container that they create gets a link to its log. A link that
// cannot be made concerns log collectors, not the container.
type linking struct {
	cri.Runtime
	links logs.Links
	log   *slog.Logger
}

func (k *run) linking() linking {
	return linking{k.c.Runtime, logs.Links{Dir: filepath.Join(filepath.Dir(k.c.Kubelet.PodLogsDir), "containers")}, k.log().of("logs")}
}

func (l linking) CreateContainer(ctx context.Context, sandbox string, c *runtimev1.ContainerConfig, pod *runtimev1.PodSandboxConfig) (string, error) {
	id, err := l.Runtime.CreateContainer(ctx, sandbox, c, pod)
	if err == nil && c.GetLogPath() != "" && pod.GetLogDirectory() != "" {
		meta := pod.GetMetadata()
		if err := l.links.Add(meta.GetName(), meta.GetNamespace(), c.GetMetadata().GetName(), id, filepath.Join(pod.LogDirectory, c.LogPath)); err != nil {
			l.log.Warn("a container's log cannot be linked for log collectors", "container", id, "err", err)
		}
	}
	return id, err
}

func (l linking) tend(ctx context.Context, containers []*runtimev1.Container) error {
	return l.links.Tend(ctx, l.Runtime, containers)
}

func (l linking) RemoveContainer(ctx context.Context, id string) error {
	err := l.Runtime.RemoveContainer(ctx, id)
	if err == nil {
		err = l.links.Remove(id)
	}
	return err
}
