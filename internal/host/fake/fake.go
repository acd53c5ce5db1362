// Package fake is a made-up machine behind the port host: files come from a directory that the test chooses, mounts are
// entries of a table, cgroups are plain directories, and processes are numbers in cgroup.procs files. Faults are injected
// per call.
package fake

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"

	"podo.dev/podo/internal/host"
)

// Host is a made-up machine. The zero value is not usable; see New.
type Host struct {
	root string

	mu     sync.Mutex
	mounts []host.Mount
	killed []int
	said   chan string // to who follows the kernel's log
	fail   map[string]error
}

var _ host.Host = (*Host)(nil)

// New returns a machine whose files are those under root: the host's /proc/meminfo is root/proc/meminfo. Paths that lie under
// root already name themselves.
func New(root string) *Host {
	return &Host{root: filepath.Clean(root), fail: map[string]error{}, said: make(chan string)}
}

// Path says where the host's path lies in reality.
func (h *Host) Path(path string) string {
	path = filepath.Clean(path)
	if path == h.root || strings.HasPrefix(path, h.root+"/") {
		return path
	}
	return filepath.Join(h.root, path)
}

// WriteFile puts a file on the host, its directories too.
func (h *Host) WriteFile(path, content string) error {
	p := h.Path(path)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		return err
	}
	return os.WriteFile(p, []byte(content), 0o644)
}

// Fail makes the call ("mount", "unmount", "write", ...) on path fail with err until it is called again with nil.
func (h *Host) Fail(call, path string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fail[call+" "+path] = err
}

// AddMount puts an entry in the mount table, as another program would.
func (h *Host) AddMount(m host.Mount) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mounts = append(h.mounts, m)
}

// Killed are the processes that were killed so far.
func (h *Host) Killed() []int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.killed)
}

func (h *Host) fault(call, path string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.fail[call+" "+path]
}

// SayKernel is a line in the kernel's log; it returns when somebody who follows the log has read it.
func (h *Host) SayKernel(line string) { h.said <- line }

// FollowKernel implements host.KernelLog, for one at a time.
func (h *Host) FollowKernel(ctx context.Context, ready func(), line func(string)) error {
	if err := h.fault("kernel log", ""); err != nil {
		return err
	}
	ready()
	for {
		select {
		case <-ctx.Done():
			return nil
		case s := <-h.said:
			line(s)
		}
	}
}

// Mount implements host.Mounts.
func (h *Host) Mount(source, target, fsType string, options []string) error {
	if err := h.fault("mount", target); err != nil {
		return err
	}
	if _, err := os.Stat(h.Path(target)); err != nil {
		return fmt.Errorf("mount %s on %s: %w", source, target, err)
	}
	h.AddMount(host.Mount{Source: source, Root: "/", Target: target, FSType: fsType, Options: slices.Clone(options)})
	return nil
}

// MountDevice implements host.Mounts.
func (h *Host) MountDevice(device, target, fsType string, options []string) error {
	return h.Mount(device, target, fsType, options)
}

// Unmount implements host.Mounts.
func (h *Host) Unmount(target string) error {
	if err := h.fault("unmount", target); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := len(h.mounts) - 1; i >= 0; i-- {
		m := h.mounts[i]
		if strings.HasPrefix(m.Target, target+"/") {
			return fmt.Errorf("unmount %s: %w", target, host.ErrBusy)
		}
		if m.Target == target {
			h.mounts = slices.Delete(h.mounts, i, i+1)
			return nil
		}
	}
	return nil
}

// IsMount implements host.Mounts.
func (h *Host) IsMount(path string) (bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.ContainsFunc(h.mounts, func(m host.Mount) bool { return m.Target == path }), nil
}

// MountTable implements host.Mounts.
func (h *Host) MountTable() ([]host.Mount, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.mounts), nil
}

// MountsInside implements host.Mounts.
func (h *Host) MountsInside(dir string) (targets []string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, m := range h.mounts {
		if strings.HasPrefix(m.Target, dir+"/") {
			targets = append(targets, m.Target)
		}
	}
	return targets, nil
}

// ReadFile implements host.Files.
func (h *Host) ReadFile(path string) ([]byte, error) { return os.ReadFile(h.Path(path)) }

// ReadDir implements host.Files.
func (h *Host) ReadDir(path string) ([]string, error) {
	entries, err := os.ReadDir(h.Path(path))
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	sort.Strings(names)
	return names, err
}

// Kill implements host.Processes: it takes the numbers out of every cgroup.procs file under the root.
func (h *Host) Kill(_ context.Context, pids []int) error {
	h.mu.Lock()
	h.killed = append(h.killed, pids...)
	h.mu.Unlock()
	return filepath.WalkDir(h.root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != "cgroup.procs" {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var left []string
		for _, f := range strings.Fields(string(b)) {
			if n, _ := strconv.Atoi(f); !slices.Contains(pids, n) {
				left = append(left, f)
			}
		}
		return os.WriteFile(path, []byte(strings.Join(left, "\n")), 0o644)
	})
}

// MakeCgroup implements host.Cgroups.
func (h *Host) MakeCgroup(path string) (bool, error) {
	p := h.Path(path)
	if _, err := os.Stat(p); err == nil {
		return false, nil
	}
	return true, os.MkdirAll(p, 0o755)
}

// ChildCgroups implements host.Cgroups.
func (h *Host) ChildCgroups(path string) ([]string, error) {
	entries, err := os.ReadDir(h.Path(path))
	var out []string
	for _, e := range entries {
		if e.IsDir() {
			out = append(out, e.Name())
		}
	}
	return out, err
}

// WriteControl implements host.Cgroups.
func (h *Host) WriteControl(path, file, value string) error {
	if err := h.fault("write", filepath.Join(path, file)); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(h.Path(path), file), []byte(value), 0o644)
}

// RemoveCgroup implements host.Cgroups: control files go with the directory, child cgroups and processes keep it.
func (h *Host) RemoveCgroup(path string) error {
	p := h.Path(path)
	entries, err := os.ReadDir(p)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	procs, _ := os.ReadFile(filepath.Join(p, "cgroup.procs"))
	if len(strings.TrimSpace(string(procs))) > 0 || slices.ContainsFunc(entries, fs.DirEntry.IsDir) {
		return fmt.Errorf("remove cgroup %s: %w", path, host.ErrBusy)
	}
	return os.RemoveAll(p)
}
