package volume

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// own gives a tree to a pod's group: everything belongs to it, directories hand it down (setgid), and the group may read, and
// write unless readOnly. A nil group changes nothing.
func own(dir string, group *int64, readOnly bool) error {
	if group == nil {
		return nil
	}
	bits := fs.FileMode(0o660)
	if readOnly {
		bits = 0o440
	}
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if err := os.Lchown(path, -1, int(*group)); err != nil {
			return err
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			return nil
		}
		add := bits
		if info.IsDir() {
			add |= 0o110 | fs.ModeSetgid
		}
		if info.Mode()&add == add {
			return nil
		}
		return os.Chmod(path, info.Mode()|add)
	})
}

// owned tells whether a directory was given to the group already.
func owned(dir string, group *int64) bool {
	if group == nil {
		return true
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int64(st.Gid) == *group && info.Mode()&fs.ModeSetgid != 0
}
