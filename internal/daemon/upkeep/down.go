// Package upkeep is what root does with a data directory and its machine without the API server: stop and remove what runs there, handle
// images and the keys of tokens, and fetch the carried kubectl.
package upkeep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"podo.dev/podo/internal/cri"
	"podo.dev/podo/internal/cri/containerd"
	"podo.dev/podo/internal/daemon/datadir"
	"podo.dev/podo/internal/daemon/node"
	"podo.dev/podo/internal/host/linux"
	"podo.dev/podo/internal/kubelet/cm"
	"podo.dev/podo/internal/kubelet/labels"
	"podo.dev/podo/internal/kubelet/routes"
	"podo.dev/podo/internal/runtime"
)

// Down stops the server or agent of a data directory, then its pods with grace, then containerd, and removes what they leave on
// the host. The order matters: nothing may restart what is being stopped. say reports progress.
func Down(ctx context.Context, dataDir string, grace time.Duration, say func(string, ...any)) error {
	dir, err := datadir.Existing(dataDir)
	if err != nil {
		return err
	}
	pid, err := dir.Running()
	if err != nil {
		return err
	}
	if pid != 0 {
		if err := endProcess(ctx, pid); err != nil {
			return fmt.Errorf("podo (process %d) did not stop: %w", pid, err)
		}
		say("Stopped podo (process %d).", pid)
	}
	// From here on we hold the lock: no server starts meanwhile.
	lock, err := dir.Lock()
	if err != nil {
		return err
	}
	defer lock.Close()
	ran, err := dir.LastRun()
	if err != nil {
		return err
	}
	pods, err := stopPods(ctx, ran, grace)
	if err != nil {
		// What does not answer is killed below. Its pods lose their grace period, and that is said.
		say("Pods could not be stopped in order (%v): killing them.", err)
	} else {
		say("Stopped %d pods.", pods)
	}
	if ran.Embedded {
		if err := cleanRuntime(ctx, dir); err != nil {
			return err
		}
		say("Stopped containerd.")
	}
	left := errors.Join(unmountPods(dir), removeCgroups(ctx, dir), routes.Remove(dir.Routes()))
	if ran.Down = left == nil && (err == nil || ran.Embedded) && ran.NodeName != ""; !ran.Down {
		return left
	}
	return dir.Began(ran)
}

// endProcess asks for an orderly stop and waits for the end.
func endProcess(ctx context.Context, pid int) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.PidfdSendSignal(fd, unix.SIGTERM, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return err
	}
	for deadline := time.Now().Add(45 * time.Second); time.Now().Before(deadline); {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 500)
		if n > 0 {
			return nil
		}
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return errors.New("it still runs 45 s after TERM")
}

// stopPods stops every container of this node with grace, and then the sandboxes, which frees their network.
func stopPods(ctx context.Context, ran datadir.Run, grace time.Duration) (int, error) {
	if socket, ok := strings.CutPrefix(ran.Endpoint, "unix://"); ok && ran.Embedded {
		if _, err := os.Stat(socket); errors.Is(err, fs.ErrNotExist) {
			return 0, nil // containerd never started, or was cleaned away: there are no pods
		}
	}
	rt, err := containerd.New(ran.Endpoint)
	if err != nil {
		return 0, err
	}
	defer rt.Close()
	filter := map[string]string{labels.Node: ran.NodeName}
	if ran.Embedded {
		filter = nil // everything in it is ours
	}
	return endPods(ctx, rt, filter, grace)
}

// patience is how long, beyond the grace period, no pod may end until the rest counts as hung. Hundreds of pods on a slow machine
// take minutes in all.
const patience = time.Minute

// networksAtOnce is how many sandboxes are stopped at the same time, since each runs programs for its network. Containers wait
// for their grace periods in parallel.
const networksAtOnce = 16

func endPods(ctx context.Context, rt cri.Runtime, filter map[string]string, grace time.Duration) (int, error) {
	listing, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	sandboxes, err := rt.ListPodSandbox(listing, &runtimev1.PodSandboxFilter{LabelSelector: filter})
	if err != nil {
		if cri.IsUnavailable(err) {
			return 0, errors.New("the runtime does not run")
		}
		return 0, err
	}
	sandboxes = slices.DeleteFunc(sandboxes, func(s *runtimev1.PodSandbox) bool { return s.State != runtimev1.PodSandboxState_SANDBOX_READY })
	ctx, hung := context.WithCancelCause(ctx)
	defer hung(nil)
	idle := time.AfterFunc(grace+patience, func() { hung(fmt.Errorf("none has ended for %s", grace+patience)) })
	defer idle.Stop()
	turns := make(chan struct{}, networksAtOnce)
	errs := make([]error, len(sandboxes))
	var all sync.WaitGroup
	for i, s := range sandboxes {
		all.Go(func() {
			errs[i] = stopPod(ctx, rt, s.Id, grace, turns)
			if ctx.Err() == nil {
				idle.Reset(grace + patience)
			}
		})
	}
	all.Wait()
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	if len(errs) > 0 {
		return 0, fmt.Errorf("%d of %d: %w", len(errs), len(sandboxes), cmp.Or(context.Cause(ctx), errs[0]))
	}
	return len(sandboxes), nil
}

func stopPod(ctx context.Context, rt cri.Runtime, sandbox string, grace time.Duration, turns chan struct{}) error {
	containers, err := rt.ListContainers(ctx, &runtimev1.ContainerFilter{
		PodSandboxId: sandbox,
		State:        &runtimev1.ContainerStateValue{State: runtimev1.ContainerState_CONTAINER_RUNNING},
	})
	if err != nil {
		return err
	}
	errs := make([]error, len(containers))
	var all sync.WaitGroup
	for i, c := range containers {
		all.Go(func() { errs[i] = rt.StopContainer(ctx, c.Id, grace) })
	}
	all.Wait()
	select {
	case turns <- struct{}{}:
		defer func() { <-turns }()
		return errors.Join(errors.Join(errs...), rt.StopPodSandbox(ctx, sandbox))
	case <-ctx.Done():
		return ctx.Err()
	}
}

func cleanRuntime(ctx context.Context, d datadir.Dir) error {
	rt, err := node.Containerd(d.Root, runtime.UseSystemd(), runtime.Network{}, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	return rt.Cleanup(ctx)
}

// unmountPods unmounts what was mounted for pods' volumes. As after a reboot, their content in memory is lost and made again.
func unmountPods(d datadir.Dir) error {
	h := linux.New()
	mounts, err := mountsBelow(d.Kubelet())
	if err != nil {
		return err
	}
	slices.Reverse(mounts) // the last one made goes first
	var errs []error
	for _, m := range mounts {
		errs = append(errs, h.Unmount(m))
	}
	return errors.Join(errs...)
}

// removeCgroups removes the cgroups of a stopped node's pods.
func removeCgroups(ctx context.Context, d datadir.Dir) error {
	driver := cm.Cgroupfs
	if runtime.UseSystemd() {
		driver = cm.Systemd
	}
	m, err := cm.New(cm.Config{Host: linux.New(), Root: d.CgroupRoot(), Driver: driver, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	return m.Teardown(ctx)
}
