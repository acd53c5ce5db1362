package tree

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestRemovalStopsAtMounts(t *testing.T) {
	if os.Geteuid() != 0 {
		if os.Getenv("CI") != "" {
			t.Fatal("needs root, and CI runs as root")
		}
		t.Skip("needs root")
	}
	base := t.TempDir()
	tree, other := filepath.Join(base, "tree"), filepath.Join(base, "other")
	for _, d := range []string{filepath.Join(tree, "a", "mnt"), other} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	precious := filepath.Join(other, "precious")
	if err := os.WriteFile(precious, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, link := range []string{"l1", "a/l2"} {
		if err := os.Symlink(other, filepath.Join(tree, link)); err != nil {
			t.Fatal(err)
		}
	}
	// A bind mount of the same file system: its device number does not give it away.
	if err := unix.Mount(other, filepath.Join(tree, "a", "mnt"), "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	err, cerr := Remove(tree), Clear(tree)
	if uerr := unix.Unmount(filepath.Join(tree, "a", "mnt"), 0); uerr != nil {
		t.Fatal(uerr)
	}
	if cerr == nil {
		t.Error("Clear crossed a mount")
	}
	if err == nil || !strings.Contains(err.Error(), "something is mounted there") {
		t.Errorf("Remove = %v", err)
	}
	if err := Remove(tree); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(tree); !os.IsNotExist(err) {
		t.Errorf("left: %v", err)
	}
	if _, err := os.Stat(precious); err != nil {
		t.Errorf("deleted through a mount or a link: %v", err)
	}
}

func TestClearKeepsTheDirectory(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{"a/b/c", "d"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "a", "f"), nil, 0o400); err != nil {
		t.Fatal(err)
	}
	if err := Clear(dir); err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("left: %v, %v", entries, err)
	}
	missing := filepath.Join(dir, "missing")
	for _, err := range []error{Clear(missing), Remove(missing), Remove(filepath.Join(missing, "deeper"))} {
		if err != nil {
			t.Errorf("removing what is not there: %v", err)
		}
	}
}
