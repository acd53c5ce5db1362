package daemon

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// layoutVersion names the format of a data directory. A directory of another format is refused, never converted silently.
const layoutVersion = "1"

// lockDataDir makes the directory ours until the returned file is closed. The kernel drops the lock with the process, so a kill
// leaves none behind. The file holds the process id for whoever is refused.
func lockDataDir(d Dirs) (*os.File, error) {
	f, err := takeDataDir(d)
	if err != nil {
		return nil, err
	}
	if err := checkLayout(d); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// takeDataDir is lockDataDir for whatever the directory holds.
func takeDataDir(d Dirs) (*os.File, error) {
	if err := os.MkdirAll(d.Root, 0o711); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	f, err := os.OpenFile(d.Lock(), os.O_RDWR|os.O_CREATE|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		holder, _ := os.ReadFile(d.Lock())
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("data directory %s is in use by another podo (process %s): stop it with `podo down --data-dir %s`, or use another --data-dir",
				d.Root, strings.TrimSpace(string(holder)), d.Root)
		}
		return nil, fmt.Errorf("cannot lock %s: %w", d.Lock(), err)
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

// mayBeThere are what a new data directory may hold: what people put there before the first start (a snapshot, keys, manifests), what a
// start that failed has left, and a file system's own.
var mayBeThere = []string{
	"bin", "cni", "containerd", "etcd", "kubeconfig", "kubelet", "lock", "log", "lost+found", "manifests", "pki", "run.json", "server-id",
	"timeline", "version", "volumes",
}

// unfinished is the end of the name of a file that is being written: a crash may leave one.
const unfinished = ".new"

// checkOurs refuses a folder of somebody else's: `podo reset` would delete it all.
func checkOurs(d Dirs) error {
	entries, err := os.ReadDir(d.Root)
	if err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	for _, e := range entries {
		if !slices.Contains(mayBeThere, strings.TrimSuffix(e.Name(), unfinished)) {
			return fmt.Errorf("%s holds other things than podo's (%s), and `podo reset` would delete them: use a folder of its own as --data-dir", d.Root, e.Name())
		}
	}
	return nil
}

func checkLayout(d Dirs) error {
	have, err := os.ReadFile(d.Version())
	switch {
	case errors.Is(err, os.ErrNotExist):
		if err := checkOurs(d); err != nil {
			return err
		}
		return writeFile(d.Version(), []byte(layoutVersion+"\n"), 0o644)
	case err != nil:
		return fmt.Errorf("data directory: %w", err)
	case len(have) == 0:
		return fmt.Errorf("data directory %s was being removed, and something of it is left: remove the rest with `podo reset --yes --data-dir %s`", d.Root, d.Root)
	case string(bytes.TrimSpace(have)) != layoutVersion:
		return fmt.Errorf("data directory %s has format %q, this podo works with format %s: run the podo that wrote it, or use another --data-dir",
			d.Root, bytes.TrimSpace(have), layoutVersion)
	}
	return nil
}

// Running tells which process holds the data directory; 0 when none does.
func Running(d Dirs) (pid int, err error) {
	f, err := os.Open(d.Lock())
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
	content, err := os.ReadFile(d.Lock())
	if err != nil {
		return 0, err
	}
	pid, err = strconv.Atoi(strings.TrimSpace(string(content)))
	if err != nil {
		return 0, fmt.Errorf("%s is locked but does not name a process: %q", d.Lock(), content)
	}
	return pid, nil
}

// writeFile replaces a file so that a crash leaves the old or the new content, never a part.
func writeFile(path string, content []byte, mode os.FileMode) error {
	tmp := path + unfinished
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	if _, err = f.Write(content); err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		os.Remove(tmp)
	}
	return err
}
