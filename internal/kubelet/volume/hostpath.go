package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	v1 "k8s.io/api/core/v1"
)

// checkHostPath checks what a hostPath volume says is there, and makes it where its type says so. Symbolic links are followed,
// as the mount will.
func checkHostPath(s *v1.HostPathVolumeSource) error {
	kind := v1.HostPathUnset
	if s.Type != nil {
		kind = *s.Type
	}
	info, err := os.Stat(s.Path)
	if errors.Is(err, fs.ErrNotExist) {
		switch kind {
		case v1.HostPathDirectoryOrCreate:
			return os.MkdirAll(s.Path, 0o755)
		case v1.HostPathFileOrCreate:
			return createFile(s.Path)
		}
		err = nil // a path that does not exist matches no type
	}
	if err != nil {
		return err
	}
	want, what := fs.FileMode(0), ""
	switch kind {
	case v1.HostPathDirectory, v1.HostPathDirectoryOrCreate:
		want, what = fs.ModeDir, "a directory"
	case v1.HostPathFile, v1.HostPathFileOrCreate:
		what = "a file"
	case v1.HostPathSocket:
		want, what = fs.ModeSocket, "a socket file"
	case v1.HostPathCharDev:
		want, what = fs.ModeDevice|fs.ModeCharDevice, "a character device"
	case v1.HostPathBlockDev:
		want, what = fs.ModeDevice, "a block device"
	default:
		return nil
	}
	if info == nil || info.Mode().Type() != want {
		return fmt.Errorf("hostPath type check failed: %s is not %s", s.Path, what)
	}
	return nil
}

// createFile makes an empty file; its directory must be there.
func createFile(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	return errors.Join(f.Chmod(0o644), f.Close())
}
