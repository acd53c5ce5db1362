// Package cri is the port to the container runtime: the calls of the Container Runtime Interface v1 that the kubelet needs.
// Adapters: cri/containerd (gRPC, any CRI runtime) and cri/fake (a simulated runtime whose behaviour tests script). critest
// is the suite that both pass. Messages are the CRI's own (k8s.io/cri-api), so that nothing is translated twice.
//
// Guarantees of every implementation: Stop* and Remove* are idempotent and succeed for what does not exist; a call honours its
// context's deadline; errors carry gRPC status codes (NotFound, DeadlineExceeded, Unavailable, AlreadyExists, ...), which
// IsNotFound and friends read.
package cri

import (
	"context"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Sandboxes are pod sandboxes.
type Sandboxes interface {
	RunPodSandbox(ctx context.Context, config *runtimev1.PodSandboxConfig, handler string) (id string, err error)
	StopPodSandbox(ctx context.Context, id string) error
	RemovePodSandbox(ctx context.Context, id string) error
	PodSandboxStatus(ctx context.Context, id string) (*runtimev1.PodSandboxStatusResponse, error)
	ListPodSandbox(ctx context.Context, filter *runtimev1.PodSandboxFilter) ([]*runtimev1.PodSandbox, error)
	PortForward(ctx context.Context, req *runtimev1.PortForwardRequest) (url string, err error)
}

// Containers are the containers inside sandboxes.
type Containers interface {
	CreateContainer(ctx context.Context, sandboxID string, config *runtimev1.ContainerConfig, sandbox *runtimev1.PodSandboxConfig) (id string, err error)
	StartContainer(ctx context.Context, id string) error
	// StopContainer sends the stop signal and kills after grace; it returns when the container has ended. Grace 0 kills at once.
	StopContainer(ctx context.Context, id string, grace time.Duration) error
	RemoveContainer(ctx context.Context, id string) error
	ListContainers(ctx context.Context, filter *runtimev1.ContainerFilter) ([]*runtimev1.Container, error)
	ContainerStatus(ctx context.Context, id string) (*runtimev1.ContainerStatus, error)
	UpdateContainerResources(ctx context.Context, id string, r *runtimev1.ContainerResources) error
	ReopenContainerLog(ctx context.Context, id string) error
	// ExecSync runs cmd to its end; timeout 0 means none beyond ctx. A non-zero exit is not an error.
	ExecSync(ctx context.Context, id string, cmd []string, timeout time.Duration) (stdout, stderr []byte, exitCode int32, err error)
	Exec(ctx context.Context, req *runtimev1.ExecRequest) (url string, err error)
	Attach(ctx context.Context, req *runtimev1.AttachRequest) (url string, err error)
	ContainerStats(ctx context.Context, id string) (*runtimev1.ContainerStats, error)
	ListContainerStats(ctx context.Context, filter *runtimev1.ContainerStatsFilter) ([]*runtimev1.ContainerStats, error)
}

// Images are the node's images.
type Images interface {
	ListImages(ctx context.Context) ([]*runtimev1.Image, error)
	// ImageStatus returns nil, nil when the image is not there.
	ImageStatus(ctx context.Context, image *runtimev1.ImageSpec) (*runtimev1.Image, error)
	PullImage(ctx context.Context, image *runtimev1.ImageSpec, auth *runtimev1.AuthConfig, sandbox *runtimev1.PodSandboxConfig) (ref string, err error)
	RemoveImage(ctx context.Context, image *runtimev1.ImageSpec) error
	ImageFsInfo(ctx context.Context) (*runtimev1.ImageFsInfoResponse, error)
}

// Runtime is the whole port.
type Runtime interface {
	Sandboxes
	Containers
	Images
	Version(ctx context.Context) (*runtimev1.VersionResponse, error)
	Status(ctx context.Context) (*runtimev1.StatusResponse, error)
	UpdateRuntimeConfig(ctx context.Context, podCIDR string) error
	// Events delivers container and sandbox life-cycle events (created, started, stopped, deleted) on out until ctx ends or
	// the stream breaks, and returns why. connected is called once the stream stands: what happened before is for a relist.
	Events(ctx context.Context, connected func(), out chan<- *runtimev1.ContainerEventResponse) error
}

// IsNotFound tells whether the runtime says that the thing does not exist.
func IsNotFound(err error) bool { return status.Code(err) == codes.NotFound }

// IsTaken tells whether the runtime says that there is something of that name, made by a call of ours whose answer was lost, or being made by
// one that goes on although we have given it up. Runtimes say that under several codes.
func IsTaken(err error) bool {
	st, ok := status.FromError(err)
	return ok && (st.Code() == codes.AlreadyExists || strings.Contains(st.Message(), "is reserved"))
}

// IsUnavailable tells whether the runtime could not be reached or did not answer in time: the call may have happened.
func IsUnavailable(err error) bool {
	c := status.Code(err)
	return c == codes.Unavailable || c == codes.DeadlineExceeded
}
