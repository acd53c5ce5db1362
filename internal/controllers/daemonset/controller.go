package daemonset

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
const Name = "daemonset-controller"

const workers = 2

var (
	sets  = client.Resource{Group: "apps", Resource: "daemonsets"}
	nodes = schema.GroupResource(client.Nodes)
	kind  = podset.Kind{Resource: sets, GVK: appsv1.SchemeGroupVersion.WithKind("DaemonSet"), Selector: selector}
)

func selector(obj runtime.Object) (labels.Selector, bool) {
	s, err := metav1.LabelSelectorAsSelector(obj.(*appsv1.DaemonSet).Spec.Selector)
	return s, err == nil
}

// Config is what the controller is made of. All but Logger are required.
type Config = loop.Parts

type controller struct {
	Config
	// failures hold back the replacement of pods that fail: on a node that refuses them it would never end.
	failures *flowcontrol.Backoff
}

// New makes the controller. Its keys are DaemonSets.
func New(c Config) (*loop.Loop, error) {
	if err := c.Check("daemonset"); err != nil {
		return nil, err
	}
	k := &controller{Config: c, failures: flowcontrol.NewBackOff(time.Second, 15*time.Minute)}
	return loop.New(loop.Config{
		Name: Name, View: c.View, Reconcile: k.reconcile, Workers: workers, Logger: c.Logger,
		Watches: append(kind.Watches(c.View), history.Watch(kind.GVK), loop.Watch{Resource: nodes, Keys: k.nodeKeys}),
		Skips:   loop.SkippedLooks("daemonset_controller"),
	})
}

// nodeKeys: a node that comes, goes, or changes what decides about pods is every set's matter.
func (k *controller) nodeKeys(c view.Change) (out []view.Key) {
	if c.Old != nil && c.New != nil {
		a, b := c.Old.Object.(*v1.Node), c.New.Object.(*v1.Node)
		if maps.Equal(a.Labels, b.Labels) && equality.Semantic.DeepEqual(a.Spec.Taints, b.Spec.Taints) {
			return nil
		}
	}
	for e := range k.View.Snapshot().All(schema.GroupResource(sets), "", view.Key{}) {
		out = append(out, e.Key)
	}
	return out
}

func (k *controller) reconcile(ctx context.Context, s view.Snapshot, key view.Key) (loop.Result, error) {
	e := s.Get(schema.GroupResource(sets), key.Namespace, key.Name)
	if e == nil || e.Meta.GetDeletionTimestamp() != nil {
		return loop.Result{}, nil
	}
	set := e.Object.(*appsv1.DaemonSet)
	match, ok := selector(set)
	if !ok {
		return loop.Result{}, nil
	}
	mine, adopt, release := podset.Claim(set, func(p *v1.Pod) bool { return match.Matches(labels.Set(p.Labels)) }, podset.Candidates(s, set))
	wrote, err := kind.Settle(ctx, k.Client, set, adopt, release)
	if err != nil {
		return loop.Result{Wrote: wrote}, err
	}
	owner := history.Owner{
		Meta: set, GVK: kind.GVK, Selector: match, Template: &set.Spec.Template, HashLabel: appsv1.ControllerRevisionHashLabelKey,
		Collisions: valueOf(set.Status.CollisionCount),
	}
	known := history.Decide(owner, history.Candidates(s, set))
	past, err := history.Keep(ctx, k.Client, owner, known)
	wrote = max(wrote, past.Wrote)
	if err != nil || past.Current == nil {
		return loop.Result{Wrote: wrote}, err
	}
	if len(known.Twins) > 0 {
		rev, err := k.merge(ctx, past.Current, known.Twins, mine)
		return loop.Result{Wrote: max(wrote, rev), Deleted: err == nil}, err
	}
	state := State{
		Set: set, Nodes: allNodes(s), Pods: mine, Hash: past.Current.Labels[appsv1.ControllerRevisionHashLabelKey], Now: time.Now(),
		Waiting: func(node string) time.Duration { return k.waiting(set, node) },
	}
	plan := Decide(state)
	if podset.Ending(s, key.Namespace) {
		plan.Create = nil
	}
	if past.Collisions > 0 {
		plan.Status.CollisionCount = &past.Collisions
	}
	rev, err := k.apply(ctx, set, plan, state.Hash)
	wrote = max(wrote, rev)
	// Also when a pod could not be made: templates that are tried in vain, one after the other, would be kept all.
	herr := history.Delete(ctx, k.Client, forgotten(set, past, mine))
	rev, serr := k.report(ctx, set, plan.Status)
	return loop.Result{Wrote: max(wrote, rev), Deleted: len(plan.Delete) > 0, Again: plan.Again}, errors.Join(err, serr, herr)
}

