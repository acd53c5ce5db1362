// Package floor starts pods by asking a container runtime directly through CRI, as a perfect kubelet would that knows everything
// already: one sandbox, one container, with the network, cgroup parent and log file that a pod gets. It also tells when a runtime has
// nothing left of pods that were deleted.
package floor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"podo.dev/podo/test/bench/cgroup"
)

// Runtime is a container runtime, reached at its endpoint.
type Runtime struct {
	// Image and Command are what the pods' container runs.
	Image   string
	Command []string

	conn   *grpc.ClientConn
	rt     cri.RuntimeServiceClient
	dir    string
	before int // sandboxes that were up before us

	mu        sync.Mutex
	sandboxes map[string]string
	container map[string]string // by the same names
}

// Dial connects to an endpoint like unix:///run/containerd/containerd.sock.
func Dial(ctx context.Context, endpoint string) (*Runtime, error) {
	conn, err := grpc.NewClient(endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	r := &Runtime{conn: conn, rt: cri.NewRuntimeServiceClient(conn), sandboxes: map[string]string{}, container: map[string]string{}}
	if r.dir, err = os.MkdirTemp("", "podo-floor-"); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	if r.before, err = r.count(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("the runtime at %s: %w", endpoint, err), r.Close())
	}
	return r, nil
}

// Close ends the connection, after stopping what still runs.
func (r *Runtime) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var errs []error
	for _, name := range slices.Collect(maps.Keys(r.sandboxes)) {
		errs = append(errs, r.stopOne(ctx, name))
	}
	errs = append(errs, r.conn.Close(), os.RemoveAll(r.dir), cgroup.Remove(r.cgroup()))
	return errors.Join(errs...)
}

// cgroup is the parent of all our pods'.
func (r *Runtime) cgroup() string { return "/" + filepath.Base(r.dir) }

// count is how many sandboxes are up. Upstream's kubelet removes those that it stopped only once a minute.
func (r *Runtime) count(ctx context.Context) (int, error) {
	ready := &cri.PodSandboxFilter{State: &cri.PodSandboxStateValue{State: cri.PodSandboxState_SANDBOX_READY}}
	list, err := r.rt.ListPodSandbox(ctx, &cri.ListPodSandboxRequest{Filter: ready})
	if err != nil {
		return 0, err
	}
	return len(list.Items), nil
}

// WaitEmpty waits until no more sandboxes are up than at first: a deletion with grace 0 takes the object away at once, and
// what is still being stopped would be measured with the next start.
func (r *Runtime) WaitEmpty(ctx context.Context) error {
	deadline := time.Now().Add(5 * time.Minute)
	for {
		n, err := r.count(ctx)
		switch {
		case err != nil:
			return err
		case n <= r.before:
			return nil
		case time.Now().After(deadline):
			return fmt.Errorf("%d sandboxes are still up five minutes after their pods were deleted", n-r.before)
		}
		select { // there is no event to wait for that all runtimes send
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// Start runs the pods at once and returns the time until the last container was started.
func (r *Runtime) Start(ctx context.Context, names ...string) (time.Duration, error) {
	began := time.Now()
	err := r.each(names, func(name string) error { return r.startOne(ctx, name) })
	return time.Since(began), err
}

// Stop removes the pods at once, without grace.
func (r *Runtime) Stop(ctx context.Context, names ...string) (time.Duration, error) {
	began := time.Now()
	err := r.each(names, func(name string) error { return r.stopOne(ctx, name) })
	return time.Since(began), err
}

func (r *Runtime) each(names []string, do func(string) error) error {
	errs := make(chan error, len(names))
	for _, name := range names {
		go func() { errs <- do(name) }()
	}
	var all []error
	for range names {
		all = append(all, <-errs)
	}
	if err := errors.Join(all...); err != nil {
		return fmt.Errorf("floor: %w", err)
	}
	return nil
}

func (r *Runtime) startOne(ctx context.Context, name string) error {
	sandbox := &cri.PodSandboxConfig{
		Metadata:     &cri.PodSandboxMetadata{Name: name, Namespace: "floor", Uid: name},
		Hostname:     name,
		LogDirectory: filepath.Join(r.dir, name),
		DnsConfig:    &cri.DNSConfig{},
		Linux: &cri.LinuxPodSandboxConfig{
			CgroupParent:    r.cgroup() + "/" + name,
			SecurityContext: &cri.LinuxSandboxSecurityContext{NamespaceOptions: &cri.NamespaceOption{Pid: cri.NamespaceMode_CONTAINER}},
		},
	}
	if err := os.MkdirAll(filepath.Join(r.dir, name, "app"), 0o755); err != nil {
		return err
	}
	sb, err := r.rt.RunPodSandbox(ctx, &cri.RunPodSandboxRequest{Config: sandbox})
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.sandboxes[name] = sb.PodSandboxId
	r.mu.Unlock()
	c, err := r.rt.CreateContainer(ctx, &cri.CreateContainerRequest{PodSandboxId: sb.PodSandboxId, SandboxConfig: sandbox, Config: &cri.ContainerConfig{
		Metadata: &cri.ContainerMetadata{Name: "app"},
		Image:    &cri.ImageSpec{Image: r.Image},
		Command:  r.Command,
		LogPath:  "app/0.log",
		Linux: &cri.LinuxContainerConfig{
			Resources:       &cri.LinuxContainerResources{CpuShares: 2, OomScoreAdj: 1000},
			SecurityContext: &cri.LinuxContainerSecurityContext{NamespaceOptions: &cri.NamespaceOption{Pid: cri.NamespaceMode_CONTAINER}},
		},
	}})
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.container[name] = c.ContainerId
	r.mu.Unlock()
	_, err = r.rt.StartContainer(ctx, &cri.StartContainerRequest{ContainerId: c.ContainerId})
	return err
}

// Exec runs a command in a pod's container, as an exec probe does.
func (r *Runtime) Exec(ctx context.Context, name string, command []string) error {
	r.mu.Lock()
	id := r.container[name]
	r.mu.Unlock()
	out, err := r.rt.ExecSync(ctx, &cri.ExecSyncRequest{ContainerId: id, Cmd: command, Timeout: 5})
	if err == nil && out.ExitCode != 0 {
		err = fmt.Errorf("%v in %s ended with %d: %s", command, name, out.ExitCode, out.Stderr)
	}
	return err
}

func (r *Runtime) stopOne(ctx context.Context, name string) error {
	r.mu.Lock()
	id := r.sandboxes[name]
	delete(r.sandboxes, name)
	delete(r.container, name)
	r.mu.Unlock()
	if _, err := r.rt.StopPodSandbox(ctx, &cri.StopPodSandboxRequest{PodSandboxId: id}); err != nil {
		return err
	}
	_, err := r.rt.RemovePodSandbox(ctx, &cri.RemovePodSandboxRequest{PodSandboxId: id})
	return errors.Join(err, os.RemoveAll(filepath.Join(r.dir, name)))
}
