package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"podo.dev/podo/internal/host/tree"
)

// SubPath pins what subPath leads to inside a volume of the pod, and returns where the container finds it: a bind mount of
// its own, made from the opened file, so that nobody can swap a symbolic link between the check and the mount. What does not
// exist is made as a directory with the volume's mode. index is the position of the mount in the container.
//
// It is made anew when it no longer is what subPath leads to: a ConfigMap's files are other files after each change, and a
// container that starts again must find the new ones (case C01).
//
// Errors tell nothing about the host's files.
func (m *Manager) SubPath(pod *v1.Pod, container string, index int, volume, subPath string) (string, error) {
	base, _, err := m.Path(pod, volume)
	if err != nil {
		return "", err
	}
	perm, err := os.Stat(base)
	if err != nil {
		return "", fmt.Errorf("failed to prepare subPath for volumeMount %q of container %q", volume, container)
	}
	fd, err := -1, error(unix.ENOENT)
	if v := volumeOf(pod, volume); v != nil && showsObjects(v) {
		// Its own folder may still have one that was made for this path when the object had no such key.
		fd, err = openBelow(base, filepath.Join(dataLink, subPath))
	}
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		fd, err = openBelow(base, subPath)
	}
	if errors.Is(err, unix.ENOENT) {
		if err := makeBelow(base, subPath, perm.Mode()); err != nil {
			m.c.Logger.Warn("a subPath could not be made", "pod", pod.Name, "container", container, "volume", volume, "err", err)
			return "", fmt.Errorf("failed to create subPath directory for volumeMount %q of container %q", volume, container)
		}
		fd, err = openBelow(base, subPath)
	}
	if err != nil {
		m.c.Logger.Warn("a subPath could not be opened", "pod", pod.Name, "container", container, "volume", volume, "err", err)
		return "", fmt.Errorf("failed to prepare subPath for volumeMount %q of container %q", volume, container)
	}
	defer unix.Close(fd) //nolint:errcheck // nothing was written
	target := m.layout.subPath(pod.UID, volume, container, strconv.Itoa(index))
	if err := m.pin(fd, target); err != nil {
		m.c.Logger.Warn("a subPath could not be mounted", "pod", pod.Name, "container", container, "volume", volume, "err", err)
		return "", fmt.Errorf("failed to prepare subPath for volumeMount %q of container %q", volume, container)
	}
	return target, nil
}

// openBelow opens a path inside base. Links may lead anywhere inside, also when they are absolute, and nowhere else.
func openBelow(base, rel string) (int, error) {
	dir, err := unix.Open(base, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(dir) //nolint:errcheck // nothing was written
	how := &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS}
	fd, err := unix.Openat2(dir, rel, how)
	if !errors.Is(err, unix.EXDEV) {
		return fd, err
	}
	// An absolute link: its target is looked up by name inside base, and then opened step by step without following links.
	real, err := filepath.EvalSymlinks(filepath.Join(base, rel))
	if err != nil {
		return -1, err
	}
	realBase, err := filepath.EvalSymlinks(base)
	if err != nil {
		return -1, err
	}
	if !below(realBase, real) {
		return -1, fmt.Errorf("%s leads out of the volume", rel)
	}
	how.Resolve |= unix.RESOLVE_NO_SYMLINKS
	return unix.Openat2(dir, strings.TrimPrefix(real, realBase+"/"), how)
}

// makeBelow makes the directories of a path inside base that are missing, each opened from the one above it.
func makeBelow(base, rel string, mode fs.FileMode) error {
	at := "."
	for part := range strings.SplitSeq(filepath.Clean(rel), "/") {
		parent, err := openBelow(base, at)
		if err != nil {
			return err
		}
		err = makeAt(parent, part, mode)
		unix.Close(parent) //nolint:errcheck // nothing was written
		if err != nil {
			return err
		}
		at = filepath.Join(at, part)
	}
	return nil
}

func makeAt(parent int, name string, mode fs.FileMode) error {
	err := unix.Mkdirat(parent, name, uint32(mode.Perm()))
	if errors.Is(err, unix.EEXIST) {
		return nil
	}
	if err != nil {
		return err
	}
	fd, err := unix.Openat(parent, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	bits := uint32(mode.Perm())
	for flag, bit := range map[fs.FileMode]uint32{fs.ModeSetuid: unix.S_ISUID, fs.ModeSetgid: unix.S_ISGID, fs.ModeSticky: unix.S_ISVTX} {
		if mode&flag != 0 {
			bits |= bit
		}
	}
	return errors.Join(unix.Fchmod(fd, bits), unix.Close(fd)) // whatever the umask is
}

// pin bind-mounts an opened file or directory on target, unless it is there already.
func (m *Manager) pin(fd int, target string) error {
	var want, have unix.Stat_t
	if err := unix.Fstat(fd, &want); err != nil {
		return err
	}
	mounted, err := m.c.Host.IsMount(target)
	if err != nil {
		return err
	}
	if mounted {
		if err := unix.Lstat(target, &have); err == nil && have.Dev == want.Dev && have.Ino == want.Ino {
			return nil
		}
		if err := m.c.Host.Unmount(target); err != nil {
			return err
		}
	}
	// Below an old mount there may be a directory where a file is needed now.
	if err := tree.Remove(target); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o750); err != nil {
		return err
	}
	if want.Mode&unix.S_IFMT == unix.S_IFDIR {
		err = os.Mkdir(target, 0o750)
	} else {
		err = os.WriteFile(target, nil, 0o640)
	}
	if err != nil {
		return err
	}
	return m.c.Host.Mount("/proc/self/fd/"+strconv.Itoa(fd), target, "", []string{"bind"})
}
