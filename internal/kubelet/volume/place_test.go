package volume

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
)

// A volume that shows API objects has places for what is mounted in it, which stay when it changes; what it shows itself is covered
// instead. Other volumes are left alone.
func TestMakePlace(t *testing.T) {
	n := newTest(t)
	n.api.set("c", map[string]string{"k": "v1"})
	p := pod("a", configMap("v", "c"), configMap("own", "c", v1.KeyToPath{Key: "k", Path: "d/k"}), configMap("deep", "c", v1.KeyToPath{Key: "k", Path: "a/b/k"}, v1.KeyToPath{Key: "k", Path: "a/l"}),
		vol("e", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}))
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
	place("own", "d/k", file)
	place("deep", "a/b/c/z", file)
	place("deep", "a/z", "")
	place("deep", "..data/a/x", "")
	deep, _, _ := n.Path(p, "deep")
	if left, err := filepath.Glob(filepath.Join(deep, "..*")); err != nil || len(left) != 2 {
		t.Errorf("left: %v %v", left, err)
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
	for _, shown := range []struct{ volume, path string }{{"v", "k"}, {"own", "d/k"}, {"deep", "a/b/k"}, {"deep", "a/l"}} {
		if got := n.read(t, p, shown.volume, shown.path); got != "v3" {
			t.Errorf("%s shows %q at %s", shown.volume, got, shown.path)
		}
	}
	for _, made := range []struct{ volume, path string }{{"own", "d/below"}, {"deep", "a/b/c/z"}, {"deep", "a/z"}} {
		dir, _, _ := n.Path(p, made.volume)
		if !exists(filepath.Join(dir, made.path)) || exists(filepath.Join(dir, "..data", made.path)) {
			t.Errorf("%s has no place at %s, or one in what it shows itself", made.volume, made.path)
		}
	}
	late := payload{"a/b/k": {data: []byte("v4"), mode: 0o644}, "a/b/late": {data: []byte("v4"), mode: 0o644}, "a/l": {data: []byte("v4"), mode: 0o644}}
	if err := writeAtomically(deep, late, time.Now(), 0, func(string) error { return nil }); err != nil {
		t.Fatal(err)
	}
	for path := range late {
		if got := n.read(t, p, "deep", path); got != "v4" {
			t.Errorf("%q at %s, in a folder that was unfolded", got, path)
		}
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
