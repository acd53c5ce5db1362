package worker

import (
	"context"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"podo.dev/podo/internal/podlife"
)

// Pods are preempted for a critical pod that would have no room otherwise. It counts as admitted meanwhile, so that no other pod
// takes the room, and begins when the last victim has ended. If the process ends before, a later one judges the pod and its
// victims again.

// The reason and message of a preempted pod are upstream's.
const (
	preempting       = "Preempting"
	preemptedMessage = "Preempted in order to admit critical pod"
)

// ending is somebody's wait for the ends of pods.
type ending struct {
	pods []types.UID
	done func() // called once, with mu held
}

// AwaitEnds returns when nothing of the pods runs any more, or ctx ends.
func (w *Workers) AwaitEnds(ctx context.Context, pods []types.UID) {
	done := make(chan struct{})
	w.mu.Lock()
	w.endings = append(w.endings, &ending{pods, sync.OnceFunc(func() { close(done) })})
	e := w.endings[len(w.endings)-1]
	w.mu.Unlock()
	w.haveEnded()
	select {
	case <-done:
	case <-ctx.Done():
		w.mu.Lock()
		w.endings = slices.DeleteFunc(w.endings, func(o *ending) bool { return o == e })
		w.mu.Unlock()
	}
}

// makeRoom tells the victims to end. It is called with mu held, and returns true when nobody has to end any more.
func (w *Workers) makeRoom(n *pod, r *Rejection) bool {
	e := &ending{done: func() { n.send(podlife.Admitted{}) }}
	for _, v := range r.Victims {
		o := w.pods[v.UID]
		if o == nil {
			continue
		}
		e.pods = append(e.pods, v.UID)
		w.cfg.Metrics.Preempted(string(r.Lacks))
		w.cfg.Event(v, "", v1.EventTypeWarning, preempting, preemptedMessage)
		o.send(podlife.StopAsked{Why: podlife.Preempting, Reason: preempting, Message: preemptedMessage})
	}
	if len(e.pods) == 0 {
		return true
	}
	w.endings = append(w.endings, e)
	return false
}

// haveEnded looks for waits that are over.
func (w *Workers) haveEnded() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.endings = slices.DeleteFunc(w.endings, func(e *ending) bool {
		if slices.ContainsFunc(e.pods, w.busy) {
			return false
		}
		e.done()
		return true
	})
}

// busy tells whether anything of a pod may still run. Called with mu held.
func (w *Workers) busy(uid types.UID) bool {
	n := w.pods[uid]
	return n != nil && n.snapshot().Stage < podlife.Releasing
}
