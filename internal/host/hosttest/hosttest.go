// Package hosttest is the suite that every implementation of the port host passes: what modules rely on.
package hosttest

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"podo.dev/podo/internal/host"
)

// Mounts checks mounting and unmounting under dir, which must exist. Nothing is left mounted.
func Mounts(t *testing.T, h host.Host, dir string) {
	t.Helper()
	target := filepath.Join(dir, "a b") // a blank: the kernel escapes it in the table
	if err := os.Mkdir(target, 0o755); err != nil {
		t.Fatal(err)
	}
	is := func(want bool) {
		t.Helper()
		got, err := h.IsMount(target)
		if err != nil || got != want {
			t.Fatalf("IsMount = %v, %v; want %v", got, err, want)
		}
	}
	is(false)
	for range 2 { // mounts stack
		if err := h.Mount("tmpfs", target, "tmpfs", []string{"size=65536", "nosuid"}); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		for range 3 {
			h.Unmount(target) //nolint:errcheck // gone in the good case
		}
	})
	is(true)
	table, err := h.MountTable()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, m := range table {
		if m.Target != target {
			continue
		}
		n++
		if m.FSType != "tmpfs" || !slices.Contains(m.Options, "nosuid") {
			t.Errorf("mounted as %+v", m)
		}
	}
	if n != 2 {
		t.Errorf("the table has the mount %d times, want 2", n)
	}
	inner := filepath.Join(target, "inner")
	if err := os.MkdirAll(inner, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := h.Mount("tmpfs", inner, "tmpfs", nil); err != nil {
		t.Fatal(err)
	}
	for in, want := range map[string][]string{dir: {target, target, inner}, target: {inner}, target[:len(target)-1]: nil, inner: nil} {
		if got, err := h.MountsInside(in); err != nil || !slices.Equal(got, want) {
			t.Errorf("MountsInside(%s) = %q, %v; want %q", in, got, err, want)
		}
	}
	if err := h.Unmount(target); !errors.Is(err, host.ErrBusy) {
		t.Errorf("unmount below a live mount = %v, want ErrBusy", err)
	}
	for _, p := range []string{inner, target, target} {
		if err := h.Unmount(p); err != nil {
			t.Fatal(err)
		}
	}
	is(false)
	if err := h.Unmount(target); err != nil {
		t.Errorf("unmount of what is not mounted = %v, want nil", err)
	}
	if err := h.Unmount(filepath.Join(dir, "missing")); err != nil {
		t.Errorf("unmount of what does not exist = %v, want nil", err)
	}
	if got, err := h.IsMount(filepath.Join(dir, "missing")); got || err != nil {
		t.Errorf("IsMount of what does not exist = %v, %v", got, err)
	}
}

// Cgroups checks cgroup directories under dir, a cgroup of its own.
func Cgroups(t *testing.T, h host.Host, dir string) {
	t.Helper()
	child := filepath.Join(dir, "x", "y")
	made, err := h.MakeCgroup(child)
	if err != nil || !made {
		t.Fatalf("MakeCgroup = %v, %v; want true", made, err)
	}
	t.Cleanup(func() {
		for _, p := range []string{child, filepath.Dir(child), dir} {
			h.RemoveCgroup(p) //nolint:errcheck // gone in the good case
		}
	})
	if made, err := h.MakeCgroup(child); err != nil || made {
		t.Fatalf("MakeCgroup again = %v, %v; want false", made, err)
	}
	if names, err := h.ChildCgroups(filepath.Dir(child)); err != nil || !slices.Equal(names, []string{"y"}) {
		t.Errorf("ChildCgroups = %v, %v; want y", names, err)
	}
	if err := h.RemoveCgroup(filepath.Dir(child)); !errors.Is(err, host.ErrBusy) {
		t.Errorf("removing a cgroup with children = %v, want ErrBusy", err)
	}
	for range 2 {
		if err := h.RemoveCgroup(child); err != nil {
			t.Errorf("RemoveCgroup: %v", err)
		}
	}
	if _, err := h.ChildCgroups(child); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("ChildCgroups of a removed cgroup = %v, want not exist", err)
	}
}
