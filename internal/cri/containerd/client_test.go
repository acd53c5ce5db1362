package containerd

import (
	"context"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"podo.dev/podo/internal/cri"
)

// answers is a runtime that says what a test wants.
type answers struct {
	runtimev1.UnimplementedRuntimeServiceServer
	runtimev1.UnimplementedImageServiceServer
	stopped chan *runtimev1.StopContainerRequest
	events  chan *runtimev1.ContainerEventResponse
}

func (a *answers) Version(context.Context, *runtimev1.VersionRequest) (*runtimev1.VersionResponse, error) {
	return &runtimev1.VersionResponse{RuntimeName: "answers"}, nil
}

func (a *answers) StopContainer(_ context.Context, r *runtimev1.StopContainerRequest) (*runtimev1.StopContainerResponse, error) {
	if r.ContainerId == "gone" {
		return nil, status.Error(codes.NotFound, "no such container")
	}
	a.stopped <- r
	return &runtimev1.StopContainerResponse{}, nil
}

func (a *answers) ContainerStatus(context.Context, *runtimev1.ContainerStatusRequest) (*runtimev1.ContainerStatusResponse, error) {
	return nil, status.Error(codes.NotFound, "no such container")
}

func (a *answers) ImageStatus(context.Context, *runtimev1.ImageStatusRequest) (*runtimev1.ImageStatusResponse, error) {
	return &runtimev1.ImageStatusResponse{}, nil
}

func (a *answers) GetContainerEvents(_ *runtimev1.GetEventsRequest, s grpc.ServerStreamingServer[runtimev1.ContainerEventResponse]) error {
	for {
		select {
		case e, ok := <-a.events:
			if !ok {
				return status.Error(codes.Unavailable, "going away")
			}
			if err := s.Send(e); err != nil {
				return err
			}
		case <-s.Context().Done():
			return s.Context().Err()
		}
	}
}

func serve(t *testing.T, socket string, a *answers) *grpc.Server {
	t.Helper()
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	runtimev1.RegisterRuntimeServiceServer(s, a)
	runtimev1.RegisterImageServiceServer(s, a)
	go s.Serve(l) //nolint:errcheck // ends with Stop
	t.Cleanup(s.Stop)
	return s
}

func dial(t *testing.T) (*Client, *answers, *grpc.Server) {
	t.Helper()
	a := &answers{stopped: make(chan *runtimev1.StopContainerRequest, 1), events: make(chan *runtimev1.ContainerEventResponse, 10)}
	socket := filepath.Join(t.TempDir(), "s")
	s := serve(t, socket, a)
	c, err := New("unix://" + socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c, a, s
}

func TestEndpoints(t *testing.T) {
	for endpoint, ok := range map[string]bool{
		"unix:///run/x.sock": true, "/run/x.sock": true,
		"run/x.sock": false, "unix://run/x.sock": false, "tcp://127.0.0.1:1": false, "": false,
		"unix:///" + strings.Repeat("x", 107): false,
	} {
		if _, err := socketPath(endpoint); (err == nil) != ok {
			t.Errorf("%q: %v", endpoint, err)
		}
	}
}

func TestNothingThere(t *testing.T) {
	c, a, _ := dial(t)
	if err := c.StopContainer(t.Context(), "gone", 0); err != nil {
		t.Errorf("stopping what is not there: %v", err)
	}
	if _, err := c.ContainerStatus(t.Context(), "gone"); !cri.IsNotFound(err) || err.Error() != "rpc error: code = NotFound desc = no such container" {
		t.Errorf("the status of what is not there: %v", err)
	}
	if img, err := c.ImageStatus(t.Context(), &runtimev1.ImageSpec{Image: "x"}); img != nil || err != nil {
		t.Errorf("an image that is not there: %v, %v", img, err)
	}
	// A fraction of a second is not taken away from anybody.
	if err := c.StopContainer(t.Context(), "x", 1500*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if r := <-a.stopped; r.Timeout != 2 {
		t.Errorf("1.5 s became %d s", r.Timeout)
	}
	_, err := c.Import(t.Context(), strings.NewReader(""))
	if err == nil || !strings.Contains(err.Error(), "cannot import") {
		t.Errorf("import into another runtime: %v", err)
	}
}

// A runtime that goes away is Unavailable at once, and is found again soon after it came back.
func TestRuntimeComesBack(t *testing.T) {
	c, a, s := dial(t)
	if _, err := c.Version(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.Stop()
	start := time.Now()
	if _, err := c.Version(t.Context()); !cri.IsUnavailable(err) {
		t.Errorf("while it is away: %v", err)
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("it took %v to say that it is away", took)
	}
	path, err := socketPath(c.endpoint)
	if err != nil {
		t.Fatal(err)
	}
	serve(t, path, a)
	for start = time.Now(); ; {
		if _, err := c.Version(t.Context()); err == nil {
			break
		} else if time.Since(start) > 10*time.Second {
			t.Fatalf("it is back for %v: %v", time.Since(start), err)
		}
		<-time.After(5 * time.Millisecond)
	}
}

func TestEvents(t *testing.T) {
	c, a, _ := dial(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out, connected, ended := make(chan *runtimev1.ContainerEventResponse), make(chan struct{}), make(chan error, 1)
	go func() { ended <- c.Events(ctx, func() { close(connected) }, out) }()
	<-connected
	a.events <- &runtimev1.ContainerEventResponse{ContainerId: "one"}
	if e := <-out; e.ContainerId != "one" {
		t.Errorf("got %v", e)
	}
	close(a.events)
	if err := <-ended; !cri.IsUnavailable(err) {
		t.Errorf("a stream that broke: %v", err)
	}

	// Nobody reads any more and the context ends: so does the stream.
	a.events = make(chan *runtimev1.ContainerEventResponse, 1)
	a.events <- &runtimev1.ContainerEventResponse{ContainerId: "two"}
	again := make(chan struct{})
	go func() { ended <- c.Events(ctx, func() { close(again) }, out) }()
	<-again
	cancel()
	if err := <-ended; status.Code(err) != codes.Canceled {
		t.Errorf("cancelled: %v", err)
	}
}
