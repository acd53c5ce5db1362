package fake

import (
	"context"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// ExecSync interprets cmd as a program of its own.
func (r *Runtime) ExecSync(ctx context.Context, id string, cmd []string, timeout time.Duration) (stdout, stderr []byte, exitCode int32, err error) {
	if err := r.about(ctx, "ExecSync", id, func(c *container) error {
		if c.state != runtimev1.ContainerState_CONTAINER_RUNNING {
			return status.Errorf(codes.Unknown, "container is in %s state", c.state)
		}
		return nil
	}); err != nil {
		return nil, nil, 0, err
	}
	prog, err := parse(cmd)
	if err != nil {
		return nil, nil, 0, status.Error(codes.Unknown, err.Error())
	}
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	var out strings.Builder
	code := prog.run(func(line, _ string) { fmt.Fprintln(&out, line) }, nil, ctx.Done())
	if err := ctx.Err(); err != nil {
		return nil, nil, 0, status.FromContextError(err).Err()
	}
	return []byte(out.String()), nil, code, nil
}

// Exec returns an address that nothing serves.
func (r *Runtime) Exec(ctx context.Context, req *runtimev1.ExecRequest) (string, error) {
	return r.stream(ctx, "Exec", req.GetContainerId(), func() bool { return r.containers[req.GetContainerId()] != nil })
}

// Attach returns an address that nothing serves.
func (r *Runtime) Attach(ctx context.Context, req *runtimev1.AttachRequest) (string, error) {
	return r.stream(ctx, "Attach", req.GetContainerId(), func() bool { return r.containers[req.GetContainerId()] != nil })
}

// ContainerStats are zeros with a name.
func (r *Runtime) ContainerStats(ctx context.Context, id string) (*runtimev1.ContainerStats, error) {
	var out *runtimev1.ContainerStats
	err := r.about(ctx, "ContainerStats", id, func(c *container) error {
		out = stats(c)
		return nil
	})
	return out, err
}

// ListContainerStats are those of the running containers.
func (r *Runtime) ListContainerStats(ctx context.Context, f *runtimev1.ContainerStatsFilter) ([]*runtimev1.ContainerStats, error) {
	after, err := r.enter(ctx, "ListContainerStats", "")
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []*runtimev1.ContainerStats
	for _, id := range sortedKeys(r.containers) {
		c := r.containers[id]
		if c.state == runtimev1.ContainerState_CONTAINER_RUNNING && (f.GetId() == "" || f.GetId() == id) && selects(f.GetLabelSelector(), c.config.GetLabels()) {
			out = append(out, stats(c))
		}
	}
	return out, after(nil)
}

func stats(c *container) *runtimev1.ContainerStats {
	now := time.Now().UnixNano()
	return &runtimev1.ContainerStats{
		Attributes: &runtimev1.ContainerAttributes{Id: c.id, Metadata: c.config.GetMetadata(), Labels: c.config.GetLabels()},
		Cpu:        &runtimev1.CpuUsage{Timestamp: now, UsageCoreNanoSeconds: &runtimev1.UInt64Value{}},
		Memory:     &runtimev1.MemoryUsage{Timestamp: now, WorkingSetBytes: &runtimev1.UInt64Value{}},
	}
}
