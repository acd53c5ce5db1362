package volume

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"podo.dev/podo/internal/host/tree"
)

// Unmount implements worker.Volumes.
//
// The kernel may block an unmount too. When ctx ends, Unmount returns an error with the volume's name, and the pod's turn stays
// with the goroutine that waits, as in Mount.
func (m *Manager) Unmount(ctx context.Context, uid types.UID) error {
	if uid == "" || strings.ContainsAny(string(uid), "/.") {
		return fmt.Errorf("%q is no pod's UID", uid)
	}
	m.mu.Lock()
	e := m.entryOf(uid)
	m.mu.Unlock()
	select {
	case <-e.turn:
	case <-ctx.Done():
		return m.stays(ctx, uid, e)
	}
	done := make(chan error)
	go func() {
		err := m.unmount(ctx, uid, e)
		e.turn <- struct{}{}
		select {
		case done <- err:
		case <-ctx.Done():
			m.wake(uid)
		}
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return m.stays(ctx, uid, e)
	}
}

// stays is the error that names what is still mounted when ctx ends.
func (m *Manager) stays(ctx context.Context, uid types.UID, e *entry) error {
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return ctx.Err()
	}
	m.mu.Lock()
	at := e.waits
	m.mu.Unlock()
	if at == "" { // a Mount has the turn
		return m.late(ctx, e)
	}
	return m.tearDownFailed(uid, at, fmt.Errorf("unmounting %s: %w", at, ctx.Err()))
}

// tearDownFailed wraps an error of a mount below the pod's directory with the name of its volume.
func (m *Manager) tearDownFailed(uid types.UID, target string, err error) error {
	return fmt.Errorf("UnmountVolume.TearDown failed for volume %q : %w", m.layout.volumeAt(uid, target), err)
}

// unmount works with the turn held.
func (m *Manager) unmount(ctx context.Context, uid types.UID, e *entry) error {
	defer m.waitFor(e, "")
	m.unmounting(e)
	dir := m.layout.Pod(uid)
	began, kinds := m.c.Now(), m.layout.kinds(uid)
	err := m.unmountBelow(ctx, uid, e, dir)
	if err == nil {
		err = tree.Remove(dir)
	}
	m.unmounted(kinds, began, err)
	if err != nil {
		return err
	}
	m.leave(m.forget(uid, e))
	return nil
}

func (m *Manager) waitFor(e *entry, target string) {
	m.mu.Lock()
	e.waits = target
	m.mu.Unlock()
}

// unmountBelow unmounts everything inside a pod's directory, the last mounted first. It also unmounts what a container mounted
// inside a volume: unmounting deletes nothing.
func (m *Manager) unmountBelow(ctx context.Context, uid types.UID, e *entry, dir string) error {
	const rounds = 3 // mounts may uncover others
	for range rounds {
		left, err := m.c.Host.MountsInside(dir)
		if err != nil || len(left) == 0 {
			return err
		}
		for _, target := range slices.Backward(left) {
			if err := ctx.Err(); err != nil {
				return err
			}
			m.waitFor(e, target)
			if err := m.c.Host.Unmount(target); err != nil {
				return m.tearDownFailed(uid, target, err)
			}
		}
	}
	left, err := m.c.Host.MountsInside(dir)
	if err == nil && len(left) > 0 {
		err = m.tearDownFailed(uid, left[0], fmt.Errorf("%s is still mounted", left[0]))
	}
	return err
}

// volumeAt is the name of the volume that contains a path inside the pod's directory; the path itself when none does.
func (l Layout) volumeAt(uid types.UID, path string) string {
	in, _ := filepath.Rel(l.Pod(uid), path)
	switch parts := strings.Split(in, "/"); {
	case len(parts) >= 3 && parts[0] == "volumes":
		return parts[2]
	case len(parts) >= 2 && parts[0] == "volume-subpaths":
		return parts[1]
	}
	return in
}
