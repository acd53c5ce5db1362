package containerd

import (
	"context"

	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// ListImages implements the port.
func (c *Client) ListImages(ctx context.Context) ([]*runtimev1.Image, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	r, err := c.images.ListImages(ctx, &runtimev1.ListImagesRequest{})
	return r.GetImages(), err
}

// ImageStatus implements the port.
func (c *Client) ImageStatus(ctx context.Context, image *runtimev1.ImageSpec) (*runtimev1.Image, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	r, err := c.images.ImageStatus(ctx, &runtimev1.ImageStatusRequest{Image: image})
	return r.GetImage(), err
}

// PullImage implements the port. It has no deadline but ctx's: how long a pull may take is between the registry and the runtime, which
// gives up when there is no progress. The registry's own words are in the error; no prefix is put before them, users see this text.
func (c *Client) PullImage(ctx context.Context, image *runtimev1.ImageSpec, auth *runtimev1.AuthConfig, sandbox *runtimev1.PodSandboxConfig) (string, error) {
	r, err := c.images.PullImage(ctx, &runtimev1.PullImageRequest{Image: image, Auth: auth, SandboxConfig: sandbox})
	return r.GetImageRef(), err
}

// RemoveImage implements the port.
func (c *Client) RemoveImage(ctx context.Context, image *runtimev1.ImageSpec) error {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	_, err := c.images.RemoveImage(ctx, &runtimev1.RemoveImageRequest{Image: image})
	return gone(err)
}

// ImageFsInfo implements the port.
func (c *Client) ImageFsInfo(ctx context.Context) (*runtimev1.ImageFsInfoResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	r, err := c.images.ImageFsInfo(ctx, &runtimev1.ImageFsInfoRequest{})
	return r, err
}
