// Package replicas keeps the number of interchangeable pods that a controller object asks for.
//
//	plan.go        pure: what is wanted and the pods there are -> what to adopt, release, create and delete
//	order.go       pure: which pods go first
//	controller.go  does it, a few creations at a time at first, and reports what there is
package replicas

import (
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"podo.dev/podo/internal/controllers/podset"
)

// burst is how many pods are created or deleted at most before looking again.
const burst = 500

// Wanted is what a controller object asks for, whatever its kind.
type Wanted struct {
	Meta     metav1.Object
	Replicas int
	Selector labels.Selector
	Template *v1.PodTemplateSpec
	MinReady time.Duration // how long a pod must have been ready to count as available
	// Owner, when not empty, is the UID of what controls the object: pods of its other objects count as siblings when some are to go.
	Owner types.UID
}

// Counts are what there is.
type Counts struct {
	Replicas, FullyLabeled, Ready, Available, Terminating int32

	Generation int64 // of the object for which that was counted
}

// Plan is what to do.
type Plan struct {
	Adopt   []*v1.Pod // nobody controls them, and they match
	Release []*v1.Pod // ours that do not match any more
	Create  int
	Delete  []*v1.Pod
	Ages    []float64     // of those of Delete that were chosen among others, for the metric
	Counts  Counts        // before any of it
	Again   time.Duration // when a ready pod becomes available, or creation goes on; 0 for never
}

// again asks for another look after d at the latest.
func (p *Plan) again(d time.Duration) {
	if p.Again == 0 || d < p.Again {
		p.Again = d
	}
}

// Active tells a pod that runs or may still run.
func Active(p *v1.Pod) bool { return !ended(p) && p.DeletionTimestamp == nil }

func ended(p *v1.Pod) bool {
	return p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed
}

// Decide takes the pods that w controls and, of its namespace, those that nobody does; siblings are pods of others of its owner.
func Decide(w Wanted, pods, siblings []*v1.Pod, now time.Time) Plan {
	var p Plan
	var mine, failed []*v1.Pod
	deleting := w.Meta.GetDeletionTimestamp() != nil
	for _, pod := range pods {
		ref := metav1.GetControllerOfNoCopy(pod)
		matches := w.Selector.Matches(labels.Set(pod.Labels))
		switch {
		case ref != nil && ref.UID != w.Meta.GetUID():
			continue
		case ref != nil && matches:
		case ref != nil:
			if !deleting && Active(pod) {
				p.Release = append(p.Release, pod)
			}
			continue
		case !matches || deleting || !Active(pod):
			continue
		default:
			p.Adopt = append(p.Adopt, pod)
		}
		switch {
		case Active(pod):
			mine = append(mine, pod)
		case !ended(pod):
			p.Counts.Terminating++
		case pod.Status.Phase == v1.PodFailed:
			failed = append(failed, pod)
		}
	}
	p.count(w, mine, now)
	if deleting {
		return p
	}
	switch diff := w.Replicas - len(mine); {
	case diff > 0:
		if wait := pause(failed, w.Replicas, now); wait > 0 {
			p.again(wait)
			return p
		}
		p.Create = min(diff, burst)
	case diff < 0:
		p.Delete = goFirst(mine, siblings, now)[:min(-diff, burst)]
		p.Ages = ages(p.Delete, mine, now)
	}
	return p
}

// What keeps a template whose pods can never run from making pods without end: so many failures are replaced at once (or all replicas, once),
// each further one waits twice as long as the one before it.
const (
	freeFailures = 10
	failedLately = 10 * time.Minute
	longestPause = time.Minute
)

// pause is how long to wait before pods that failed are replaced.
func pause(failed []*v1.Pod, replicas int, now time.Time) time.Duration {
	var last time.Time
	n := -max(freeFailures, replicas)
	for _, pod := range failed {
		created := pod.CreationTimestamp.Time
		if now.Sub(created) > failedLately || created.Sub(now) > longestPause {
			continue // long ago; or made before the clock was set back
		}
		n++
		if created.After(last) {
			last = created
		}
	}
	if n <= 0 {
		return 0
	}
	wait := longestPause
	if n < 6 {
		wait = time.Second << n
	}
	return last.Add(wait).Sub(now)
}

func (p *Plan) count(w Wanted, mine []*v1.Pod, now time.Time) {
	p.Counts.Generation = w.Meta.GetGeneration()
	template := labels.Set{}
	if w.Template != nil {
		template = w.Template.Labels
	}
	all := template.AsSelectorPreValidated()
	for _, pod := range mine {
		p.Counts.Replicas++
		if all.Matches(labels.Set(pod.Labels)) {
			p.Counts.FullyLabeled++
		}
		since, ready := podset.Ready(pod)
		if !ready {
			continue
		}
		p.Counts.Ready++
		left := w.MinReady - now.Sub(since)
		if w.MinReady == 0 || left <= 0 {
			p.Counts.Available++
		} else {
			p.again(left)
		}
	}
}
