package localvolume

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	storagehelpers "k8s.io/component-helpers/storage/volume"

	"podo.dev/podo/internal/localclass"
)

func ours(dir, name string) *v1.PersistentVolume {
	return &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{storagehelpers.AnnDynamicallyProvisioned: localclass.Provisioner}},
		Spec:       v1.PersistentVolumeSpec{PersistentVolumeSource: v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: filepath.Join(dir, name)}}},
	}
}

func TestFolders(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "volumes")
	var mounted []string
	f := Folders{dir, func(string) []string { return mounted }}
	if err := f.Ensure(ours(dir, "a")); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(dir, "a"))
	if err != nil || info.Mode().Perm() != 0o777 {
		t.Fatal(info, err)
	}
	// What is in it, and what its user made of its mode, stays.
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "a", "data"), nil, 0o600), os.Chmod(filepath.Join(dir, "a"), 0o700), f.Ensure(ours(dir, "a"))); err != nil {
		t.Fatal(err)
	}
	if info, _ := os.Stat(filepath.Join(dir, "a")); info.Mode().Perm() != 0o700 {
		t.Error(info.Mode())
	}
	// A volume that somebody else made, or that is elsewhere, is not made here.
	other := ours(dir, "b")
	other.Annotations = nil
	if err := errors.Join(f.Ensure(other), f.Ensure(ours(dir+"/..", "c"))); err != nil {
		t.Fatal(err)
	}
	if all, _ := os.ReadDir(dir); len(all) != 1 {
		t.Error(all)
	}
	ask := func(path string) int {
		w := httptest.NewRecorder()
		f.ServeHTTP(w, httptest.NewRequest(http.MethodDelete, path, nil))
		return w.Code
	}
	mounted = []string{"/x"}
	if code := ask(localclass.Path + "a"); code != http.StatusConflict {
		t.Error(code)
	}
	mounted = nil
	for _, bad := range []string{"", "..", "a/../../x", "%2e%2e"} {
		if err := f.Remove(bad); err == nil {
			t.Errorf("%q is taken for a volume", bad)
		}
	}
	if code := ask(localclass.Path + "a"); code != http.StatusNoContent {
		t.Error(code)
	}
	if _, err := os.Stat(filepath.Join(dir, "a")); !os.IsNotExist(err) {
		t.Error(err)
	}
	if code := ask(localclass.Path + "a"); code != http.StatusNoContent { // again: the first answer may have been lost
		t.Error(code)
	}
}
