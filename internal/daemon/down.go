package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"podo.dev/podo/internal/cri"
	"podo.dev/podo/internal/cri/containerd"
	"podo.dev/podo/internal/host/linux"
	"podo.dev/podo/internal/host/tree"
	"podo.dev/podo/internal/kubelet/labels"
	"podo.dev/podo/internal/kubelet/routes"
	"podo.dev/podo/internal/runtime"
)

// Down stops the server, or the agent, of a data directory, its pods with grace, and containerd, and removes what they leave on the host. The
// order is that of a careful operator: nobody may start what is being stopped. say tells the progress.
func Down(ctx context.Context, dataDir string, grace time.Duration, say func(string, ...any)) error {
	dirs, err := existing(dataDir)
	if err != nil {
		return err
	}
	pid, err := Running(dirs)
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
	lock, err := lockDataDir(dirs)
	if err != nil {
		return err
	}
	defer lock.Close()
	ran, err := lastRun(dirs)
	if err != nil {
		return err
	}
	pods, err := stopPods(ctx, ran, grace)
	if err != nil {
		// What does not answer is killed below; its pods lose their grace, and that is said.
		say("Pods could not be stopped in order (%v): killing them.", err)
	} else {
		say("Stopped %d pods.", pods)
	}
	if ran.Embedded {
		if err := cleanRuntime(ctx, dirs); err != nil {
			return err
		}
		say("Stopped containerd.")
	}
	return errors.Join(unmountPods(dirs), removeCgroups(ctx, dirs), routes.Remove(dirs.routes()))
}

// existing names the data directory by its real path, as the server knew it.
func existing(dataDir string) (Dirs, error) {
	real, err := filepath.EvalSymlinks(dataDir)
	if errors.Is(err, fs.ErrNotExist) {
		return Dirs{}, fmt.Errorf("no cluster in %s: there is nothing to stop or remove (another one? give its --data-dir)", dataDir)
	}
	if err != nil {
		return Dirs{}, err
	}
	real, err = filepath.Abs(real)
	if err != nil {
		return Dirs{}, err
	}
	d := Dirs{Root: real}
	if _, err := os.Stat(d.Version()); err != nil {
		return Dirs{}, fmt.Errorf("%s is not a data directory of podo (it has no file named version): nothing was touched", real)
	}
	return d, nil
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

// run is what a later `down` or `image` must know of the server that ran: written at each start.
type run struct {
	Endpoint string `json:"endpoint"` // of the runtime
	Embedded bool   `json:"embedded"` // the runtime is ours
	NodeName string `json:"nodeName"`
}

func (d Dirs) run() string { return d.path("run.json") }

func writeRun(d Dirs, r run) error {
	content, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return writeFile(d.run(), append(content, '\n'), 0o644)
}

func lastRun(d Dirs) (run, error) {
	content, err := os.ReadFile(d.run())
	if errors.Is(err, fs.ErrNotExist) { // never came that far: nothing of another runtime can be ours
		return run{Endpoint: "unix://" + runtime.LayoutFor(d.Root).Socket, Embedded: true}, nil
	}
	if err != nil {
		return run{}, err
	}
	var r run
	if err := json.Unmarshal(content, &r); err != nil {
		return run{}, fmt.Errorf("%s is damaged (%w): remove it if the server ran on its embedded containerd", d.run(), err)
	}
	return r, nil
}

// stopPods stops every container of this node with grace, then the sandboxes, which returns their networks.
func stopPods(ctx context.Context, ran run, grace time.Duration) (int, error) {
	if socket, ok := strings.CutPrefix(ran.Endpoint, "unix://"); ok && ran.Embedded {
		if _, err := os.Stat(socket); errors.Is(err, fs.ErrNotExist) {
			return 0, nil // containerd never started, or has been cleaned away: there is no pod
		}
	}
	rt, err := containerd.New(ran.Endpoint)
	if err != nil {
		return 0, err
	}
	defer rt.Close()
	ctx, cancel := context.WithTimeout(ctx, grace+time.Minute)
	defer cancel()
	filter := map[string]string{labels.Node: ran.NodeName}
	if ran.Embedded {
		filter = nil // everything in it is ours
	}
	sandboxes, err := rt.ListPodSandbox(ctx, &runtimev1.PodSandboxFilter{LabelSelector: filter})
	if err != nil {
		if cri.IsUnavailable(err) {
			return 0, errors.New("the runtime does not run")
		}
		return 0, err
	}
	sandboxes = slices.DeleteFunc(sandboxes, func(s *runtimev1.PodSandbox) bool { return s.State != runtimev1.PodSandboxState_SANDBOX_READY })
	errs := make([]error, len(sandboxes))
	var all sync.WaitGroup
	for i, s := range sandboxes {
		all.Go(func() { errs[i] = stopPod(ctx, rt, s.Id, grace) })
	}
	all.Wait()
	return len(sandboxes), errors.Join(errs...)
}

func stopPod(ctx context.Context, rt cri.Runtime, sandbox string, grace time.Duration) error {
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
	return errors.Join(errors.Join(errs...), rt.StopPodSandbox(ctx, sandbox))
}

func cleanRuntime(ctx context.Context, d Dirs) error {
	rt, err := newRuntime(d.Root, runtime.UseSystemd(), runtime.Network{}, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	return rt.Cleanup(ctx)
}

// unmountPods unmounts what pods' volumes had mounted: as after a reboot, content in memory is gone and is made again.
func unmountPods(d Dirs) error {
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

func mountsBelow(dir string) ([]string, error) {
	table, err := linux.New().MountTable()
	if err != nil {
		return nil, err
	}
	var below []string
	for _, m := range table {
		if m.Target == dir || strings.HasPrefix(m.Target, dir+"/") {
			below = append(below, m.Target)
		}
	}
	return below, nil
}

// Reset removes a stopped server's data directory.
func Reset(dataDir string) error {
	dirs, err := existing(dataDir)
	if err != nil {
		return err
	}
	lock, err := takeDataDir(dirs)
	if err != nil {
		return err
	}
	defer lock.Close()
	for _, dir := range []string{dirs.Root, runtime.LayoutFor(dirs.Root).Run} {
		mounts, err := mountsBelow(dir)
		if err != nil {
			return err
		}
		if len(mounts) > 0 {
			return fmt.Errorf("%d mounts live below %s, the first is %s: stop what uses them with `podo down --data-dir %s`, then try again; nothing was removed",
				len(mounts), dir, mounts[0], dirs.Root)
		}
	}
	// From here on it is no data directory any more, and still one that can be removed: should this end early, nobody starts on what is left.
	if err := os.Truncate(dirs.Version(), 0); err != nil {
		return err
	}
	entries, err := os.ReadDir(dirs.Root)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if path := dirs.path(e.Name()); path != dirs.Version() {
			if err := tree.Remove(path); err != nil {
				return err
			}
		}
	}
	return tree.Remove(dirs.Root)
}
