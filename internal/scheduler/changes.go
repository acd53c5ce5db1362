package scheduler

import (
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"podo.dev/podo/internal/scheduler/framework"
	"podo.dev/podo/internal/scheduler/plan"
	"podo.dev/podo/internal/scheduler/plugins"
	"podo.dev/podo/internal/scheduler/queue"
	"podo.dev/podo/internal/view"
)

func (r *run) nodeChanged(c view.Change, now time.Time) {
	r.event = "Node" + verb(c)
	defer r.config.Metrics.took(r.event, time.Now())
	var was, is *v1.Node
	if c.Old != nil {
		was = c.Old.Object.(*v1.Node)
	}
	if c.New == nil {
		r.nodeLeft(was, now)
		return
	}
	is = c.New.Object.(*v1.Node)
	why := "node " + is.Name + " changed"
	changed := r.cluster.SetNode(is)
	if changed {
		on := r.cluster.Node(is.Name)
		r.wake(why, on, now)
		r.wakeRejected(why, spread, now)
		if was == nil && len(on.Pods) > 0 || was != nil && !maps.Equal(was.Labels, is.Labels) {
			r.wakeRejected(why, kin, now) // its pods are now in other domains
		}
	}
	if changed || was != nil && differ(was, is) {
		r.wakeRejected(why, extended, now)
	}
}

// differ tells whether an extender may see a difference between two states of a node that are the same to all plug-ins.
func differ(was, is *v1.Node) bool {
	return !maps.Equal(was.Annotations, is.Annotations) || !slices.EqualFunc(was.Status.Conditions, is.Status.Conditions, func(a, b v1.NodeCondition) bool {
		return a.Type == b.Type && a.Status == b.Status
	})
}

// nodeLeft handles the removal of a node. Pods that wait for room there look elsewhere.
func (r *run) nodeLeft(node *v1.Node, now time.Time) {
	why := "node " + node.Name + " left"
	var waiting []*framework.Pod
	if n := r.cluster.Node(node.Name); n != nil {
		waiting = slices.Clone(n.Nominated)
	}
	r.cluster.RemoveNode(node.Name)
	for _, w := range waiting {
		r.queue.WakeOne(w.Object.UID, why, now)
	}
	r.wakeRejected(why, spread, now)
	r.wakeRejected(why, kin, now)
	r.wakeRejected(why, extended, now)
}

// The plug-ins whose rejections a change on another node can lift. Nobody knows what an extender goes by: any change may matter
// to it.
var spread, kin = plugins.PodTopologySpread{}.Name(), plugins.InterPodAffinity{}.Name()

const extended = "Extender"

// wakeRejected moves the pods that a plug-in has rejected.
func (r *run) wakeRejected(why, plugin string, now time.Time) {
	if plugin == extended {
		r.news++
	}
	r.queue.WakeRejected(why, plugin, anyItem, now)
}

// verb is upstream's word for a change.
func verb(c view.Change) string {
	switch {
	case c.New == nil:
		return "Delete"
	case c.Old == nil:
		return "Add"
	}
	return "Update"
}

func (r *run) namespaceChanged(c view.Change, now time.Time) {
	r.event = "Namespace" + verb(c)
	if c.New == nil {
		r.cluster.RemoveNamespace(c.Old.Key.Name)
		return
	}
	if name := c.New.Key.Name; r.cluster.SetNamespace(name, c.New.Meta.GetLabels()) {
		r.wakeRejected("namespace "+name+" changed", kin, now)
	}
}

func (r *run) podChanged(c view.Change, now time.Time) {
	of := c.New
	if of == nil {
		of = c.Old
	}
	switch pod := of.Object.(*v1.Pod); {
	case pod.Spec.NodeName == "":
		r.event = "UnscheduledPod" + verb(c)
	case c.Old != nil && c.Old.Object.(*v1.Pod).Spec.NodeName == "":
		r.event = "AssignedPodAdd" // it counts as a pod that came to its node
	default:
		r.event = "AssignedPod" + verb(c)
	}
	defer r.config.Metrics.took(r.event, time.Now())
	if c.Old != nil && (c.New == nil || c.Old.Meta.GetUID() != c.New.Meta.GetUID()) {
		r.dropPod(c.Old.Object.(*v1.Pod), "left", now)
	}
	if c.New != nil {
		r.setPod(c.New.Object.(*v1.Pod), now)
	}
}

