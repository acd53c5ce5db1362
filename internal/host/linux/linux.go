// Package linux is the real machine behind the port host. It holds no state.
package linux

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"

	"golang.org/x/sys/unix"

	"podo.dev/podo/internal/host"
)

// Host is the machine this process runs on.
type Host struct{}

var _ host.Host = Host{}

// New returns the machine.
func New() Host { return Host{} }

// ReadFile implements host.Files.
func (Host) ReadFile(path string) ([]byte, error) { return os.ReadFile(path) }

// ReadDir implements host.Files.
func (Host) ReadDir(path string) ([]string, error) {
	d, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer d.Close() //nolint:errcheck // read only
	names, err := d.Readdirnames(-1)
	sort.Strings(names)
	return names, err
}

// Kill implements host.Processes. A pidfd is opened before the signal is sent, so that a number which the kernel gives to
// another process in between is neither signalled twice nor waited for.
func (Host) Kill(ctx context.Context, pids []int) error {
	var errs []error
	fds := make([]int, 0, len(pids))
	defer func() {
		for _, fd := range fds {
			unix.Close(fd) //nolint:errcheck // nothing was written
		}
	}()
	for _, pid := range pids {
		fd, err := unix.PidfdOpen(pid, 0)
		if errors.Is(err, unix.ESRCH) {
			continue
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("open process %d: %w", pid, err))
			continue
		}
		fds = append(fds, fd)
		if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
			errs = append(errs, fmt.Errorf("kill process %d: %w", pid, err))
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	return waitAll(ctx, fds)
}

// waitAll returns when every pidfd says that its process has ended. An eventfd carries ctx's end into the poll.
func waitAll(ctx context.Context, fds []int) error {
	if len(fds) == 0 {
		return nil
	}
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		return fmt.Errorf("eventfd: %w", err)
	}
	woken := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(woken)
		unix.Write(wake, []byte{1, 0, 0, 0, 0, 0, 0, 0}) //nolint:errcheck // an eventfd below its maximum takes every write
	})
	defer func() {
		if !stop() {
			<-woken
		}
		unix.Close(wake) //nolint:errcheck // nothing to lose
	}()
	for _, fd := range fds {
		for {
			p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}, {Fd: int32(wake), Events: unix.POLLIN}}
			_, err := unix.Poll(p, -1)
			if err != nil && !errors.Is(err, unix.EINTR) {
				return fmt.Errorf("wait for processes to end: %w", err)
			}
			if p[0].Revents != 0 {
				break
			}
			if p[1].Revents != 0 {
				return fmt.Errorf("processes were killed but have not ended: %w", ctx.Err())
			}
		}
	}
	return nil
}

// MakeCgroup implements host.Cgroups.
func (Host) MakeCgroup(path string) (bool, error) {
	err := os.Mkdir(path, 0o755)
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, fs.ErrExist):
		return false, nil
	case errors.Is(err, fs.ErrNotExist):
		if _, err := (Host{}).MakeCgroup(filepath.Dir(path)); err != nil {
			return false, err
		}
		return (Host{}).MakeCgroup(path)
	}
	return false, err
}

// ChildCgroups implements host.Cgroups.
func (Host) ChildCgroups(path string) ([]string, error) {
	entries, err := os.ReadDir(path)
	var out []string
	for _, e := range entries {
		if e.IsDir() {
			out = append(out, e.Name())
		}
	}
	return out, err
}

// WriteControl implements host.Cgroups. Control files take a value in one write and are never created.
func (Host) WriteControl(path, file, value string) error {
	f, err := os.OpenFile(filepath.Join(path, file), os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("write %q to %s: %w", value, filepath.Join(path, file), err)
	}
	return nil
}

// RemoveCgroup implements host.Cgroups.
func (Host) RemoveCgroup(path string) error {
	err := unix.Rmdir(path)
	switch {
	case err == nil, errors.Is(err, unix.ENOENT):
		return nil
	case errors.Is(err, unix.EBUSY), errors.Is(err, unix.ENOTEMPTY):
		return fmt.Errorf("remove cgroup %s: %w", path, host.ErrBusy)
	}
	return fmt.Errorf("remove cgroup %s: %w", path, err)
}
