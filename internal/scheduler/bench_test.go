package scheduler_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"golang.org/x/sys/unix"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/scheduler"
	"podo.dev/podo/internal/scheduler/shapes"
	"podo.dev/podo/internal/view"
)

var (
	podKind  = schema.GroupResource(client.Pods)
	nodeKind = schema.GroupResource(client.Nodes)
)

// api is a view and a client that writes into it at once: the scheduler's own work, without an API and a store.
type api struct {
	client.Client // nothing else is called
	view          *view.View
	feed          *view.Feed
	rev           atomic.Int64
	left          atomic.Int64 // binds until done
	done          chan struct{}
	mu            sync.Mutex // one write of a pod after the other
	pods          sync.Map   // by name: asking the view would have it copy its trees for each write
	writes        chan write // the scheduler's, of pods
}

// write is a pod as it is now, or one that has gone.
type write struct {
	pod  kruntime.Object
	gone string
}

func newAPI(b testing.TB) *api {
	v, f, err := view.NewFed(view.Config{Kinds: registry.All(), Mutated: func(*registry.Kind, *view.Entry) {}})
	if err != nil {
		b.Fatal(err)
	}
	f.Complete()
	a := &api{view: v, feed: f, done: make(chan struct{}), writes: make(chan write, 1024)}
	flown := make(chan struct{})
	go func() { a.flow(); close(flown) }()
	b.Cleanup(func() { close(a.writes); <-flown })
	return a
}

// flow brings writes to the view, as many at once as there are, like a store's watch.
func (a *api) flow() {
	for w := range a.writes {
		var batch []kruntime.Object
		for more := true; more; {
			if w.pod != nil {
				batch = append(batch, w.pod)
			}
			if w.pod == nil || len(a.writes) == 0 || len(batch) == 256 {
				if err := a.feed.Put(podKind, batch...); err != nil {
					panic(err)
				}
				batch = nil
			}
			if w.pod == nil {
				if err := a.feed.Delete(podKind, view.Key{Namespace: "ns", Name: w.gone}); err != nil {
					panic(err)
				}
			}
			if more = len(a.writes) > 0; more {
				w = <-a.writes
			}
		}
	}
}

// change has a pod written.
func (a *api) change(p *v1.Pod) {
	p.ResourceVersion = strconv.FormatInt(a.rev.Add(1), 10)
	a.pods.Store(p.Name, p)
	a.writes <- write{pod: p}
}

func (a *api) put(kind schema.GroupResource, objs ...kruntime.Object) {
	for _, o := range objs {
		m := o.(metav1.Object)
		m.SetResourceVersion(strconv.FormatInt(a.rev.Add(1), 10))
		if m.GetUID() == "" {
			m.SetUID(types.UID(m.GetName()))
			m.SetGeneration(1)
		}
		if kind == podKind {
			a.pods.Store(m.GetName(), o)
		}
	}
	if err := a.feed.Put(kind, objs...); err != nil {
		panic(err)
	}
}

func (a *api) pod(name string) *v1.Pod {
	if o, ok := a.pods.Load(name); ok {
		return o.(*v1.Pod)
	}
	return nil
}

func (a *api) Bind(_ context.Context, bindings []*v1.Binding, told func(i int, err error)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, b := range bindings {
		told(i, a.bind(b))
	}
}

func (a *api) bind(b *v1.Binding) error {
	old := a.pod(b.Name)
	if old == nil {
		return apierrors.NewNotFound(podKind, b.Name)
	}
	p := *old
	p.Spec.NodeName = b.Target.Name
	a.change(&p)
	if a.left.Add(-1) == 0 {
		close(a.done)
	}
	return nil
}

func (a *api) Mutate(_ context.Context, ref client.Ref, change func(kruntime.Object) (bool, error)) (kruntime.Object, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	old := a.pod(ref.Name)
	if old == nil {
		return nil, apierrors.NewNotFound(podKind, ref.Name)
	}
	p := old.DeepCopy()
	if changed, err := change(p); err != nil || !changed {
		return old, err
	}
	a.change(p)
	return p, nil
}

