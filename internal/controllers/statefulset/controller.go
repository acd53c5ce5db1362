package statefulset

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/flowcontrol"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/controllers/history"
	"podo.dev/podo/internal/controllers/loop"
	"podo.dev/podo/internal/controllers/podset"
	"podo.dev/podo/internal/view"
)

// Name is the component's, and the source of its events.
const Name = "statefulset-controller"

const workers = 5

// hashLabel is the label of a revision that has its hash.
const hashLabel = "controller.kubernetes.io/hash"

var claims = schema.GroupResource(client.Claims)

func selector(obj runtime.Object) (labels.Selector, bool) {
	s, err := metav1.LabelSelectorAsSelector(obj.(*appsv1.StatefulSet).Spec.Selector)
	return s, err == nil
}

// Config is what the controller is made of. All but Logger are required.
type Config = loop.Parts

type controller struct {
	Config
	meter meter
	// failures hold back the successors of pods that fail: of a template that cannot run they would never end.
	failures *flowcontrol.Backoff
}

// New makes the controller. Its keys are StatefulSets.
func New(c Config) (*loop.Loop, error) {
	if err := c.Check("statefulset"); err != nil {
		return nil, err
	}
	k := &controller{Config: c, meter: newMeter(), failures: flowcontrol.NewBackOff(time.Second, longestWait)}
	watches := kind.Watches(c.View)
	watches[0].Keys = func(c view.Change) []view.Key {
		if c.New == nil {
			return []view.Key{c.Old.Key} // its figures go
		}
		return []view.Key{c.New.Key}
	}
	return loop.New(loop.Config{
		Name: Name, View: c.View, Reconcile: k.reconcile, Workers: workers, Logger: c.Logger,
		Watches: append(watches, history.Watch(kind.GVK), loop.Watch{Resource: claims, Keys: claimKeys}),
		Metrics: k.meter.all(), Skips: loop.SkippedLooks("statefulset_controller"),
	})
}

// claimKeys: a claim that is gone was in the way of a pod, or is missing to one.
func claimKeys(c view.Change) (out []view.Key) {
	if c.Old == nil || c.New != nil {
		return nil
	}
	for _, ref := range c.Old.Meta.GetOwnerReferences() {
		switch {
		case ref.Kind == kind.GVK.Kind && ref.APIVersion == kind.GVK.GroupVersion().String():
			out = append(out, view.Key{Namespace: c.Old.Key.Namespace, Name: ref.Name})
		case ref.Kind == podKind.Kind && ref.APIVersion == podKind.GroupVersion().String():
			if set, n := split(ref.Name); n >= 0 {
				out = append(out, view.Key{Namespace: c.Old.Key.Namespace, Name: set})
			}
		}
	}
	return out
}

func (k *controller) reconcile(ctx context.Context, s view.Snapshot, key view.Key) (loop.Result, error) {
	e := s.Get(schema.GroupResource(kind.Resource), key.Namespace, key.Name)
	if e == nil {
		k.meter.forget(key)
		return loop.Result{}, nil
	}
	set := e.Object.(*appsv1.StatefulSet)
	match, ok := selector(set)
	if !ok {
		return loop.Result{}, nil
	}
	mine, adopt, release := podset.Claim(set, func(p *v1.Pod) bool {
		return member(set, p) && match.Matches(labels.Set(p.Labels))
	}, podset.Candidates(s, set))
	wrote, err := kind.Settle(ctx, k.Client, set, adopt, release)
	if err != nil {
		return loop.Result{Wrote: wrote}, err
	}
	owner := history.Owner{
		Meta: set, GVK: kind.GVK, Selector: match, Template: &set.Spec.Template, HashLabel: hashLabel,
	}
	if n := set.Status.CollisionCount; n != nil {
		owner.Collisions = *n
	}
	past, err := history.Keep(ctx, k.Client, owner, history.Decide(owner, history.Candidates(s, set)))
	wrote = max(wrote, past.Wrote)
	if err != nil || past.Current == nil {
		return loop.Result{Wrote: wrote}, err
	}
	current, err := versions(set, past)
	if err != nil {
		return loop.Result{Wrote: wrote}, err
	}
	plan := Decide(State{
		Set: set, Current: current, Update: Version{Name: past.Current.Name, Template: &set.Spec.Template}, Collisions: past.Collisions,
		Pods: mine, Now: time.Now(), Waiting: func(pod *v1.Pod) time.Duration { return k.waiting(set, pod) }, Claim: func(name string) *v1.PersistentVolumeClaim {
			if e := s.Get(claims, set.Namespace, name); e != nil {
				return e.Object.(*v1.PersistentVolumeClaim)
			}
			return nil
		},
	})
	k.meter.looked(set, plan)
	for _, pod := range plan.Failed {
		k.failures.Next(failureKey(set, pod), time.Now())
	}
	k.failures.GC()
	rev, err := k.apply(ctx, set, plan)
	wrote = max(wrote, rev)
	rev, serr := k.report(ctx, set, plan.Status)
	// Also when a pod could not be made: templates that are tried in vain, one after the other, would be kept all.
	herr := history.Delete(ctx, k.Client, forgotten(set, past, plan.Status, mine))
	return loop.Result{Wrote: max(wrote, rev), Deleted: plan.deletes(), Again: plan.Again}, errors.Join(err, serr, herr)
}

