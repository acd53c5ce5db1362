package containergc

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"podo.dev/podo/internal/kubelet/labels"
)

// Policy says how many dead containers stay.
type Policy struct {
	MinAge       time.Duration // a container younger than this stays
	PerContainer int           // dead ones kept of each container of each pod; negative: all
	Total        int           // dead ones kept on the node; negative: no limit
}

// DefaultPolicy keeps the last one of each, for its log.
func DefaultPolicy() Policy { return Policy{PerContainer: 1, Total: -1} }

// seen is what there is at one moment.
type seen struct {
	containers []*runtimev1.Container
	sandboxes  []*runtimev1.PodSandbox
	logDirs    map[types.UID]string // names of log directories by pod
	pods       map[types.UID]bool   // pods of the node; true: the pod has ended and nothing of it is needed
	complete   bool                 // pods are all there are: what is not in it has gone
}

// todo is what goes, in this order.
type todo struct {
	containers []string
	sandboxes  []string
	logDirs    []string
}

// over tells whether nothing of a pod is needed any more.
func (s seen) over(uid types.UID) bool {
	ended, known := s.pods[uid]
	return known && ended || !known && s.complete
}

// gone tells whether the pod is not the node's any more.
func (s seen) gone(uid types.UID) bool {
	_, known := s.pods[uid]
	return !known && s.complete
}

// unit is one container of one pod over all its lives.
type unit struct {
	uid  types.UID
	name string
}

// plan decides what goes. A running container, a sandbox that is ready or has containers, and the newest sandbox of a pod that
// lives never go.
func plan(s seen, p Policy, now time.Time) todo {
	var out todo
	gone := map[string]bool{}
	remove := func(c *runtimev1.Container) {
		gone[c.Id] = true
		out.containers = append(out.containers, c.Id)
	}
	units := map[unit][]*runtimev1.Container{}
	for _, c := range s.containers {
		if c.State == runtimev1.ContainerState_CONTAINER_RUNNING || now.Sub(time.Unix(0, c.CreatedAt)) < p.MinAge {
			continue
		}
		// A created one may be about to start, unless its pod is over.
		uid := types.UID(c.Labels[labels.PodUID])
		if c.State == runtimev1.ContainerState_CONTAINER_CREATED && !s.over(uid) {
			continue
		}
		u := unit{uid, c.Labels[labels.ContainerName]}
		units[u] = append(units[u], c)
	}
	var rest []*runtimev1.Container
	for u, dead := range units {
		slices.SortFunc(dead, oldestFirst)
		keep := p.PerContainer
		if s.over(u.uid) {
			keep = 0
		}
		for keep >= 0 && len(dead) > keep {
			remove(dead[0])
			dead = dead[1:]
		}
		rest = append(rest, dead...)
	}
	slices.SortFunc(rest, oldestFirst)
	for p.Total >= 0 && len(rest) > p.Total {
		remove(rest[0])
		rest = rest[1:]
	}
	slices.Sort(out.containers)
	s.planSandboxes(&out, gone)
	s.planLogs(&out, gone)
	return out
}

func oldestFirst(a, b *runtimev1.Container) int {
	return cmp.Or(cmp.Compare(a.CreatedAt, b.CreatedAt), cmp.Compare(a.Id, b.Id))
}

func (s seen) planSandboxes(out *todo, gone map[string]bool) {
	inUse := map[string]bool{}
	for _, c := range s.containers {
		if !gone[c.Id] {
			inUse[c.PodSandboxId] = true
		}
	}
	newest := map[types.UID]*runtimev1.PodSandbox{}
	for _, b := range s.sandboxes {
		uid := types.UID(b.Labels[labels.PodUID])
		if n := newest[uid]; n == nil || b.CreatedAt > n.CreatedAt {
			newest[uid] = b
		}
	}
	for _, b := range s.sandboxes {
		uid := types.UID(b.Labels[labels.PodUID])
		if b.State == runtimev1.PodSandboxState_SANDBOX_READY || inUse[b.Id] || newest[uid] == b && !s.over(uid) {
			continue
		}
		out.sandboxes = append(out.sandboxes, b.Id)
	}
	slices.Sort(out.sandboxes)
}

func (s seen) planLogs(out *todo, gone map[string]bool) {
	inUse := map[types.UID]bool{}
	for _, c := range s.containers {
		if !gone[c.Id] {
			inUse[types.UID(c.Labels[labels.PodUID])] = true
		}
	}
	for uid, dir := range s.logDirs {
		if s.gone(uid) && !inUse[uid] {
			out.logDirs = append(out.logDirs, dir)
		}
	}
	slices.Sort(out.logDirs)
}
