package why

import (
	"context"
	"slices"
	"strings"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"

	"podo.dev/podo/internal/apiserver/verbs"
	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/explain"
	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/timeline"
	"podo.dev/podo/internal/timeline/recorder"
)

// question is one request. It reads everything as the user who asks, and is the explain.Cluster of its own answer.
type question struct {
	verbs    *verbs.Verbs
	timeline *recorder.Recorder
	ctx      context.Context
	asker    user.Info
	now      time.Time

	begun  bool                            // something has been read
	nodes  []*v1.Node                      // read once
	known  map[*v1.Pod]explain.Facts       // gathered already
	places map[string]*place               // by namespace, each read once; "" is all of them
	lists  map[client.Ref][]runtime.Object // what explanations asked for
	wide   *bool                           // whether the asker may see all pods
	above  map[types.UID]bool              // the objects being gathered, from the one that was asked for down to here
}

// place is what a namespace contains, indexed by what it belongs to. A question may be about all owners of a namespace, and reads
// the namespace's pods, owners and events once. A nil map has not been read yet.
type place struct {
	made     map[types.UID][]runtime.Object // by what controls them: owners in the order of their kinds, then pods
	claims   map[string][]*v1.Pod           // by the names of the claims that they use
	warned   map[types.UID][]*v1.Event      // warnings, by what they are about
	labelled map[label][]*v1.Pod            // by their labels; the zero label is every pod's
	selected map[string]selected            // by selectors
}

func (q *question) place(namespace string) *place {
	p := q.places[namespace]
	if p == nil {
		p = &place{}
		if q.places == nil {
			q.places = map[string]*place{}
		}
		q.places[namespace] = p
	}
	return p
}

func (q *question) facts(pod *v1.Pod) explain.Facts {
	if f, ok := q.known[pod]; ok {
		return f
	}
	if q.nodes == nil {
		for _, obj := range q.list(client.Ref{Resource: schema.GroupResource(client.Nodes)}, &internalversion.ListOptions{}) {
			q.nodes = append(q.nodes, obj.(*v1.Node))
		}
	}
	records := q.records(timeline.Query{Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID)})
	f := explain.Facts{Pod: pod, Records: records, Nodes: q.nodes, Cluster: q, Now: q.now}
	if q.known == nil {
		q.known = map[*v1.Pod]explain.Facts{}
	}
	q.known[pod] = f
	return f
}

// owner gathers an object and what stands below it.
func (q *question) owner(obj runtime.Object) explain.Owner {
	m, err := meta.Accessor(obj)
	if err != nil {
		return explain.Owner{Object: obj, Now: q.now}
	}
	if q.above == nil {
		q.above = map[types.UID]bool{}
	}
	q.above[m.GetUID()] = true
	defer delete(q.above, m.GetUID())
	out := explain.Owner{Object: obj, Warnings: q.warnings(m), Cluster: q, Now: q.now}
	namespace := m.GetNamespace()
	switch o := obj.(type) {
	case *v1.Namespace:
		if o.DeletionTimestamp == nil {
			out.Children = q.makers(o.Name, labels.Everything())
		}
		for _, obj := range q.list(client.Ref{Resource: schema.GroupResource(client.Pods), Namespace: o.Name}, &internalversion.ListOptions{}) {
			out.Pods = append(out.Pods, q.facts(obj.(*v1.Pod)))
		}
	case *v1.Node:
		out.Warnings = q.nodeWarnings(o)
		for _, obj := range q.list(client.Ref{Resource: schema.GroupResource(client.Pods)}, &internalversion.ListOptions{FieldSelector: fields.OneTermEqualSelector("spec.nodeName", o.Name)}) {
			out.Pods = append(out.Pods, q.facts(obj.(*v1.Pod)))
		}
	case *v1.Service:
		if len(o.Spec.Selector) > 0 {
			q.selected(&out, namespace, labels.SelectorFromSet(o.Spec.Selector))
		}
	case *policyv1.PodDisruptionBudget:
		if selector, err := metav1.LabelSelectorAsSelector(o.Spec.Selector); err == nil {
			q.selected(&out, namespace, selector)
		}
	case *v1.PersistentVolumeClaim:
		for _, pod := range q.users(namespace)[o.Name] {
			out.Pods = append(out.Pods, q.facts(pod))
		}
	case *autoscalingv2.HorizontalPodAutoscaler:
		if k := explained(strings.ToLower(o.Spec.ScaleTargetRef.Kind)); k != nil {
			if target, err := q.get(resourceOf(k), namespace, o.Spec.ScaleTargetRef.Name); err == nil {
				q.child(&out, target)
			}
		}
	default:
		q.controlled(&out, m)
	}
	return out
}

// deepest bounds the depth; the deepest useful one is three: an autoscaler, its Deployment, its ReplicaSets.
const deepest = 8

// child gathers an object below another. Owner references may form cycles, or chains of any length.
func (q *question) child(of *explain.Owner, obj runtime.Object) {
	if m, err := meta.Accessor(obj); err == nil && !q.above[m.GetUID()] && len(q.above) < deepest {
		of.Children = append(of.Children, q.owner(obj))
	}
}

// controlled gathers what an object has made.
func (q *question) controlled(out *explain.Owner, m metav1.Object) {
	for _, child := range q.made(m.GetNamespace())[m.GetUID()] {
		if pod, ok := child.(*v1.Pod); ok {
			out.Pods = append(out.Pods, q.facts(pod))
		} else {
			q.child(out, child)
		}
	}
}

