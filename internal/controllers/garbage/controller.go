package garbage

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/controllers/loop"
	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/view"
)

// workers delete side by side; the store commits them in groups.
const workers = 20

// Config is what the controller is made of. All but Logger are required.
type Config struct {
	View   *view.View
	Client client.Client
	Events record.EventRecorder
	Kinds  []*registry.Kind
	Logger *slog.Logger
}

type controller struct {
	Config
	graph   *graph
	kinds   map[schema.GroupKind]*registry.Kind
	nowhere absent
}

// New makes the controller, whose keys are UIDs.
func New(c Config) (*loop.Loop, error) {
	if c.View == nil || c.Client == nil || c.Events == nil || len(c.Kinds) == 0 {
		return nil, errors.New("garbage: View, Client, Events and Kinds are required")
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	k := &controller{Config: c, graph: newGraph(), kinds: map[schema.GroupKind]*registry.Kind{}}
	var watches []loop.Watch
	for _, kind := range c.Kinds {
		if kind.Unstored || kind.NotCached || kind.Served != nil {
			continue
		}
		k.kinds[kind.GVK.GroupKind()] = kind
		watches = append(watches, loop.Watch{Resource: kind.GroupResource(), Keys: func(ch view.Change) []view.Key {
			var keys []view.Key
			for _, uid := range k.graph.take(kind, ch) {
				keys = append(keys, view.Key{Name: string(uid)})
			}
			return keys
		}})
	}
	// What upstream counts when its list of kinds or its watches fail. The kinds here are those of the view, which has one watch: it stays 0.
	unsynced := prometheus.NewCounter(prometheus.CounterOpts{
		Subsystem: "garbagecollector_controller", Name: "resources_sync_error_total", Help: "How often it could not be found out which kinds there are.",
	})
	return loop.New(loop.Config{
		Name: "garbage-collector", View: c.View, Watches: watches, Reconcile: k.reconcile, Workers: workers, Logger: c.Logger,
		Metrics: []prometheus.Collector{unsynced},
	})
}

func (k *controller) reconcile(ctx context.Context, s view.Snapshot, key view.Key) (loop.Result, error) {
	uid := types.UID(key.Name)
	n := k.graph.get(uid)
	if n == nil {
		return loop.Result{}, nil
	}
	e := s.Get(n.kind.GroupResource(), n.key.Namespace, n.key.Name)
	if e == nil || e.Meta.GetUID() != uid {
		return loop.Result{}, nil // its going is a change of its own
	}
	if n.foreground && k.graph.holds(uid, func(d *node) bool {
		o := s.Get(d.kind.GroupResource(), d.key.Namespace, d.key.Name)
		return o != nil && blocks(o.Meta.GetOwnerReferences(), uid)
	}) {
		return loop.Result{}, nil // the going of the last one brings us back
	}
	refs := e.Meta.GetOwnerReferences()
	states := make([]OwnerState, len(refs))
	for i := range refs {
		states[i] = k.state(s, e, n.kind, &refs[i])
	}
	nodes := k.graph.dependentsOf(uid)
	switch {
	case e.Meta.GetDeletionTimestamp() != nil:
		nodes = k.search(s, n, uid)
	case slices.Contains(states, Waiting): // the graph may not know yet that one of them waits as well: then nobody would break the circle
		for i, d := range nodes {
			if o := s.Get(d.kind.GroupResource(), d.key.Namespace, d.key.Name); o != nil {
				nodes[i] = nodeOf(d.kind, o)
			}
		}
	}
	var dependents []Dependent
	for _, d := range nodes {
		if d.kind == n.kind && d.key == n.key {
			continue // what owns itself does not wait for itself
		}
		dependents = append(dependents, Dependent{Blocks: blocks(d.owners, uid), Foreground: d.foreground})
	}
	rev, err := k.apply(ctx, n, e, nodes, Decide(e.Meta, states, dependents))
	if apierrors.IsNotFound(err) {
		err = nil
	}
	return loop.Result{Wrote: rev}, err
}

// search finds the dependents of an object that is being deleted in the snapshot itself: the graph hears of each kind by itself, and
// may not know yet of a dependent that is older than the deletion. One that is missed would be deleted instead of orphaned.
func (k *controller) search(s view.Snapshot, n *node, uid types.UID) (out []*node) {
	for _, kind := range k.kinds {
		if n.kind.Namespaced && !kind.Namespaced {
			continue
		}
		for e := range s.All(kind.GroupResource(), n.key.Namespace, view.Key{}) {
			refs := e.Meta.GetOwnerReferences()
			if slices.ContainsFunc(refs, func(r metav1.OwnerReference) bool { return r.UID == uid }) {
				out = append(out, nodeOf(kind, e))
			}
		}
	}
	return out
}

func blocks(owners []metav1.OwnerReference, uid types.UID) bool {
	return slices.ContainsFunc(owners, func(r metav1.OwnerReference) bool {
		return r.UID == uid && r.BlockOwnerDeletion != nil && *r.BlockOwnerDeletion
	})
}

// state looks an owner up where a reference can mean: in the object's own namespace, or outside of all. A snapshot has everything
// of one revision, so that an owner that is not in it was not there when the object was.
func (k *controller) state(s view.Snapshot, e *view.Entry, of *registry.Kind, ref *metav1.OwnerReference) OwnerState {
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return Solid
	}
	kind := k.kinds[schema.GroupKind{Group: gv.Group, Kind: ref.Kind}]
	switch {
	case kind == nil:
		return Solid
	case kind.Namespaced && !of.Namespaced: // whose namespace would be meant is not said
		if k.elsewhere(s, kind, "", ref.UID) {
			k.tellElsewhere(e, of, ref)
		}
		return Solid
	}
	namespace := ""
	if kind.Namespaced {
		namespace = e.Key.Namespace
	}
	o := s.Get(kind.GroupResource(), namespace, ref.Name)
	if o == nil || o.Meta.GetUID() != ref.UID {
		if kind.Namespaced && k.elsewhere(s, kind, namespace, ref.UID) {
			k.tellElsewhere(e, of, ref)
		}
		return Dangling
	}
	if o.Meta.GetDeletionTimestamp() != nil && slices.Contains(o.Meta.GetFinalizers(), metav1.FinalizerDeleteDependents) {
		return Waiting
	}
	return Solid
}

