package volume

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"

	"podo.dev/podo/internal/host/linux"
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

// newReal is a Manager with real mounts in a directory of its own. What a failed test leaves mounted is unmounted.
func newReal(t *testing.T) *testNode {
	t.Helper()
	needRoot(t)
	root := t.TempDir()
	t.Cleanup(func() {
		table, _ := linux.New().MountTable()
		for i := len(table) - 1; i >= 0; i-- {
			if below(root, table[i].Target) {
				linux.New().Unmount(table[i].Target) //nolint:errcheck // the directory's removal tells
			}
		}
	})
	return newOn(t, linux.New(), root)
}

func TestRealSecretInMemory(t *testing.T) {
	n := newReal(t)
	n.api.setSecret("s", map[string][]byte{"k": []byte("v")})
	p := pod("u1", vol("s", v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "s"}}),
		vol("e", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory}}))
	n.mount(t, p)
	dir, _, _ := n.Path(p, "e")
	if err := os.WriteFile(filepath.Join(dir, "f"), []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	again := newOn(t, linux.New(), n.Layout().Root) // a restart
	again.api.setSecret("s", map[string][]byte{"k": []byte("v2")})
	again.mount(t, p)
	if got := again.read(t, p, "e", "f") + again.read(t, p, "s", "k"); got != "keptv2" {
		t.Errorf("after a restart: %q", got)
	}
	table, err := linux.New().MountTable()
	if err != nil {
		t.Fatal(err)
	}
	mounts := 0
	for _, m := range table {
		if below(n.Layout().Root, m.Target) {
			mounts++
			if m.FSType != "tmpfs" {
				t.Errorf("%s is %s", m.Target, m.FSType)
			}
		}
	}
	if mounts != 2 {
		t.Errorf("%d mounts, want 2", mounts)
	}
	if err := again.Unmount(context.Background(), "u1"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(n.Layout().Pod("u1")); !os.IsNotExist(err) {
		t.Errorf("the directory is left: %v", err)
	}
}

// C01: a container that starts again finds the new file behind its subPath.
func TestSubPathOfAChangedConfigMap(t *testing.T) {
	n := newReal(t)
	n.api.set("cfg", map[string]string{"k": "v1"})
	p := pod("u1", configMap("c", "cfg"))
	n.mount(t, p)
	look := func(want string) string {
		t.Helper()
		path, err := n.SubPath(p, "a", 1, "c", "k")
		if err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(path); err != nil || string(b) != want {
			t.Errorf("%s has %q, %v; want %q", path, b, err, want)
		}
		return path
	}
	first := look("v1")
	if second := look("v1"); second != first {
		t.Errorf("%s is no more %s", second, first)
	}
	n.api.set("cfg", map[string]string{"k": "v2"})
	if b, err := os.ReadFile(first); err != nil || string(b) != "v1" {
		t.Errorf("a running container's file changed to %q, %v", b, err)
	}
	look("v2")
	if err := n.Unmount(context.Background(), "u1"); err != nil {
		t.Fatal(err)
	}
}

// A subPath that leads to no key is a folder, as with every volume; once there is the key, a container that starts again finds its file.
func TestSubPathOfAKeyThatComesLater(t *testing.T) {
	n := newReal(t)
	n.api.set("cfg", map[string]string{"other": "v1"})
	p := pod("u1", configMap("c", "cfg"))
	n.mount(t, p)
	path, err := n.SubPath(p, "a", 1, "c", "k")
	if info, no := os.Stat(path); err != nil || no != nil || !info.IsDir() {
		t.Fatal(path, err, no)
	}
	n.api.set("cfg", map[string]string{"other": "v1", "k": "v2"})
	if path, err = n.SubPath(p, "a", 1, "c", "k"); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "v2" {
		t.Errorf("%s has %q, %v", path, b, err)
	}
	if err := n.Unmount(context.Background(), "u1"); err != nil {
		t.Fatal(err)
	}
}

func TestSubPathStaysInside(t *testing.T) {
	n := newReal(t)
	p := pod("u1", vol("e", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}))
	p.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: ptr(int64(4000))}
	n.mount(t, p)
	dir, _, _ := n.Path(p, "e")
	outside := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "in"), 0o755); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{
		"out": outside, "up": "../../../..", "root": "/", "inside": "in", "absolute": filepath.Join(dir, "in"), "proc": "/proc/self/root",
	} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, sub := range []string{"out", "up", "root", "out/x", "proc/etc", "up/etc"} {
		path, err := n.SubPath(p, "a", 0, "e", sub)
		if err == nil {
			t.Errorf("%s leads to %s", sub, path)
			continue
		}
		if strings.Contains(err.Error(), outside) || strings.Contains(err.Error(), dir) {
			t.Errorf("the error tells about the host: %v", err)
		}
	}
	if entries, _ := os.ReadDir(outside); len(entries) != 0 {
		t.Errorf("made outside: %v", entries)
	}
	for i, sub := range []string{"inside", "absolute", "in", "made/deep/er"} {
		path, err := n.SubPath(p, "a", 10+i, "e", sub)
		if err != nil {
			t.Errorf("%s: %v", sub, err)
			continue
		}
		if err := os.WriteFile(filepath.Join(path, "f"), nil, 0o644); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(filepath.Join(dir, sub, "f")); err != nil {
			t.Errorf("%s is not what it leads to: %v", sub, err)
		}
	}
	if info, err := os.Stat(filepath.Join(dir, "made/deep")); err != nil || info.Mode().Perm() != 0o777 || info.Mode()&os.ModeSetgid == 0 {
		t.Errorf("made with mode %v, %v; want the volume's", info.Mode(), err)
	}
	if err := n.Unmount(context.Background(), "u1"); err != nil {
		t.Fatal(err)
	}
}

