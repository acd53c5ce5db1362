package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"podo.dev/podo/internal/apiserver/verbs"
	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/client/local"
	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/scheduler"
	"podo.dev/podo/internal/scheduler/profile"
	"podo.dev/podo/internal/timeline"
	"podo.dev/podo/internal/view"
	"podo.dev/podo/internal/view/viewtest"
)

// world is an API in a bubble with the scheduler on top.
type world struct {
	t       *testing.T
	view    *view.View
	store   *late
	admin   client.Client
	client  *faulty // the scheduler's
	metrics *scheduler.Metrics
	page    *scheduler.Page
	// profiles are read at start; none: the default.
	profiles  profile.Config
	transport http.RoundTripper // to extenders

	mu      sync.Mutex
	records []timeline.Record
	events  []string
	actions []string // of the events: what was done
}

func newWorld(t *testing.T, objs ...runtime.Object) *world {
	t.Helper()
	w := &world{t: t}
	objs = append(objs, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns", UID: "ns"}, Status: v1.NamespaceStatus{Phase: v1.NamespaceActive}})
	v, s := viewtest.New(t, append(objs, viewtest.Account("ns"))...)
	w.store = &late{Store: s}
	vs, err := verbs.New(verbs.Config{Store: w.store, View: v, Kinds: registry.All(), Append: w.append})
	if err != nil {
		t.Fatal(err)
	}
	w.view, w.admin = v, local.Admin(vs)
	w.client, w.metrics = &faulty{Client: local.Scheduler(vs)}, scheduler.NewMetrics()
	return w
}

func (w *world) append(r timeline.Record) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r.Seq = uint64(len(w.records) + 1)
	w.records = append(w.records, r)
}

func (w *world) recorder(profile string) scheduler.Recorder {
	if profile == v1.DefaultSchedulerName {
		return w
	}
	return others{w, profile}
}

// others tell of another profile's events whose they are.
type others struct {
	*world
	profile string
}

func (o others) Eventf(about, related runtime.Object, kind, reason, action, format string, args ...any) {
	o.world.Eventf(about, related, kind, reason, action, "%s", o.profile+": "+fmt.Sprintf(format, args...))
}

// heard tells whether an event has been told, also while others are being told.
func (w *world) heard(event string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Contains(w.events, event)
}

func (w *world) Eventf(_, related runtime.Object, kind, reason, action, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, kind+" "+reason+" "+fmt.Sprintf(format, args...))
	if p, ok := related.(*v1.Pod); ok {
		action += " for " + p.Name
	}
	w.actions = append(w.actions, action)
}

// start runs the scheduler until the returned function is called, at the latest until the test ends.
func (w *world) start() (stop func()) {
	w.t.Helper()
	s, err := scheduler.New(scheduler.Config{View: w.view, Client: w.client, Events: w.recorder, Append: w.append, Seed: 1, Metrics: w.metrics, Page: w.page, Profiles: w.profiles, Transport: w.transport})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- s.Run(ctx, func() { close(ready) }) }()
	<-ready
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Error(err)
		}
	})
	w.t.Cleanup(stop)
	return stop
}