func (r *run) setPod(pod *v1.Pod, now time.Time) {
	switch {
	case pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed:
		r.dropPod(pod, "ended", now)
	case pod.Spec.NodeName != "":
		r.forgetWaiting(pod, now)
		was := r.cluster.PlacedAs(pod.UID)
		if freed := r.cluster.SetPod(pod); freed != nil {
			r.wake("pod "+pod.Name+" shrank", freed, now)
		}
		if is := r.cluster.PlacedAs(pod.UID); is != was {
			r.wakeRelated("pod "+pod.Name+" placed", was, is, now)
		}
	case pod.DeletionTimestamp != nil:
		// It must not be bound any more. If it is assumed, the API server refuses the bind that is under way, which may take long
		// to begin.
		r.forgetWaiting(pod, now)
		r.vacate(pod.UID, "pod "+pod.Name+" is being deleted", r.cluster.Forget, now)
	case r.planner[pod.Spec.SchedulerName] != nil:
		r.setWaiting(pod, now)
	}
}

// setWaiting handles a pod that waits for a node, new or changed.
func (r *run) setWaiting(pod *v1.Pod, now time.Time) {
	was, shape := &v1.Pod{}, (*framework.Shape)(nil)
	if i := r.queue.Item(pod.UID); i != nil {
		was, shape = i.Pod.Object, i.Pod.Shape
	}
	r.queue.Set(pod, r.cluster.Shape, now)
	i := r.queue.Item(pod.UID)
	if i.Pod.Shape != shape {
		r.unclaimed(i, "", now) // it may take less of the room for which it was woken
	}
	by := func(plugin string) bool { return slices.Contains(i.RejectedBy, plugin) }
	switch relabelled := !maps.Equal(was.Labels, pod.Labels); {
	case relabelled && (by(kin) || by(spread) || by(extended)):
		r.queue.WakeOne(pod.UID, "its labels changed", now)
	case by(extended) && !maps.Equal(was.Annotations, pod.Annotations):
		r.queue.WakeOne(pod.UID, "its annotations changed", now)
	}
	if node := pod.Status.NominatedNodeName; node != was.Status.NominatedNodeName {
		r.nominated(i, node, was.UID == "", now)
	} else if n := r.cluster.NominatedTo(pod.UID); n != nil && shape != i.Pod.Shape {
		r.cluster.Nominate(i.Pod, n.Name)
		r.wake("pod "+pod.Name+" changed", n, now) // it may now ask for less there
	}
}

// nominated handles the node on which, by the API, a pod waits for room: the scheduler wrote that, or somebody else suggests it.
// While the scheduler still has a nomination to write, the API's is outdated or about to be overwritten. first: the pod is new to
// the scheduler.
func (r *run) nominated(i *queue.Item, node string, first bool, now time.Time) {
	uid := i.Pod.Object.UID
	if _, placed := r.cluster.Placed(uid); placed || node == r.waitsOn(uid) || !first && r.out.reports.pending(uid) {
		return
	}
	r.denominate(uid, now)
	if i.Suggested = node != ""; i.Suggested {
		r.cluster.Nominate(i.Pod, node)
	}
}

// forgetWaiting removes a pod from those that wait. Room that was held for it is free for others.
func (r *run) forgetWaiting(pod *v1.Pod, now time.Time) {
	i := r.queue.Item(pod.UID)
	if i != nil {
		r.config.Metrics.rejectedBy(i.Pod.Object, keptBy(i, i.State), -1)
	}
	r.queue.Delete(pod.UID)
	r.denominate(pod.UID, now)
	if i != nil {
		r.unclaimed(i, "", now)
	}
}