// failureKey names a number of a set.
func failureKey(set *appsv1.StatefulSet, pod *v1.Pod) string { return string(set.UID) + "/" + pod.Name }

// waiting is how long a failed pod is left alone.
func (k *controller) waiting(set *appsv1.StatefulSet, pod *v1.Pod) time.Duration {
	key := failureKey(set, pod)
	if !k.failures.IsInBackOffSinceUpdate(key, time.Now()) {
		return 0
	}
	return k.failures.Get(key)
}

// versions finds the template before the change that is being rolled out; where its revision is gone there is none to go back to.
func versions(set *appsv1.StatefulSet, past history.Record) (Version, error) {
	for _, r := range past.Kept {
		if r.Name == set.Status.CurrentRevision {
			t, err := history.Template(r)
			return Version{Name: r.Name, Template: t}, err
		}
	}
	return Version{Name: past.Current.Name, Template: &set.Spec.Template}, nil
}

// forgotten are the revisions that no pod is of, beyond the limit.
func forgotten(set *appsv1.StatefulSet, past history.Record, status appsv1.StatefulSetStatus, pods []*v1.Pod) []*appsv1.ControllerRevision {
	if set.Spec.RevisionHistoryLimit == nil {
		return nil
	}
	used := map[string]bool{past.Current.Name: true, set.Status.CurrentRevision: true, status.CurrentRevision: true}
	for _, p := range pods {
		used[version(p)] = true
	}
	return history.Forget(past.Kept, func(r *appsv1.ControllerRevision) bool { return used[r.Name] }, int(*set.Spec.RevisionHistoryLimit))
}

