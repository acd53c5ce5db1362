package controllers_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"

	"podo.dev/podo/internal/apiserver/verbs"
	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/controllers/nodelifecycle"
	"podo.dev/podo/internal/controllers/nodettl"
	"podo.dev/podo/internal/controllers/podgc"
	"podo.dev/podo/internal/controllers/tainteviction"
	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/store"
	"podo.dev/podo/internal/store/mem"
	"podo.dev/podo/internal/view"
	"podo.dev/podo/internal/view/viewtest"
)

// fleet are nodes whose kubelets renew their leases while they live.
type fleet struct {
	*world
	alive map[string]bool
}

func (w *world) fleet(n int) *fleet {
	f := &fleet{w, map[string]bool{}}
	for i := range n {
		name := fmt.Sprintf("node-%d", i)
		w.node(name)
		f.alive[name] = true
	}
	return f
}

// pass lets time go by; who lives renews its lease every ten seconds, and is ready again when it was not.
func (f *fleet) pass(d time.Duration) {
	for ; d > 0; d -= 10 * time.Second {
		synctest.Wait()
		for name, alive := range f.alive {
			if !alive {
				continue
			}
			f.renew(name)
			f.must(f.admin.Mutate(context.Background(), client.Nodes.At("", name).Sub("status"), func(o runtime.Object) (bool, error) {
				c := &o.(*v1.Node).Status.Conditions[0]
				if c.Status == v1.ConditionTrue {
					return false, nil
				}
				c.Status, c.Reason, c.LastHeartbeatTime = v1.ConditionTrue, "KubeletReady", metav1.Now()
				return true, nil
			}))
		}
		time.Sleep(min(d, 10*time.Second))
	}
}

// ending are the nodes whose pods are being ended.
func (f *fleet) ending() (n int) {
	for name := range f.alive {
		if strings.Contains(f.taints(name), "NoExecute") {
			n++
		}
	}
	return n
}

func (f *fleet) set(alive bool, from, to int) {
	for i := from; i < to; i++ {
		f.alive[fmt.Sprintf("node-%d", i)] = alive
	}
}

func TestNodesAreGivenUpOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.namespaces()
		w.run(nodelifecycle.New(w.view, w.controllers, nodelifecycle.GracePeriod, nil, nil))
		f := w.fleet(10)
		f.pass(time.Minute)
		f.set(false, 0, 4)
		f.pass(44 * time.Second) // the last renewal was 10 s before
		for want := 1; want <= 4; want++ {
			if got := f.ending(); got != want {
				t.Errorf("%d nodes are given up, want %d", got, want)
			}
			f.pass(10 * time.Second)
		}
		for name, want := range map[string]float64{"evictions_total": 4, "zone_size": 10, "unhealthy_nodes_in_zone": 4, "zone_health": 60} {
			if got := w.metric("node_collector_"+name, ""); got != want {
				t.Errorf("%s is %v, want %v", name, got, want)
			}
		}
		if n := w.metric("node_collector_update_node_health_duration_seconds"); n < 10 {
			t.Errorf("%v looks at ten nodes, by the metric", n)
		}
		f.set(false, 4, 8)
		f.pass(5 * time.Minute) // most of a small zone
		if got := f.ending(); got > 6 {
			t.Errorf("%d of 10 nodes are given up although most are not ready", got)
		}
		f.set(false, 0, 10)
		f.pass(2 * time.Minute)
		if got := f.ending(); got != 0 {
			t.Errorf("all are silent: it is we who are cut off, and still %d are given up", got)
		}
		f.set(true, 0, 10)
		f.pass(20 * time.Second)
		for name := range f.alive {
			if got := w.taints(name); got != "" {
				t.Errorf("%s is back with %q", name, got)
			}
		}
	})
}

func TestPodsOfALostNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.everyNamespace()
		told := record.NewFakeRecorder(1000)
		w.run(nodelifecycle.New(w.view, w.controllers, nodelifecycle.GracePeriod, told, nil))
		w.run(tainteviction.New(tainteviction.Config{View: w.view, Client: w.controllers}))
		f := w.fleet(2)
		f.pass(20 * time.Second)
		put := func(name string, tolerate int64) {
			p := pod(name, "node-0")
			p.Spec.Tolerations = []v1.Toleration{{Key: v1.TaintNodeUnreachable, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute, TolerationSeconds: &tolerate}}
			w.must(w.admin.Create(context.Background(), client.Pods.At("default", ""), p))
			w.must(w.admin.Mutate(context.Background(), client.Pods.At("default", name).Sub("status"), func(o runtime.Object) (bool, error) {
				s := &o.(*v1.Pod).Status
				s.Phase, s.Conditions = v1.PodRunning, []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}
				return true, nil
			}))
		}
		put("patient", 60)
		put("hasty", 1)
		look := func(name string) string {
			p := w.get(client.Pods.At("default", name)).(*v1.Pod)
			return fmt.Sprintf("ready=%s deleted=%v %s %s", p.Status.Conditions[0].Status, p.DeletionTimestamp != nil, p.Status.Reason, p.Status.Message)
		}
		check := func(name, want string) {
			t.Helper()
			if got := strings.TrimSpace(look(name)); got != want {
				t.Errorf("%s: %s, want %s", name, got, want)
			}
		}
		f.set(false, 0, 1)
		f.pass(39 * time.Second)
		check("patient", "ready=True deleted=false")
		f.pass(5 * time.Second)
		check("patient", "ready=False deleted=false")
		check("hasty", "ready=False deleted=true NodeLost Node node-0 which was running pod hasty is unresponsive")
		f.pass(time.Minute)
		check("patient", "ready=False deleted=true NodeLost Node node-0 which was running pod patient is unresponsive")
		events := map[string]int{}
		for len(told.Events) > 0 {
			events[<-told.Events]++
		}
		for text, want := range map[string]int{
			"Normal RegisteredNode Node node-0 event: Registered Node node-0 in Controller": 1,
			"Normal NodeNotReady Node node-0 status is now: NodeNotReady":                   1,
			"Warning NodeNotReady Node is not ready":                                        2,
		} {
			if events[text] != want {
				t.Errorf("%q was told %d times: %v", text, events[text], events)
			}
		}
	})
}

// A node that promises to speak often is missed early.
func TestAShortLeaseIsMissedEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.namespaces()
		w.run(nodelifecycle.New(w.view, w.controllers, nodelifecycle.GracePeriod, nil, nil))
		f := w.fleet(2)
		w.must(w.admin.Mutate(context.Background(), client.Leases.At(v1.NamespaceNodeLease, "node-0"), func(o runtime.Object) (bool, error) {
			seconds := int32(4)
			o.(*coordv1.Lease).Spec.LeaseDurationSeconds = &seconds
			return true, nil
		}))
		f.pass(10 * time.Second)
		f.set(false, 0, 1)
		f.pass(3 * time.Second)
		if got := w.taints("node-0"); got != "" {
			t.Errorf("after 13 s %q", got)
		}
		f.pass(3 * time.Second)
		if got := w.taints("node-0"); !strings.Contains(got, "unreachable:NoExecute") {
			t.Errorf("after 16 s %q", got)
		}
	})
}

// While the store does not answer, no kubelet can renew its lease, and none is lost for that.
func TestAStoreThatIsAwayLosesNoNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var away atomic.Bool
		s := mem.New(mem.Options{Faults: func(mem.Call) (f mem.Fault) {
			if away.Load() {
				f.Err = store.ErrUnavailable
			}
			return f
		}})
		v := viewtest.Start(t, view.Config{Store: s})
		vs, err := verbs.New(verbs.Config{Store: s, View: v, Kinds: registry.All()})
		if err != nil {
			t.Fatal(err)
		}
		w := worldOf(t, v, s, vs)
		w.namespaces()
		w.run(nodelifecycle.New(w.view, w.controllers, nodelifecycle.GracePeriod, nil, nil))
		f := w.fleet(2)
		f.pass(30 * time.Second)
		away.Store(true)
		s.BreakWatches(store.ErrUnavailable)
		time.Sleep(3 * time.Minute)
		away.Store(false)
		time.Sleep(5 * time.Second) // the kubelets are not back yet
		for name := range f.alive {
			if got := w.taints(name); got != "" {
				t.Errorf("%s has %q", name, got)
			}
		}
		f.pass(2 * time.Minute)
		for name := range f.alive {
			if got := w.taints(name); got != "" {
				t.Errorf("later %s has %q", name, got)
			}
		}
	})
}

