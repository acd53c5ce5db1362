package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"podo.dev/podo/internal/runtime"
)

// image and sleep are what both sides run.
const image = "localhost/podo/busybox:dev"

var sleep = []string{"sleep", "3600"}

// floor starts pods by calling containerd through CRI directly, as a perfect kubelet would that knows everything already: one
// sandbox, one container, with the network, cgroup parent and log file that a pod gets.
type floor struct {
	conn *grpc.ClientConn
	rt   cri.RuntimeServiceClient
	dir  string

	mu        sync.Mutex
	sandboxes map[string]string
}

func newFloor(dataDir string) (*floor, error) {
	conn, err := grpc.NewClient("unix://"+runtime.LayoutFor(dataDir).Socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "podo-floor-")
	if err != nil {
		conn.Close()
		return nil, err
	}
	return &floor{conn: conn, rt: cri.NewRuntimeServiceClient(conn), dir: dir, sandboxes: map[string]string{}}, nil
}

func (f *floor) close() {
	f.conn.Close()
	os.RemoveAll(f.dir)
}

// settle waits until the runtime holds no sandbox: a deletion with grace 0 takes the object away at once, and what is still being
// stopped would be measured with the next start. (Asking again is fine here: nothing is being measured.)
func (f *floor) settle(ctx context.Context) error {
	deadline := time.Now().Add(2 * time.Minute)
	for {
		list, err := f.rt.ListPodSandbox(ctx, &cri.ListPodSandboxRequest{})
		if err != nil {
			return err
		}
		if len(list.Items) == 0 {
			return pause(ctx, 300*time.Millisecond) // the last of the kernel's and the shims' own clean-up
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d sandboxes are still there two minutes after their pods were deleted", len(list.Items))
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

// start runs the pods at once and returns the time until the last StartContainer returned.
func (f *floor) start(ctx context.Context, names ...string) (time.Duration, error) {
	errs := make(chan error, len(names))
	began := time.Now()
	for _, name := range names {
		go func() { errs <- f.startOne(ctx, name) }()
	}
	for range names {
		if err := <-errs; err != nil {
			return 0, fmt.Errorf("floor: %w", err)
		}
	}
	return time.Since(began), nil
}

func (f *floor) startOne(ctx context.Context, name string) error {
	sandbox := &cri.PodSandboxConfig{
		Metadata:     &cri.PodSandboxMetadata{Name: name, Namespace: "floor", Uid: name},
		Hostname:     name,
		LogDirectory: filepath.Join(f.dir, name),
		DnsConfig:    &cri.DNSConfig{},
		Linux: &cri.LinuxPodSandboxConfig{
			CgroupParent:    "/podo-floor/" + name,
			SecurityContext: &cri.LinuxSandboxSecurityContext{NamespaceOptions: &cri.NamespaceOption{Pid: cri.NamespaceMode_CONTAINER}},
		},
	}
	if err := os.MkdirAll(filepath.Join(f.dir, name, "app"), 0o755); err != nil {
		return err
	}
	sb, err := f.rt.RunPodSandbox(ctx, &cri.RunPodSandboxRequest{Config: sandbox})
	if err != nil {
		return err
	}
	f.mu.Lock()
	f.sandboxes[name] = sb.PodSandboxId
	f.mu.Unlock()
	c, err := f.rt.CreateContainer(ctx, &cri.CreateContainerRequest{PodSandboxId: sb.PodSandboxId, SandboxConfig: sandbox, Config: &cri.ContainerConfig{
		Metadata: &cri.ContainerMetadata{Name: "app"},
		Image:    &cri.ImageSpec{Image: image},
		Command:  sleep,
		LogPath:  "app/0.log",
		Linux: &cri.LinuxContainerConfig{
			Resources:       &cri.LinuxContainerResources{CpuShares: 2, OomScoreAdj: 1000},
			SecurityContext: &cri.LinuxContainerSecurityContext{NamespaceOptions: &cri.NamespaceOption{Pid: cri.NamespaceMode_CONTAINER}},
		},
	}})
	if err != nil {
		return err
	}
	_, err = f.rt.StartContainer(ctx, &cri.StartContainerRequest{ContainerId: c.ContainerId})
	return err
}

// stop removes the pods at once.
func (f *floor) stop(ctx context.Context, names ...string) error {
	errs := make(chan error, len(names))
	for _, name := range names {
		go func() { errs <- f.stopOne(ctx, name) }()
	}
	for range names {
		if err := <-errs; err != nil {
			return fmt.Errorf("floor: %w", err)
		}
	}
	return nil
}

func (f *floor) stopOne(ctx context.Context, name string) error {
	f.mu.Lock()
	id := f.sandboxes[name]
	delete(f.sandboxes, name)
	f.mu.Unlock()
	if _, err := f.rt.StopPodSandbox(ctx, &cri.StopPodSandboxRequest{PodSandboxId: id}); err != nil {
		return err
	}
	_, err := f.rt.RemovePodSandbox(ctx, &cri.RemovePodSandboxRequest{PodSandboxId: id})
	if rm := os.RemoveAll(filepath.Join(f.dir, name)); err == nil {
		err = rm
	}
	return err
}