func (a *api) Delete(_ context.Context, ref client.Ref, _ metav1.DeleteOptions) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.pods.Delete(ref.Name)
	a.writes <- write{gone: ref.Name}
	return nil
}

// layOut makes what there is before a load begins.
func (a *api) layOut(l *shapes.Load, nodes int) {
	for i := range nodes {
		var labels map[string]string
		if l.Label != nil {
			labels = l.Label(i)
		}
		a.put(nodeKind, shapes.Node(i, labels))
	}
	put := func(p *v1.Pod) { p.Namespace = "ns"; a.put(podKind, p) }
	if l.Before != nil {
		for i := range l.Placed(nodes) {
			put(l.Before(nodes, i))
		}
	}
	for i := range l.Stuck {
		put(l.Waiting(i))
	}
}

// churn changes a node, makes a pod that goes nowhere and deletes an earlier one, many times a second.
func (a *api) churn(ctx context.Context) {
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return
		case <-time.After(10 * time.Millisecond):
		}
		n := shapes.Node(1_000_000+i%10, nil)
		a.put(nodeKind, n)
		p := shapes.Pod(fmt.Sprint("churn-", i), func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"nowhere": "yes"} })
		p.Namespace = "ns"
		a.put(podKind, p)
		if i >= 10 {
			_ = a.feed.Delete(nodeKind, view.Key{Name: n.Name})
			_ = a.feed.Delete(podKind, view.Key{Namespace: "ns", Name: fmt.Sprint("churn-", i-10)})
		}
	}
}

// processorTime is that of all threads (unix.RUSAGE_SELF) or of the calling one (unix.RUSAGE_THREAD).
func processorTime(of int) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(of, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkShapes places the pods of each load in process: 10,000, or as many as there is room for. cpu-us/pod is all processor time, that of
// the view that plays the API included; cycle-us/pod is that of the goroutine which decides, and so bounds the rate.
func BenchmarkShapes(b *testing.B) {
	for _, nodes := range []int{1000, 5000} {
		for _, l := range shapes.All() {
			b.Run(fmt.Sprintf("%s/nodes=%d", l.Name, nodes), func(b *testing.B) {
				pods := 10_000
				if l.Most != nil {
					pods = min(pods, l.Most(nodes))
				}
				for b.Loop() {
					b.StopTimer()
					a := newAPI(b)
					a.layOut(&l, nodes)
					for i := range pods {
						p := l.Pod(nodes, i)
						p.Namespace = "ns"
						a.put(podKind, p)
					}
					b.StartTimer()
					var meanwhile func(context.Context)
					if l.Churn {
						meanwhile = a.churn
					}
					a.place(b, pods, meanwhile)
				}
			})
		}
	}
}

// place runs a scheduler until so many pods have been bound, and tells what it took.
func (a *api) place(b *testing.B, pods int, meanwhile func(context.Context)) {
	b.StopTimer()
	defer b.StartTimer()
	a.left.Store(int64(pods))
	sched, err := scheduler.New(scheduler.Config{View: a.view, Client: a, Seed: 1})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	ended, cycle := make(chan error, 1), make(chan time.Duration, 1)
	runtime.GC()
	b.StartTimer()
	start, cpu := time.Now(), processorTime(unix.RUSAGE_SELF)
	go func() {
		runtime.LockOSThread()
		var began time.Duration
		err := sched.Run(ctx, func() { began = processorTime(unix.RUSAGE_THREAD) })
		cycle <- processorTime(unix.RUSAGE_THREAD) - began
		ended <- err
	}()
	if meanwhile != nil {
		go meanwhile(ctx)
	}
	<-a.done
	b.ReportMetric(float64(pods)/time.Since(start).Seconds(), "pods/s")
	b.ReportMetric(float64((processorTime(unix.RUSAGE_SELF)-cpu).Microseconds())/float64(pods), "cpu-us/pod")
	b.StopTimer()
	cancel()
	b.ReportMetric(float64((<-cycle).Microseconds())/float64(pods), "cycle-us/pod")
	if err := <-ended; err != nil {
		b.Fatal(err)
	}
}

// BenchmarkOnePod places one pod after another on 5,000 idle nodes: p50-us and p99-us are from its being seen by the view to its bind.
func BenchmarkOnePod(b *testing.B) {
	a := newAPI(b)
	a.layOut(&shapes.Load{}, 5000)
	stop := a.schedule(b)
	defer stop()
	load := shapes.All()[0]
	var took []time.Duration
	for i := 0; b.Loop(); i++ {
		p := load.Pod(5000, i)
		p.Namespace, a.done = "ns", make(chan struct{})
		a.left.Store(1)
		start := time.Now()
		a.put(podKind, p)
		<-a.done
		took = append(took, time.Since(start))
		runtime.Gosched()
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-us")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-us")
}

// BenchmarkMemory is what the scheduler holds of 5,000 nodes and 50,000 pods besides the view.
func BenchmarkMemory(b *testing.B) {
	live := func() float64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc) / (1 << 20)
	}
	for b.Loop() {
		a := newAPI(b)
		a.layOut(&shapes.Load{
			Before: func(nodes, i int) *v1.Pod {
				return shapes.Pod(fmt.Sprint("on-", i), func(p *v1.Pod) { p.Spec.NodeName = shapes.Node(i%nodes, nil).Name })
			},
			Placed: func(int) int { return 50_000 },
		}, 5000)
		before := live()
		stop := a.schedule(b)
		b.ReportMetric(live()-before, "scheduler-MB")
		b.ReportMetric(before, "view-MB")
		stop()
	}
}

