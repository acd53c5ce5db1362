// Package syncloop is the order in which things happen in the kubelet: one goroutine with one select over every reason to do
// something. It decides nothing; its handlers pass on what happened, and none of them blocks.
package syncloop

import (
	"cmp"
	"context"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"podo.dev/podo/internal/kubelet/pleg"
	"podo.dev/podo/internal/kubelet/source"
	"podo.dev/podo/internal/podlife"
)

// Handler is what the loop calls, one call at a time.
type Handler interface {
	// HandlePodAdditions takes new pods, oldest first.
	HandlePodAdditions(pods []*v1.Pod)
	HandlePodUpdates(pods []*v1.Pod)
	HandlePodRemoves(pods []*v1.Pod)
	// HandlePodReconcile takes pods of which only the reported part changed.
	HandlePodReconcile(pods []*v1.Pod)
	// HandlePodSyncs takes what the runtime now has of a pod.
	HandlePodSyncs(c pleg.Change)
	// HandleSignal takes an event for one pod: a probe's result, an eviction, volumes that may work now.
	HandleSignal(s Signal)
	// HandlePodCleanups ends what no source wants. It is called once every source has synced, and periodically after that.
	HandlePodCleanups()
}

// Signal is an event for one pod.
type Signal struct {
	UID   types.UID
	Event podlife.Event
}

// Loop is the sync loop. All fields must be set.
type Loop struct {
	Handler Handler
	Sources int // how many sources must sync before anything is cleaned up
	Config  <-chan source.Change
	Runtime <-chan pleg.Change
	Signals <-chan Signal
	// Housekeeping is the time between clean-ups; default 30 s.
	Housekeeping time.Duration
	// Synced is called once every source has synced and what they told has been handed on. May be nil.
	Synced func()
}

// Run runs until ctx ends. Until every source has synced, additions are held back: what was running before must be known
// before anything new is admitted, and both in the order of their creation.
func (l *Loop) Run(ctx context.Context) {
	every := time.NewTicker(cmp.Or(l.Housekeeping, 30*time.Second))
	defer every.Stop()
	var held []*v1.Pod
	synced := map[string]bool{}
	for {
		all := len(synced) >= l.Sources
		select {
		case <-ctx.Done():
			return
		case c := <-l.Config:
			switch {
			case c.Op == source.Synced:
				synced[c.Source] = true
				if !all && len(synced) >= l.Sources {
					l.Handler.HandlePodAdditions(oldestFirst(held))
					held = nil
					l.Handler.HandlePodCleanups()
					if l.Synced != nil {
						l.Synced()
					}
				}
			case !all:
				held = hold(held, c)
			default:
				l.config(c)
			}
		case c := <-l.Runtime:
			if all {
				l.Handler.HandlePodSyncs(c)
			}
		case s := <-l.Signals:
			l.Handler.HandleSignal(s)
		case <-every.C:
			if all {
				l.Handler.HandlePodCleanups()
			}
		}
	}
}

func (l *Loop) config(c source.Change) {
	one := []*v1.Pod{c.Pod}
	switch c.Op {
	case source.Add:
		l.Handler.HandlePodAdditions(one)
	case source.Update, source.Delete:
		l.Handler.HandlePodUpdates(one)
	case source.Remove:
		l.Handler.HandlePodRemoves(one)
	case source.Reconcile:
		l.Handler.HandlePodReconcile(one)
	}
}

// hold applies a change to the pods that are held back.
func hold(held []*v1.Pod, c source.Change) []*v1.Pod {
	held = slices.DeleteFunc(held, func(p *v1.Pod) bool { return p.UID == c.Pod.UID })
	if c.Op == source.Remove {
		return held
	}
	return append(held, c.Pod)
}

func oldestFirst(pods []*v1.Pod) []*v1.Pod {
	slices.SortStableFunc(pods, func(a, b *v1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	return pods
}
