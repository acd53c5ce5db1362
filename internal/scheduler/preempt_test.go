package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/scheduler/plan"
	"podo.dev/podo/internal/scheduler/shapes"
	"podo.dev/podo/internal/timeline"
)

// ranked is a pod of one of the classes in newRankedWorld.
func ranked(name, cpu string, priority int32) *v1.Pod {
	p := pod(name, cpu)
	p.Spec.PriorityClassName = fmt.Sprint("p", priority)
	return p
}

func newRankedWorld(t *testing.T) *world {
	var classes []runtime.Object
	for _, priority := range []int32{1, 50, 100, 500} {
		c := &schedulingv1.PriorityClass{Value: priority}
		c.Name, c.UID = fmt.Sprint("p", priority), types.UID(fmt.Sprint("p", priority))
		classes = append(classes, c)
	}
	return newWorld(t, classes...)
}

// newCrowdedWorld has a pod low on the only node, and a scheduler: who is ranked higher makes room there.
func newCrowdedWorld(t *testing.T, n *v1.Node, low *v1.Pod) *world {
	w := newRankedWorld(t)
	w.node(n)
	w.start()
	w.create(low)
	w.on("low", n.Name)
	return w
}

// waitsOn wants a pod to wait for room on a node; "": on none.
func (w *world) waitsOn(name, node string) {
	w.t.Helper()
	if got := w.pod(name).Status.NominatedNodeName; got != node {
		w.t.Fatalf("%s waits for room on %q, not %q", name, got, node)
	}
}

func condition(p *v1.Pod, kind v1.PodConditionType) v1.PodCondition {
	for _, c := range p.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return v1.PodCondition{}
}

// A pod of high priority has another one leave: this one is told why, gets its grace, and its room goes to nobody else; who asks for
// it meanwhile waits.
func TestPreemption(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newRankedWorld(t)
		w.node(node("node-a", "2"))
		w.start()
		w.create(ranked("important", "1", 500))
		w.create(ranked("low", "1", 1))
		w.on("important", "node-a")
		w.on("low", "node-a")
		w.create(ranked("high", "1", 100))
		high, low := w.pod("high"), w.pod("low")
		if high.Status.NominatedNodeName != "node-a" || high.Spec.NodeName != "" {
			t.Fatalf("high: nominated to %q, on %q", high.Status.NominatedNodeName, high.Spec.NodeName)
		}
		const message = "0/1 nodes are available: 1 Insufficient cpu. " +
			"preemption: found a potential placement for pod on node node-a, preempting 1 victims"
		if c := condition(high, v1.PodScheduled); c.Message != message {
			t.Errorf("high is told %q", c.Message)
		}
		c := condition(low, v1.DisruptionTarget)
		if c.Status != v1.ConditionTrue || c.Reason != "PreemptionByScheduler" || c.Message != "default-scheduler: preempting to accommodate a higher priority pod" {
			t.Errorf("low is told %+v", c)
		}
		if low.DeletionTimestamp == nil || *low.DeletionGracePeriodSeconds != 30 {
			t.Errorf("low: deleted at %v", low.DeletionTimestamp)
		}
		if want := "Normal Preempted Preempted by pod " + string(high.UID) + " on node node-a"; !slices.Contains(w.events, want) {
			t.Errorf("events %q", w.events)
		}
		if !slices.Contains(w.actions, "Preempting for high") {
			t.Errorf("actions %q", w.actions)
		}
		rec, _ := timeline.Last(timeline.Select(w.records, timeline.Query{Name: "high"}), timeline.Attempt)
		if rec.Get("nominated") != "node-a" || rec.Get("victims") != "ns/low" {
			t.Errorf("timeline %+v", rec)
		}
		if p := w.pod("important"); p.DeletionTimestamp != nil {
			t.Error("a pod of higher priority had to leave")
		}

		w.create(ranked("cuts-in", "1", 50))
		time.Sleep(20 * time.Second)
		w.delete("low") // its kubelet is done
		w.on("high", "node-a")
		w.on("cuts-in", "")
		w.waitsOn("high", "")
		attempts := len(timeline.Select(w.records, timeline.Query{Name: "high", Stages: []timeline.Stage{timeline.Attempt}}))
		if attempts != 2 {
			t.Errorf("%d attempts: nothing but its room should have woken it", attempts)
		}
	})
}

