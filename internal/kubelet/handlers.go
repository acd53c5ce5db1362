package kubelet

import (
	"cmp"
	"context"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"podo.dev/podo/internal/kubelet/pleg"
	"podo.dev/podo/internal/kubelet/syncloop"
	"podo.dev/podo/internal/kubelet/worker"
	"podo.dev/podo/internal/podlife"
)

// handlers are what the sync loop calls.
type handlers struct {
	k *Kubelet
	r *running
}

// HandlePodAdditions gives each pod its worker. Pods of an earlier process are restored first: they already hold the resources
// that new pods ask for.
func (h *handlers) HandlePodAdditions(pods []*v1.Pod) {
	var fresh []*v1.Pod
	for _, p := range pods { // all of them first: a static pod may come before its mirror
		h.k.pods.Set(p)
	}
	for _, p := range pods {
		if podlife.IsMirror(p) {
			h.mirrored(p)
			continue
		}
		if h.r.workers.Again(p) {
			continue
		}
		saved := h.r.saved[p.UID]
		delete(h.r.saved, p.UID)
		seen, there := h.r.pleg.Get(p.UID)
		if saved == nil && !there && !podlife.Ran(p) {
			fresh = append(fresh, p)
			continue
		}
		if h.k.cfg.Logged != nil && len(seen.Containers) == 0 {
			seen.Logged = h.k.cfg.Logged(p)
		}
		ending := saved != nil && saved.Stop.Why == podlife.SourceGone // its manifest is back, whenever that was
		h.r.workers.Restore(h.asTold(p), saved, seen, ending)
		if ending && !h.r.workers.Again(p) {
			h.r.workers.Update(p)
		}
		h.k.mirror(p)
	}
	for _, p := range fresh {
		h.endFormer(p)
		h.r.workers.Update(p)
		h.k.mirror(p)
	}
}

// endFormer ends what an earlier process had under the name of a new pod. Each source has one pod of a name, so that this one has taken the
// other's place, and waits for its end. A pod of another source may still come: cleanup finds those that do not.
func (h *handlers) endFormer(p *v1.Pod) {
	for uid, saved := range h.r.saved {
		if saved.Namespace != p.Namespace || saved.Name != p.Name || podlife.HashUID(uid) != podlife.HashUID(p.UID) || h.k.pods.Get(uid) != nil {
			continue
		}
		delete(h.r.saved, uid)
		seen, _ := h.r.pleg.Get(uid)
		h.r.workers.Restore(ghost(uid, saved.Namespace, saved.Name, seen), saved, seen, true)
	}
}

// asTold gives a static pod the container statuses and conditions of its mirror. Its containers are then as ready and as started
// as users were told, which a pod of the API brings along by itself. The mirror's phase is left out: the end of a pod is in its
// checkpoint, or belongs to an earlier life.
func (h *handlers) asTold(p *v1.Pod) *v1.Pod {
	m := h.k.pods.MirrorNamed(p.Namespace, p.Name)
	if !podlife.Static(p) || m == nil || !podlife.Mirrors(m, p) {
		return p
	}
	out := *p
	out.Status = v1.PodStatus{
		Phase: p.Status.Phase, Conditions: m.Status.Conditions, InitContainerStatuses: m.Status.InitContainerStatuses,
		ContainerStatuses: m.Status.ContainerStatuses,
	}
	return &out
}

// mirrored takes a mirror pod as the API has it now. It says nothing about what is wanted; its status is compared with what the
// static pod's is.
func (h *handlers) mirrored(m *v1.Pod) {
	h.k.mirror(m)
	static := h.k.pods.Named(m.Namespace, m.Name)
	if static == nil || !podlife.Static(static) || m.DeletionTimestamp != nil {
		return
	}
	shown := *static
	shown.Status = m.Status
	h.k.cfg.Reporter.Refresh(&shown)
}

// HandlePodUpdates passes on what is wanted now.
func (h *handlers) HandlePodUpdates(pods []*v1.Pod) {
	for _, p := range pods {
		h.k.pods.Set(p)
		if podlife.IsMirror(p) {
			h.mirrored(p)
			continue
		}
		h.r.workers.Update(p)
		h.k.cfg.Reporter.Refresh(p)
		h.k.mirror(p)
	}
}

// HandlePodRemoves ends what is no longer wanted.
func (h *handlers) HandlePodRemoves(pods []*v1.Pod) {
	for _, p := range pods {
		h.k.pods.Remove(p)
		if !podlife.IsMirror(p) {
			h.r.workers.Remove(p)
		}
		h.k.mirror(p)
	}
}

