package sim

import (
	"context"
	"strings"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"podo.dev/podo/internal/view"
)

// watchfulness is how long nothing may be written at rest.
const watchfulness = 2 * time.Minute

// atRest: when nothing happens nothing is written but the kubelets' signs of life: no two controllers undo each other's work, and
// none writes what is there.
func (w *World) atRest() {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	batches := w.store.Watch(ctx, view.Root, 0, nil)
	synctest.Wait()
	end := time.NewTimer(watchfulness)
	defer end.Stop()
	for {
		select {
		case b := <-batches:
			for _, e := range b.Events {
				if !strings.HasPrefix(e.Key, view.Root+"leases/") {
					w.Failf(nil, "at rest %s is written (deleted: %v)", e.Key, e.Deleted)
				}
			}
		case <-end.C:
			return
		}
	}
}

// nodesWell: nodes whose kubelets live are ready, whatever became of them before, and keep nobody away for it.
func (w *World) nodesWell(s view.Snapshot) {
	w.t.Helper()
	for _, m := range w.machines {
		e := s.Get(nodeKind, "", m.Name)
		if e == nil {
			w.Failf(nil, "the node of %s is not there", m.Name)
		}
		n := e.Object.(*v1.Node)
		for _, c := range n.Status.Conditions {
			if c.Type == v1.NodeReady && c.Status != v1.ConditionTrue {
				w.Failf(nil, "%s is not ready: %+v", m.Name, c)
			}
		}
		for _, t := range n.Spec.Taints {
			if t.Key == v1.TaintNodeNotReady || t.Key == v1.TaintNodeUnreachable {
				w.Failf(nil, "%s is back, and still has the taint %s", m.Name, t.ToString())
			}
		}
	}
}

// outages are what takes nodes away for longer than their pods may wait.
var outages = []action{{4, (*World).loseNode}, {1, (*World).loseZone}, {6, (*World).outlast}}

func (w *World) lose(m *Machine, d time.Duration) {
	if m.kubelet.running() {
		m.kubelet.kill()
		m.back = time.Now().Add(d)
		w.note("%s is lost until %s", m.Name, m.back.Sub(epoch).Round(time.Millisecond))
	}
}

func (w *World) loseNode() {
	w.lose(w.machine(), time.Duration(w.rng.IntN(900))*time.Second)
}

// loseZone takes every third node away, or all of them.
func (w *World) loseZone() {
	zone, all, d := w.rng.IntN(zones), w.rng.IntN(3) == 0, time.Duration(w.rng.IntN(900))*time.Second
	for i, m := range w.machines {
		if all || i%zones == zone {
			w.lose(m, d)
		}
	}
	time.Sleep(time.Duration(w.rng.IntN(600)) * time.Second)
}

// outlast takes a machine away that runs pods of sets, for longer than they may wait: they are to go, and nobody can say that they have
// gone. Here whoever lets a successor come too early makes two of one number run.
func (w *World) outlast() {
	var able []*Machine
	w.alive.Lock()
	for _, m := range w.machines {
		if len(m.runs) > 0 && !m.disowned {
			able = append(able, m)
		}
	}
	w.alive.Unlock()
	if len(able) == 0 {
		return
	}
	m := able[w.rng.IntN(len(able))]
	w.lose(m, 15*time.Minute)
	time.Sleep(8 * time.Minute)
	for e := range w.View.Snapshot().By(podKind, "spec.nodeName", m.Name) {
		if p := e.Object.(*v1.Pod); p.Labels[setLabel] != "" && p.DeletionTimestamp != nil && !m.kubelet.running() {
			w.held++
		}
	}
}

// zones is how many there are.
const zones = 3

// zoneOf is the i-th machine's.
func zoneOf(i int) string { return "zone-" + string(rune('a'+i%zones)) }