// Who waits for its victims does not choose others, also after a restart of the scheduler.
func TestPreemptionIsNotRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newRankedWorld(t)
		w.node(node("node-a", "1"))
		w.node(node("node-b", "1"))
		stop := w.start()
		w.create(ranked("one", "1", 1))
		w.create(ranked("two", "1", 1))
		w.on("one", w.pod("one").Spec.NodeName)
		w.create(ranked("high", "1", 100))
		at := w.pod("high").Status.NominatedNodeName
		stop()
		w.start()
		time.Sleep(10 * time.Minute) // it is tried again after five
		leaving := 0
		for _, name := range []string{"one", "two"} {
			if p := w.pod(name); p.DeletionTimestamp != nil {
				leaving++
				if p.Spec.NodeName != at {
					t.Errorf("%s leaves %s, the room is wanted on %s", name, p.Spec.NodeName, at)
				}
			}
		}
		high := w.pod("high")
		if leaving != 1 || high.Status.NominatedNodeName != at {
			t.Errorf("%d pods leave; nominated to %q, first %q", leaving, high.Status.NominatedNodeName, at)
		}
		want := "0/2 nodes are available: 2 Insufficient cpu. preemption: " + plan.VictimsLeaving
		if c := condition(high, v1.PodScheduled); c.Message != want {
			t.Errorf("high is told %q", c.Message)
		}
	})
}

// A pod that comes with a higher priority takes the room that was being made for another one, which looks elsewhere.
func TestHigherPriorityTakesTheRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCrowdedWorld(t, node("node-a", "1"), ranked("low", "1", 1))
		w.create(ranked("middle", "1", 50))
		w.waitsOn("middle", "node-a")
		w.create(ranked("high", "1", 100))
		w.waitsOn("high", "node-a")
		time.Sleep(15 * time.Second)
		w.waitsOn("middle", "")
		w.delete("low")
		w.on("high", "node-a")
		w.on("middle", "")
	})
}

func TestNeverPreempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCrowdedWorld(t, node("node-a", "1"), ranked("low", "1", 1))
		p := ranked("polite", "1", 100)
		p.Spec.PreemptionPolicy = new(v1.PreemptNever)
		w.create(p)
		const want = "0/1 nodes are available: 1 Insufficient cpu. preemption: not eligible due to preemptionPolicy=Never."
		if c := condition(w.pod("polite"), v1.PodScheduled); c.Message != want {
			t.Errorf("%q", c.Message)
		}
		if w.pod("low").DeletionTimestamp != nil {
			t.Error("low had to leave")
		}
	})
}

// A node that becomes usable is looked at for room to make, not only for room to have.
func TestUncordonedNodeIsPreemptedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newRankedWorld(t)
		n := node("node-a", "1")
		w.node(n)
		w.start()
		w.create(ranked("low", "1", 1))
		w.on("low", "node-a")
		w.cordon("node-a", true)
		w.create(ranked("high", "1", 100))
		w.waitsOn("high", "")
		w.cordon("node-a", false)
		time.Sleep(2 * time.Second)
		w.waitsOn("high", "node-a")
	})
}

// A victim that cannot be deleted does not hold the pod up for ever.
func TestPreemptionThatFailsIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newRankedWorld(t)
		w.node(node("node-a", "1"))
		failures := 3
		w.client.delete = func(ctx context.Context, ref client.Ref, o metav1.DeleteOptions) error {
			if failures--; failures >= 0 {
				return apierrors.NewInternalError(errors.New("no"))
			}
			return w.client.Client.Delete(ctx, ref, o)
		}
		w.start()
		w.create(ranked("low", "1", 1))
		w.on("low", "node-a")
		w.create(ranked("high", "1", 100))
		time.Sleep(time.Minute)
		if w.pod("low").DeletionTimestamp == nil {
			t.Error("the victim was given up")
		}
	})
}

// More pods make room at once than victims are told for: each has others leave once, is tried when its room is there, and not before for
// the sake of rooms that are held for others.
func TestManyMakeRoomAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const nodes = 600
		load := shapes.All()[slices.IndexFunc(shapes.All(), func(l shapes.Load) bool { return l.Name == "preemption" })]
		w := &watched{api: newAPI(t), messages: map[string]bool{}}
		w.layOut(&load, nodes)
		for i := range nodes {
			p := load.Pod(nodes, i)
			p.Namespace = "ns"
			w.put(podKind, p)
		}
		w.left.Store(nodes)
		stop := w.watch(t)
		defer stop()
		start := time.Now()
		<-w.done
		synctest.Wait()
		w.mu.Lock()
		defer w.mu.Unlock()
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("the last pod was bound after %s", took)
		}
		// One to find no room, one to have it; those beyond what may be under way are tried once more.
		if most := 3 * nodes; w.attempts > most {
			t.Errorf("%d attempts, %d at most", w.attempts, most)
		}
	})
}

