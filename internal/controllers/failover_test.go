package controllers_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/controllers/nodelifecycle"
	"podo.dev/podo/internal/controllers/podgc"
	"podo.dev/podo/internal/controllers/replicas"
	"podo.dev/podo/internal/controllers/tainteviction"
	"podo.dev/podo/internal/view"
)

// spread gives every pod that has no node the next one that lives, and makes it ready there.
func (f *fleet) spread() {
	f.t.Helper()
	synctest.Wait()
	count := map[string]int{}
	var waiting []*v1.Pod
	for e := range f.view.Snapshot().All(client.Pods.At("", "").Resource, "default", view.Key{}) {
		p := e.Object.(*v1.Pod)
		if p.Spec.NodeName == "" {
			waiting = append(waiting, p)
		}
		count[p.Spec.NodeName]++
	}
	for _, p := range waiting {
		least := ""
		for i := range len(f.alive) {
			if name := fmt.Sprintf("node-%d", i); f.alive[name] && (least == "" || count[name] < count[least]) {
				least = name
			}
		}
		if err := client.Bind(context.Background(), f.admin, &v1.Binding{
			ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, UID: p.UID}, Target: v1.ObjectReference{Kind: "Node", Name: least},
		}); err != nil {
			f.t.Fatal(err)
		}
		count[least]++
		f.turnReady(p)
	}
}

// Five of twenty nodes die at one moment. Their pods are given up node by node, each is replaced once, and what all of it costs is a few
// writes for each pod and node; then nothing is written any more.
func TestLostNodesAreReplacedWithoutAStorm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.everyNamespace()
		m := &meddled{Client: w.controllers}
		told := &record.FakeRecorder{}
		w.run(nodelifecycle.New(w.view, m, nodelifecycle.GracePeriod, told, nil))
		w.run(tainteviction.New(tainteviction.Config{View: w.view, Client: m}))
		w.run(podgc.New(w.view, m, nil))
		w.run(replicas.New(replicas.Config{Kind: replicas.ReplicaSets, View: w.view, Client: m, Events: told}))
		const nodes, each, lost = 20, 3, 5
		f := w.fleet(nodes)
		f.pass(20 * time.Second)
		at := template("web")
		at.Spec.Tolerations = []v1.Toleration{{Key: v1.TaintNodeUnreachable, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute, TolerationSeconds: new(int64(30))}}
		w.must(w.admin.Create(context.Background(), replicaSets.At("default", ""), &appsv1.ReplicaSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
			Spec:       appsv1.ReplicaSetSpec{Replicas: new(int32(nodes * each)), Selector: &metav1.LabelSelector{MatchLabels: at.Labels}, Template: at},
		}))
		time.Sleep(time.Second)
		f.spread()
		f.pass(10 * time.Second)
		if n := len(w.podsOf("web")); n != nodes*each {
			t.Fatalf("%d pods", n)
		}
		before := m.tries.Load()
		f.set(false, 0, lost)
		gone, began := map[types.UID]time.Time{}, time.Now()
		for second := range 300 {
			if second%10 == 0 {
				f.pass(time.Second)
			} else {
				time.Sleep(time.Second)
			}
			f.spread()
			for _, p := range w.work() {
				if _, known := gone[p.UID]; p.DeletionTimestamp != nil && !known {
					gone[p.UID] = time.Now()
				}
			}
			if n := len(w.podsOf("web")); n > nodes*each {
				t.Fatalf("%d pods serve after %s", n, time.Since(began))
			}
		}
		if len(gone) != lost*each {
			t.Errorf("%d pods are given up", len(gone))
		}
		var byTime []time.Duration
		for _, when := range gone {
			byTime = append(byTime, when.Sub(began))
		}
		for _, d := range byTime {
			n := 0
			for _, other := range byTime {
				if other >= d && other < d+9*time.Second {
					n++
				}
			}
			if n > each {
				t.Errorf("%d pods are given up within 9 s after %s", n, d)
			}
		}
		serving := 0
		for _, p := range w.podsOf("web") {
			if f.alive[p.Spec.NodeName] {
				serving++
			}
		}
		if serving != nodes*each {
			t.Errorf("%d pods are where somebody lives", serving)
		}
		// A pod is marked, tainted away, deleted, marked again, replaced and counted; a node becomes unknown and is tainted twice.
		if n := m.tries.Load() - before; n > lost*each*8+lost*5 {
			t.Errorf("%d writes for %d pods of %d nodes", n, lost*each, lost)
		}
		before = m.tries.Load()
		f.pass(10 * time.Minute)
		if n := m.tries.Load() - before; n > 0 {
			t.Errorf("%d writes in ten minutes at rest", n)
		}
	})
}
