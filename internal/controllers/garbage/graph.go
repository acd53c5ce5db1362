package garbage

import (
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/view"
)

// node is an object that has owners, or that is being deleted and may have dependents. Nodes are not changed once made.
type node struct {
	kind       *registry.Kind
	key        view.Key
	owners     []metav1.OwnerReference // shared with the object
	foreground bool                    // being deleted in the foreground
}

func nodeOf(kind *registry.Kind, e *view.Entry) *node {
	foreground := e.Meta.GetDeletionTimestamp() != nil && slices.Contains(e.Meta.GetFinalizers(), metav1.FinalizerDeleteDependents)
	return &node{kind, e.Key, e.Meta.GetOwnerReferences(), foreground}
}

// graph knows who depends on whom, by UID. Objects without owners are not in it: whether an owner is there, the view tells.
type graph struct {
	mu         sync.Mutex
	nodes      map[types.UID]*node
	dependents map[types.UID]map[types.UID]bool // owner -> those that name it, there or not
}

func newGraph() *graph {
	return &graph{nodes: map[types.UID]*node{}, dependents: map[types.UID]map[types.UID]bool{}}
}

// take takes a change in and returns the UIDs of the objects to look at.
func (g *graph) take(kind *registry.Kind, c view.Change) []types.UID {
	g.mu.Lock()
	defer g.mu.Unlock()
	var look []types.UID
	if c.Old != nil && (c.New == nil || c.New.Meta.GetUID() != c.Old.Meta.GetUID()) {
		uid := c.Old.Meta.GetUID()
		look = append(look, g.waiting(c.Old.Meta.GetOwnerReferences())...)
		g.drop(uid)
		look = append(look, g.of(uid)...)
	}
	if c.New == nil {
		return look
	}
	m := c.New.Meta
	uid := m.GetUID()
	old := g.nodes[uid]
	if old != nil {
		look = append(look, g.waiting(old.owners)...) // it may no longer block them
		g.drop(uid)
	}
	n := nodeOf(kind, c.New)
	orphan := m.GetDeletionTimestamp() != nil && slices.Contains(m.GetFinalizers(), metav1.FinalizerOrphanDependents)
	if len(n.owners) == 0 && !n.foreground && !orphan {
		return look
	}
	g.nodes[uid] = n
	for _, ref := range m.GetOwnerReferences() {
		if g.dependents[ref.UID] == nil {
			g.dependents[ref.UID] = map[types.UID]bool{}
		}
		g.dependents[ref.UID][uid] = true
	}
	if n.foreground {
		look = append(look, g.of(uid)...)
	}
	return append(look, uid)
}

// drop is called with mu held.
func (g *graph) drop(uid types.UID) {
	n := g.nodes[uid]
	if n == nil {
		return
	}
	delete(g.nodes, uid)
	for _, ref := range n.owners {
		delete(g.dependents[ref.UID], uid)
		if len(g.dependents[ref.UID]) == 0 {
			delete(g.dependents, ref.UID)
		}
	}
}

// of is who depends on an object. It is called with mu held.
func (g *graph) of(uid types.UID) []types.UID {
	out := make([]types.UID, 0, len(g.dependents[uid]))
	for d := range g.dependents[uid] {
		out = append(out, d)
	}
	return out
}

// waiting are those of the owners that are being deleted in the foreground. It is called with mu held.
func (g *graph) waiting(owners []metav1.OwnerReference) (out []types.UID) {
	for _, ref := range owners {
		if n := g.nodes[ref.UID]; n != nil && n.foreground {
			out = append(out, ref.UID)
		}
	}
	return out
}

func (g *graph) get(uid types.UID) *node {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.nodes[uid]
}

// dependentsOf are the nodes that depend on an object.
func (g *graph) dependentsOf(uid types.UID) []*node {
	g.mu.Lock()
	defer g.mu.Unlock()
	var out []*node
	for d := range g.dependents[uid] {
		out = append(out, g.nodes[d])
	}
	return out
}

// holds tells whether a dependent of an object satisfies there. It looks no further than to the first one.
func (g *graph) holds(uid types.UID, there func(*node) bool) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for d := range g.dependents[uid] {
		if d != uid && there(g.nodes[d]) { // nobody waits for himself
			return true
		}
	}
	return false
}

// absent are UIDs of owners that are nowhere.
type absent struct {
	mu   sync.Mutex
	uids map[types.UID]bool
}

// mostAbsent bounds what is remembered; then it begins anew.
const mostAbsent = 1000

func (a *absent) has(uid types.UID) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.uids[uid]
}

func (a *absent) add(uid types.UID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.uids == nil || len(a.uids) >= mostAbsent {
		a.uids = map[types.UID]bool{}
	}
	a.uids[uid] = true
}
