package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
)

// own gives a tree to a pod's group: everything belongs to the group, new files inherit it (setgid), and the group may read, and
// write unless readOnly. A nil group changes nothing.
//
// The tree's own directory comes last: it marks the whole tree as given (owned). Files that disappear meanwhile are skipped; a
// file that cannot be given does not stop the rest, and the first such error is returned. files, unless nil, counts the files
// dealt with.
func own(dir string, group *int64, readOnly bool, files *atomic.Int64) error {
	if group == nil {
		return nil
	}
	var first error
	tell := func(err error) {
		if first == nil && !errors.Is(err, fs.ErrNotExist) {
			first = err
		}
	}
	tell(filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if files != nil {
			files.Add(1)
		}
		switch {
		case err != nil:
			tell(err)
		case path != dir:
			tell(give(path, d, *group, readOnly))
		}
		return nil
	}))
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	tell(give(dir, fs.FileInfoToDirEntry(info), *group, readOnly))
	return first
}

// Users are told when a volume of many files is still being given to its pod's group, first after slow, then periodically.
const (
	slowAfter = 30 * time.Second
	slowEvery = time.Minute
)

// tellSlow tells users of a pod that giving a volume to its group takes long, with its progress, until end is called.
func (m *Manager) tellSlow(pod *v1.Pod, dir string) (files *atomic.Int64, end func()) {
	files = &atomic.Int64{}
	shown := dir
	if i := strings.Index(dir, string(pod.UID)); i >= 0 {
		shown = dir[i:]
	}
	tell := func(text string) {
		m.c.Event(pod, "", v1.EventTypeWarning, "VolumePermissionChangeInProgress", "Setting volume ownership for "+shown+text)
	}
	done := make(chan struct{})
	go func() {
		timer := time.NewTimer(slowAfter)
		defer timer.Stop()
		for first := true; ; first = false {
			select {
			case <-done:
				return
			case <-timer.C:
			}
			if first {
				tell(" is taking longer than expected, consider using OnRootMismatch - https://kubernetes.io/docs/tasks/configure-pod-container/" +
					"security-context/#configure-volume-permission-and-ownership-change-policy-for-pods")
			} else {
				tell(fmt.Sprintf(", processed %d files.", files.Load()))
			}
			timer.Reset(slowEvery)
		}
	}()
	return files, func() { close(done) }
}

func give(path string, d fs.DirEntry, group int64, readOnly bool) error {
	info, err := d.Info()
	if err != nil {
		return err
	}
	if err := os.Lchown(path, -1, int(group)); err != nil {
		return err
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		return nil
	}
	add := groupBits(info.IsDir(), readOnly)
	if info.Mode()&add == add {
		return nil
	}
	return os.Chmod(path, info.Mode()|add)
}

// groupBits are those that the pod's group needs, and the owner, too.
func groupBits(dir, readOnly bool) fs.FileMode {
	bits := fs.FileMode(0o660)
	if readOnly {
		bits = 0o440
	}
	if dir {
		bits |= 0o110 | fs.ModeSetgid
	}
	return bits
}

// owned tells whether a directory was given to the group already and still has the bits in need.
func owned(dir string, group *int64, need fs.FileMode) bool {
	if group == nil {
		return true
	}
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() {
		return false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int64(st.Gid) == *group && info.Mode()&need == need
}
