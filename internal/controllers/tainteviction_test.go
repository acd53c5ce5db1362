package controllers_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/controllers/tainteviction"
)

func TestTaintsEndPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.everyNamespace()
		w.node("node-a")
		told := record.NewFakeRecorder(100)
		w.run(tainteviction.New(tainteviction.Config{View: w.view, Client: w.controllers, Events: told}))
		put := func(name string, tolerations ...v1.Toleration) {
			p := pod(name, "node-a")
			p.Spec.Tolerations = tolerations
			w.must(w.admin.Create(context.Background(), client.Pods.At("default", ""), p))
		}
		taint := func(taints ...v1.Taint) {
			w.must(w.admin.Mutate(context.Background(), client.Nodes.At("", "node-a"), func(o runtime.Object) (bool, error) {
				o.(*v1.Node).Spec.Taints = taints
				return true, nil
			}))
		}
		// going is whether a pod's end has been asked for; its kubelet is not here to finish it.
		going := func(name string) bool {
			p, _ := w.get(client.Pods.At("default", name)).(*v1.Pod)
			return p == nil || p.DeletionTimestamp != nil
		}
		bad := v1.Taint{Key: "example.com/bad", Effect: v1.TaintEffectNoExecute}
		tolerate := func(seconds int64) v1.Toleration {
			t := v1.Toleration{Key: bad.Key, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute, TolerationSeconds: &seconds}
			if seconds < 0 {
				t.TolerationSeconds = nil
			}
			return t
		}
		put("none")
		put("ever", tolerate(-1))
		put("minute", tolerate(60))
		put("hour", tolerate(3600))
		put("zero", tolerate(0))
		taint(v1.Taint{Key: "x", Effect: v1.TaintEffectNoSchedule})
		if going("none") {
			t.Error("a taint that only keeps new pods away ended one")
		}
		taint(bad)
		if !going("none") || !going("zero") || going("ever") || going("minute") || going("hour") {
			t.Error("at once only those that do not tolerate it must go")
		}
		if n, timed := w.metric("taint_eviction_controller_pod_deletions_total"), w.metric("taint_eviction_controller_pod_deletion_duration_seconds"); n != 2 || timed != n {
			t.Errorf("%v pods were deleted by its metrics, %v of them timed", n, timed)
		}
		p := w.get(client.Pods.At("default", "none")).(*v1.Pod)
		said := false
		for _, c := range p.Status.Conditions {
			said = said || c.Type == v1.DisruptionTarget && c.Reason == "DeletionByTaintManager" && c.Status == v1.ConditionTrue
		}
		if !said {
			t.Errorf("it does not say why: %+v", p.Status.Conditions)
		}
		time.Sleep(59 * time.Second)
		if going("minute") {
			t.Error("it went too early")
		}
		time.Sleep(2 * time.Second)
		if !going("minute") || going("hour") {
			t.Error("after a minute only that one must go")
		}
		taint()
		time.Sleep(2 * time.Hour)
		if going("hour") || going("ever") {
			t.Error("the taint has gone, and so has the reason to go")
		}
		put("late")
		taint(bad)
		if !going("late") {
			t.Error("the taint came back")
		}
		events := map[string]int{}
		for len(told.Events) > 0 {
			events[<-told.Events]++
		}
		for _, want := range []string{
			"Normal TaintManagerEviction Marking for deletion Pod default/none", "Normal TaintManagerEviction Marking for deletion Pod default/minute",
			"Normal TaintManagerEviction Cancelling deletion of Pod default/hour",
		} {
			if events[want] != 1 {
				t.Errorf("%q was told %d times: %v", want, events[want], events)
			}
		}
	})
}

// How long a pod tolerates a taint may be changed while it does: what it says last counts, from the taint's beginning.
func TestTolerationSecondsChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.everyNamespace()
		w.node("node-a")
		w.run(tainteviction.New(tainteviction.Config{View: w.view, Client: w.controllers}))
		bad := v1.Taint{Key: "example.com/bad", Effect: v1.TaintEffectNoExecute}
		for _, name := range []string{"longer", "shorter"} {
			p := pod(name, "node-a")
			p.Spec.Tolerations = []v1.Toleration{{Key: bad.Key, Operator: v1.TolerationOpExists, Effect: bad.Effect, TolerationSeconds: new(int64(600))}}
			w.must(w.admin.Create(context.Background(), client.Pods.At("default", ""), p))
		}
		w.must(w.admin.Mutate(context.Background(), client.Nodes.At("", "node-a"), func(o runtime.Object) (bool, error) {
			o.(*v1.Node).Spec.Taints = []v1.Taint{bad}
			return true, nil
		}))
		time.Sleep(time.Minute)
		for name, seconds := range map[string]int64{"longer": 3600, "shorter": 120} {
			w.must(w.admin.Mutate(context.Background(), client.Pods.At("default", name), func(o runtime.Object) (bool, error) {
				tolerations := o.(*v1.Pod).Spec.Tolerations
				for i := range tolerations {
					if tolerations[i].Key == bad.Key {
						tolerations[i].TolerationSeconds = new(seconds)
					}
				}
				return true, nil
			}))
		}
		start := time.Now().Add(-time.Minute)
		for _, c := range []struct {
			name    string
			seconds int
		}{{"shorter", 120}, {"longer", 3600}} {
			going := func() bool {
				p, _ := w.get(client.Pods.At("default", c.name)).(*v1.Pod)
				return p == nil || p.DeletionTimestamp != nil
			}
			due := start.Add(time.Duration(c.seconds) * time.Second)
			time.Sleep(time.Until(due) - time.Second)
			if going() {
				t.Errorf("%s went too early", c.name)
			}
			time.Sleep(2 * time.Second)
			if !going() {
				t.Errorf("%s stays", c.name)
			}
		}
	})
}
