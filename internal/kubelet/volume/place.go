package volume

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// MakePlace makes, in a volume that shows API objects, a place at which something like the file or directory can be mounted. In
// other volumes the runtime makes such places itself. A place behind a link is left alone: there the volume shows something of its own,
// which is then covered.
func (m *Manager) MakePlace(pod *v1.Pod, volume, at, like string) error {
	v := volumeOf(pod, volume)
	if v == nil || v.ConfigMap == nil && v.Secret == nil && v.DownwardAPI == nil && v.Projected == nil {
		return nil
	}
	dir, _, _ := m.layout.where(pod.UID, v)
	root, _, _ := strings.Cut(at, "/")
	if info, err := os.Lstat(filepath.Join(dir, root)); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		return nil
	}
	place := filepath.Join(dir, at)
	if err := os.MkdirAll(filepath.Dir(place), 0o755); err != nil {
		return err
	}
	var err error
	if info, no := os.Stat(like); no == nil && !info.IsDir() {
		var f *os.File
		if f, err = os.OpenFile(place, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644); err == nil {
			err = f.Close()
		}
	} else {
		err = os.Mkdir(place, 0o755)
	}
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}
