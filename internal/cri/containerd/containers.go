package containerd

import (
	"context"
	"time"

	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// CreateContainer implements the port.
func (c *Client) CreateContainer(ctx context.Context, sandboxID string, config *runtimev1.ContainerConfig, sandbox *runtimev1.PodSandboxConfig) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	r, err := c.runtime.CreateContainer(ctx, &runtimev1.CreateContainerRequest{PodSandboxId: sandboxID, Config: config, SandboxConfig: sandbox})
	return r.GetContainerId(), err
}

// StartContainer implements the port.
func (c *Client) StartContainer(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	_, err := c.runtime.StartContainer(ctx, &runtimev1.StartContainerRequest{ContainerId: id})
	return err
}

// StopContainer implements the port. The CRI counts grace in whole seconds: a fraction is rounded up, so that nobody gets less than
// was promised.
func (c *Client) StopContainer(ctx context.Context, id string, grace time.Duration) error {
	seconds := int64((grace + time.Second - 1) / time.Second)
	ctx, cancel := context.WithTimeout(ctx, callLimit+grace)
	defer cancel()
	_, err := c.runtime.StopContainer(ctx, &runtimev1.StopContainerRequest{ContainerId: id, Timeout: max(0, seconds)})
	return gone(err)
}

// RemoveContainer implements the port.
func (c *Client) RemoveContainer(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	_, err := c.runtime.RemoveContainer(ctx, &runtimev1.RemoveContainerRequest{ContainerId: id})
	return gone(err)
}

// ListContainers implements the port.
func (c *Client) ListContainers(ctx context.Context, filter *runtimev1.ContainerFilter) ([]*runtimev1.Container, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	r, err := c.runtime.ListContainers(ctx, &runtimev1.ListContainersRequest{Filter: filter})
	return r.GetContainers(), err
}

// ContainerStatus implements the port.
func (c *Client) ContainerStatus(ctx context.Context, id string) (*runtimev1.ContainerStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	r, err := c.runtime.ContainerStatus(ctx, &runtimev1.ContainerStatusRequest{ContainerId: id})
	return r.GetStatus(), err
}

// UpdateContainerResources implements the port.
func (c *Client) UpdateContainerResources(ctx context.Context, id string, r *runtimev1.ContainerResources) error {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	_, err := c.runtime.UpdateContainerResources(ctx, &runtimev1.UpdateContainerResourcesRequest{
		ContainerId: id, Linux: r.GetLinux(), Windows: r.GetWindows(),
	})
	return err
}

// ReopenContainerLog implements the port.
func (c *Client) ReopenContainerLog(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	_, err := c.runtime.ReopenContainerLog(ctx, &runtimev1.ReopenContainerLogRequest{ContainerId: id})
	return err
}

// ExecSync implements the port. The runtime enforces timeout, in whole seconds; ours is only for a runtime that does not.
func (c *Client) ExecSync(ctx context.Context, id string, cmd []string, timeout time.Duration) (stdout, stderr []byte, exitCode int32, err error) {
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, callLimit+timeout)
		defer cancel()
	}
	seconds := int64((timeout + time.Second - 1) / time.Second)
	r, err := c.runtime.ExecSync(ctx, &runtimev1.ExecSyncRequest{ContainerId: id, Cmd: cmd, Timeout: seconds})
	return r.GetStdout(), r.GetStderr(), r.GetExitCode(), err
}

// Exec implements the port.
func (c *Client) Exec(ctx context.Context, req *runtimev1.ExecRequest) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	r, err := c.runtime.Exec(ctx, req)
	return r.GetUrl(), err
}

// Attach implements the port.
func (c *Client) Attach(ctx context.Context, req *runtimev1.AttachRequest) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	r, err := c.runtime.Attach(ctx, req)
	return r.GetUrl(), err
}

// CheckpointContainer writes a container's state into an archive. The runtime keeps to the request's timeout, where it has one.
func (c *Client) CheckpointContainer(ctx context.Context, req *runtimev1.CheckpointContainerRequest) error {
	ctx, cancel := context.WithTimeout(ctx, callLimit+time.Duration(req.GetTimeout())*time.Second)
	defer cancel()
	_, err := c.runtime.CheckpointContainer(ctx, req)
	return err
}

// ListPodSandboxStats returns what pods use: their cgroups' figures, networks and processes.
func (c *Client) ListPodSandboxStats(ctx context.Context, filter *runtimev1.PodSandboxStatsFilter) ([]*runtimev1.PodSandboxStats, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	r, err := c.runtime.ListPodSandboxStats(ctx, &runtimev1.ListPodSandboxStatsRequest{Filter: filter})
	return r.GetStats(), err
}

// ListMetricDescriptors says which metrics ListPodSandboxMetrics tells.
func (c *Client) ListMetricDescriptors(ctx context.Context) ([]*runtimev1.MetricDescriptor, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	r, err := c.runtime.ListMetricDescriptors(ctx, &runtimev1.ListMetricDescriptorsRequest{})
	return r.GetDescriptors(), err
}

// ListPodSandboxMetrics returns the runtime's metrics of all pods and their containers.
func (c *Client) ListPodSandboxMetrics(ctx context.Context) ([]*runtimev1.PodSandboxMetrics, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	r, err := c.runtime.ListPodSandboxMetrics(ctx, &runtimev1.ListPodSandboxMetricsRequest{})
	return r.GetPodMetrics(), err
}

// ContainerStats implements the port.
func (c *Client) ContainerStats(ctx context.Context, id string) (*runtimev1.ContainerStats, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	r, err := c.runtime.ContainerStats(ctx, &runtimev1.ContainerStatsRequest{ContainerId: id})
	return r.GetStats(), err
}

// ListContainerStats implements the port.
func (c *Client) ListContainerStats(ctx context.Context, filter *runtimev1.ContainerStatsFilter) ([]*runtimev1.ContainerStats, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	r, err := c.runtime.ListContainerStats(ctx, &runtimev1.ListContainerStatsRequest{Filter: filter})
	return r.GetStats(), err
}
