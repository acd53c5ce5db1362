package worker

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"podo.dev/podo/internal/podlife"
)

// Pods end for a critical one that would not have room otherwise. It counts as admitted meanwhile, so that nobody takes the room, and
// begins when the last of them has ended. Should the process end before, it is judged again, and so are they.

// What users read of a preempted pod, in upstream's words.
const (
	preempting       = "Preempting"
	preemptedMessage = "Preempted in order to admit critical pod"
)

// arrival is an admitted pod that waits for others' ends.
type arrival struct {
	pod     *pod
	victims []types.UID
}

// makeRoom tells the victims to end. It is called with mu held, and tells whether there is room already.
func (w *Workers) makeRoom(n *pod, victims []*v1.Pod) bool {
	a := arrival{pod: n}
	for _, v := range victims {
		o := w.pods[v.UID]
		if o == nil {
			continue
		}
		a.victims = append(a.victims, v.UID)
		w.cfg.Event(v, "", v1.EventTypeWarning, preempting, preemptedMessage)
		o.send(podlife.StopAsked{Why: podlife.Preempting, Reason: preempting, Message: preemptedMessage})
	}
	if len(a.victims) == 0 {
		return true
	}
	w.arrivals = append(w.arrivals, a)
	return false
}

// roomMade looks for arrivals whose victims have all ended.
func (w *Workers) roomMade() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.arrivals = slices.DeleteFunc(w.arrivals, func(a arrival) bool {
		if slices.ContainsFunc(a.victims, w.busy) {
			return false
		}
		a.pod.send(podlife.Admitted{})
		return true
	})
}

// busy tells whether something of a pod may run. Called with mu held.
func (w *Workers) busy(uid types.UID) bool {
	n := w.pods[uid]
	return n != nil && n.snapshot().Stage < podlife.Releasing
}
