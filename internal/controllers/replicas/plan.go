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
}

// Counts are what there is.
type Counts struct{ Replicas, FullyLabeled, Ready, Available, Terminating int32 }

// Plan is what to do.
type Plan struct {
	Adopt   []*v1.Pod // nobody controls them, and they match
	Release []*v1.Pod // ours that do not match any more
	Create  int
	Delete  []*v1.Pod
	Counts  Counts        // before any of it
	Again   time.Duration // when a ready pod becomes available; 0 for none
}

// Active tells a pod that runs or may still run.
func Active(p *v1.Pod) bool {
	return p.Status.Phase != v1.PodSucceeded && p.Status.Phase != v1.PodFailed && p.DeletionTimestamp == nil
}

// Decide takes the pods that w controls and, of its namespace, those that nobody does.
func Decide(w Wanted, pods []*v1.Pod, now time.Time) Plan {
	var p Plan
	var mine []*v1.Pod
	deleting := w.Meta.GetDeletionTimestamp() != nil
	for _, pod := range pods {
		ref := metav1.GetControllerOf(pod)
		matches := w.Selector.Matches(labels.Set(pod.Labels))
		switch {
		case ref != nil && ref.UID != w.Meta.GetUID():
			continue
		case ref != nil && matches:
		case ref != nil:
			if !deleting {
				p.Release = append(p.Release, pod)
			}
			continue
		case !matches || deleting || pod.DeletionTimestamp != nil:
			continue
		default:
			p.Adopt = append(p.Adopt, pod)
		}
		if pod.DeletionTimestamp != nil {
			p.Counts.Terminating++
		}
		if Active(pod) {
			mine = append(mine, pod)
		}
	}
	p.count(w, mine, now)
	if deleting {
		return p
	}
	switch diff := w.Replicas - len(mine); {
	case diff > 0:
		p.Create = min(diff, burst)
	case diff < 0:
		p.Delete = goFirst(mine, now)[:min(-diff, burst)]
	}
	return p
}

func (p *Plan) count(w Wanted, mine []*v1.Pod, now time.Time) {
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
		since, ready := readySince(pod)
		if !ready {
			continue
		}
		p.Counts.Ready++
		left := w.MinReady - now.Sub(since)
		if w.MinReady == 0 || left <= 0 {
			p.Counts.Available++
		} else if p.Again == 0 || left < p.Again {
			p.Again = left
		}
	}
}

func readySince(pod *v1.Pod) (time.Time, bool) {
	for _, c := range pod.Status.Conditions {
		if c.Type == v1.PodReady {
			return c.LastTransitionTime.Time, c.Status == v1.ConditionTrue
		}
	}
	return time.Time{}, false
}
