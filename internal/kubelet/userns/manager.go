// Package userns gives pods with hostUsers: false a user namespace: a range of the node's user and group ids that no other pod
// has, kept from the first request until nothing of the pod is left, across restarts. Root in the pod is an unprivileged id on
// the host.
package userns

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Config is what a Manager needs.
type Config struct {
	Dir  string // of one file a pod
	Pool Pool
	// Supported tells whether a handler of the runtime ("": the default one) supports user namespaces.
	Supported func(handler string) bool
	// Pods are the node's pods, and whether the list is complete: ranges of other pods are then given back.
	Pods func() (pods map[types.UID]bool, complete bool)
	Log  *slog.Logger
}

// Validate says what is missing.
func (c *Config) Validate() error {
	if c.Dir == "" || c.Pool.Each == 0 || c.Pool.Length < c.Pool.Each || c.Supported == nil || c.Pods == nil || c.Log == nil {
		return errors.New("userns: Dir, Pool, Supported, Pods and Log must be set")
	}
	return nil
}

// Manager gives out ranges. A range is on disk before anything runs in it.
type Manager struct {
	c Config

	mu    sync.Mutex
	taken map[types.UID]Span
}

// Open reads what earlier processes gave out. A damaged file is set aside: the pod's running containers keep their ids, and a new
// sandbox of it gets others.
func Open(c Config) (*Manager, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	m := &Manager{c: c, taken: map[types.UID]Span{}}
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(c.Dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if filepath.Ext(e.Name()) != "" {
			continue
		}
		path := filepath.Join(c.Dir, e.Name())
		span, err := read(path)
		if err != nil {
			c.Log.Error("a pod's range of user ids cannot be read and is set aside", "file", path, "err", err)
			if err := os.Rename(path, path+".damaged"); err != nil {
				return nil, err
			}
			continue
		}
		m.taken[types.UID(e.Name())] = span
	}
	return m, nil
}

// saved is the file's form, upstream's.
type saved struct {
	UIDs []mapping `json:"uidMappings"`
	GIDs []mapping `json:"gidMappings"`
}

type mapping struct {
	Host      uint32 `json:"hostId"`
	Container uint32 `json:"containerId"`
	Length    uint32 `json:"length"`
}

func read(path string) (Span, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return Span{}, err
	}
	var s saved
	if err := json.Unmarshal(text, &s); err != nil {
		return Span{}, err
	}
	if len(s.UIDs) != 1 || !slices.Equal(s.UIDs, s.GIDs) || s.UIDs[0].Length == 0 || s.UIDs[0].Length%Unit != 0 || s.UIDs[0].Container != 0 {
		return Span{}, errors.New("it is not one range of users and the same of groups")
	}
	return Span{s.UIDs[0].Host, s.UIDs[0].Length}, nil
}

// Options are the pod's user namespace as the runtime is asked for it; nil for a pod of the host's users.
func (m *Manager) Options(pod *v1.Pod, handler string) (*runtimev1.UserNamespace, error) {
	if pod.Spec.HostUsers == nil || *pod.Spec.HostUsers {
		return nil, nil
	}
	if !m.c.Supported(handler) {
		if handler == "" {
			return nil, errors.New("the container runtime does not support user namespaces")
		}
		return nil, fmt.Errorf("RuntimeClass handler %q does not support user namespaces", handler)
	}
	s, err := m.take(pod.UID)
	if err != nil {
		return nil, err
	}
	ids := func() []*runtimev1.IDMapping { return []*runtimev1.IDMapping{{HostId: s.First, Length: s.Length}} }
	return &runtimev1.UserNamespace{Mode: runtimev1.NamespaceMode_POD, Uids: ids(), Gids: ids()}, nil
}

func (m *Manager) take(uid types.UID) (Span, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s, ok := m.taken[uid]; ok {
		return s, nil
	}
	m.sweep()
	s, ok := m.c.Pool.free(slices.Collect(maps.Values(m.taken)))
	if !ok {
		return Span{}, errors.New("could not find an empty slot to allocate a user namespace")
	}
	one := []mapping{{Host: s.First, Length: s.Length}}
	text, err := json.Marshal(saved{one, one})
	if err != nil {
		return Span{}, err
	}
	if err := write(m.path(uid), text); err != nil {
		return Span{}, err
	}
	m.taken[uid] = s
	return s, nil
}

// sweep gives back the ranges of pods that the node no longer has: an earlier process may have ended before it could.
func (m *Manager) sweep() {
	pods, complete := m.c.Pods()
	for uid := range m.taken {
		if _, there := pods[uid]; complete && !there {
			m.drop(uid)
		}
	}
}

// Forget gives back the range of a pod of which nothing is left.
func (m *Manager) Forget(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.taken[uid]; ok {
		m.drop(uid)
	}
}

func (m *Manager) drop(uid types.UID) {
	if err := os.Remove(m.path(uid)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		m.c.Log.Warn("a pod's range of user ids stays taken", "uid", uid, "err", err)
		return
	}
	delete(m.taken, uid)
}

func (m *Manager) path(uid types.UID) string { return filepath.Join(m.c.Dir, string(uid)) }

// write makes a file that is whole or not there, after a crash too.
func write(path string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "*.new")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// FindPool is the range of the user "kubelet" in /etc/subuid and /etc/subgid, or the default one where there is no such line,
// divided into each ids for each pod.
func FindPool(readFile func(string) ([]byte, error), pods int, each uint32) (Pool, error) {
	var found [2]*Span
	for i, file := range []string{"/etc/subuid", "/etc/subgid"} {
		text, err := readFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return Pool{}, err
		}
		p, ok, err := ParseSubordinate(string(text), "kubelet")
		if err != nil {
			return Pool{}, fmt.Errorf("%s: %w", file, err)
		}
		if ok {
			found[i] = &p
		}
	}
	switch uids, gids := found[0], found[1]; {
	case uids == nil && gids == nil:
		return DefaultPool(pods, each), nil
	case uids == nil || gids == nil || *uids != *gids:
		return Pool{}, errors.New("/etc/subuid and /etc/subgid must name the same range for the user kubelet")
	default:
		p := Pool{*uids, each}
		if err := p.check(pods); err != nil {
			return Pool{}, fmt.Errorf("/etc/subuid: the range of the user kubelet: %w", err)
		}
		return p, nil
	}
}