// denominate ends a pod's wait for room on a node, which others may take now.
func (r *run) denominate(uid types.UID, now time.Time) {
	if held := r.cluster.Denominate(uid); held != nil {
		r.wake("room on "+held.Name+" is not wanted any more", held, now)
	}
}

// unclaimed tells others about the room for which a pod was woken, if the pod did not take it.
func (r *run) unclaimed(i *queue.Item, took string, now time.Time) {
	left := i.For
	if i.For = ""; left != "" && left != took {
		r.wake("room on "+left+" is left", r.cluster.Node(left), now)
	}
}

func (r *run) dropPod(pod *v1.Pod, how string, now time.Time) {
	r.forgetWaiting(pod, now)
	r.vacate(pod.UID, "pod "+pod.Name+" "+how, r.cluster.RemovePod, now)
}

// vacate takes a pod off its node by remove, and wakes the pods that this helps, there and elsewhere.
func (r *run) vacate(uid types.UID, why string, remove func(types.UID) *framework.Node, now time.Time) {
	was := r.cluster.PlacedAs(uid)
	freed := remove(uid)
	if freed == nil {
		return
	}
	r.wake(why, freed, now)
	r.wakeRelated(why, was, nil, now)
	r.hint(why, pods, was.Object, nil, now)
}

// wake moves the pods that an event on one node may help: those for whom room was made there, once it exists; as many others as
// also fit; and those that could make room there, unless they already wait for room elsewhere. A pod for whom nobody leaves any
// more while the room is still missing has lost it to a pod of higher priority: it looks elsewhere, or gives up what there is of
// it.
func (r *run) wake(why string, on *framework.Node, now time.Time) {
	if on == nil || on.Object == nil {
		return
	}
	r.news++
	for _, w := range on.Nominated {
		i := r.queue.Item(w.Object.UID)
		if i == nil || i.State != queue.Unschedulable {
			continue
		}
		if help, _ := r.planner[w.Shape.SchedulerName].Helps(r.cluster, i.Pod, on); help == plan.Room || !plan.Leaving(w, on) {
			r.queue.WakeOne(w.Object.UID, why, now)
		}
	}
	var blocked []*queue.Item
	r.queue.Wake(why, func(s *framework.Shape) queue.Help {
		planner := r.planner[s.SchedulerName]
		help, by := planner.Helps(r.cluster, &framework.Pod{Shape: s}, on)
		of := func(i *queue.Item, help plan.Help, by string) bool {
			switch unaware := by != "" && !slices.Contains(i.RejectedBy, by); {
			case unaware && help == plan.Blocked:
				blocked = append(blocked, i)
			case unaware:
				r.alsoRejectedBy(i, by)
			}
			return help >= plan.Victims
		}
		switch {
		case help == plan.Room:
			if most := planner.Rooms(s, on); most > 0 && !r.extenders.judge() {
				return queue.Help{Most: most, For: on.Name, Of: func(i *queue.Item) bool {
					help, by := planner.Helps(r.cluster, i.Pod, on)
					return of(i, help, by)
				}}
			}
			return queue.Help{Of: anyItem}
		case help == plan.Victims:
			return queue.Help{Of: r.waitsForNoRoom}
		case by != "":
			return queue.Help{Of: func(i *queue.Item) bool { return of(i, help, by) }, Unless: by}
		}
		return queue.Help{}
	}, now)
	r.queue.WakeThese(blocked, why, now) // in vain, but they then report what they wait for now
}

// alsoRejectedBy notes a plug-in that would keep a pod from a node: what helps against that wakes the pod, too.
func (r *run) alsoRejectedBy(i *queue.Item, plugin string) {
	r.queue.AlsoRejectedBy(i, plugin)
	r.config.Metrics.rejectedBy(i.Pod.Object, []string{plugin}, 1)
}

func anyItem(*queue.Item) bool { return true }

// waitsForNoRoom: when somebody else nominated the node, perhaps nobody is leaving it for the pod.
func (r *run) waitsForNoRoom(i *queue.Item) bool {
	return i.Suggested || r.cluster.NominatedTo(i.Pod.Object.UID) == nil
}
