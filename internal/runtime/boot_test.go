//go:build e2e

package runtime_test

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"testing"
	"time"

	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"podo.dev/podo/internal/cri/containerd"
	"podo.dev/podo/internal/runtime"
	"podo.dev/podo/internal/runtime/payload"
	"podo.dev/podo/tools/images/archive"
)

// The files with the tag e2e run real containers as root: `make e2e`.

// node is a real containerd from the payload in a folder of its own, as one podo after another would run it.
type node struct {
	t      *testing.T
	cfg    runtime.Config
	cri    *containerd.Client
	events chan runtime.Event

	current *runtime.Runtime
	stop    func() // ends Run, as the end of podo's process does
}

func newNode(t *testing.T, cidr string) *node {
	t.Helper()
	p, err := payload.Embedded()
	if err == nil && os.Geteuid() != 0 {
		err = errors.New("real containers need root")
	}
	if err != nil {
		t.Fatal(err)
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	n := &node{t: t, events: make(chan runtime.Event, 100)}
	n.cfg = runtime.Config{
		DataDir: dir, PodCIDRs: []netip.Prefix{netip.MustParsePrefix(cidr)}, Payload: p,
		Connect: func(socket string) (runtime.Client, error) { return containerd.New("unix://" + socket) },
		OnEvent: func(e runtime.Event) { n.events <- e },
		Log:     slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	n.cri, err = containerd.New("unix://" + runtime.LayoutFor(dir).Socket)
	if err != nil {
		t.Fatal(err)
	}
	n.cri.SweepShims(runtime.LayoutFor(dir).Shims)
	t.Cleanup(func() {
		n.cri.Close()
		if n.stop != nil {
			n.stop()
		}
		r, err := runtime.New(n.cfg)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := r.Cleanup(ctx); err != nil {
			t.Errorf("clean-up: %v", err)
		}
		// Cgroups above the containers' are the kubelet's to make and remove: here the tests'.
		for _, path := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/*"} {
			dirs, _ := filepath.Glob(path + cgroupOf(n, "*"))
			for _, d := range dirs {
				os.Remove(d)
			}
		}
	})
	return n
}

// cgroupOf is the cgroup of a pod of this node.
func cgroupOf(n *node, pod string) string {
	return "/podo-test-" + runtime.LayoutFor(n.cfg.DataDir).ID + "-" + pod
}

// up runs a podo's runtime until it is ready and returns how long that took.
func (n *node) up() time.Duration {
	n.t.Helper()
	r, err := runtime.New(n.cfg)
	if err != nil {
		n.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan struct{}), make(chan error, 1)
	start := time.Now()
	go func() { ended <- r.Run(ctx, func() { close(ready) }) }()
	select {
	case <-ready:
	case err := <-ended:
		cancel()
		n.t.Fatalf("the runtime ended before it was ready: %v", err)
	}
	n.current = r
	n.stop = func() {
		cancel()
		if err := <-ended; err != nil {
			n.t.Errorf("Run: %v", err)
		}
		n.stop = nil
	}
	return time.Since(start)
}

// await returns the next event of that kind.
func (n *node) await(kind runtime.EventKind) runtime.Event {
	n.t.Helper()
	limit := time.After(90 * time.Second) // one that hangs is found out within a good minute
	for {
		select {
		case e := <-n.events:
			if e.Kind == kind {
				return e
			}
		case <-limit:
			n.t.Fatalf("no event %s", kind)
		}
	}
}

// shellImage is a container image with nothing but a static busybox.
func (n *node) shellImage() string {
	n.t.Helper()
	const ref = "localhost/podo/test-shell:dev"
	data, err := os.ReadFile("/bin/busybox")
	if err != nil {
		n.t.Fatalf("this test needs Debian's busybox-static: %v", err)
	}
	applets, err := exec.Command("/bin/busybox", "--list").Output()
	if err != nil {
		n.t.Fatal(err)
	}
	files := []archive.File{{Path: "/bin/busybox", Mode: 0o755, Data: data}, {Path: "/tmp", Mode: os.ModeDir | 0o777}}
	for name := range strings.FieldsSeq(string(applets)) {
		if name != "busybox" {
			files = append(files, archive.File{Path: "/bin/" + name, Link: "/bin/busybox"})
		}
	}
	file := filepath.Join(n.t.TempDir(), "shell.tar")
	err = archive.Write(file, archive.Image{Ref: ref, Arch: goruntime.GOARCH, Files: files})
	if err != nil {
		n.t.Fatal(err)
	}
	f, err := os.Open(file)
	if err != nil {
		n.t.Fatal(err)
	}
	defer f.Close()
	names, err := n.cri.Import(n.t.Context(), f)
	if err != nil || len(names) != 1 || names[0] != ref {
		n.t.Fatalf("import: %v, %v", names, err)
	}
	if st, err := n.cri.ImageStatus(n.t.Context(), &runtimev1.ImageSpec{Image: ref}); err != nil || !st.GetPinned() {
		n.t.Fatalf("an imported image is not pinned, so that it could be collected: %v, %v", st, err)
	}
	return ref
}

// sandbox makes a pod sandbox and returns its ID and address.
func (n *node) sandbox(config *runtimev1.PodSandboxConfig) (id, ip string) {
	n.t.Helper()
	id, err := n.cri.RunPodSandbox(n.t.Context(), config, "")
	if err != nil {
		n.t.Fatal(err)
	}
	st, err := n.cri.PodSandboxStatus(n.t.Context(), id)
	if err != nil {
		n.t.Fatal(err)
	}
	return id, st.GetStatus().GetNetwork().GetIp()
}

// run makes and starts a container.
func (n *node) run(sandbox string, pod *runtimev1.PodSandboxConfig, name, image string, cmd ...string) string {
	n.t.Helper()
	id, err := n.cri.CreateContainer(n.t.Context(), sandbox, &runtimev1.ContainerConfig{
		Metadata: &runtimev1.ContainerMetadata{Name: name}, Image: &runtimev1.ImageSpec{Image: image}, Command: cmd, LogPath: name + ".log",
		Linux: &runtimev1.LinuxContainerConfig{},
	}, pod)
	if err == nil {
		err = n.cri.StartContainer(n.t.Context(), id)
	}
	if err != nil {
		n.t.Fatal(err)
	}
	return id
}

func (n *node) pod(name string) *runtimev1.PodSandboxConfig {
	return &runtimev1.PodSandboxConfig{
		Metadata: &runtimev1.PodSandboxMetadata{Name: name, Namespace: "default", Uid: "uid-" + name}, LogDirectory: n.t.TempDir(),
		Linux: &runtimev1.LinuxPodSandboxConfig{CgroupParent: cgroupOf(n, name)},
	}
}
