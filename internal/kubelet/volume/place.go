package volume

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
)

// MakePlace makes, in a volume that shows API objects, a place at which something like the file or directory can be mounted. In
// other volumes the runtime makes such places itself. What the volume shows at that place is left alone, and covered, and its versions are its own (names that begin with two dots); a folder that it
// shows on the way there is unfolded.
func (m *Manager) MakePlace(pod *v1.Pod, volume, at, like string) error {
	v := volumeOf(pod, volume)
	if v == nil || v.ConfigMap == nil && v.Secret == nil && v.DownwardAPI == nil && v.Projected == nil || strings.HasPrefix(at, "..") {
		return nil
	}
	dir, _, _ := m.layout.where(pod.UID, v)
	place, way := dir, strings.Split(at, "/")
	for _, name := range way[:len(way)-1] {
		place = filepath.Join(place, name)
		err := os.Mkdir(place, 0o755)
		if errors.Is(err, fs.ErrExist) {
			err = unfold(dir, place)
		}
		if err != nil {
			return err
		}
	}
	place = filepath.Join(place, way[len(way)-1])
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

// unfold makes a folder of links to what is in it out of a link to a folder of the volume's current version: a place in it is then none in
// a version, and outlives it. Readers see the one or the other.
func unfold(dir, at string) error {
	to, err := os.Readlink(at)
	if err != nil {
		return nil //nolint:nilerr // it is a folder already, or the runtime says what it is
	}
	entries, err := os.ReadDir(at)
	if err != nil {
		return err
	}
	fresh, err := os.MkdirTemp(dir, "..place.") // swept with old versions, should nobody get further
	if err != nil {
		return err
	}
	defer os.RemoveAll(fresh) //nolint:errcheck // the same
	if err := os.Chmod(fresh, 0o755); err != nil {
		return err
	}
	for _, e := range entries {
		if err := os.Symlink(filepath.Join("..", to, e.Name()), filepath.Join(fresh, e.Name())); err != nil {
			return err
		}
	}
	return unix.Renameat2(unix.AT_FDCWD, fresh, unix.AT_FDCWD, at, unix.RENAME_EXCHANGE)
}