// elsewhere tells whether the owner is in another namespace than the one that the reference may point to, where it could only have another
// name. One that is nowhere never comes back: thousands of dependents look for it once.
func (k *controller) elsewhere(s view.Snapshot, kind *registry.Kind, namespace string, uid types.UID) bool {
	if k.nowhere.has(uid) {
		return false
	}
	for o := range s.All(kind.GroupResource(), "", view.Key{}) {
		if o.Meta.GetUID() == uid {
			return o.Key.Namespace != namespace
		}
	}
	k.nowhere.add(uid)
	return false
}

func (k *controller) tellElsewhere(e *view.Entry, of *registry.Kind, ref *metav1.OwnerReference) {
	about := &v1.ObjectReference{
		Kind: of.GVK.Kind, APIVersion: of.GVK.GroupVersion().String(), Namespace: e.Key.Namespace, Name: e.Key.Name, UID: e.Meta.GetUID(),
	}
	k.Events.Eventf(about, v1.EventTypeWarning, "OwnerRefInvalidNamespace",
		"ownerRef [%s/%s, namespace: %s, name: %s, uid: %s] does not exist in namespace %q",
		ref.APIVersion, ref.Kind, e.Key.Namespace, ref.Name, ref.UID, e.Key.Namespace)
}

// apply does what was decided and returns the revision of the last write.
func (k *controller) apply(ctx context.Context, n *node, e *view.Entry, dependents []*node, a Action) (rev int64, err error) {
	self := client.Ref{Resource: n.kind.GroupResource(), Namespace: e.Key.Namespace, Name: e.Key.Name}
	uid := e.Meta.GetUID()
	change := func(ref client.Ref, uid types.UID, edit func(m metav1.Object) bool) error {
		out, err := k.Client.Mutate(ctx, ref, func(obj runtime.Object) (bool, error) {
			m, err := meta.Accessor(obj)
			if err != nil || m.GetUID() != uid {
				return false, err
			}
			return edit(m), nil
		})
		rev = max(rev, loop.Revision(out))
		return err
	}
	if a.Orphan {
		for _, d := range dependents {
			ref := client.Ref{Resource: d.kind.GroupResource(), Namespace: d.key.Namespace, Name: d.key.Name}
			_, err := k.Client.Mutate(ctx, ref, func(obj runtime.Object) (bool, error) {
				m, err := meta.Accessor(obj)
				if err != nil {
					return false, err
				}
				return disown(m, []types.UID{uid}), nil
			})
			if err != nil && !apierrors.IsNotFound(err) {
				return rev, fmt.Errorf("orphan %s %s/%s: %w", d.kind.Resource, d.key.Namespace, d.key.Name, err)
			}
		}
	}
	if a.Finish != "" {
		return rev, change(self, uid, func(m metav1.Object) bool { return unfinalize(m, a.Finish) })
	}
	if len(a.Disown) > 0 {
		// Whoever was given other owners meanwhile, and these alone are left of those he had, would be nobody's and stay for ever.
		nobodys := false
		err := change(self, uid, func(m metav1.Object) bool {
			changed := disown(m, a.Disown)
			nobodys = changed && len(m.GetOwnerReferences()) == 0
			return changed && !nobodys
		})
		if nobodys && err == nil {
			err = apierrors.NewConflict(self.Resource, self.Name, errors.New("its owners have changed"))
		}
		return rev, err
	}
	if a.Unblock {
		if err := change(self, uid, unblock); err != nil {
			return rev, err
		}
	}
	if a.Delete == "" {
		return rev, nil
	}
	k.Logger.Debug("an object without owners is deleted", "resource", n.kind.Resource, "key", e.Key, "propagation", a.Delete)
	o := metav1.DeleteOptions{PropagationPolicy: &a.Delete, Preconditions: &metav1.Preconditions{UID: &uid}}
	if rev == 0 { // nothing was written since it was looked at: nobody may have given it an owner meanwhile
		seen := e.Meta.GetResourceVersion()
		o.Preconditions.ResourceVersion = &seen
	}
	return rev, k.Client.Delete(ctx, self, o)
}

// unfinalize removes a finalizer.
func unfinalize(m metav1.Object, name string) bool {
	old := m.GetFinalizers()
	kept := slices.DeleteFunc(slices.Clone(old), func(f string) bool { return f == name })
	m.SetFinalizers(kept)
	return len(kept) != len(old)
}

// disown removes the references to owners.
func disown(m metav1.Object, owners []types.UID) bool {
	old := m.GetOwnerReferences()
	kept := slices.DeleteFunc(slices.Clone(old), func(r metav1.OwnerReference) bool { return slices.Contains(owners, r.UID) })
	m.SetOwnerReferences(kept)
	return len(kept) != len(old)
}

// unblock turns blockOwnerDeletion off.
func unblock(m metav1.Object) bool {
	refs := slices.Clone(m.GetOwnerReferences())
	changed := false
	for i := range refs {
		if b := refs[i].BlockOwnerDeletion; b != nil && *b {
			refs[i].BlockOwnerDeletion = new(false)
			changed = true
		}
	}
	m.SetOwnerReferences(refs)
	return changed
}
