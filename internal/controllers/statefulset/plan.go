// Package statefulset keeps the pods of StatefulSets: each has a number, a name that stays, and claims of its own.
//
//	plan.go        pure: the set, its revisions, pods and claims -> what to do, in which order, and what to report
//	rollout.go     pure: which pods of an earlier template go next
//	pod.go         pure: a pod's number, name and volumes
//	claims.go      pure: a pod's claims, and whose they are
//	stuck.go       pure: whether the rollout waits in vain
//	controller.go  does it
package statefulset

import (
	"cmp"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podo.dev/podo/internal/controllers/podset"
)

// Version is a template that the set has, or had.
type Version struct {
	Name     string // of its revision
	Template *v1.PodTemplateSpec
}

// State is what there is.
type State struct {
	Set *appsv1.StatefulSet
	// Current is the template before the change that is being rolled out, Update the set's own; they are the same when none is.
	Current, Update Version
	Collisions      int32
	Pods            []*v1.Pod // the set's
	// Waiting says how long a failed pod is left alone before its successor comes.
	Waiting func(pod *v1.Pod) time.Duration
	// Claim finds a claim by its name; nil when there is none.
	Claim func(name string) *v1.PersistentVolumeClaim
	Now   time.Time
}

// Verb is what a step does.
type Verb int

const (
	CreateClaim Verb = iota // Claim, for Pod
	OwnClaim                // Claim gets the owners that it has here
	CreatePod
	DeletePod
	LabelPod // Pod gets the labels that it has here
	Refuse   // Why Pod cannot be created
)

// Step is one thing to do. Where one fails, those after it are not done.
type Step struct {
	Do       Verb
	Pod      *v1.Pod
	Claim    *v1.PersistentVolumeClaim
	Conflict bool   // OwnClaim: somebody else controls the claim
	Why      string // Refuse
}

// Plan is what to do.
type Plan struct {
	// Groups are done one after the other; the groups of a set whose pods are started in parallel are independent of each other.
	Groups [][]Step
	Status appsv1.StatefulSetStatus
	Failed []*v1.Pod     // those that are replaced because they have failed
	Again  time.Duration // when a pod becomes available, a failed one is replaced, or a rollout counts as stuck; 0 for none
	// Missing are the pods that are not there or not available, MayMiss those that may be while the set is rolled out.
	Missing, MayMiss int
}

func (p *Plan) deletes() bool {
	return slices.ContainsFunc(p.Groups, func(g []Step) bool {
		return slices.ContainsFunc(g, func(s Step) bool { return s.Do == DeletePod })
	})
}

// ranks is a set's pods in order while a plan is made.
type ranks struct {
	State
	ordered   bool
	replicas  []*v1.Pod // by number, from the first one on; what is not there yet is there without a phase
	condemned []*v1.Pod // beyond the wanted numbers, the highest first
	plan      Plan
}

// Decide brings the set forward: a pod is started when those before it are available, what is too much goes from the end, and only when
// all is well pods of an earlier template are replaced. Without order all of it happens at once.
func Decide(s State) Plan {
	r := &ranks{State: s, ordered: s.Set.Spec.PodManagementPolicy != appsv1.ParallelPodManagement}
	r.rank()
	r.report()
	r.plan.Missing = r.missing()
	_, r.plan.MayMiss = r.allowed()
	if s.Set.DeletionTimestamp == nil && r.start() && r.keepClaims() && r.shrink() {
		r.roll()
	}
	r.complete()
	return r.plan
}

func (r *ranks) rank() {
	first, n := firstOrdinal(r.Set), replicas(r.Set)
	r.replicas = make([]*v1.Pod, n)
	for _, pod := range r.Pods {
		switch ord := Ordinal(pod); {
		case ord >= first && ord < first+n:
			r.replicas[ord-first] = pod
		case ord >= 0:
			r.condemned = append(r.condemned, pod)
		}
	}
	for i := range r.replicas {
		if r.replicas[i] == nil {
			r.replicas[i] = r.newPod(first + i)
		}
	}
	slices.SortFunc(r.condemned, func(a, b *v1.Pod) int { return cmp.Compare(Ordinal(b), Ordinal(a)) })
}

func (r *ranks) add(steps ...Step) {
	if len(steps) > 0 {
		r.plan.Groups = append(r.plan.Groups, steps)
	}
}

func (r *ranks) available(pod *v1.Pod) bool {
	ok, left := podset.Available(pod, r.Set.Spec.MinReadySeconds, r.Now)
	r.again(left)
	return ok
}

// again asks for another look after d at the latest, when d is anything.
func (r *ranks) again(d time.Duration) {
	if d > 0 && (r.plan.Again == 0 || d < r.plan.Again) {
		r.plan.Again = d
	}
}

// unavailable: a pod that is on its way out serves nobody.
func (r *ranks) unavailable(pod *v1.Pod) bool { return !r.available(pod) || terminating(pod) }

func (r *ranks) missing() (n int) {
	for _, pod := range r.replicas {
		if r.unavailable(pod) {
			n++
		}
	}
	return n
}

