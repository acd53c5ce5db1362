package pleg

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"podo.dev/podo/internal/kubelet/labels"
	"podo.dev/podo/internal/podlife"
)

// whole tells whether the runtime was asked for everything it has of the pod, or has listed just that.
func (k *known) whole() bool { return !k.observed.At.IsZero() }

// seen tells whether the cache knows of a pod.
func (g *Generator) seen(uid types.UID) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.cache[uid] != nil
}

// outdated tells whether an event was made before the runtime was last asked about its pod. What it carries was true then; the answer
// may be newer, or the clock was set back.
func (g *Generator) outdated(uid types.UID, e *runtimev1.ContainerEventResponse) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	asked := g.listed
	if k := g.cache[uid]; k != nil {
		asked = k.observed.At // zero: it was not asked
	}
	return !asked.IsZero() && e.GetCreatedAt() < asked.UnixNano()
}

// note takes into the cache what is now known of one sandbox. Other sandboxes of the pod that were never reported are found by
// the next relist. It tells whether the cache knows a ready sandbox besides this one.
func (g *Generator) note(owner labels.Owner, part podlife.Observed) (beside bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	k := &known{owner: owner, at: time.Now()}
	if old := g.cache[owner.UID]; old != nil {
		k.at, k.observed.At = old.at, old.observed.At
		k.observed.Sandboxes = slices.DeleteFunc(slices.Clone(old.observed.Sandboxes), func(b podlife.SandboxInfo) bool {
			return slices.ContainsFunc(part.Sandboxes, func(n podlife.SandboxInfo) bool { return n.ID == b.ID })
		})
		k.observed.Containers = slices.DeleteFunc(slices.Clone(old.observed.Containers), func(c podlife.Instance) bool {
			return slices.ContainsFunc(part.Sandboxes, func(n podlife.SandboxInfo) bool { return n.ID == c.SandboxID })
		})
	}
	beside = slices.ContainsFunc(k.observed.Sandboxes, func(b podlife.SandboxInfo) bool { return b.Ready })
	k.observed.Sandboxes = append(k.observed.Sandboxes, part.Sandboxes...)
	k.observed.Containers = append(k.observed.Containers, part.Containers...)
	k.print = printOf(k.observed)
	g.cache[owner.UID] = k
	return beside
}

// removed takes a container or a sandbox out of the cache. It returns false when that was thought to run or is unknown, so that
// something must have happened without an event; also while the pod is being inspected, since that answer may still contain it.
func (g *Generator) removed(uid types.UID, id string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	k := g.cache[uid]
	if _, asking := g.asking[uid]; asking {
		return false
	}
	if k == nil {
		return true // all of it is gone already
	}
	o := podlife.Observed{At: k.observed.At}
	found := false
	for _, b := range k.observed.Sandboxes {
		if b.ID != id {
			o.Sandboxes = append(o.Sandboxes, b)
			continue
		}
		if found = true; b.Ready {
			return false
		}
	}
	for _, c := range k.observed.Containers {
		switch {
		case c.ID != id && c.SandboxID != id:
			o.Containers = append(o.Containers, c)
		case c.State != podlife.InstanceExited && c.State != podlife.InstanceCreated:
			return false
		default:
			found = true
		}
	}
	if !found {
		return false
	}
	if len(o.Sandboxes) == 0 && len(o.Containers) == 0 {
		delete(g.cache, uid)
		return true
	}
	g.cache[uid] = &known{owner: k.owner, print: printOf(o), observed: o, at: k.at}
	return true
}

// Forget removes a pod of which nothing is left from the cache. Its worker knows so before the events arrive, and a pod that
// comes back under the same UID must not find the remains. The result of an inspection under way is dropped: it may be older.
func (g *Generator) Forget(uid types.UID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.cache, uid)
	if g.forgets++; g.under[uid] > 0 {
		g.forgotten[uid] = g.forgets
	}
}

// Changes is where changes are told.
func (g *Generator) Changes() <-chan Change { return g.out }

// Healthy says why the runtime must be thought dead, or nil.
func (g *Generator) Healthy() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	last := g.listed
	if last.IsZero() {
		last = g.begun
	}
	if d := time.Since(last); d > g.cfg.Unhealthy {
		return fmt.Errorf("pleg was last seen active %s ago; threshold is %s", d.Round(time.Second), g.cfg.Unhealthy)
	}
	return nil
}

// Get is what the cache has of a pod.
func (g *Generator) Get(uid types.UID) (podlife.Observed, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	k := g.cache[uid]
	if k == nil || !k.whole() {
		return podlife.Observed{}, false
	}
	return k.observed, true
}

// All is the whole cache.
func (g *Generator) All() []Change {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := make([]Change, 0, len(g.cache))
	for uid, k := range g.cache {
		if !k.whole() {
			continue
		}
		out = append(out, Change{UID: uid, Owner: k.owner, Observed: k.observed})
	}
	return out
}