func (q *question) made(namespace string) map[types.UID][]runtime.Object {
	p := q.place(namespace)
	if p.made != nil {
		return p.made
	}
	p.made = map[types.UID][]runtime.Object{}
	read := func(r schema.GroupResource) {
		for _, obj := range q.list(client.Ref{Resource: r, Namespace: namespace}, &internalversion.ListOptions{}) {
			if m, err := meta.Accessor(obj); err == nil {
				if by := metav1.GetControllerOfNoCopy(m); by != nil {
					p.made[by.UID] = append(p.made[by.UID], obj)
				}
			}
		}
	}
	for _, k := range registry.All() {
		if k.Indexes[registry.ControllerIndex] != nil && explain.Owns(k.New()) {
			read(resourceOf(k))
		}
	}
	read(schema.GroupResource(client.Pods))
	return p.made
}

// makers are the objects of a namespace that make pods, or that pods depend on, with what stands below each, except those that
// another of them controls. Budgets and quotas that are used up do their duty: they count only when somebody is refused.
func (q *question) makers(namespace string, selector labels.Selector) (out []explain.Owner) {
	for _, k := range registry.All() {
		switch k.New().(type) {
		case *policyv1.PodDisruptionBudget, *v1.ResourceQuota:
			continue
		}
		if !k.Namespaced || k.Unstored || k.Served != nil || !explain.Owns(k.New()) {
			continue
		}
		for _, obj := range q.list(client.Ref{Resource: resourceOf(k), Namespace: namespace}, &internalversion.ListOptions{LabelSelector: selector}) {
			if m, err := meta.Accessor(obj); err == nil && metav1.GetControllerOfNoCopy(m) == nil {
				out = append(out, q.owner(obj))
			}
		}
	}
	return out
}

// machines are the nodes with what they warned of, without their pods.
func (q *question) machines(selector labels.Selector) (out []explain.Owner) {
	for _, obj := range q.list(client.Ref{Resource: schema.GroupResource(client.Nodes)}, &internalversion.ListOptions{LabelSelector: selector}) {
		out = append(out, explain.Owner{Object: obj, Warnings: q.nodeWarnings(obj.(*v1.Node)), Cluster: q, Now: q.now})
	}
	return out
}

// users are the pods that use claims.
func (q *question) users(namespace string) map[string][]*v1.Pod {
	p := q.place(namespace)
	if p.claims != nil {
		return p.claims
	}
	p.claims = map[string][]*v1.Pod{}
	for _, obj := range q.list(client.Ref{Resource: schema.GroupResource(client.Pods), Namespace: namespace}, &internalversion.ListOptions{}) {
		pod := obj.(*v1.Pod)
		for _, v := range pod.Spec.Volumes {
			if v.PersistentVolumeClaim == nil {
				continue
			}
			users := p.claims[v.PersistentVolumeClaim.ClaimName]
			if len(users) == 0 || users[len(users)-1] != pod { // a pod may use one twice
				p.claims[v.PersistentVolumeClaim.ClaimName] = append(users, pod)
			}
		}
	}
	return p.claims
}

// nearby explains an object that does not exist by those that should have made it or that it should have made: for a pod that was
// never created, the owner whose creations are refused; for a Deployment that is gone, the pods of it that the timeline
// remembers.
func (q *question) nearby(k *registry.Kind, namespace, name string) (out []explain.Report) {
	if isPods(k) {
		for _, owner := range []string{"StatefulSet", "ReplicaSet", "DaemonSet", "Job", "ReplicationController"} {
			kind := explained(strings.ToLower(owner))
			for _, obj := range q.list(client.Ref{Resource: resourceOf(kind), Namespace: namespace}, &internalversion.ListOptions{}) {
				m, err := meta.Accessor(obj)
				if err != nil || !strings.HasPrefix(name, m.GetName()+"-") {
					continue
				}
				r := explain.Report{Kind: "Pod", Namespace: namespace, Name: name, State: "does not exist", Why: "What would make it is " + owner + " " + m.GetName() + ", below"}
				r.Below = append(r.Below, explain.Of(q.owner(obj)))
				return []explain.Report{r}
			}
		}
		for _, node := range q.machines(labels.Everything()) {
			if r, ok := node.Unmade(namespace, name); ok {
				return []explain.Report{r}
			}
		}
		return nil
	}
	if q.may("list", client.Ref{Resource: schema.GroupResource(client.Pods), Namespace: namespace}) != nil {
		return nil
	}
	return explain.Lost(k.GVK.Kind, namespace, name, q.records(timeline.Query{Namespace: namespace}), q.now)
}

// warnings are an object's warning events, if the asker may list events.
func (q *question) warnings(m metav1.Object) []*v1.Event {
	p := q.place(m.GetNamespace())
	if p.warned == nil {
		p.warned = map[types.UID][]*v1.Event{}
		warnings := fields.OneTermEqualSelector("type", v1.EventTypeWarning)
		for _, obj := range q.list(client.Events.At(m.GetNamespace(), ""), &internalversion.ListOptions{FieldSelector: warnings}) {
			e := obj.(*v1.Event)
			uid := e.InvolvedObject.UID
			if uid == "" && e.InvolvedObject.Kind == "Node" {
				uid = unregistered(e.InvolvedObject.Name)
			}
			p.warned[uid] = append(p.warned[uid], e)
		}
	}
	return p.warned[m.GetUID()]
}

// nodeWarnings are a node's warning events, with those that its kubelet sent before it had heard the node's UID.
func (q *question) nodeWarnings(n *v1.Node) []*v1.Event {
	return slices.Concat(q.warnings(n), q.place("").warned[unregistered(n.Name)])
}

func unregistered(node string) types.UID { return types.UID("Node/" + node) }
