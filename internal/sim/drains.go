package sim

import (
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"

	"podo.dev/podo/internal/apiserver/verbs"
	"podo.dev/podo/internal/client"
)

// upkeep is what administrators do with machines.
var upkeep = []action{{8, (*World).drain}, {2, (*World).jumpClock}}

// drainTime is how long a drain tries.
const drainTime = 3 * time.Minute

// drain empties a node as kubectl does, beside whatever else happens: it cordons it, evicts its pods, asks again where a budget refused,
// and uncordons it in the end.
func (w *World) drain() {
	m := w.machine()
	if p := w.anyPod(func(p *v1.Pod) bool { return p.Spec.NodeName != "" && p.Labels[setLabel] != "" }); p != nil {
		for _, its := range w.machines {
			if its.Name == p.Spec.NodeName {
				m = its
			}
		}
	}
	w.note("drain %s", m.Name)
	w.drains.Go(func() {
		for until := time.Now().Add(drainTime); time.Now().Before(until); time.Sleep(5 * time.Second) {
			if w.setCordon(m, true) == nil && w.evictAll(m) == 0 {
				break
			}
		}
		for err := w.setCordon(m, false); err != nil && !apierrors.IsNotFound(err); err = w.setCordon(m, false) {
			time.Sleep(time.Second)
		}
	})
}

func (w *World) setCordon(m *Machine, to bool) error {
	_, err := w.admin.Mutate(w.ctx(), client.Nodes.At("", m.Name), func(o runtime.Object) (bool, error) {
		n := o.(*v1.Node)
		if n.Spec.Unschedulable == to {
			return false, nil
		}
		n.Spec.Unschedulable = to
		return true, nil
	})
	return err
}

// evictAll asks for the eviction of every pod of a machine, and tells how many are left.
func (w *World) evictAll(m *Machine) (left int) {
	admin := &user.DefaultInfo{Name: "admin", Groups: []string{user.SystemPrivilegedGroup}}
	for e := range w.View.Snapshot().By(podKind, "spec.nodeName", m.Name) {
		left++
		if p := e.Object.(*v1.Pod); p.DeletionTimestamp == nil {
			// Refused, gone already, or a store that does not answer: it is asked again.
			_ = w.Verbs.Evict(w.ctx(), admin, p.Namespace, p.Name, &metav1.DeleteOptions{}, verbs.Options{})
		}
	}
	return left
}

// jumpClock sets a machine's clock, or the server's, to another time within an hour.
func (w *World) jumpClock() {
	to := time.Duration(w.rng.IntN(7200)-3600) * time.Second
	if w.rng.IntN(3) == 0 {
		w.clock.Store(int64(to))
		w.note("the server's clock is %s ahead", to)
		return
	}
	m := w.machine()
	m.clock.Store(int64(to))
	w.note("the clock of %s is %s ahead", m.Name, to)
}