func (w *world) create(p *v1.Pod) {
	w.t.Helper()
	if _, err := w.admin.Create(context.Background(), client.Pods.At(p.Namespace, ""), p); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) node(n *v1.Node) {
	w.t.Helper()
	obj, err := w.admin.Create(context.Background(), client.Nodes.At("", ""), n)
	if err != nil {
		w.t.Fatal(err)
	}
	// The kubelet's part: status, and the taint of a new node gone.
	_, err = w.admin.Mutate(context.Background(), client.Nodes.At("", n.Name), func(o runtime.Object) (bool, error) {
		o.(*v1.Node).Spec.Taints = n.Spec.Taints
		return true, nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	_, err = w.admin.Mutate(context.Background(), client.Nodes.At("", obj.(*v1.Node).Name).Sub("status"), func(o runtime.Object) (bool, error) {
		o.(*v1.Node).Status = n.Status
		return true, nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) cordon(name string, yes bool) {
	w.t.Helper()
	_, err := w.admin.Mutate(context.Background(), client.Nodes.At("", name), func(o runtime.Object) (bool, error) {
		o.(*v1.Node).Spec.Unschedulable = yes
		return true, nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) delete(name string) {
	w.t.Helper()
	zero := int64(0)
	if err := w.admin.Delete(context.Background(), client.Pods.At("ns", name), metav1.DeleteOptions{GracePeriodSeconds: &zero}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) pod(name string) *v1.Pod {
	w.t.Helper()
	synctest.Wait()
	e := w.view.Snapshot().Get(schema.GroupResource(client.Pods), "ns", name)
	if e == nil {
		w.t.Fatalf("no pod %s", name)
	}
	return e.Object.(*v1.Pod)
}

func (w *world) on(name, node string) {
	w.t.Helper()
	if got := w.pod(name).Spec.NodeName; got != node {
		w.t.Errorf("pod %s is on %q, want %q", name, got, node)
	}
}

// faulty is a client whose binds and deletions can fail, and whose changes can come too late.
type faulty struct {
	client.Client
	mu      sync.Mutex
	batches [][]string                                // names of the pods that were bound together
	before  func(ctx context.Context, ref client.Ref) // a Mutate
	after   func(ctx context.Context, ref client.Ref) // one that went well
	bind    func(ctx context.Context, b *v1.Binding) error
	delete  func(ctx context.Context, ref client.Ref, o metav1.DeleteOptions) error
}

func (f *faulty) Delete(ctx context.Context, ref client.Ref, o metav1.DeleteOptions) error {
	if f.delete != nil {
		return f.delete(ctx, ref, o)
	}
	return f.Client.Delete(ctx, ref, o)
}

func (f *faulty) Mutate(ctx context.Context, ref client.Ref, change func(runtime.Object) (bool, error)) (runtime.Object, error) {
	if f.before != nil {
		f.before(ctx, ref)
	}
	out, err := f.Client.Mutate(ctx, ref, change)
	if err == nil && f.after != nil {
		f.after(ctx, ref)
	}
	return out, err
}

func (f *faulty) Bind(ctx context.Context, bindings []*v1.Binding, told func(i int, err error)) {
	var names []string
	for _, b := range bindings {
		names = append(names, b.Name)
	}
	f.mu.Lock()
	f.batches = append(f.batches, names)
	f.mu.Unlock()
	if f.bind == nil {
		f.Client.Bind(ctx, bindings, told)
		return
	}
	for i, b := range bindings {
		told(i, f.bind(ctx, b))
	}
}

// together are the names of the pods that were bound in each call.
func (f *faulty) together() [][]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.batches)
}

// really binds one pod, whatever shall fail.
func (f *faulty) really(ctx context.Context, b *v1.Binding) error {
	return client.Bind(ctx, f.Client, b)
}

func list(cpu, memory string) v1.ResourceList {
	return v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse(memory)}
}

func node(name, cpu string) *v1.Node {
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kubernetes.io/hostname": name}}}
	n.Status.Allocatable = list(cpu, "16Gi")
	n.Status.Allocatable[v1.ResourcePods] = resource.MustParse("110")
	n.Status.Capacity = n.Status.Allocatable
	return n
}

func pod(name, cpu string) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
	p.Spec.Containers = []v1.Container{{Name: "c", Image: "busybox"}}
	if cpu != "" {
		p.Spec.Containers[0].Resources.Requests = list(cpu, "1Mi")
	}
	return p
}

func TestPodGetsANodeAndAStory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.node(node("node-a", "4"))
		w.start()
		w.create(pod("x", "1"))
		p := w.pod("x")
		if p.Spec.NodeName != "node-a" {
			t.Fatalf("on %q", p.Spec.NodeName)
		}
		if c := p.Status.Conditions[0]; c.Type != v1.PodScheduled || c.Status != v1.ConditionTrue {
			t.Errorf("condition %+v", c)
		}
		if !slices.Contains(w.events, "Normal Scheduled Successfully assigned ns/x to node-a") {
			t.Errorf("events %q", w.events)
		}
		got := timeline.Select(w.records, timeline.Query{Stages: []timeline.Stage{timeline.Queued, timeline.Attempt, timeline.Bound}})
		const want = "" +
			"  +0.000s  queued   -  active  new\n" +
			"  +0.000s  attempt  -  node-a  -    try=1 evaluated=1 feasible=1 score=0\n" +
			"  +0.000s  bound    -  node-a  -    took=0s\n"
		if s := timeline.Lines(got); s != want {
			t.Errorf("story\n%s\nwant\n%s", s, want)
		}
	})
}

func TestEventsSayWhatWasDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.node(node("node-a", "1"))
		w.start()
		w.create(pod("x", "1"))
		w.on("x", "node-a")
		w.create(pod("y", "1"))
		w.waits("y")
		if got := strings.Join(w.actions, ", "); got != "Binding, Scheduling" {
			t.Errorf("%s", got)
		}
	})
}

func TestUnschedulableSaysWhyAndGoesWhenItCan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		small, tainted := node("small", "1"), node("tainted", "8")
		tainted.Spec.Taints = []v1.Taint{{Key: "k", Value: "v", Effect: v1.TaintEffectNoSchedule}}
		w.node(small)
		w.node(tainted)
		w.start()
		w.create(pod("a", "700m"))
		w.on("a", "small")
		w.create(pod("b", "500m"))
		b := w.pod("b")
		const message = "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s). " +
			"preemption: 0/2 nodes are available: 1 No preemption victims found for incoming pod, 1 Preemption is not helpful for scheduling."
		if c := b.Status.Conditions[0]; c.Status != v1.ConditionFalse || c.Reason != "Unschedulable" || c.Message != message || c.ObservedGeneration != b.Generation {
			t.Errorf("condition %+v", c)
		}
		if !slices.Contains(w.events, "Warning FailedScheduling "+message) {
			t.Errorf("events %q", w.events)
		}
		rec, _ := timeline.Last(timeline.Select(w.records, timeline.Query{Name: "b"}), timeline.Attempt)
		if got := rec.Get("NodeResourcesFit"); got != "1 Insufficient cpu (small cpu.asked=500m cpu.free=300m)" {
			t.Errorf("numbers: %q", got)
		}
		if got := rec.Get("TaintToleration"); got != "1 node(s) had untolerated taint(s) (tainted taint=k=v:NoSchedule)" {
			t.Errorf("numbers: %q", got)
		}
		// What does not help does not wake it.
		attempts := func() int {
			return len(timeline.Select(w.records, timeline.Query{Name: "b", Stages: []timeline.Stage{timeline.Attempt}}))
		}
		w.node(node("tiny", "100m"))
		synctest.Wait()
		if n := attempts(); n != 1 {
			t.Errorf("%d attempts after a node that is too small came", n)
		}
		w.delete("a")
		w.on("b", "small")
		if n := attempts(); n != 2 {
			t.Errorf("%d attempts", n)
		}
	})
}

func TestNoNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.start()
		w.create(pod("x", ""))
		if c := w.pod("x").Status.Conditions[0]; c.Message != "no nodes available to schedule pods" {
			t.Errorf("condition %+v", c)
		}
		w.node(node("late", "1"))
		w.on("x", "late")
	})
}

func TestLargerThanTheNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.node(node("node-a", "1"))
		w.start()
		w.create(pod("x", "2"))
		const want = "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
		if c := w.pod("x").Status.Conditions[0]; c.Message != want {
			t.Errorf("%s", c.Message)
		}
	})
}

// C25 of the cases: gates hold a pod back in silence; it goes when the last is gone.
func TestSchedulingGates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.node(node("node-a", "4"))
		w.start()
		p := pod("x", "1")
		p.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "wait"}}
		w.create(p)
		time.Sleep(time.Hour)
		if got := w.pod("x"); got.Spec.NodeName != "" || len(got.Status.Conditions) == 0 || got.Status.Conditions[0].Reason != v1.PodReasonSchedulingGated {
			t.Errorf("node %q, conditions %+v", got.Spec.NodeName, got.Status.Conditions)
		}
		for _, e := range w.events {
			if strings.Contains(e, "FailedScheduling") {
				t.Errorf("event %q", e)
			}
		}
		if err := w.client.really(context.Background(), &v1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "x"}, Target: v1.ObjectReference{Kind: "Node", Name: "node-a"}}); err == nil {
			t.Error("a gated pod was bound by hand")
		}
		_, err := w.admin.Mutate(context.Background(), client.Pods.At("ns", "x"), func(o runtime.Object) (bool, error) {
			o.(*v1.Pod).Spec.SchedulingGates = nil
			return true, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		w.on("x", "node-a")
	})
}

func TestOtherSchedulersPodsAreLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.node(node("node-a", "4"))
		w.start()
		p := pod("x", "1")
		p.Spec.SchedulerName = "someone-else"
		w.create(p)
		time.Sleep(time.Hour)
		w.on("x", "")
	})
}

// refuseBinds has as many binds fail as left says when they come.
func (w *world) refuseBinds(left *int) {
	w.client.bind = func(ctx context.Context, b *v1.Binding) error {
		if *left--; *left >= 0 {
			return errors.New("connection refused")
		}
		return w.client.really(ctx, b)
	}
}

func TestFailedBindGivesTheRoomBackAndIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.node(node("node-a", "1"))
		fails := 2
		w.refuseBinds(&fails)
		w.start()
		began := time.Now()
		w.create(pod("x", "1"))
		time.Sleep(2900 * time.Millisecond)
		w.on("x", "")
		if c := w.pod("x").Status.Conditions[0]; c.Reason != v1.PodReasonSchedulerError || c.Message != `running Bind plugin "DefaultBinder": connection refused` {
			t.Errorf("condition %+v", c)
		}
		time.Sleep(time.Minute)
		w.on("x", "node-a")
		rec, _ := timeline.Last(w.records, timeline.Bound)
		if d := rec.At.Sub(began); d != 3*time.Second { // 1 s and 2 s of back-off
			t.Errorf("bound after %v", d)
		}
	})
}

// A bind whose answer was lost has happened: the pod must neither be bound again nor its room be given away.
func TestLostAnswerOfABind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.node(node("node-a", "1"))
		binds := 0
		w.client.bind = func(ctx context.Context, b *v1.Binding) error {
			binds++
			if err := w.client.really(ctx, b); err != nil {
				return err
			}
			return errors.New("timeout")
		}
		w.start()
		w.create(pod("x", "1"))
		w.on("x", "node-a")
		time.Sleep(time.Hour)
		if binds != 1 {
			t.Errorf("bound %d times", binds)
		}
	})
}

func TestRestartFindsWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.node(node("node-a", "2"))
		stop := w.start()
		w.create(pod("a", "1"))
		w.on("a", "node-a")
		stop()
		w.create(pod("b", "1"))
		w.create(pod("c", "1"))
		w.start()
		time.Sleep(time.Second)
		bound := 0
		for _, n := range []string{"a", "b", "c"} {
			if w.pod(n).Spec.NodeName != "" {
				bound++
			}
		}
		if bound != 2 {
			t.Errorf("%d pods on a node for 2", bound)
		}
	})
}
