package volume

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// removeTree removes a directory and what is in it, and never crosses a mount: the kernel refuses to resolve a name across
// one (bind mounts of the same file system included) and to unlink one. Symbolic links are removed, never followed. A tree
// that is not there is no error.
func removeTree(path string) error {
	parent, err := unix.Open(filepath.Dir(path), unix.O_DIRECTORY|unix.O_PATH|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove %s: %w", path, err)
	}
	defer unix.Close(parent) //nolint:errcheck // nothing was written
	return removeAt(parent, filepath.Base(path), path)
}

// removeAt removes the entry name of the directory parent; path is for messages.
func removeAt(parent int, name, path string) error {
	err := unix.Unlinkat(parent, name, 0)
	switch {
	case err == nil, errors.Is(err, unix.ENOENT):
		return nil
	case !errors.Is(err, unix.EISDIR) && !errors.Is(err, unix.EPERM):
		return refuse(path, err)
	}
	fd, err := unix.Openat2(parent, name, &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_NO_XDEV | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_BENEATH,
	})
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return refuse(path, err)
	}
	dir := os.NewFile(uintptr(fd), path)
	defer dir.Close() //nolint:errcheck // nothing was written
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return fmt.Errorf("remove %s: %w", path, err)
	}
	for _, n := range names {
		if err := removeAt(fd, n, filepath.Join(path, n)); err != nil {
			return err
		}
	}
	if err := unix.Unlinkat(parent, name, unix.AT_REMOVEDIR); err != nil && !errors.Is(err, unix.ENOENT) {
		return refuse(path, err)
	}
	return nil
}

func refuse(path string, err error) error {
	if errors.Is(err, unix.EXDEV) || errors.Is(err, unix.EBUSY) {
		return fmt.Errorf("remove %s: something is mounted there; it is left alone", path)
	}
	return fmt.Errorf("remove %s: %w", path, err)
}
