// Package deployment rolls Deployments out: a ReplicaSet for each revision of a Deployment's template, grown and shrunk so that neither
// too many nor too few of its pods run.
//
//	plan.go        pure: a Deployment and the ReplicaSets there are -> what to do
//	set.go         pure: a ReplicaSet as it is to be
//	rollout.go     pure: how a new revision takes over, step by step
//	scale.go       pure: what becomes of the revisions when the Deployment is scaled
//	revision.go    pure: which ReplicaSet is whose template's, its number, its annotations
//	status.go      pure: counts and conditions
//	controller.go  does it
package deployment

import (
	"cmp"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// Seen is what a plan is made of. Nothing of it is changed.
type Seen struct {
	Deployment *appsv1.Deployment
	Sets       []*appsv1.ReplicaSet // those of its namespace that it controls or nobody does
	// Running tells of the ReplicaSets with a pod that has not ended, one on its way out included.
	Running map[types.UID]bool
}

// Plan is what to do, in the order of its fields.
type Plan struct {
	Release, Adopt []*appsv1.ReplicaSet
	Rollback       *Rollback // when set, only what stands above it is done besides
	Create         *appsv1.ReplicaSet
	Change         []Change
	Delete         []*appsv1.ReplicaSet

	Revision string // the Deployment's number, in its annotation; empty leaves it
	Status   appsv1.DeploymentStatus
	Events   []Event       // told first
	Again    time.Duration // when the rollout may have taken too long, or may go on; 0 for never
}

// Change is a ReplicaSet that is to be other than it is.
type Change struct {
	Set         *appsv1.ReplicaSet // as it is
	Replicas    int32
	MinReady    int32
	Annotations map[string]string
}

// Rollback makes an earlier template the Deployment's, or, without one, only ends the wish for it.
type Rollback struct {
	Template    *v1.PodTemplateSpec
	Annotations map[string]string
}

// Event is told of the Deployment.
type Event struct{ Type, Reason, Message string }

// roll is a plan being made.
type roll struct {
	Plan
	d    *appsv1.Deployment
	seen Seen
	now  time.Time
	sets []*set // the Deployment's, from the oldest to the newest
	new  *set   // the one of the Deployment's template, nil when there is none
}

// Decide says what to do about a Deployment.
func Decide(seen Seen, now time.Time) Plan {
	r := &roll{d: seen.Deployment, seen: seen, now: now}
	r.Status = *r.d.Status.DeepCopy()
	selector, err := metav1.LabelSelectorAsSelector(r.d.Spec.Selector)
	if err != nil || selector.Empty() || r.d.Spec.Replicas == nil { // nothing that the API lets through
		r.Status.ObservedGeneration = r.d.Generation
		r.tell(v1.EventTypeWarning, "SelectingAll", "This deployment is selecting all pods. A non-empty selector is required.")
		return r.Plan
	}
	r.claim(selector)
	r.new = r.find()
	switch {
	case r.d.DeletionTimestamp != nil:
		r.count()
	case r.d.Spec.Paused:
		r.notePause()
		r.number()
		r.resize()
		r.forget()
		r.count()
	default:
		r.notePause()
		r.roll()
	}
	for _, s := range r.sets {
		if s != r.new || r.Create == nil {
			r.change(s)
		}
	}
	return r.Plan
}

// roll is Decide for a Deployment that is neither paused nor on its way out.
func (r *roll) roll() {
	r.number()
	switch {
	case rollbackTo(r.d) != nil:
		// What is rolled back from gets its number first, so that it can be returned to.
		if r.new == nil {
			r.make()
		} else {
			r.rollBack(*rollbackTo(r.d))
		}
		r.count()
		return
	case r.rescaled():
		r.resize()
		r.count()
		return
	case r.rolling():
		if (r.new != nil || r.make()) && !r.grow() && !r.shrink() && complete(r.d, &r.d.Status) {
			r.forget()
		}
	default:
		r.recreate()
	}
	r.count()
	r.judge()
}

// claim sorts out which ReplicaSets are the Deployment's.
func (r *roll) claim(selector labels.Selector) {
	deleting := r.d.DeletionTimestamp != nil
	for _, rs := range r.seen.Sets {
		ref := metav1.GetControllerOfNoCopy(rs)
		matches := selector.Matches(labels.Set(rs.Labels))
		switch {
		case rs.Spec.Replicas == nil, ref != nil && ref.UID != r.d.UID, ref == nil && (!matches || deleting || rs.DeletionTimestamp != nil):
			continue
		case ref != nil && !matches:
			if !deleting {
				r.Release = append(r.Release, rs)
			}
			continue
		case ref == nil:
			r.Adopt = append(r.Adopt, rs)
		}
		r.sets = append(r.sets, newSet(rs))
	}
	slices.SortFunc(r.sets, older)
}

// older orders by creation, then by name.
func older(a, b *set) int {
	return cmp.Or(a.seen.CreationTimestamp.Compare(b.seen.CreationTimestamp.Time), cmp.Compare(a.seen.Name, b.seen.Name))
}

// old are the sets of other templates.
func (r *roll) old() (out []*set) {
	for _, s := range r.sets {
		if s != r.new {
			out = append(out, s)
		}
	}
	return out
}

// again asks for another look after w at the latest.
func (r *roll) again(w time.Duration) {
	if r.Again == 0 || w < r.Again {
		r.Again = w
	}
}

func (r *roll) tell(kind, reason, message string) {
	r.Events = append(r.Events, Event{kind, reason, message})
}

func (r *roll) rolling() bool {
	return r.d.Spec.Strategy.Type == appsv1.RollingUpdateDeploymentStrategyType
}

// wanted is how many pods the Deployment asks for.
func (r *roll) wanted() int32 { return *r.d.Spec.Replicas }
