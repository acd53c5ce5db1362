package scheduler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/scheduler/extender"
	"podo.dev/podo/internal/scheduler/framework"
	"podo.dev/podo/internal/scheduler/plan"
	"podo.dev/podo/internal/scheduler/queue"
)

// makeRoom lets a pod that no node takes have others leave one. From then on the pod waits for the room on that node, its nomination:
//
//	rejected ──► nominated ──► victims are being told ──► they leave, one by one ──► it fits: tried again, bound
//	                 ▲                     │ a deletion failed                 │ somebody of higher priority took the room
//	                 └─────────────────────┴───────────────────────────────────┘ it is tried again, another node perhaps
//
// While victims are being told the queue holds the pod (preempting): it would only find the room not there yet.
//
// asked tells that extenders are asked first: what comes of it, comes later.
func (r *run) makeRoom(item *queue.Item, d *plan.Diagnosis, now time.Time) (room plan.Preemption, asked bool) {
	pod := item.Pod
	uid, planner := pod.Object.UID, r.planner[pod.Object.Spec.SchedulerName]
	if d.Nodes == 0 || !planner.Preempts() {
		r.denominate(uid, now) // even if somebody else nominated the node
		return plan.Preemption{}, false
	}
	began := time.Now()
	r.config.Metrics.preemptions.Inc()
	told := func(said string) {
		r.config.Metrics.plugin("DefaultPreemption", "PostFilter", said, pod.Object.Spec.SchedulerName, time.Since(began))
	}
	if r.preempting[uid] { // preemption for it began while it was in flight
		return plan.Preemption{Text: plan.VictimsBeingHad}, false
	}
	if why := plan.Eligible(pod, r.cluster.NominatedTo(uid), d); why != "" {
		told("Unschedulable")
		return plan.Preemption{Text: why}, false
	}
	if who := r.extenders.who(pod.Object, (*extender.Extender).Preempts); len(who) > 0 {
		found := planner.Candidates(r.cluster, pod, d, r.config.Budgets(), now)
		if len(found.List) > 0 {
			r.consultVictims(item, d, who, found, now)
			return plan.Preemption{}, true
		}
		room.Text = found.Text
	} else {
		room = planner.Preempt(r.cluster, pod, d, r.config.Budgets(), now)
		if room.Node == nil {
			told("Unschedulable")
		} else {
			told("Success")
		}
	}
	if room.Node == nil {
		r.denominate(uid, now)
		return plan.Preemption{Text: room.Text}, false
	}
	return r.nominate(pod, room, now), false
}

// nominate records the node on which room is being made for a pod.
func (r *run) nominate(pod *framework.Pod, room plan.Preemption, now time.Time) plan.Preemption {
	uid := pod.Object.UID
	if len(r.preempting) >= cap(r.out.cleared) {
		r.denominate(uid, now)
		r.postponed = append(r.postponed, uid)
		return plan.Preemption{Text: room.Text}
	}
	if waited := r.cluster.NominatedTo(uid); waited != room.Node {
		r.denominate(uid, now)
	}
	// Pods of lower priority that wait for room there may not get it any more: they look elsewhere.
	for _, w := range slices.Clone(room.Node.Nominated) {
		if w.Shape.Priority < pod.Shape.Priority {
			r.cluster.Denominate(w.Object.UID)
			r.out.report(report{pod: w.Object, nominate: ""})
			r.queue.WakeOne(w.Object.UID, "pod "+pod.Object.Name+" gets the room", now)
		}
	}
	r.cluster.Nominate(pod, room.Node.Name)
	r.queue.Item(uid).Suggested = false
	r.preempting[uid] = true
	r.out.preempt(preemption{pod: pod.Object, node: room.Node.Name, victims: r.giveUpBinds(pod, room)})
	return room
}

var errPreempted = errors.New("preempted by DefaultPreemption")

// giveUpBinds cancels the binds of victims that are not yet being bound: they are tried again like pods whose bind failed. The
// other victims have to be deleted.
func (r *run) giveUpBinds(pod *framework.Pod, room plan.Preemption) (others []*v1.Pod) {
	for _, v := range objects(room.Victims) {
		if a := r.ahead[v.UID]; a == nil || !a.end(errPreempted) {
			others = append(others, v)
			continue
		}
		r.out.eventsOf(pod.Object).Eventf(v, pod.Object, v1.EventTypeNormal, "Preempted", "Preempting", "Preempted by pod %v on node %v (in kube-scheduler memory).", pod.Object.UID, room.Node.Name)
	}
	return others
}

