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

// MakePlace makes a mount point inside a volume that shows API objects, for something like the file or directory like. In other
// volumes the runtime makes mount points itself. What the volume already has at that place is left alone and will be covered; so
// are the volume's versions (names that begin with two dots). A folder that the volume shows on the way there is unfolded.
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

// unfold replaces a link to a folder of the volume's current version by a folder of links to its entries. A mount point in it
// then belongs to no version, and outlives them. Readers see the one or the other.
func unfold(dir, at string) error {
	to, err := os.Readlink(at)
	if err != nil {
		return nil //nolint:nilerr // it is a folder already, or the runtime reports what is wrong with it
	}
	entries, err := os.ReadDir(at)
	if err != nil {
		return err
	}
	fresh, err := os.MkdirTemp(dir, "..place.") // swept with old versions if this is interrupted
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
