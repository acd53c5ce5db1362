package volume

import (
	"os"
	"path/filepath"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// A volume that shows API objects has places for what is mounted in it, which stay when it changes; what it shows itself is covered
// instead. Other volumes are left alone.
func TestMakePlace(t *testing.T) {
	n := newTest(t)
	n.api.set("c", map[string]string{"k": "v1"})
	p := pod("a", configMap("v", "c"), configMap("own", "c", v1.KeyToPath{Key: "k", Path: "d/k"}), vol("e", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}))
	n.mount(t, p)
	file := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	place := func(volume, at, like string) {
		t.Helper()
		for range 2 { // another container, or the same one again
			if err := n.MakePlace(p, volume, at, like); err != nil {
				t.Fatal(err)
			}
		}
	}
	place("v", "dir/below", filepath.Dir(file))
	place("v", "file", file)
	place("v", "image", "")
	place("v", "k", file)
	place("own", "d/below", file)
	if own, _, _ := n.Path(p, "own"); exists(filepath.Join(own, "d/below")) {
		t.Error("a version of what the volume shows has something else in it")
	}
	place("e", "dir", file)
	n.api.set("c", map[string]string{"k": "v2", "image": "late"})
	n.api.set("c", map[string]string{"k": "v3"})
	dir, _, err := n.Path(p, "v")
	if err != nil {
		t.Fatal(err)
	}
	for name, isDir := range map[string]bool{"dir/below": true, "file": false, "image": true} {
		if info, err := os.Lstat(filepath.Join(dir, name)); err != nil || info.IsDir() != isDir || info.Mode()&os.ModeSymlink != 0 {
			t.Errorf("%s: %v %v", name, info, err)
		}
	}
	if got := n.read(t, p, "v", "k"); got != "v3" {
		t.Errorf("k is %q", got)
	}
	if empty, _, _ := n.Path(p, "e"); exists(filepath.Join(empty, "dir")) {
		t.Error("a place in a volume of the pod's own")
	}
	if err := n.Unmount(t.Context(), p.UID); err != nil {
		t.Fatal(err)
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