// HandlePodReconcile compares what the API says with what it was told.
func (h *handlers) HandlePodReconcile(pods []*v1.Pod) { h.HandlePodUpdates(pods) }

// HandlePodSyncs passes on what the runtime has of a pod, and ends what belongs to no pod.
func (h *handlers) HandlePodSyncs(c pleg.Change) {
	if !h.r.workers.Send(c.UID, podlife.Observation{Observed: c.Observed}) {
		if c.Observed.At.IsZero() { // only a part was observed; what is ended is all of it
			c.Observed, _ = h.r.pleg.Get(c.UID)
		}
		h.endOrphan(c)
	}
}

// HandleSignal passes an event on. A pod that has no worker any more needs none.
func (h *handlers) HandleSignal(s syncloop.Signal) { h.r.workers.Send(s.UID, s.Event) }

// HandlePodCleanups ends what runs without a pod and what still runs of a pod that has ended, and forgets checkpoints of pods
// that no source has and no worker knows.
func (h *handlers) HandlePodCleanups() {
	h.r.workers.RetryResizes(worker.Periodic) // the node may have become larger
	for uid, saved := range h.r.saved {
		delete(h.r.saved, uid)
		if !h.r.workers.Known(uid) {
			seen, _ := h.r.pleg.Get(uid)
			h.r.workers.Restore(ghost(uid, saved.Namespace, saved.Name, seen), saved, seen, true)
		}
	}
	for _, c := range h.r.pleg.All() {
		switch s, known := h.r.workers.Get(c.UID); {
		case !known:
			h.endOrphan(c)
		case s.Stage >= podlife.Finished && slices.ContainsFunc(c.Observed.Sandboxes, func(b podlife.SandboxInfo) bool { return b.Ready }):
			h.HandlePodSyncs(c) // begun by a call that was given up long ago: no event tells a worker of it
		}
	}
	h.sweep(&h.r.cgroups, "cgroup", h.k.cfg.Cgroups.Pods, h.k.cfg.Cgroups.Remove, nil)
	h.sweep(&h.r.volumes, "volumes", h.k.cfg.Volumes.OnDisk, h.k.cfg.Volumes.Unmount, h.k.cfg.Swept)
}

// sweep removes resources of pods that nobody knows: a kubelet that was killed may have made them, or not have removed them. A
// pod that is on the list and unknown afterwards is nobody's; should it come back meanwhile, it waits (Alone).
func (h *handlers) sweep(
	busy *sync.Mutex, what string, list func() ([]types.UID, error), remove func(context.Context, types.UID) error, told func(removed, failed int),
) {
	if !busy.TryLock() {
		return // the previous sweep still runs
	}
	go func() {
		defer busy.Unlock()
		uids, err := list()
		if err != nil {
			h.k.cfg.Log.Warn("cannot look for what pods left behind", "what", what, "err", err)
			return
		}
		removed, failed := 0, 0
		for _, uid := range uids {
			if h.r.ctx.Err() != nil {
				break
			}
			var err error
			if !h.k.Alone(uid, func() {
				h.k.cfg.Log.Info("removing what a pod that nobody knows left behind", "what", what, "uid", uid)
				ctx, cancel := context.WithTimeout(h.r.ctx, cmp.Or(h.k.cfg.CallTimeout, worker.CallTimeout))
				defer cancel()
				err = remove(ctx, uid)
			}) {
				continue
			}
			if err != nil { // one that hangs does not keep the others
				failed++
				h.k.cfg.Log.Warn("cannot remove what a pod that nobody knows left behind", "what", what, "uid", uid, "err", err)
				continue
			}
			removed++
		}
		if told != nil {
			told(removed, failed)
		}
	}()
}

// endOrphan gives containers that run without a pod a worker that ends them. Their labels say that they are this node's.
func (h *handlers) endOrphan(c pleg.Change) {
	if len(c.Observed.Sandboxes) == 0 && len(c.Observed.Containers) == 0 || h.k.pods.Get(c.UID) != nil {
		return
	}
	h.k.cfg.Log.Info("ending containers of a pod that no source has", "pod", c.Owner.Namespace+"/"+c.Owner.Pod, "uid", c.UID)
	h.r.workers.Restore(ghost(c.UID, c.Owner.Namespace, c.Owner.Pod, c.Observed), nil, c.Observed, true)
}

// ghost is a pod made of what is left of one.
func ghost(uid types.UID, namespace, name string, o podlife.Observed) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid, Namespace: namespace, Name: name}}
	seen := map[string]bool{}
	for _, c := range o.Containers {
		if !seen[c.Name] {
			seen[c.Name] = true
			p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: c.Name, Image: c.Image})
		}
	}
	return p
}
