// Package podmanager owns the set of desired pods: what the sources want on this node, with the mirror pods that stand for
// static ones in the API. It decides nothing and is safe for concurrent use; pods in it are shared and not to be changed.
package podmanager

import (
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"podo.dev/podo/internal/podlife"
)

// Manager is the set.
type Manager struct {
	mu      sync.RWMutex
	pods    map[types.UID]*v1.Pod // without mirror pods
	mirrors map[string]*v1.Pod    // mirror pods by namespace/name
	// names are the pods of each namespace/name in the order in which they came. There are several while one waits for another's end, or
	// when a static pod has the name of one of the API.
	names map[string][]types.UID
}

// New returns an empty set.
func New() *Manager {
	return &Manager{pods: map[types.UID]*v1.Pod{}, mirrors: map[string]*v1.Pod{}, names: map[string][]types.UID{}}
}

// fullName is how a pod and its mirror find each other.
func fullName(p *v1.Pod) string { return p.Namespace + "/" + p.Name }

// Set adds or replaces a pod.
func (m *Manager) Set(p *v1.Pod) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if podlife.IsMirror(p) {
		m.mirrors[fullName(p)] = p
		return
	}
	m.pods[p.UID] = p
	if name := fullName(p); !slices.Contains(m.names[name], p.UID) {
		m.names[name] = append(m.names[name], p.UID)
	}
}

// Remove drops a pod.
func (m *Manager) Remove(p *v1.Pod) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if podlife.IsMirror(p) {
		if have := m.mirrors[fullName(p)]; have != nil && have.UID == p.UID {
			delete(m.mirrors, fullName(p))
		}
		return
	}
	delete(m.pods, p.UID)
	name := fullName(p)
	m.names[name] = slices.DeleteFunc(m.names[name], func(uid types.UID) bool { return uid == p.UID })
	if len(m.names[name]) == 0 {
		delete(m.names, name)
	}
}

// Get finds a pod by UID; nil when it is not wanted here.
func (m *Manager) Get(uid types.UID) *v1.Pod {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.pods[uid]
}

// Named finds a pod by name: the one that came last.
func (m *Manager) Named(namespace, name string) *v1.Pod {
	m.mu.RLock()
	defer m.mu.RUnlock()
	uids := m.names[namespace+"/"+name]
	if len(uids) == 0 {
		return nil
	}
	return m.pods[uids[len(uids)-1]]
}

// All is every pod, mirrors left out.
func (m *Manager) All() []*v1.Pod {
	m.mu.RLock()
	defer m.mu.RUnlock()
	out := make([]*v1.Pod, 0, len(m.pods))
	for _, p := range m.pods {
		out = append(out, p)
	}
	return out
}

// MirrorNamed is the mirror pod of that name, or nil.
func (m *Manager) MirrorNamed(namespace, name string) *v1.Pod {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.mirrors[namespace+"/"+name]
}

// Mirrors is how many mirror pods there are.
func (m *Manager) Mirrors() int {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return len(m.mirrors)
}
