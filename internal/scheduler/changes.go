package scheduler

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"podo.dev/podo/internal/scheduler/framework"
	"podo.dev/podo/internal/scheduler/plan"
	"podo.dev/podo/internal/scheduler/queue"
	"podo.dev/podo/internal/view"
)

func (r *run) nodeChanged(c view.Change, now time.Time) {
	r.event = "Node" + verb(c)
	defer r.config.Metrics.took(r.event, time.Now())
	if c.New == nil {
		r.cluster.RemoveNode(c.Old.Key.Name)
		r.wakeSpread("node "+c.Old.Key.Name+" left", now)
		return
	}
	node := c.New.Object.(*v1.Node)
	if r.cluster.SetNode(node) {
		r.wake("node "+node.Name+" changed", r.cluster.Node(node.Name), now)
		r.wakeSpread("node "+node.Name+" changed", now)
	}
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
		r.queue.Wake("namespace "+name+" changed", related, now)
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
		r.event = "AssignedPodAdd" // as one that came to its node
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
		// Never bound from here on: if it is assumed, its bind is under way and the API server decides.
		r.forgetWaiting(pod, now)
	case r.planner[pod.Spec.SchedulerName] != nil:
		known := r.queue.Item(pod.UID) != nil
		r.queue.Set(pod, r.cluster.Shape, now)
		if item := r.queue.Item(pod.UID); !known && pod.Status.NominatedNodeName != "" {
			r.cluster.Nominate(item.Pod, pod.Status.NominatedNodeName)
		}
	}
}

// forgetWaiting ends a pod's waiting. Room that was held for it may be another's.
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

// denominate ends a pod's waiting for room, which others may have now.
func (r *run) denominate(uid types.UID, now time.Time) {
	if held := r.cluster.Denominate(uid); held != nil {
		r.wake("room on "+held.Name+" is not wanted any more", held, now)
	}
}

// unclaimed tells others of the room for which a pod was woken, if it did not take it.
func (r *run) unclaimed(i *queue.Item, took string, now time.Time) {
	left := i.For
	if i.For = ""; left != "" && left != took {
		r.wake("room on "+left+" is left", r.cluster.Node(left), now)
	}
}

func (r *run) dropPod(pod *v1.Pod, how string, now time.Time) {
	r.forgetWaiting(pod, now)
	was := r.cluster.PlacedAs(pod.UID)
	if freed := r.cluster.RemovePod(pod.UID); freed != nil {
		r.wake("pod "+pod.Name+" "+how, freed, now)
		r.wakeRelated("pod "+pod.Name+" "+how, was, nil, now)
	}
}

// wake moves the pods that an event on one node helps: those for whom room is made there if it is there, as many of the others as would
// fit besides, and those that could make room there unless they wait for room that is being made. Those for whom nobody leaves any more
// without the room being there have lost it to a pod of higher priority: they look elsewhere, or leave what there is of it to others.
func (r *run) wake(why string, on *framework.Node, now time.Time) {
	if on == nil || on.Object == nil {
		return
	}
	for _, w := range on.Nominated {
		i := r.queue.Item(w.Object.UID)
		if i == nil || i.State != queue.Unschedulable {
			continue
		}
		if r.planner[w.Shape.SchedulerName].Helps(r.cluster, i.Pod, on) == plan.Room || !plan.Leaving(w, on) {
			r.queue.WakeOne(w.Object.UID, why, now)
		}
	}
	r.queue.Wake(why, func(s *framework.Shape) queue.Help {
		planner := r.planner[s.SchedulerName]
		switch planner.Helps(r.cluster, &framework.Pod{Shape: s}, on) {
		case plan.Room:
			if most := planner.Rooms(s, on); most > 0 && !r.extenders.judge() {
				return queue.Help{Of: func(i *queue.Item) bool { return planner.Helps(r.cluster, i.Pod, on) != plan.NoHelp }, Most: most, For: on.Name}
			}
			return queue.Help{Of: anyItem}
		case plan.Victims:
			return queue.Help{Of: r.waitsForNoRoom}
		}
		return queue.Help{}
	}, now)
}

func anyItem(*queue.Item) bool { return true }

func (r *run) waitsForNoRoom(i *queue.Item) bool {
	return r.cluster.NominatedTo(i.Pod.Object.UID) == nil
}
