package linux

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"podo.dev/podo/internal/host"
	"podo.dev/podo/internal/host/hosttest"
)

// needRoot skips a test that only root can run; in CI it must run.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() == 0 {
		return
	}
	if os.Getenv("CI") != "" {
		t.Fatal("needs root, and CI runs as root")
	}
	t.Skip("needs root")
}

func TestMounts(t *testing.T) {
	needRoot(t)
	hosttest.Mounts(t, New(), t.TempDir())
}

func TestCgroups(t *testing.T) {
	needRoot(t)
	root := "/sys/fs/cgroup/cpu"
	if _, err := os.Stat(root); err != nil {
		root = "/sys/fs/cgroup"
	}
	hosttest.Cgroups(t, New(), filepath.Join(root, fmt.Sprintf("podo-hosttest-%d", os.Getpid())))
}

func TestReadOnlyBindMount(t *testing.T) {
	needRoot(t)
	h, dir := New(), t.TempDir()
	src, dst := filepath.Join(dir, "src"), filepath.Join(dir, "dst")
	for _, d := range []string{src, dst} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.Mount(src, dst, "", []string{"bind", "ro"}); err != nil {
		t.Fatal(err)
	}
	defer h.Unmount(dst) //nolint:errcheck // checked below
	if err := os.WriteFile(filepath.Join(dst, "f"), nil, 0o644); err == nil {
		t.Error("a read-only bind mount took a write")
	}
	if err := os.WriteFile(filepath.Join(src, "f"), nil, 0o644); err != nil {
		t.Errorf("its source did not: %v", err)
	}
	if err := h.Unmount(dst); err != nil {
		t.Error(err)
	}
	// What volumes may ask for holds, and what means nothing is none of the file system's options.
	if err := h.Mount("tmpfs", src, "tmpfs", []string{"exec", "_netdev", "nofail"}); err != nil {
		t.Fatal(err)
	}
	defer h.Unmount(src) //nolint:errcheck // it is a test's
	if err := h.Mount(src, dst, "", []string{"bind", "noatime"}); err != nil {
		t.Fatal(err)
	}
	defer h.Unmount(dst) //nolint:errcheck // as above
	table, err := h.MountTable()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range table {
		if m.Target == dst && !slices.Contains(m.Options, "noatime") {
			t.Errorf("a bind mount without atime has %v", m.Options)
		}
	}
}

func TestKill(t *testing.T) {
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go cmd.Wait() //nolint:errcheck // it is killed
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := New().Kill(ctx, []int{cmd.Process.Pid}); err != nil {
		t.Fatal(err)
	}
	if err := New().Kill(ctx, []int{cmd.Process.Pid, 1 << 30}); err != nil {
		t.Errorf("killing what has gone = %v, want nil", err)
	}
}

func TestWaitEndsWithContext(t *testing.T) {
	cmd := exec.Command("sleep", "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cmd.Process.Kill() //nolint:errcheck // waited for next
		cmd.Wait()         //nolint:errcheck // it was killed
	}()
	fd := pidfd(t, cmd.Process.Pid)
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(10*time.Millisecond, cancel)
	if err := waitAll(ctx, []int{fd}); !errors.Is(err, context.Canceled) {
		t.Errorf("waitAll = %v, want canceled", err)
	}
}

// A device that somebody has locked for good holds who would mount it for a while, and not for ever.
func TestALockedDevice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		device := filepath.Join(t.TempDir(), "device")
		if err := os.WriteFile(device, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		holder, err := os.Open(device)
		if err != nil {
			t.Fatal(err)
		}
		defer holder.Close()
		if err := lock(holder); err != nil {
			t.Fatal(err)
		}
		if err := New().MountDevice(device, t.TempDir(), "ext4", nil); !errors.Is(err, host.ErrBusy) || !strings.Contains(err.Error(), device+" is locked by another program") {
			t.Errorf("a device that is locked for good: %v", err)
		}
		// One that is let go meanwhile is had.
		time.AfterFunc(time.Second, func() { holder.Close() })
		second, err := os.Open(device)
		if err != nil {
			t.Fatal(err)
		}
		defer second.Close()
		if err := lock(second); err != nil {
			t.Errorf("a device that was let go: %v", err)
		}
	})
}
