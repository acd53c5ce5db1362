package datadir

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Lock makes the directory ours until the returned file is closed. The kernel releases the lock with the process, so a kill
// leaves none behind. The file contains the process id, for those who are refused.
func (d Dir) Lock() (*os.File, error) {
	f, err := d.take()
	if err != nil {
		return nil, err
	}
	if err := d.checkLayout(); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// take is Lock without looking at the directory's content.
func (d Dir) take() (*os.File, error) {
	if err := os.MkdirAll(d.Root, 0o711); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	f, err := os.OpenFile(d.lock(), os.O_RDWR|os.O_CREATE|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		holder, _ := os.ReadFile(d.lock())
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("data directory %s is in use by another podo (process %s): stop it with `podo down --data-dir %s`, or use another --data-dir",
				d.Root, strings.TrimSpace(string(holder)), d.Root)
		}
		return nil, fmt.Errorf("cannot lock %s: %w", d.lock(), err)
	}
	if err := f.Truncate(0); err != nil {
		f.Close()
		return nil, err
	}
	if _, err := f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Running tells which process holds the data directory; 0 when none does.
func (d Dir) Running() (pid int, err error) {
	f, err := os.Open(d.lock())
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	err = unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	if err == nil {
		return 0, nil
	}
	if !errors.Is(err, unix.EWOULDBLOCK) {
		return 0, err
	}
	content, err := os.ReadFile(d.lock())
	if err != nil {
		return 0, err
	}
	pid, err = strconv.Atoi(strings.TrimSpace(string(content)))
	if err != nil {
		return 0, fmt.Errorf("%s is locked but does not name a process: %q", d.lock(), content)
	}
	return pid, nil
}