// What should end on a node that is out of service ends without its kubelet; what should not stays.
func TestOutOfService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.everyNamespace()
		w.run(podgc.New(w.view, w.controllers, nil))
		w.node("node-a")
		ctx := context.Background()
		for _, name := range []string{"before", "after", "stays"} {
			w.must(w.admin.Create(ctx, client.Pods.At("default", ""), pod(name, "node-a")))
		}
		end := func(name string) {
			if err := w.admin.Delete(ctx, client.Pods.At("default", name), metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		there := func(name string) bool { return w.get(client.Pods.At("default", name)) != nil }
		end("before")
		w.must(w.admin.Mutate(ctx, client.Nodes.At("", "node-a"), func(o runtime.Object) (bool, error) {
			o.(*v1.Node).Spec.Taints = []v1.Taint{{Key: v1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: v1.TaintEffectNoExecute}}
			return true, nil
		}))
		if !there("before") {
			t.Error("its node is ready: the kubelet ends it")
		}
		w.must(w.admin.Mutate(ctx, client.Nodes.At("", "node-a").Sub("status"), func(o runtime.Object) (bool, error) {
			o.(*v1.Node).Status.Conditions[0].Status = v1.ConditionUnknown
			return true, nil
		}))
		if there("before") {
			t.Error("its node is out of service, and it is still there")
		}
		end("after")
		if there("after") || !there("stays") {
			t.Errorf("after it: %v, %v", there("after"), there("stays"))
		}
		if n := w.metric("pod_gc_collector_force_delete_pods_total", "default", "out-of-service"); n != 2 {
			t.Errorf("%v pods were removed, by its metric", n)
		}
	})
}

// taken is a client for whom nodes have been taken back already.
type taken struct{ client.Client }

func (t taken) Get(ctx context.Context, ref client.Ref) (runtime.Object, error) {
	obj, err := t.Client.Get(ctx, ref)
	if n, ok := obj.(*v1.Node); ok {
		n = n.DeepCopy()
		n.Spec.Taints = nil
		return n, err
	}
	return obj, err
}

// Of a node that was out of service and has just been taken back no pod is removed on what is not known to be true any more.
func TestANodeIsTakenBackIntoService(t *testing.T) {
	for _, back := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.everyNamespace()
			c := w.controllers
			if back {
				c = taken{c}
			}
			w.run(podgc.New(w.view, c, nil))
			w.node("node-a")
			ctx := context.Background()
			w.must(w.admin.Mutate(ctx, client.Nodes.At("", "node-a").Sub("status"), func(o runtime.Object) (bool, error) {
				o.(*v1.Node).Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionUnknown}}
				return true, nil
			}))
			end := func(name string) {
				w.must(w.admin.Create(ctx, client.Pods.At("default", ""), pod(name, "node-a")))
				if err := w.admin.Delete(ctx, client.Pods.At("default", name), metav1.DeleteOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			end("before")
			w.must(w.admin.Mutate(ctx, client.Nodes.At("", "node-a"), func(o runtime.Object) (bool, error) {
				o.(*v1.Node).Spec.Taints = []v1.Taint{{Key: v1.TaintNodeOutOfService, Effect: v1.TaintEffectNoExecute}}
				return true, nil
			}))
			end("after")
			for _, name := range []string{"before", "after"} {
				if there := w.get(client.Pods.At("default", name)) != nil; there != back {
					t.Errorf("taken back: %v, and %s is there: %v", back, name, there)
				}
			}
		})
	}
}

func TestNodesAreToldHowLongToRemember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.run(nodettl.New(w.view, w.controllers, nil))
		ttl := func(name string) string {
			return w.get(client.Nodes.At("", name)).(*v1.Node).Annotations[v1.ObjectTTLAnnotationKey]
		}
		put := func(i int) {
			w.must(w.admin.Create(context.Background(), client.Nodes.At("", ""), &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n", i)}}))
		}
		for i := range 100 {
			put(i)
		}
		if got := ttl("n0"); got != "0" {
			t.Errorf("of 100 nodes %q", got)
		}
		put(100)
		if first, last := ttl("n0"), ttl("n100"); first != "0" || last != "15" {
			t.Errorf("of 101 nodes %q and %q, although the first has not said anything since", first, last)
		}
		w.must(w.admin.Mutate(context.Background(), client.Nodes.At("", "n0"), func(o runtime.Object) (bool, error) {
			o.(*v1.Node).Labels = map[string]string{"said": "something"}
			return true, nil
		}))
		if got := ttl("n0"); got != "15" {
			t.Errorf("of 101 nodes %q", got)
		}
	})
}
