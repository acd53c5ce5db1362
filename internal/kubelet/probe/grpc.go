package probe

import (
	"context"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// askHealth asks a server for its health by gRPC's own protocol.
func askHealth(ctx context.Context, addr, service string, timeout time.Duration) Result {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	conn, err := grpc.NewClient("passthrough:///"+addr, grpc.WithUserAgent(Agent),
		grpc.WithTransportCredentials(insecure.NewCredentials()), // credentials are currently not supported
		grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
			c, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
			if tcp, ok := c.(*net.TCPConn); ok {
				_ = tcp.SetLinger(0)
			}
			return c, err
		}))
	if err != nil {
		return Result{Output: fmt.Sprintf("error: failed to connect service at %q: %+v", addr, err)}
	}
	defer func() { _ = conn.Close() }()
	// A server that does not listen yet is tried again until the timeout, as the gRPC library itself does.
	for at := conn.GetState(); at != connectivity.Ready; at = conn.GetState() {
		if at == connectivity.Idle {
			conn.Connect()
		}
		if !conn.WaitForStateChange(ctx, at) {
			return Result{Output: fmt.Sprintf("timeout: failed to connect service %q within %v: %+v", addr, timeout, ctx.Err())}
		}
	}
	res, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: service})
	switch status.Code(err) {
	case codes.OK:
	case codes.Unimplemented:
		return Result{Output: fmt.Sprintf("error: this server does not implement the grpc health protocol (grpc.health.v1.Health): %s", status.Convert(err).Message())}
	case codes.DeadlineExceeded:
		return Result{Output: fmt.Sprintf("timeout: health rpc did not complete within %v", timeout)}
	default:
		return Result{Output: fmt.Sprintf("error: health rpc probe failed: %+v", err)}
	}
	if res.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
		return Result{Output: fmt.Sprintf("service unhealthy (responded with %q)", res.GetStatus().String())}
	}
	return Result{OK: true, Output: "service healthy"}
}
