package cm

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"podo.dev/podo/internal/host"
)

// Remove ends whatever still lives in the pod's cgroup and takes the cgroup away, in every hierarchy and of every class: the
// pod itself need not be known any more. Idempotent.
func (m *Manager) Remove(ctx context.Context, uid types.UID) error {
	defer m.operated("destroy", time.Now())
	var errs []error
	for _, class := range []v1.PodQOSClass{v1.PodQOSGuaranteed, v1.PodQOSBurstable, v1.PodQOSBestEffort} {
		if err := m.removeTree(ctx, m.c.Driver.Path(podName(m.root, class, uid))); err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	return m.weigh(func() { delete(m.requests, uid) })
}

// Pods are the pods that have a cgroup, of any class: for finding those that nobody knows any more.
func (m *Manager) Pods() ([]types.UID, error) {
	var out []types.UID
	for _, class := range []v1.PodQOSClass{v1.PodQOSGuaranteed, v1.PodQOSBurstable, v1.PodQOSBestEffort} {
		names, err := m.c.Host.ChildCgroups(m.layout.dir("cpu", m.c.Driver.Path(className(m.root, class))))
		if err != nil {
			return nil, err
		}
		for _, n := range names {
			if uid, ok := podUID(n); ok {
				out = append(out, uid)
			}
		}
	}
	slices.Sort(out)
	return out, nil
}

// Teardown removes all of the node's cgroups, pods included: for `podo reset`. The root itself goes too when nothing else
// is in it.
func (m *Manager) Teardown(ctx context.Context) error {
	if err := m.removeTree(ctx, m.c.Driver.Path(className(m.root, v1.PodQOSGuaranteed))); err != nil {
		return err
	}
	for i := len(m.root); i > 0; i-- {
		for _, dir := range m.layout.allDirs(m.c.Driver.Path(m.root[:i])) {
			if err := m.c.Host.RemoveCgroup(dir); err != nil && !errors.Is(err, host.ErrBusy) {
				return err
			}
		}
	}
	return nil
}

func (m *Manager) removeTree(ctx context.Context, p string) error {
	var dirs []string // deepest first, of all hierarchies
	for _, top := range m.layout.allDirs(p) {
		found, err := m.tree(top)
		if err != nil {
			return err
		}
		dirs = append(dirs, found...)
	}
	if len(dirs) == 0 {
		return nil
	}
	if err := m.killIn(ctx, dirs); err != nil {
		return fmt.Errorf("end the processes in cgroup %s: %w", p, err)
	}
	for _, dir := range dirs {
		if err := m.removeOne(ctx, dir); err != nil {
			return err
		}
	}
	return nil
}

// tree lists a cgroup and those below it, deepest first; none when it does not exist.
func (m *Manager) tree(dir string) ([]string, error) {
	names, err := m.c.Host.ChildCgroups(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []string
	for _, n := range names {
		below, err := m.tree(path.Join(dir, n))
		if err != nil {
			return nil, err
		}
		out = append(out, below...)
	}
	return append(out, dir), nil
}

func (m *Manager) killIn(ctx context.Context, dirs []string) error {
	var pids []int
	for _, dir := range dirs {
		b, err := m.c.Host.ReadFile(path.Join(dir, "cgroup.procs"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for _, f := range strings.Fields(string(b)) {
			// 0 is a process of another pid namespace, out of our reach.
			if pid, err := strconv.Atoi(f); err == nil && pid > 1 && !slices.Contains(pids, pid) {
				pids = append(pids, pid)
			}
		}
	}
	if len(pids) == 0 {
		return nil
	}
	m.c.Logger.Info("processes outlived their pod and are killed", "cgroup", dirs[len(dirs)-1], "pids", pids)
	return m.c.Host.Kill(ctx, pids)
}

// The kernel releases a cgroup a little after its last process has ended, and v1 notifies nobody: hence the retries.
const (
	removeRetry = 5 * time.Millisecond
	removeTries = 200
)

func (m *Manager) removeOne(ctx context.Context, dir string) error {
	for i := 0; ; i++ {
		err := m.c.Host.RemoveCgroup(dir)
		if err == nil || !errors.Is(err, host.ErrBusy) || i >= removeTries {
			return err
		}
		if err := m.killIn(ctx, []string{dir}); err != nil { // a process may fork between our list and our signal
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-time.After(removeRetry):
		}
	}
}