// apply does what the plan says and returns the revision of its last write.
func (k *controller) apply(ctx context.Context, set *appsv1.StatefulSet, p Plan) (int64, error) {
	var mu sync.Mutex
	var rev int64
	group := func(i int) error {
		for _, s := range p.Groups[i] {
			out, err := k.step(ctx, set, s)
			mu.Lock()
			rev = max(rev, loop.Revision(out))
			mu.Unlock()
			if err != nil {
				return err
			}
		}
		return nil
	}
	if set.Spec.PodManagementPolicy == appsv1.ParallelPodManagement {
		var alone []error // what one pod fails of and others need not
		err := podset.Slowly(len(p.Groups), func(i int) error {
			err := group(i)
			if err == nil || !apierrors.IsAlreadyExists(err) && !errors.Is(err, errRefused) {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			alone = append(alone, err)
			return nil
		})
		return rev, errors.Join(append(alone, err)...)
	}
	for i := range p.Groups {
		if err := group(i); err != nil {
			return rev, err
		}
	}
	return rev, nil
}

// errRefused says that the plan itself does not want a pod to be created.
var errRefused = errors.New("a pod cannot be created")

func (k *controller) step(ctx context.Context, set *appsv1.StatefulSet, s Step) (out runtime.Object, err error) {
	switch s.Do {
	case CreateClaim:
		if out, err = k.Client.Create(ctx, client.Claims.At(set.Namespace, ""), s.Claim); apierrors.IsAlreadyExists(err) {
			return nil, err
		}
		k.tellClaim(set, s, err)
		if err != nil {
			k.tell(set, "Create", s.Pod, fmt.Errorf("failed to create PVC %s: %w", s.Claim.Name, err))
		}
	case OwnClaim:
		if s.Conflict {
			k.Events.Eventf(set, v1.EventTypeWarning, "ConflictingController",
				"PersistentVolumeClaim %s has a conflicting OwnerReference that acts as a manging controller, the retention policy is ignored for this claim", s.Claim.Name)
		}
		out, err = k.Client.Update(ctx, client.Claims.At(set.Namespace, s.Claim.Name), s.Claim)
		if err != nil && !apierrors.IsConflict(err) {
			k.tell(set, "Update", s.Pod, fmt.Errorf("could not update claim %s for delete policy ownerRefs: %w", s.Claim.Name, err))
		}
	case CreatePod:
		out, err = k.Client.Create(ctx, client.Pods.At(set.Namespace, ""), s.Pod)
		if apierrors.HasStatusCause(err, v1.NamespaceTerminatingCause) {
			return nil, nil // everything here is on its way out: nothing to tell anybody
		}
		if !apierrors.IsAlreadyExists(err) {
			k.tell(set, "Create", s.Pod, err)
		}
	case DeletePod:
		err = podset.Remove(ctx, k.Client, s.Pod)
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		k.tell(set, "Delete", s.Pod, err)
	case LabelPod:
		out, err = k.Client.Mutate(ctx, client.Pods.At(set.Namespace, s.Pod.Name), func(o runtime.Object) (bool, error) {
			fresh := o.(*v1.Pod)
			fresh.Labels = maps.Clone(fresh.Labels)
			identify(fresh, Ordinal(fresh))
			return fresh.UID == s.Pod.UID, nil
		})
		k.tell(set, "Update", s.Pod, err)
	case Refuse:
		k.tell(set, "Create", s.Pod, errors.New(s.Why))
		err = fmt.Errorf("%w: %s", errRefused, s.Why)
	}
	return out, err
}

func (k *controller) tell(set *appsv1.StatefulSet, verb string, pod *v1.Pod, err error) {
	if err != nil {
		k.Events.Eventf(set, v1.EventTypeWarning, "Failed"+verb, "%s Pod %s in StatefulSet %s failed error: %v", verb, pod.Name, set.Name, err)
		return
	}
	k.Events.Eventf(set, v1.EventTypeNormal, "Successful"+verb, "%s Pod %s in StatefulSet %s successful", verb, pod.Name, set.Name)
}

func (k *controller) tellClaim(set *appsv1.StatefulSet, s Step, err error) {
	if err != nil {
		k.Events.Eventf(set, v1.EventTypeWarning, "FailedCreate", "Create Claim %s for Pod %s in StatefulSet %s failed error: %v", s.Claim.Name, s.Pod.Name, set.Name, err)
		return
	}
	k.Events.Eventf(set, v1.EventTypeNormal, "SuccessfulCreate", "Create Claim %s Pod %s in StatefulSet %s success", s.Claim.Name, s.Pod.Name, set.Name)
}

func (k *controller) report(ctx context.Context, set *appsv1.StatefulSet, status appsv1.StatefulSetStatus) (int64, error) {
	obj, err := k.Client.Mutate(ctx, kind.Resource.At(set.Namespace, set.Name).Sub("status"), func(o runtime.Object) (bool, error) {
		fresh := o.(*appsv1.StatefulSet)
		status.Conditions = ours(fresh.Status.Conditions, status.Conditions)
		if fresh.UID != set.UID || fresh.Status.ObservedGeneration > status.ObservedGeneration || equality.Semantic.DeepEqual(fresh.Status, status) {
			return false, nil
		}
		fresh.Status = status
		return true, nil
	})
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	return loop.Revision(obj), err
}
