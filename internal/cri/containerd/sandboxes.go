package containerd

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// RunPodSandbox implements the port.
func (c *Client) RunPodSandbox(ctx context.Context, config *runtimev1.PodSandboxConfig, handler string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, sandboxLimit)
	defer cancel()
	r, err := c.runtime.RunPodSandbox(ctx, &runtimev1.RunPodSandboxRequest{Config: config, RuntimeHandler: handler})
	return r.GetPodSandboxId(), err
}

// StopPodSandbox implements the port.
func (c *Client) StopPodSandbox(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, sandboxLimit)
	defer cancel()
	_, err := c.runtime.StopPodSandbox(ctx, &runtimev1.StopPodSandboxRequest{PodSandboxId: id})
	return gone(err)
}

// RemovePodSandbox implements the port.
func (c *Client) RemovePodSandbox(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, sandboxLimit)
	defer cancel()
	_, err := c.runtime.RemovePodSandbox(ctx, &runtimev1.RemovePodSandboxRequest{PodSandboxId: id})
	if err = gone(err); err != nil || c.shims == "" {
		return err
	}
	if err := os.Remove(c.shimSocket(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the socket of sandbox %s's shim: %w", id, err)
	}
	return nil
}

// shimSocket is where a sandbox's shim listens. containerd names it by a digest, so that the path is short enough for a socket's.
func (c *Client) shimSocket(sandbox string) string {
	digest := sha256.Sum256([]byte(filepath.Join(c.socket, criNamespace, sandbox)))
	return filepath.Join(c.shims, hex.EncodeToString(digest[:]))
}

// PodSandboxStatus implements the port.
func (c *Client) PodSandboxStatus(ctx context.Context, id string) (*runtimev1.PodSandboxStatusResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	r, err := c.runtime.PodSandboxStatus(ctx, &runtimev1.PodSandboxStatusRequest{PodSandboxId: id})
	return r, err
}

// ListPodSandbox implements the port.
func (c *Client) ListPodSandbox(ctx context.Context, filter *runtimev1.PodSandboxFilter) ([]*runtimev1.PodSandbox, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	r, err := c.runtime.ListPodSandbox(ctx, &runtimev1.ListPodSandboxRequest{Filter: filter})
	return r.GetItems(), err
}

// PortForward implements the port.
func (c *Client) PortForward(ctx context.Context, req *runtimev1.PortForwardRequest) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	r, err := c.runtime.PortForward(ctx, req)
	return r.GetUrl(), err
}
