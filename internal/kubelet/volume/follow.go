package volume

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"podo.dev/podo/internal/kubelet/objects"
)

// Name implements component.Component.
func (m *Manager) Name() string { return "volumes" }

// Run follows the objects that volumes show and writes their changes into the volumes, until ctx ends.
func (m *Manager) Run(ctx context.Context, ready func()) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, end := context.WithCancel(ctx)
	defer end() // before it waits, also when Follow fails or panics
	wg.Go(func() {
		m.timer.Run(ctx, m.due, func(ctx context.Context, uid types.UID) { m.refresh(ctx, uid, true) })
	})
	first := true
	err := m.c.Follow(ctx, func() {
		m.refreshAll(ctx)
		if first {
			first = false
			ready()
		}
	}, func(refs []objects.Ref) {
		for uid := range m.usersOf(refs) {
			m.refresh(ctx, uid, false)
		}
	})
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return nil
	}
	return err
}

// Replace implements worker.Volumes: the form of the pod at its mount is dropped once there is a newer one.
func (m *Manager) Replace(pod *v1.Pod) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.pods[pod.UID]
	if e == nil || e.pod == nil {
		return
	}
	e.take(pod)
}

// take makes this the pod's form. Volumes that only it has are not set up yet. Manager.mu is held.
func (e *entry) take(pod *v1.Pod) {
	if e.absent != nil && e.pod != nil && len(pod.Spec.EphemeralContainers) != len(e.pod.Spec.EphemeralContainers) {
		known := usedVolumes(e.pod)
		for _, v := range usedVolumes(pod) {
			if !slices.ContainsFunc(known, func(k *v1.Volume) bool { return k.Name == v.Name }) {
				e.absent[v.Name] = true
			}
		}
	}
	e.pod = pod
}

// shown are the volumes of a pod that show objects and are there.
func (m *Manager) shown(e *entry, pod *v1.Pod) []*v1.Volume {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.DeleteFunc(usedVolumes(pod), func(v *v1.Volume) bool { return !showsObjects(v) || e.absent[v.Name] })
}

// Refresh writes into the pod's volumes what they should show now: the pod itself has changed, or a token's time has come.
func (m *Manager) Refresh(ctx context.Context, uid types.UID) { m.refresh(ctx, uid, false) }

func (m *Manager) usersOf(refs []objects.Ref) map[types.UID]bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := map[types.UID]bool{}
	for _, r := range refs {
		for uid := range m.users[r] {
			out[uid] = true
		}
	}
	return out
}

func (m *Manager) refreshAll(ctx context.Context) {
	m.mu.Lock()
	uids := make([]types.UID, 0, len(m.pods))
	for uid := range m.pods {
		uids = append(uids, uid)
	}
	m.mu.Unlock()
	for _, uid := range uids {
		m.refresh(ctx, uid, false)
	}
}

// refreshAgain is the wait after a failed write of a volume: the objects that it shows may not change again.
const refreshAgain = time.Minute

// refreshLater is the wait after such a try failed too, upstream's longest between two tries of a mount: each one is reported.
const refreshLater = 2*time.Minute + 2*time.Second

func (m *Manager) tryLater(uid types.UID, wait time.Duration) {
	m.mu.Lock()
	m.again[uid] = m.c.Now().Add(wait)
	m.mu.Unlock()
	m.timer.Ring()
}

// due takes the pods whose volumes are to be tried again, and says how long until the next one's are.
func (m *Manager) due() (pods []types.UID, next time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.c.Now()
	next = time.Hour
	for uid, at := range m.again {
		if now.Before(at) {
			next = min(next, at.Sub(now))
			continue
		}
		delete(m.again, uid)
		pods = append(pods, uid)
	}
	return pods, next
}

// refresh writes into one pod's volumes what their objects say now. A volume whose object has gone, or cannot be shown, keeps its
// content. Users are told of that at the next attempt, a minute later, and from then on: an object often goes shortly before its
// pods.
func (m *Manager) refresh(ctx context.Context, uid types.UID, still bool) {
	m.mu.Lock()
	e := m.pods[uid]
	if e == nil || e.pod == nil {
		m.mu.Unlock()
		return
	}
	select {
	case <-e.turn:
	default: // someone works on it: a Mount looks again, and after an Unmount nothing is left to do
		e.stale = true
		m.mu.Unlock()
		return
	}
	if e.failed { // the pod's worker mounts again before its back-off ends
		e.turn <- struct{}{}
		m.mu.Unlock()
		m.wake(uid)
		return
	}
	m.mu.Unlock()
	wait := refreshAgain
	if still {
		wait = refreshLater
	}
	for {
		pod, again := m.podOf(e), ctx.Err() != nil
		for _, v := range m.shown(e, pod) {
			if err := m.show(ctx, pod, v); err != nil {
				m.c.Logger.Info("a volume keeps its old content", "pod", pod.Namespace+"/"+pod.Name, "volume", v.Name, "err", err)
				if again = true; still && pod.DeletionTimestamp == nil {
					f := failure([]*v1.Volume{v}, []error{err})
					m.c.Event(pod, "", v1.EventTypeWarning, f.Reason, f.Message)
				}
			}
		}
		if m.finish(e, false, ctx.Err() != nil) {
			if again || ctx.Err() != nil {
				m.tryLater(uid, wait)
			}
			return
		}
	}
}

func showsObjects(v *v1.Volume) bool {
	return v.ConfigMap != nil || v.Secret != nil || v.DownwardAPI != nil || v.Projected != nil
}