func created(p *v1.Pod) bool     { return p.Status.Phase != "" }
func terminating(p *v1.Pod) bool { return p.DeletionTimestamp != nil }
func runningReady(p *v1.Pod) bool {
	_, ready := podset.Ready(p)
	return ready && p.Status.Phase == v1.PodRunning
}

// start sees to every pod that there should be; false says that nothing after it may happen yet.
func (r *ranks) start() bool {
	for _, pod := range r.replicas {
		goOn := r.startOne(pod)
		if r.ordered && !goOn {
			return false
		}
	}
	return true
}

func (r *ranks) startOne(pod *v1.Pod) bool {
	if pod.Status.Phase == v1.PodFailed || pod.Status.Phase == v1.PodSucceeded {
		// However it ended: its successor comes when it is gone, and later each time when pods only fail.
		failed := pod.Status.Phase == v1.PodFailed
		switch {
		case terminating(pod):
		case failed && r.Waiting(pod) > 0:
			r.again(r.Waiting(pod))
		default:
			r.add(Step{Do: DeletePod, Pod: pod})
			if failed {
				r.plan.Failed = append(r.plan.Failed, pod)
			}
		}
		return false
	}
	if !created(pod) {
		if r.stale(pod) {
			return false
		}
		steps, refused := r.claimSteps(pod)
		if !refused {
			steps = append(steps, Step{Do: CreatePod, Pod: pod})
		}
		r.add(steps...)
		return false
	}
	if pod.Status.Phase == v1.PodPending {
		if steps, _ := r.claimSteps(pod); len(steps) > 0 {
			r.add(steps...)
		}
	}
	if r.ordered && (terminating(pod) || !runningReady(pod) || !r.available(pod)) {
		return false
	}
	steps := r.ownerSteps(pod)
	if pod.Labels[appsv1.StatefulSetPodNameLabel] != pod.Name {
		named := pod.DeepCopy()
		identify(named, Ordinal(pod))
		steps = append(steps, Step{Do: LabelPod, Pod: named})
	}
	r.add(steps...)
	return true
}

// keepClaims settles whose the claims of pods are that will go.
func (r *ranks) keepClaims() bool {
	for _, pod := range r.condemned {
		r.add(r.ownerSteps(pod)...)
	}
	return true
}

// shrink deletes what is too much: in order one at a time, from the end, and only while all others are available.
func (r *ranks) shrink() bool {
	sick := r.firstUnavailable()
	for _, pod := range r.condemned {
		if !r.ordered {
			if !terminating(pod) {
				r.add(Step{Do: DeletePod, Pod: pod})
			}
			continue
		}
		if !terminating(pod) && (runningReady(pod) && r.available(pod) || pod == sick) {
			r.add(Step{Do: DeletePod, Pod: pod})
		}
		return false
	}
	return true
}

// firstUnavailable is the one with the lowest number, wanted ones before others.
func (r *ranks) firstUnavailable() *v1.Pod {
	for _, pod := range r.replicas {
		if r.unavailable(pod) {
			return pod
		}
	}
	for i := len(r.condemned) - 1; i >= 0; i-- {
		if r.unavailable(r.condemned[i]) {
			return r.condemned[i]
		}
	}
	return nil
}

func (r *ranks) report() {
	s := &r.plan.Status
	old := r.Set.Status.DeepCopy()
	*s = appsv1.StatefulSetStatus{
		ObservedGeneration: r.Set.Generation, CurrentRevision: r.Current.Name, UpdateRevision: r.Update.Name,
		CollisionCount: new(r.Collisions), Conditions: r.progress(old.Conditions),
	}
	for _, pod := range r.Pods {
		if !created(pod) {
			continue
		}
		s.Replicas++
		if runningReady(pod) {
			s.ReadyReplicas++
			if r.available(pod) {
				s.AvailableReplicas++
			}
		}
		if terminating(pod) {
			continue
		}
		if version(pod) == r.Current.Name {
			s.CurrentReplicas++
		}
		if version(pod) == r.Update.Name {
			s.UpdatedReplicas++
		}
	}
}

// complete ends a rollout: when every pod is of the new template and ready, that is the current one.
func (r *ranks) complete() {
	s := &r.plan.Status
	if n := int32(replicas(r.Set)); s.UpdatedReplicas == n && s.ReadyReplicas == n && s.Replicas == n {
		s.CurrentReplicas, s.CurrentRevision = s.UpdatedReplicas, s.UpdateRevision
	}
}

func version(p *v1.Pod) string { return p.Labels[appsv1.StatefulSetRevisionLabel] }

func replicas(set *appsv1.StatefulSet) int {
	if set.Spec.Replicas == nil {
		return 1
	}
	return int(*set.Spec.Replicas)
}

func firstOrdinal(set *appsv1.StatefulSet) int {
	if set.Spec.Ordinals == nil {
		return 0
	}
	return int(set.Spec.Ordinals.Start)
}

// owned says whether an object names another as its owner.
func owned(m, owner metav1.Object) bool {
	return slices.ContainsFunc(m.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return r.UID == owner.GetUID() })
}
