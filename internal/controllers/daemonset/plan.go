// Package daemonset keeps a pod of each DaemonSet on every node that should have one.
//
//	plan.go        pure: the set, the nodes, its pods -> where to create one, which to delete, what to report
//	rollout.go     pure: which pods of an earlier template go next
//	node.go        pure: which nodes should have one, and what a node's pod looks like
//	controller.go  does it
package daemonset

import (
	"cmp"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"

	"podo.dev/podo/internal/controllers/podset"
)

// burst is how many pods are created, and how many deleted, at most before looking again.
const burst = 250

// State is what there is.
type State struct {
	Set   *appsv1.DaemonSet
	Nodes []*v1.Node
	Pods  []*v1.Pod // the set's
	Hash  string    // of the set's template
	Now   time.Time
	// Waiting says how long a node's failed pod is left alone.
	Waiting func(node string) time.Duration
}

// Plan is what to do.
type Plan struct {
	Create []string // a pod on each of these nodes
	Delete []*v1.Pod
	// Failed and Succeeded are those of Delete that are replaced because they have ended.
	Failed, Succeeded []*v1.Pod
	Status            appsv1.DaemonSetStatus
	Again             time.Duration // when a pod becomes available, or a failed one may be replaced; 0 for none
}

// fleet is a set's pods by node while a plan is made.
type fleet struct {
	State
	place  placement
	onNode map[string][]*v1.Pod
	plan   Plan
}

// Decide looks after the nodes first; a rollout goes on where nothing else is to be done.
func Decide(s State) Plan {
	f := &fleet{State: s, place: placementOf(s.Set), onNode: map[string][]*v1.Pod{}}
	for _, pod := range s.Pods {
		if ended(pod) && pod.DeletionTimestamp != nil {
			continue // it only waits for somebody's finalizer
		}
		if node, ok := target(pod); ok {
			f.onNode[node] = append(f.onNode[node], pod)
		}
	}
	for _, pods := range f.onNode {
		slices.SortFunc(pods, oldestFirst)
	}
	f.report()
	f.manage()
	if len(f.plan.Create)+len(f.plan.Delete) == 0 && s.Set.Spec.UpdateStrategy.Type == appsv1.RollingUpdateDaemonSetStrategyType {
		f.roll()
	}
	f.plan.Create = f.plan.Create[:min(len(f.plan.Create), burst)]
	f.plan.Delete = f.plan.Delete[:min(len(f.plan.Delete), burst)]
	return f.plan
}

func ended(p *v1.Pod) bool {
	return p.Status.Phase == v1.PodFailed || p.Status.Phase == v1.PodSucceeded
}

// oldestFirst, those that are on their node before those that are on their way to it.
func oldestFirst(a, b *v1.Pod) int {
	bound := func(p *v1.Pod) int {
		if p.Spec.NodeName != "" {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(bound(a), bound(b)), a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}

// manage brings every node to one pod where there should be one, and to none elsewhere.
func (f *fleet) manage() {
	known := map[string]bool{}
	for _, n := range f.Nodes {
		known[n.Name] = true
		run, stay := f.place.on(n)
		pods, exists := f.onNode[n.Name]
		switch {
		case run && !exists:
			f.plan.Create = append(f.plan.Create, n.Name)
		case stay:
			f.tidy(n.Name, run, pods)
		case exists:
			f.delete(pods)
		}
	}
	// A pod that waits for a node that is gone is nobody else's to delete.
	for _, pods := range sorted(f.onNode) {
		if !known[pods.node] {
			for _, pod := range pods.pods {
				if pod.Spec.NodeName == "" {
					f.delete([]*v1.Pod{pod})
				}
			}
		}
	}
}

func (f *fleet) delete(pods []*v1.Pod) {
	for _, pod := range pods {
		if pod.DeletionTimestamp == nil {
			f.plan.Delete = append(f.plan.Delete, pod)
		}
	}
}

// tidy replaces what has ended on a node, and thins out what is too many there.
func (f *fleet) tidy(node string, run bool, pods []*v1.Pod) {
	var running []*v1.Pod
	waits := false
	for _, pod := range pods {
		switch {
		case pod.DeletionTimestamp != nil:
		case pod.Status.Phase == v1.PodFailed:
			if left := f.Waiting(node); left > 0 {
				f.again(left)
				waits = true // and so does its successor, which would only fail sooner
				continue
			}
			f.plan.Failed = append(f.plan.Failed, pod)
			f.delete([]*v1.Pod{pod})
		case pod.Status.Phase == v1.PodSucceeded:
			f.plan.Succeeded = append(f.plan.Succeeded, pod)
			f.delete([]*v1.Pod{pod})
		default:
			running = append(running, pod)
		}
	}
	switch surge, _ := f.allowed(1); {
	case surge == 0:
		if len(running) > 1 {
			f.delete(running[1:])
		}
	case len(running) == 0:
		if run && !waits {
			f.plan.Create = append(f.plan.Create, node)
		}
	case len(running) > 1:
		f.thin(running)
	}
}

// thin leaves the oldest pod of the template and the oldest of an earlier one, and of these two the earlier one as long as it is ready and
// the other is not available.
func (f *fleet) thin(running []*v1.Pod) {
	var fresh, old *v1.Pod
	for _, pod := range running {
		switch current := pod.Labels[appsv1.ControllerRevisionHashLabelKey] == f.Hash; {
		case current && fresh == nil:
			fresh = pod
		case !current && old == nil:
			old = pod
		default:
			f.delete([]*v1.Pod{pod})
		}
	}
	if fresh == nil || old == nil {
		return
	}
	if _, ready := podset.Ready(old); !ready || f.available(fresh) {
		f.delete([]*v1.Pod{old})
	}
}

func (f *fleet) available(pod *v1.Pod) bool {
	ok, left := podset.Available(pod, f.Set.Spec.MinReadySeconds, f.Now)
	f.again(left)
	return ok
}

func (f *fleet) again(after time.Duration) {
	if after > 0 && (f.plan.Again == 0 || after < f.plan.Again) {
		f.plan.Again = after
	}
}

// report counts nodes, each by its oldest pod.
func (f *fleet) report() {
	s := &f.plan.Status
	*s = *f.Set.Status.DeepCopy()
	*s = appsv1.DaemonSetStatus{ObservedGeneration: f.Set.Generation, CollisionCount: s.CollisionCount, Conditions: s.Conditions}
	for _, n := range f.Nodes {
		run, _ := f.place.on(n)
		pods := f.onNode[n.Name]
		switch {
		case !run && len(pods) > 0:
			s.NumberMisscheduled++
		case run:
			s.DesiredNumberScheduled++
		}
		if !run || len(pods) == 0 {
			continue
		}
		s.CurrentNumberScheduled++
		if _, ready := podset.Ready(pods[0]); ready {
			s.NumberReady++
		}
		if f.available(pods[0]) {
			s.NumberAvailable++
		}
		if f.updated(pods[0]) {
			s.UpdatedNumberScheduled++
		}
	}
	s.NumberUnavailable = s.DesiredNumberScheduled - s.NumberAvailable
}
