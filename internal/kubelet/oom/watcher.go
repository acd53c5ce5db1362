package oom

import (
	"context"
	"fmt"
	"log/slog"

	v1 "k8s.io/api/core/v1"

	"podo.dev/podo/internal/host"
)

// Watcher tells users when the machine has run out of memory.
type Watcher struct {
	Host host.KernelLog
	// NodeEvent tells users about the node. It must not block.
	NodeEvent func(eventType, reason, message string)
	Log       *slog.Logger
}

// Run watches until ctx ends. Where the kernel's log cannot be read, as in a container, it says so once: pods run all the same.
func (w Watcher) Run(ctx context.Context, ready func()) error {
	var p Parser
	err := w.Host.FollowKernel(ctx, ready, func(line string) {
		k, ok := p.Line(line)
		switch {
		case !ok:
		case k.Limited == "":
			w.NodeEvent(v1.EventTypeWarning, "SystemOOM", fmt.Sprintf("System OOM encountered, victim process: %s, pid: %d", k.Process, k.PID))
		default:
			w.Log.Info("a process was killed at its cgroup's memory limit", "process", k.Process, "pid", k.PID, "limit", k.Limited, "cgroup", k.Victim)
		}
	})
	if err == nil {
		return nil
	}
	w.Log.Warn("the kernel's log cannot be read: nobody is told when the machine runs out of memory (SystemOOM)", "err", err)
	ready()
	<-ctx.Done()
	return nil
}