// waitsOn is the name of the node on which a pod waits for room; "" when it does not.
func (r *run) waitsOn(uid types.UID) string {
	if n := r.cluster.NominatedTo(uid); n != nil {
		return n.Name
	}
	return ""
}

// roomMade handles the end of deleting a pod's victims. Their leaving wakes the pod, unless deleting them failed.
func (r *run) roomMade(res cleared) {
	delete(r.preempting, res.pod)
	r.event = "ForceActivate"
	now := time.Now()
	if res.err != nil {
		r.queue.WakeOne(res.pod, "preemption failed", now)
	}
	r.queue.Ungate(res.pod, "preemption done", now) // one of them would have woken it
	for woken := false; len(r.postponed) > 0 && !woken; r.postponed = r.postponed[1:] {
		if i := r.queue.Item(r.postponed[0]); i != nil && i.State == queue.Unschedulable {
			r.queue.WakeOne(r.postponed[0], "it may have others leave", now)
			woken = true
		}
	}
}

// preempting holds pods in the queue (upstream's asynchronous preemption): an event that wakes a pod while its victims are being
// deleted takes effect when all have been.
type preempting map[types.UID]bool

func (preempting) Name() string { return "DefaultPreemption" }

var beingTold = &framework.Rejection{Plugin: "DefaultPreemption", Reasons: []string{plan.VictimsBeingHad}, Unresolvable: true}

// PreEnqueue implements framework.PreEnqueue.
func (p preempting) PreEnqueue(pod *v1.Pod) *framework.Rejection {
	if p[pod.UID] {
		return beingTold
	}
	return nil
}

func objects(pods []*framework.Pod) []*v1.Pod {
	out := make([]*v1.Pod, len(pods))
	for i, p := range pods {
		out[i] = p.Object
	}
	return out
}

func names(pods []*framework.Pod) string {
	out := make([]string, len(pods))
	for i, p := range pods {
		out[i] = p.Object.Namespace + "/" + p.Object.Name
	}
	return strings.Join(out, ",")
}

// preemption is a pod for which others are deleted.
type preemption struct {
	pod     *v1.Pod
	node    string
	victims []*v1.Pod
}

// cleared is how a preemption ended.
type cleared struct {
	pod types.UID
	err error
}

// doPreempt marks and deletes all victims, even when one of them fails: those that were deleted leave anyway.
func (o *outbox) doPreempt(ctx context.Context, p preemption) (err error) {
	defer func(began time.Time) { o.config.Metrics.told(err, time.Since(began)) }(time.Now())
	failed := make([]error, len(p.victims))
	var told sync.WaitGroup
	for i, v := range p.victims {
		if v.DeletionTimestamp != nil {
			continue
		}
		o.evicting <- struct{}{}
		told.Go(func() {
			defer func() { <-o.evicting }()
			switch err := o.evict(ctx, p.pod, v); {
			case apierrors.IsNotFound(err), apierrors.IsConflict(err): // gone, or another one by now
			case errors.Is(err, errLeaving):
			case err != nil:
				o.config.Logger.Warn("could not preempt a pod", "pod", v.Namespace+"/"+v.Name, "for", p.pod.Namespace+"/"+p.pod.Name, "error", err)
				failed[i] = err
			default:
				o.eventsOf(p.pod).Eventf(v, p.pod, v1.EventTypeNormal, "Preempted", "Preempting", "Preempted by pod %v on node %v", p.pod.UID, p.node)
			}
		})
	}
	told.Wait()
	return errors.Join(failed...)
}

// errLeaving says that a victim was being deleted already, which was not known when it was chosen.
var errLeaving = errors.New("the pod is leaving already")

func (o *outbox) evict(ctx context.Context, by, victim *v1.Pod) error {
	ref := client.Pods.At(victim.Namespace, victim.Name)
	_, err := o.config.Client.Mutate(ctx, ref.Sub("status"), func(obj runtime.Object) (bool, error) {
		pod := obj.(*v1.Pod)
		if pod.UID != victim.UID {
			return false, apierrors.NewNotFound(ref.Resource, ref.Name)
		}
		if pod.DeletionTimestamp != nil {
			return false, errLeaving
		}
		return setCondition(pod, v1.PodCondition{
			Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: v1.PodReasonPreemptionByScheduler,
			Message: fmt.Sprintf("%s: preempting to accommodate a higher priority pod", by.Spec.SchedulerName), ObservedGeneration: pod.Generation,
		}, time.Now()), nil
	})
	if err != nil {
		return err
	}
	return o.config.Client.Delete(ctx, ref, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &victim.UID}})
}
