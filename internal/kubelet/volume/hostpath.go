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
	if s.Type == nil || *s.Type == v1.HostPathUnset {
		return nil
	}
	want, what := *s.Type, ""
	is, err := fileType(s.Path)
	switch want {
	case v1.HostPathDirectoryOrCreate:
		if err != nil {
			return os.MkdirAll(s.Path, 0o755)
		}
		want = v1.HostPathDirectory
	case v1.HostPathFileOrCreate:
		if err != nil {
			return createFile(s.Path)
		}
		want = v1.HostPathFile
	}
	if err == nil && is == v1.HostPathUnset {
		err = errors.New("only recognise file, directory, socket, block device and character device")
	}
	switch want {
	case v1.HostPathDirectory:
		what = "a directory"
	case v1.HostPathFile:
		what = "a file"
	case v1.HostPathSocket:
		what = "a socket file"
	case v1.HostPathCharDev:
		what = "a character device"
	case v1.HostPathBlockDev:
		what = "a block device"
	}
	switch {
	case err != nil:
		return fmt.Errorf("hostPath type check failed, %s is not %s, unable to determine its type: %w", s.Path, what, err)
	case is != want:
		return fmt.Errorf("hostPath type check failed: %s is not %s, it's a %s", s.Path, what, is)
	}
	return nil
}

// fileType tells what there is under a path; HostPathUnset is something else than a volume can ask for.
func fileType(path string) (v1.HostPathType, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return v1.HostPathUnset, fmt.Errorf("path %q does not exist", path)
	case err != nil:
		return v1.HostPathUnset, err
	}
	switch info.Mode().Type() {
	case fs.ModeDir:
		return v1.HostPathDirectory, nil
	case 0:
		return v1.HostPathFile, nil
	case fs.ModeSocket:
		return v1.HostPathSocket, nil
	case fs.ModeDevice | fs.ModeCharDevice:
		return v1.HostPathCharDev, nil
	case fs.ModeDevice:
		return v1.HostPathBlockDev, nil
	}
	return v1.HostPathUnset, nil
}

// createFile makes an empty file; its directory must be there.
func createFile(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	return errors.Join(f.Chmod(0o644), f.Close())
}