// schedule runs a scheduler until stop is called.
func (a *api) schedule(b testing.TB) (stop func()) {
	sched, err := scheduler.New(scheduler.Config{View: a.view, Client: a, Seed: 1})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- sched.Run(ctx, func() { close(ready) }) }()
	<-ready
	return func() {
		cancel()
		if err := <-ended; err != nil {
			b.Error(err)
		}
	}
}

// BenchmarkSmallControllers places the pods of a thousand ReplicaSets of five each. No selector is like another, so that none profits from what
// was counted for the one before. Turns: the pods of each one after the other, or one of each in turn.
func BenchmarkSmallControllers(b *testing.B) {
	const controllers, each = 1000, 5
	for _, nodes := range []int{100, 5000} {
		for _, turns := range []bool{false, true} {
			b.Run(fmt.Sprintf("nodes=%d/turns=%t", nodes, turns), func(b *testing.B) {
				for b.Loop() {
					b.StopTimer()
					a := newAPI(b)
					a.layOut(&shapes.Load{Label: func(i int) map[string]string {
						return map[string]string{v1.LabelHostname: fmt.Sprint("host-", i), v1.LabelTopologyZone: fmt.Sprint("zone-", i%3)}
					}}, nodes)
					for i := range controllers {
						a.put(schema.GroupResource{Group: "apps", Resource: "replicasets"}, replicaSet(i))
					}
					for i := range controllers * each {
						of := i / each
						if turns {
							of = i % controllers
						}
						a.put(podKind, ownedPod(i, of))
					}
					b.StartTimer()
					a.place(b, controllers*each, nil)
				}
			})
		}
	}
}

func replicaSet(i int) *appsv1.ReplicaSet {
	name := fmt.Sprint("rs-", i)
	rs := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}}
	rs.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}
	return rs
}

func ownedPod(i, of int) *v1.Pod {
	owner := replicaSet(of)
	return shapes.Pod(fmt.Sprint("p-", i), func(p *v1.Pod) {
		p.Namespace, p.Labels = "ns", owner.Spec.Selector.MatchLabels
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: owner.Name, UID: owner.UID, Controller: new(true)}}
	})
}
