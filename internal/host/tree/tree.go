// Package tree removes directory trees and never deletes through a mount: the kernel itself refuses to resolve a name across one
// (bind mounts of the same file system included, which a device number does not give away) and to unlink one. Symbolic links
// are removed, never followed.
package tree

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Remove removes a directory and what is in it; one that is not there is no error. At a mount it stops with an error that names
// it, and what is mounted is left alone; what it came past before that is gone.
func Remove(path string) error {
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

// Clear removes what is in a directory and keeps the directory, which may be a mount point itself.
func Clear(path string) error {
	dir, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return removeIn(dir, path)
}

// removeIn removes all entries of an open directory and closes it.
func removeIn(dir *os.File, path string) error {
	defer dir.Close() //nolint:errcheck // nothing was written
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return fmt.Errorf("remove %s: %w", path, err)
	}
	for _, n := range names {
		if err := removeAt(int(dir.Fd()), n, filepath.Join(path, n)); err != nil {
			return err
		}
	}
	return nil
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
	if err := removeIn(os.NewFile(uintptr(fd), path), path); err != nil {
		return err
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
