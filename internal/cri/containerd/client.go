// Package containerd is the adapter from the cri port to a real runtime: gRPC on a Unix socket. It speaks the Container Runtime
// Interface v1, so any CRI runtime will do; only Import, which the CRI does not have, needs containerd itself.
//
// One connection serves all calls. Every call has a deadline of its own on top of its context's, so that a runtime that hangs holds
// nobody for ever. Errors are the runtime's own: they end in events and statuses, word for word as upstream has them.
package containerd

import (
	"context"
	"fmt"
	"net/url"
	"path"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"podo.dev/podo/internal/cri"
)

// Client is a connection to a runtime.
type Client struct {
	conn     *grpc.ClientConn
	runtime  runtimev1.RuntimeServiceClient
	images   runtimev1.ImageServiceClient
	endpoint string
	socket   string
	shims    string // see SweepShims
	observer atomic.Pointer[Observer]
}

// Observer is told of each call that is answered at once: its name in the CRI, and of RunPodSandbox the runtime's handler. It must not block.
type Observer func(call, handler string, took time.Duration, err error)

var _ cri.Runtime = (*Client)(nil)

const (
	// callLimit bounds a call that should be quick: upstream's runtimeRequestTimeout.
	callLimit = 2 * time.Minute
	// sandboxLimit bounds what the network plug-ins take part in: upstream's figure for it is twice the above.
	sandboxLimit = 4 * time.Minute
	// maxMessage bounds an answer; lists of many containers are long. It is containerd's own limit.
	maxMessage = 16 << 20
)

// New makes a client of endpoint, a unix:// URL or an absolute path. It connects when first used, and again after the runtime was away:
// soon, since a restarted runtime is back within a second. While it is away calls fail at once with Unavailable.
func New(endpoint string) (*Client, error) {
	socket, err := socketPath(endpoint)
	if err != nil {
		return nil, err
	}
	c := &Client{endpoint: endpoint, socket: socket}
	c.conn, err = grpc.NewClient("unix://"+socket,
		grpc.WithTransportCredentials(insecure.NewCredentials()), // a Unix socket in a folder of root's
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 10 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 500 * time.Millisecond},
			MinConnectTimeout: 3 * time.Second,
		}),
		grpc.WithIdleTimeout(0),
		grpc.WithUnaryInterceptor(c.observed),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(maxMessage)),
	)
	if err != nil {
		return nil, fmt.Errorf("container runtime at %s: %w", endpoint, err)
	}
	c.runtime, c.images = runtimev1.NewRuntimeServiceClient(c.conn), runtimev1.NewImageServiceClient(c.conn)
	return c, nil
}

// SweepShims has RemovePodSandbox take away the socket of the sandbox's shim too, in dir, which is containerd's socket_dir. It is called before
// the client is used. A shim does that itself when it ends, but not when it is killed, nor when containerd is sooner: in which folder its socket
// is, it reads in the bundle, which containerd deletes as soon as the shim has said that it will end.
func (c *Client) SweepShims(dir string) { c.shims = dir }

// Observe has o told of calls from now on, and nobody else.
func (c *Client) Observe(o Observer) { c.observer.Store(&o) }

func (c *Client) observed(
	ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
) error {
	began := time.Now()
	err := invoke(ctx, method, req, reply, conn, opts...)
	if o := c.observer.Load(); o != nil {
		var handler string
		if r, ok := req.(*runtimev1.RunPodSandboxRequest); ok {
			handler = r.RuntimeHandler
		}
		(*o)(path.Base(method), handler, time.Since(began), err)
	}
	return err
}

// Close ends the connection; calls in flight fail.
func (c *Client) Close() error { return c.conn.Close() }

func socketPath(endpoint string) (string, error) {
	socket := endpoint
	if strings.Contains(endpoint, "://") {
		u, err := url.Parse(endpoint)
		if err != nil || u.Scheme != "unix" || u.Host != "" {
			return "", fmt.Errorf("container runtime endpoint %q: give unix:///path/to/socket", endpoint)
		}
		socket = u.Path
	}
	if !filepath.IsAbs(socket) {
		return "", fmt.Errorf("container runtime endpoint %q: give unix:///path/to/socket", endpoint)
	}
	if len(socket) > 107 {
		return "", fmt.Errorf("container runtime endpoint %q: a Unix socket's path has at most 107 bytes", endpoint)
	}
	return socket, nil
}

// gone is for calls that succeed when their object is not there.
func gone(err error) error {
	if cri.IsNotFound(err) {
		return nil
	}
	return err
}

// Version asks the runtime for its name and version.
func (c *Client) Version(ctx context.Context) (*runtimev1.VersionResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	v, err := c.runtime.Version(ctx, &runtimev1.VersionRequest{Version: "0.1.0"})
	return v, err
}

// Status asks for the runtime's conditions.
func (c *Client) Status(ctx context.Context) (*runtimev1.StatusResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	s, err := c.runtime.Status(ctx, &runtimev1.StatusRequest{})
	return s, err
}

// UpdateRuntimeConfig tells the runtime the node's pod addresses.
func (c *Client) UpdateRuntimeConfig(ctx context.Context, podCIDR string) error {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	_, err := c.runtime.UpdateRuntimeConfig(ctx, &runtimev1.UpdateRuntimeConfigRequest{
		RuntimeConfig: &runtimev1.RuntimeConfig{NetworkConfig: &runtimev1.NetworkConfig{PodCidr: podCIDR}},
	})
	return err
}

// Events implements the port's event stream. The CRI does not say when a subscription stands, so a round trip on the same connection
// is waited for after the stream was opened; containerd besides keeps events for minutes while nobody listens.
func (c *Client) Events(ctx context.Context, connected func(), out chan<- *runtimev1.ContainerEventResponse) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.runtime.GetContainerEvents(ctx, &runtimev1.GetEventsRequest{})
	if err != nil {
		return err
	}
	if _, err := c.Version(ctx); err != nil {
		return err
	}
	connected()
	for {
		e, err := stream.Recv()
		if err != nil {
			return err
		}
		select {
		case out <- e:
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		}
	}
}