// The folders that a subPath makes have all of the volume's mode: in memory nobody deletes what is another's, also below it.
func TestASubPathIsMadeLikeItsVolume(t *testing.T) {
	n := newReal(t)
	p := pod("u1", vol("mem", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory}}))
	p.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: ptr(int64(4000))}
	n.mount(t, p)
	dir, _, _ := n.Path(p, "mem")
	if _, err := n.SubPath(p, "a", 0, "mem", "made/deep"); err != nil {
		t.Fatal(err)
	}
	for _, at := range []string{"", "made", "made/deep"} {
		if info, err := os.Stat(filepath.Join(dir, at)); err != nil || info.Mode() != fs.ModeDir|fs.ModeSetgid|fs.ModeSticky|0o777 {
			t.Errorf("%q: %v %v", at, info.Mode(), err)
		}
	}
	if err := n.Unmount(context.Background(), p.UID); err != nil {
		t.Fatal(err)
	}
}

// A local volume that is a device gets a file system when it has none, once, and keeps what is in it. One that is mounted is not checked.
func TestLocalDevice(t *testing.T) {
	n := newReal(t)
	programs := t.TempDir()
	checked := filepath.Join(programs, "checked")
	if err := os.WriteFile(filepath.Join(programs, "fsck"), []byte("#!/bin/sh\ngrep \"^$2 \" /proc/mounts >>"+checked+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", programs+":"+os.Getenv("PATH"))
	image := filepath.Join(t.TempDir(), "disk")
	if err := errors.Join(os.WriteFile(image, nil, 0o600), os.Truncate(image, 16<<20)); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("losetup", "--find", "--show", image).Output()
	if err != nil {
		t.Skipf("no loop device: %v", err)
	}
	device := strings.TrimSpace(string(out))
	t.Cleanup(func() {
		if out, err := exec.Command("losetup", "--detach", device).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	n.api.bind(local(device))
	reader := pod("u0", claim("v", "c", true))
	if err := n.Mount(context.Background(), reader); err == nil || !strings.Contains(err.Error(), "read-only mode") {
		t.Errorf("a device without a file system, to be read only: %v", err)
	}
	if err := n.Unmount(context.Background(), reader.UID); err != nil {
		t.Fatal(err)
	}
	var group errgroup.Group
	pods := []*v1.Pod{pod("u1", claim("v", "c", false)), pod("u2", claim("v", "c", false))}
	for _, p := range pods {
		group.Go(func() error { return n.Mount(context.Background(), p) })
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	at, _, _ := n.Path(pods[0], "v")
	if err := os.WriteFile(filepath.Join(at, "f"), []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := n.read(t, pods[1], "v", "f"); got != "kept" {
		t.Errorf("the other pod reads %q", got)
	}
	if b, err := os.ReadFile(checked); err == nil {
		t.Errorf("checked while it was mounted: %s", b)
	}
	for _, p := range pods {
		if err := n.Unmount(context.Background(), p.UID); err != nil {
			t.Fatal(err)
		}
	}
	n.mount(t, reader)
	if got := n.read(t, reader, "v", "f"); got != "kept" {
		t.Errorf("afterwards: %q", got)
	}
	if err := n.Unmount(context.Background(), reader.UID); err != nil {
		t.Fatal(err)
	}
}

// A volume of which containers ask to be told of mounts, or to tell of theirs, is shared; it goes with the pod, and what is mounted in it.
func TestMountPropagation(t *testing.T) {
	n := newReal(t)
	n.api.bind(local(t.TempDir()))
	p := pod("u1", vol("disk", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}),
		vol("mem", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory}}), claim("local", "c", false),
		vol("private", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}))
	for i, mode := range []v1.MountPropagationMode{v1.MountPropagationBidirectional, v1.MountPropagationHostToContainer, v1.MountPropagationHostToContainer, v1.MountPropagationNone} {
		p.Spec.Containers[0].VolumeMounts[i].MountPropagation = &mode
	}
	for range 2 { // again, as after a restart
		n.mount(t, p)
		table, err := os.ReadFile("/proc/self/mountinfo")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"disk", "mem", "local", "private"} {
			dir, _, _ := n.Path(p, name)
			shared := 0
			for line := range strings.Lines(string(table)) {
				if f := strings.Fields(line); f[4] == dir && strings.Contains(line, " shared:") {
					shared++
				}
			}
			if want := map[bool]int{false: 1}[name == "private"]; shared != want {
				t.Errorf("%s: %d shared mounts, want %d", name, shared, want)
			}
		}
	}
	dir, _, _ := n.Path(p, "disk")
	inner := filepath.Join(dir, "inner")
	if err := os.Mkdir(inner, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := linux.New().Mount("tmpfs", inner, "tmpfs", nil); err != nil {
		t.Fatal(err)
	}
	if err := n.Unmount(context.Background(), p.UID); err != nil {
		t.Fatal(err)
	}
}