// merge leaves one of several revisions of one template. The pods of the others are of that template as well: they are said to be, else they
// would be replaced by their equals.
func (k *controller) merge(ctx context.Context, current *appsv1.ControllerRevision, twins []*appsv1.ControllerRevision, pods []*v1.Pod) (rev int64, err error) {
	const label = appsv1.ControllerRevisionHashLabelKey
	was := map[string]bool{}
	for _, t := range twins {
		was[t.Labels[label]] = true
	}
	hash := current.Labels[label]
	delete(was, hash)
	for _, pod := range pods {
		if !was[pod.Labels[label]] {
			continue
		}
		out, err := k.Client.Mutate(ctx, client.Pods.At(pod.Namespace, pod.Name), func(o runtime.Object) (bool, error) {
			fresh := o.(*v1.Pod)
			if fresh.UID != pod.UID || !was[fresh.Labels[label]] {
				return false, nil
			}
			fresh.Labels[label] = hash
			return true, nil
		})
		if err != nil && !apierrors.IsNotFound(err) {
			return rev, err
		}
		if err == nil {
			rev = max(rev, loop.Revision(out))
		}
	}
	return rev, history.Delete(ctx, k.Client, twins)
}

func valueOf(p *int32) int32 {
	if p == nil {
		return 0
	}
	return *p
}

func allNodes(s view.Snapshot) (out []*v1.Node) {
	for e := range s.All(nodes, "", view.Key{}) {
		out = append(out, e.Object.(*v1.Node))
	}
	return out
}

// forgotten are the revisions that no pod is of, beyond the limit.
func forgotten(set *appsv1.DaemonSet, past history.Record, pods []*v1.Pod) []*appsv1.ControllerRevision {
	if set.Spec.RevisionHistoryLimit == nil {
		return nil
	}
	used := map[string]bool{}
	for _, p := range pods {
		used[p.Labels[appsv1.ControllerRevisionHashLabelKey]] = true
	}
	return history.Forget(past.Kept, func(r *appsv1.ControllerRevision) bool {
		return r.Name == past.Current.Name || used[r.Labels[appsv1.ControllerRevisionHashLabelKey]]
	}, int(*set.Spec.RevisionHistoryLimit))
}

// failureKey: a change of the set begins anew.
func failureKey(set *appsv1.DaemonSet, node string) string {
	return fmt.Sprintf("%s/%d/%s", set.UID, set.Status.ObservedGeneration, node)
}

func (k *controller) waiting(set *appsv1.DaemonSet, node string) time.Duration {
	key, now := failureKey(set, node), time.Now()
	if !k.failures.IsInBackOffSinceUpdate(key, now) {
		return 0
	}
	return k.failures.Get(key)
}

// apply does what the plan says and returns the revision of its last write.
func (k *controller) apply(ctx context.Context, set *appsv1.DaemonSet, p Plan, hash string) (int64, error) {
	told := map[string]bool{}
	for _, pod := range p.Failed {
		node, _ := target(pod)
		if !told[node] {
			told[node] = true
			k.failures.Next(failureKey(set, node), time.Now())
			k.failures.GC()
		}
		k.Events.Eventf(set, v1.EventTypeWarning, "FailedDaemonPod", "Found failed daemon pod %s/%s on node %s, will try to kill it", pod.Namespace, pod.Name, node)
	}
	for _, pod := range p.Succeeded {
		node, _ := target(pod)
		k.Events.Eventf(set, v1.EventTypeNormal, "SucceededDaemonPod", "Found succeeded daemon pod %s/%s on node %s, will try to delete it", pod.Namespace, pod.Name, node)
	}
	var mu sync.Mutex
	var rev int64
	created := podset.Slowly(len(p.Create), func(i int) error {
		pod := kind.New(set, &set.Spec.Template)
		fit(pod, set, p.Create[i], hash)
		out, err := kind.Create(ctx, k.Client, k.Events, set, pod)
		mu.Lock()
		defer mu.Unlock()
		rev = max(rev, loop.Revision(out))
		return err
	})
	deleted := podset.Slowly(len(p.Delete), func(i int) error { return kind.Delete(ctx, k.Client, k.Events, set, p.Delete[i]) })
	return rev, errors.Join(created, deleted)
}

func (k *controller) report(ctx context.Context, set *appsv1.DaemonSet, status appsv1.DaemonSetStatus) (int64, error) {
	obj, err := k.Client.Mutate(ctx, sets.At(set.Namespace, set.Name).Sub("status"), func(o runtime.Object) (bool, error) {
		fresh := o.(*appsv1.DaemonSet)
		status.Conditions = fresh.Status.Conditions
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
