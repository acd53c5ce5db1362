package fake

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"testing"

	"podo.dev/podo/internal/host"
	"podo.dev/podo/internal/host/hosttest"
)

func TestSuite(t *testing.T) {
	dir := t.TempDir()
	h := New(dir)
	t.Run("mounts", func(t *testing.T) { hosttest.Mounts(t, h, dir) })
	t.Run("cgroups", func(t *testing.T) { hosttest.Cgroups(t, h, "/sys/fs/cgroup/test") })
}

func TestFilesAreUnderRoot(t *testing.T) {
	h := New(t.TempDir())
	if err := h.WriteFile("/proc/meminfo", "MemTotal: 1 kB\n"); err != nil {
		t.Fatal(err)
	}
	if b, err := h.ReadFile("/proc/meminfo"); err != nil || string(b) != "MemTotal: 1 kB\n" {
		t.Errorf("ReadFile = %q, %v", b, err)
	}
	if _, err := h.ReadFile("/proc/self/cgroup"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file the test did not make = %v, want not exist: the fake must not look at the real host", err)
	}
	if names, err := h.ReadDir("/proc"); err != nil || !slices.Equal(names, []string{"meminfo"}) {
		t.Errorf("ReadDir = %v, %v", names, err)
	}
}

func TestKillEmptiesCgroups(t *testing.T) {
	h := New(t.TempDir())
	if err := h.WriteFile("/sys/fs/cgroup/a/cgroup.procs", "7\n8\n"); err != nil {
		t.Fatal(err)
	}
	if err := h.RemoveCgroup("/sys/fs/cgroup/a"); !errors.Is(err, host.ErrBusy) {
		t.Fatalf("removed a cgroup with processes: %v", err)
	}
	if err := h.Kill(context.Background(), []int{7, 8}); err != nil {
		t.Fatal(err)
	}
	if err := h.RemoveCgroup("/sys/fs/cgroup/a"); err != nil {
		t.Error(err)
	}
	if got := h.Killed(); !slices.Equal(got, []int{7, 8}) {
		t.Errorf("Killed = %v", got)
	}
}