// A pod that comes with a higher priority takes a part of the room that is being made, and the rest is too little: nobody holds it any more
// when those that had to leave have gone.
func TestWhatIsLeftOfRoomIsNotHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCrowdedWorld(t, node("node-a", "2"), ranked("low", "1", 1))
		w.create(ranked("middle", "2", 50))
		w.waitsOn("middle", "node-a")
		w.create(ranked("small", "1", 1))
		w.on("small", "") // the room is middle's
		w.create(ranked("high", "1", 100))
		w.on("high", "node-a")
		time.Sleep(15 * time.Second)
		w.delete("low")
		w.on("small", "node-a")
		w.on("middle", "")
		w.waitsOn("middle", "")
	})
}

func withPort(p *v1.Pod) *v1.Pod {
	p.Spec.Containers[0].Ports = []v1.ContainerPort{{ContainerPort: 80, HostPort: 80}}
	return p
}

// Where a pod is expected is not where it is: who wants to be with it comes when it has come.
func TestNobodyIsWithAPodThatIsOnlyExpected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCrowdedWorld(t, inZone("node-a", "a"), withPort(ranked("low", "1", 1)))
		high := withPort(ranked("high", "1", 100))
		high.Labels = map[string]string{"app": "db"}
		w.create(high)
		w.waitsOn("high", "node-a")
		w.create(together(ranked("web", "1", 50), "db", v1.LabelHostname))
		w.waits("web")
		rec, _ := timeline.Last(timeline.Select(w.records, timeline.Query{Name: "web"}), timeline.Attempt)
		if got := rec.Get("InterPodAffinity"); got != "1 node(s) didn't match pod affinity rules (node-a by=kubernetes.io/hostname there=0)" {
			t.Errorf("numbers: %q", got)
		}
		w.delete("low")
		time.Sleep(soon)
		w.on("high", "node-a")
		w.on("web", "node-a")
	})
}

// Where a pod is expected that wants others to be elsewhere, they are not put before it, also when no pod of the kind is anywhere yet.
func TestNobodyIsPutBeforeAPodThatWantsToBeAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCrowdedWorld(t, inZone("node-a", "a"), withPort(ranked("low", "1", 1)))
		w.create(withPort(apart(ranked("high", "1", 100), "web", v1.LabelHostname)))
		w.waitsOn("high", "node-a")
		w.create(labelled("web", "web"))
		w.waits("web")
		const want = "0/1 nodes are available: 1 node(s) didn't satisfy existing pods anti-affinity rules. " +
			"preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
		if c := condition(w.pod("web"), v1.PodScheduled); c.Message != want {
			t.Errorf("%q", c.Message)
		}
		w.delete("high")
		time.Sleep(soon)
		w.on("web", "node-a")
	})
}

// Who waits for room that can be nowhere any more is not said to wait there.
func TestTheOnlyNodeWithRoomThatIsMadeLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCrowdedWorld(t, node("node-a", "1"), ranked("low", "1", 1))
		w.create(ranked("high", "1", 100))
		w.waitsOn("high", "node-a")
		if err := w.admin.Delete(context.Background(), client.Nodes.At("", "node-a"), metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(soon)
		w.waits("high")
		if p := w.pod("high"); p.Status.NominatedNodeName != "" || condition(p, v1.PodScheduled).Message != "no nodes available to schedule pods" {
			t.Errorf("high waits on %q: %q", p.Status.NominatedNodeName, condition(p, v1.PodScheduled).Message)
		}
	})
}

// A victim for which something has to happen before it is bound is not deleted: its bind is given up, and it is tried again.
func TestAVictimThatIsNotBoundYet(t *testing.T) {
	for name, finds := range map[string]string{"finds nothing else": "", "goes elsewhere": "node-b"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newRankedWorld(t)
				d := withDisks(w)
				d.hangs = make(chan struct{})
				w.node(node("node-a", "1"))
				w.disk("x", "node-a")
				w.start()
				low := ranked("low", "1", 1)
				low.Labels = map[string]string{"disk": "x"}
				w.create(low)
				w.waitsOn("low", "node-a")
				w.create(ranked("high", "1", 100))
				high := w.pod("high")
				if want := "Normal Preempted Preempted by pod " + string(high.UID) + " on node node-a (in kube-scheduler memory)."; !w.heard(want) {
					t.Errorf("%q is not told", want)
				}
				if finds != "" {
					w.node(node(finds, "1"))
					change(w, client.Resource(configMaps).At("ns", "x"), func(m *v1.ConfigMap) { m.Data["node"] = finds })
				}
				close(d.hangs)
				time.Sleep(soon)
				w.on("high", "node-a")
				p := w.pod("low")
				if p.DeletionTimestamp != nil || p.Spec.NodeName != finds || p.Status.NominatedNodeName != "" {
					t.Errorf("low is deleted at %v, on %q, said to go to %q", p.DeletionTimestamp, p.Spec.NodeName, p.Status.NominatedNodeName)
				}
				if fmt.Sprint(d.ended[0]) != "low false" {
					t.Errorf("ended: %v", d.ended)
				}
			})
		})
	}
}
