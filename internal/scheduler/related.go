package scheduler

import (
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"podo.dev/podo/internal/scheduler/framework"
	"podo.dev/podo/internal/scheduler/plugins"
	"podo.dev/podo/internal/scheduler/profile"
	"podo.dev/podo/internal/scheduler/queue"
	"podo.dev/podo/internal/view"
)

// wakeRelated moves the pods, anywhere, to which it may matter that a pod was placed, left (is is nil) or changed: pods whose
// terms mean it, pods that its terms kept away, pods that are spread by default, and those that extenders rejected.
func (r *run) wakeRelated(why string, was, is *framework.Pod, now time.Time) {
	r.wakeRejected(why, extended, now)
	for _, p := range []*framework.Pod{was, is} {
		if p != nil && r.queue.Rejects(spread) && r.spreadsByDefault() {
			r.queue.WakeRejected(why, spread, func(i *queue.Item) bool { return byDefault(i) && i.Pod.Object.Namespace == p.Object.Namespace }, now)
		}
	}
	keptAway := was != nil && was.Shape.Relations != nil && len(was.Shape.Relations.AntiAffinity) > 0
	if !keptAway && !r.queue.Related() {
		return // for nearly every pod
	}
	r.queue.Wake(why, func(s *framework.Shape) queue.Help {
		for _, p := range []*framework.Pod{was, is} {
			if p != nil && r.cluster.Concerns(s, p.Object) {
				return queue.Help{Of: anyItem}
			}
		}
		if !keptAway {
			return queue.Help{}
		}
		return queue.Help{Of: func(i *queue.Item) bool {
			return slices.ContainsFunc(was.Shape.Relations.AntiAffinity, func(t framework.Term) bool { return r.cluster.Means(&t, i.Pod.Object) })
		}}
	}, now)
}

// spreadsByDefault tells whether a profile applies default constraints.
func (r *run) spreadsByDefault() bool {
	return slices.ContainsFunc(r.config.Profiles.Profiles, func(p profile.Profile) bool {
		return slices.ContainsFunc(p.Set.Relations, func(x plugins.Relation) bool {
			s, ok := x.Relation.(plugins.PodTopologySpread)
			return ok && slices.ContainsFunc(s.Defaults, func(c v1.TopologySpreadConstraint) bool { return c.WhenUnsatisfiable == v1.DoNotSchedule })
		})
	})
}

// byDefault tells whether a pod is spread by its profile's defaults. What those count is not part of its shape.
func byDefault(i *queue.Item) bool {
	r := i.Pod.Shape.Relations
	return r == nil || !r.OwnConstraints
}

var (
	services     = schema.GroupResource{Resource: "services"}
	replications = schema.GroupResource{Resource: "replicationcontrollers"}
	replicaSets  = schema.GroupResource{Group: "apps", Resource: "replicasets"}
	statefulSets = schema.GroupResource{Group: "apps", Resource: "statefulsets"}
)

// likes caches like while nothing that it reads has changed. It is for one goroutine.
func likes(v *view.View) func(*v1.Pod) labels.Selector {
	kinds := [...]schema.GroupResource{services, replications, replicaSets, statefulSets}
	var at [len(kinds)]int64
	known := map[string]labels.Selector{}
	return func(pod *v1.Pod) labels.Selector {
		s, now := v.Snapshot(), at
		for i, kind := range kinds {
			now[i] = s.ResourceRev(kind)
		}
		if now != at || len(known) >= maxLikes {
			clear(known)
			at = now
		}
		key := pod.Namespace + "|" + labels.Set(pod.Labels).String()
		if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
			key += "|" + owner.Kind + "|" + owner.Name
		}
		found, ok := known[key]
		if !ok {
			found = like(s, pod)
			known[key] = found
		}
		return found
	}
}

const maxLikes = 4096

// like selects a pod's peers: it combines the selectors of the Services that select it and of its controller. nil when there are
// none.
func like(s view.Snapshot, pod *v1.Pod) labels.Selector {
	of := labels.Set{}
	for e := range s.All(services, pod.Namespace, view.Key{}) {
		sel := e.Object.(*v1.Service).Spec.Selector
		if len(sel) > 0 && labels.SelectorFromSet(sel).Matches(labels.Set(pod.Labels)) {
			for k, v := range sel {
				of[k] = v
			}
		}
	}
	out := labels.SelectorFromSet(of)
	if more, ok := controllers(s, pod).Requirements(); ok {
		out = out.Add(more...)
	}
	if out.Empty() {
		return nil
	}
	return out
}

// controllers is the selector of the pod's controller; one that selects everything when there is no known controller.
func controllers(s view.Snapshot, pod *v1.Pod) labels.Selector {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil {
		return labels.Everything()
	}
	of := func(r schema.GroupResource) any {
		if e := s.Get(r, pod.Namespace, owner.Name); e != nil {
			return e.Object
		}
		return nil
	}
	var found *metav1.LabelSelector
	switch owner.Kind {
	case "ReplicationController":
		if o, ok := of(replications).(*v1.ReplicationController); ok {
			return labels.SelectorFromSet(o.Spec.Selector)
		}
	case "ReplicaSet":
		if o, ok := of(replicaSets).(*appsv1.ReplicaSet); ok {
			found = o.Spec.Selector
		}
	case "StatefulSet":
		if o, ok := of(statefulSets).(*appsv1.StatefulSet); ok {
			found = o.Spec.Selector
		}
	}
	if sel, err := metav1.LabelSelectorAsSelector(found); err == nil && found != nil {
		return sel
	}
	return labels.Everything()
}
