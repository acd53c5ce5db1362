// Package localvolume is the node's part of Podo's own storage class: the folders below the node's data directory. One is made when it is
// first mounted, and deleted when the control plane says so.
package localvolume

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	v1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"

	"podo.dev/podo/internal/localclass"
)

// Folders are a node's.
type Folders struct {
	Dir    string                // absolute
	Mounts func(string) []string // where pods of this node have a volume of that name mounted
}

// Ensure makes the folder of a volume of ours before it is mounted; other volumes are left alone. Whatever user the pod runs as may write
// into it.
func (f Folders) Ensure(pv *v1.PersistentVolume) error {
	if f.Dir == "" || !localclass.Ours(pv) || pv.Spec.Local == nil || pv.Spec.Local.Path != localclass.Folder(f.Dir, pv.Name) {
		return nil
	}
	if _, err := os.Stat(pv.Spec.Local.Path); err == nil {
		return nil // its mode is its user's by now
	}
	if err := os.MkdirAll(f.Dir, 0o711); err != nil {
		return err
	}
	// Under another name until its mode is right, so that a crash leaves none that only root may write into.
	made := filepath.Join(f.Dir, "."+pv.Name)
	if err := os.MkdirAll(made, 0o777); err != nil {
		return err
	}
	if err := os.Chmod(made, 0o777); err != nil {
		return err
	}
	return os.Rename(made, pv.Spec.Local.Path)
}

// Remove deletes a volume's folder. It is refused while a pod has it mounted; one that is not there has been deleted.
func (f Folders) Remove(volume string) error {
	if msgs := apivalidation.NameIsDNSSubdomain(volume, false); len(msgs) > 0 {
		return fmt.Errorf("%q is no name of a volume: %s", volume, strings.Join(msgs, ", "))
	}
	if at := f.Mounts(volume); len(at) > 0 {
		return &InUse{volume, at}
	}
	if err := os.RemoveAll(filepath.Join(f.Dir, "."+volume)); err != nil {
		return err
	}
	return os.RemoveAll(localclass.Folder(f.Dir, volume))
}

// InUse says that pods have the volume mounted.
type InUse struct {
	Volume string
	At     []string
}

func (e *InUse) Error() string {
	return fmt.Sprintf("volume %q is still mounted at %s", e.Volume, strings.Join(e.At, ", "))
}

// ServeHTTP takes DELETE localclass.Path + the volume's name.
func (f Folders) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch err := f.Remove(strings.TrimPrefix(r.URL.Path, localclass.Path)); err.(type) {
	case nil:
		w.WriteHeader(http.StatusNoContent)
	case *InUse:
		http.Error(w, err.Error(), http.StatusConflict)
	default:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}
