package worker

import (
	"cmp"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"

	"podo.dev/podo/internal/podlife"
)

// Pods that ask for other resources than they were granted wait in Workers.resizes. All of them are judged, in order, when one is
// added and when there may be room: a pod ended or was removed, or a resize is done. A granted resize counts at once for those
// after it; the pod's worker learns of it as an event, and changes nothing before the grant is on disk.

// Trigger is the reason for judging the waiting resizes, in upstream's words.
type Trigger string

// The triggers.
const (
	PodUpdated    Trigger = "pod_updated"
	PodResized    Trigger = "pod_resized"
	PodTerminated Trigger = "pod_terminated"
	PodsRemoved   Trigger = "pods_removed"
	Periodic      Trigger = "periodic_retry"
)

// allocate takes a pod's wish for other resources.
func (w *Workers) allocate(n *pod) {
	w.mu.Lock()
	if !slices.Contains(w.resizes, n) {
		w.resizes = append(w.resizes, n)
	}
	w.mu.Unlock()
	w.RetryResizes(PodUpdated)
}

// OpenResizes says that every earlier pod of the node has been restored: from now on resizes are judged.
func (w *Workers) OpenResizes() {
	w.mu.Lock()
	w.open = true
	w.mu.Unlock()
	w.RetryResizes(Periodic)
}

// RetryResizes judges what waits for room.
func (w *Workers) RetryResizes(trigger Trigger) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.open || len(w.resizes) == 0 {
		return
	}
	w.resizes = slices.DeleteFunc(w.resizes, func(n *pod) bool {
		return !n.admitted || n.granted() == n.desired || n.snapshot().Stage > podlife.Running
	})
	slices.SortStableFunc(w.resizes, func(a, b *pod) int { return before(waiting(a), waiting(b)) })
	w.resizes = slices.DeleteFunc(w.resizes, func(n *pod) bool { return w.judge(n, trigger) })
}

// judge is called with mu held. It returns true when the verdict is final until the pod asks anew.
func (w *Workers) judge(n *pod, trigger Trigger) bool {
	r := w.cfg.Admission.Resize(n.desired, n.granted(), w.active(n))
	if r == nil {
		if !waiting(n).since.IsZero() {
			w.cfg.Metrics.ResizeAccepted(string(trigger))
		}
		n.grant = podlife.GrantOf(n.desired)
		n.send(podlife.Allocated{Pod: n.desired})
		return true
	}
	reason := v1.PodReasonDeferred
	if r.Reason == v1.PodReasonInfeasible {
		reason = r.Reason
		w.cfg.Metrics.ResizeInfeasible(r.Detail)
	}
	n.send(podlife.Allocated{Pod: n.desired, Reason: reason, Message: r.Message, Word: r.Reason})
	return reason == v1.PodReasonInfeasible
}

// granted is the pod with the resources that it was granted. Called with Workers.mu held.
func (n *pod) granted() *v1.Pod { return n.grant.Over(n.desired) }

// active are the admitted pods other than n that have not ended, with the resources that they were granted and, where they still
// run with more, a status that says so. Called with mu held.
func (w *Workers) active(n *pod) []*v1.Pod {
	var out []*v1.Pod
	for _, o := range w.pods {
		// A pod that has ended no longer counts although its volumes are still being unmounted: the API has its phase already,
		// and the scheduler gives its resources to others.
		if o == n || !o.admitted {
			continue
		}
		s := o.snapshot()
		if s.Stage >= podlife.Releasing {
			continue
		}
		p := o.granted()
		if p.Generation > 1 || s.Resizing { // a pod that was never resized runs with what its spec asks for
			p = counted(p, s)
		}
		out = append(out, p)
	}
	return out
}

// counted is the granted pod as the admission of others has to count it. While it runs with other resources than granted, its
// status says which. The API's status is dropped, since it may be older.
func counted(granted *v1.Pod, s Snapshot) *v1.Pod {
	p := *granted
	if s.Resizing || !equality.Semantic.DeepEqual(requests(&p), requests(s.Given)) {
		p.Status = s.Status()
	} else {
		p.Status = v1.PodStatus{QOSClass: p.Status.QOSClass}
	}
	return &p
}

// wish is what the order of waiting resizes depends on.
type wish struct {
	more     bool // asks for more than it has
	priority int32
	class    v1.PodQOSClass
	since    time.Time
}

func waiting(n *pod) wish {
	is, asks := requests(n.granted()), requests(n.desired)
	out := wish{more: above(asks, is, v1.ResourceCPU) || above(asks, is, v1.ResourceMemory), class: podlife.QOS(n.desired)}
	if p := n.desired.Spec.Priority; p != nil {
		out.priority = *p
	}
	if p := n.snapshot().Pending; p != nil { // Pending and no whole status: this runs for each comparison, with the lock held
		out.since = p.Since
	}
	return out
}

func requests(p *v1.Pod) v1.ResourceList {
	return resourcehelper.PodRequests(p, resourcehelper.PodResourcesOptions{})
}

func above(a, b v1.ResourceList, name v1.ResourceName) bool {
	var x, y resource.Quantity = a[name], b[name]
	return x.Cmp(y) > 0
}

// before orders wishes: first those that ask for no more than they have, then by priority, then Guaranteed pods, then those that
// have waited longest; a new one, which was not reported yet, comes last.
func before(a, b wish) int {
	first := func(x, y bool) int {
		switch {
		case x == y:
			return 0
		case x:
			return -1
		}
		return 1
	}
	return cmp.Or(
		first(!a.more, !b.more), cmp.Compare(b.priority, a.priority),
		first(a.class == v1.PodQOSGuaranteed, b.class == v1.PodQOSGuaranteed),
		first(!a.since.IsZero(), !b.since.IsZero()), a.since.Compare(b.since),
	)
}
