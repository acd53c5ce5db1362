// Package sim runs a whole cluster inside a testing/synctest bubble: store, view, API verbs, scheduler, controllers and nodes,
// real ones all, on a store in memory and fake runtimes. A seed decides what users do and what goes wrong: processes
// killed, writes that fail or whose outcome nobody learns, watches that break, runtimes that hang, sandboxes lost. At quiet points,
// when all faults are over and time has passed, invariants must hold.
//
//	go test ./internal/sim -run TestSim -seed=7 -steps=500
//
// prints the steps it took when it fails.
package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"

	"podo.dev/podo/internal/apiserver/verbs"
	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/client/local"
	"podo.dev/podo/internal/component"
	"podo.dev/podo/internal/controllers/deployment"
	"podo.dev/podo/internal/controllers/disruption"
	"podo.dev/podo/internal/controllers/garbage"
	"podo.dev/podo/internal/controllers/job"
	"podo.dev/podo/internal/controllers/loop"
	"podo.dev/podo/internal/controllers/namespaces"
	"podo.dev/podo/internal/controllers/nodelifecycle"
	"podo.dev/podo/internal/controllers/podgc"
	"podo.dev/podo/internal/controllers/replicas"
	"podo.dev/podo/internal/controllers/rootca"
	"podo.dev/podo/internal/controllers/serviceaccounts"
	"podo.dev/podo/internal/controllers/statefulset"
	"podo.dev/podo/internal/controllers/tainteviction"
	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/scheduler"
	"podo.dev/podo/internal/store/mem"
	"podo.dev/podo/internal/timeline"
	"podo.dev/podo/internal/timeline/recorder"
	"podo.dev/podo/internal/view"
)

// Options of a World.
type Options struct {
	Seed  uint64
	Nodes int
	// Real puts real kubelets on the nodes instead of models.
	Real bool
	// Last, when set, is what happens before the last quiet point.
	Last func(*World)
}

// KubeletDeps is what a kubelet of the simulation is made of. Dir is a folder of its own that outlives it.
type KubeletDeps struct {
	Node    string
	Dir     string
	World   *World
	Machine *Machine
	Client  client.Client
	Append  timeline.Append
}

// World is the cluster. One goroutine, the test's, drives it.
type World struct {
	t    testing.TB
	rng  *rand.Rand
	opts Options
	real bool
	// kubelet makes a node's agent.
	kubelet func(KubeletDeps) (component.Component, error)

	store     *mem.Store
	faults    *storeFaults
	View      *view.View
	Verbs     *verbs.Verbs
	Timeline  *recorder.Recorder
	admin     client.Client
	scheduler *proc
	control   []*proc
	machines  []*Machine
	procs     []*proc

	ledger *ledger
	clock  atomic.Int64   // how far the server's clock is ahead, in nanoseconds
	drains sync.WaitGroup // that are on their way
	alive  sync.Mutex     // guards what runs on machines

	log    []string // the steps taken
	serial int
	held   int // pods of sets that were to go while their machine was away
}

// New boots a cluster whose nodes are on their way to Ready.
func New(t testing.TB, o Options) *World {
	t.Helper()
	w := &World{t: t, opts: o, real: o.Real, kubelet: Model, rng: rand.New(rand.NewPCG(o.Seed, 1))}
	if o.Real {
		w.kubelet = Kubelet
	}
	w.faults = &storeFaults{rng: rand.New(rand.NewPCG(o.Seed, 2))}
	w.store = mem.New(mem.Options{Faults: w.faults.decide})
	var err error
	w.Timeline, err = recorder.New(recorder.Config{PerPod: 2048, Total: 1_000_000})
	w.must(err)
	w.View, err = view.New(view.Config{
		Store: w.store, Kinds: registry.All(), Append: w.Timeline.Append, CheckMutation: true,
		Mutated: func(k *registry.Kind, e *view.Entry) {
			t.Errorf("someone changed a published object: %s %s/%s", k.GVK.Kind, e.Key.Namespace, e.Key.Name)
		},
	})
	w.must(err)
	w.process(component.Func("view", w.View.Run)).start()
	w.bootControl()
	w.ledger = newLedger(w)
	w.process(w.ledger).start()
	for i := range o.Nodes {
		w.addMachine(fmt.Sprintf("node-%d", i))
	}
	return w
}

func (w *World) bootControl() {
	vs, err := verbs.New(verbs.Config{
		Store: w.store, View: w.View, Kinds: registry.All(), Append: w.Timeline.Append,
		Now: func() time.Time { return time.Now().Add(time.Duration(w.clock.Load())) },
	})
	w.must(err)
	w.Verbs, w.admin = vs, local.Admin(vs)
	sched, err := scheduler.New(scheduler.Config{View: w.View, Client: local.Scheduler(vs), Append: w.Timeline.Append, Seed: w.opts.Seed})
	w.must(err)
	w.scheduler = w.process(sched)
	c := local.Controllers(vs)
	life, err := nodelifecycle.New(w.View, c, nodelifecycle.GracePeriod, nil, nil)
	w.must(err)
	gc, err := podgc.New(w.View, c, nil)
	w.must(err)
	ns, err := namespaces.New(namespaces.Config{View: w.View, Client: c, Kinds: registry.All()})
	w.must(err)
	accounts, err := serviceaccounts.New(w.View, c, nil)
	w.must(err)
	ca, err := rootca.New(w.View, c, []byte("sim"), nil)
	w.must(err)
	told := &record.FakeRecorder{} // nobody listens
	garbage, err := garbage.New(garbage.Config{View: w.View, Client: c, Events: told, Kinds: registry.All()})
	w.must(err)
	taints, err := tainteviction.New(tainteviction.Config{View: w.View, Client: c, Events: told})
	w.must(err)
	rcs, err := replicas.New(replicas.Config{Kind: replicas.ReplicationControllers, View: w.View, Client: c, Events: told})
	w.must(err)
	rss, err := replicas.New(replicas.Config{Kind: replicas.ReplicaSets, View: w.View, Client: c, Events: told})
	w.must(err)
	rollouts, err := deployment.New(deployment.Config{View: w.View, Client: c, Events: told})
	w.must(err)
	parts := loop.Parts{View: w.View, Client: c, Events: told}
	sets, err := statefulset.New(parts)
	w.must(err)
	work, err := job.New(parts)
	w.must(err)
	loose, err := job.NewOrphans(parts)
	w.must(err)
	count, err := disruption.New(parts)
	w.must(err)
	stale, err := disruption.NewStale(parts)
	w.must(err)
	w.control = []*proc{
		w.process(ns), w.process(accounts), w.process(ca), w.process(life), w.process(gc), w.process(garbage), w.process(taints), w.process(rcs),
		w.process(rss), w.process(rollouts), w.process(sets), w.process(work), w.process(loose), w.process(count), w.process(stale),
	}
	for _, p := range append(w.control, w.scheduler) {
		p.start()
	}
}

func (w *World) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// Stop ends every process.
func (w *World) Stop() {
	for i := len(w.procs) - 1; i >= 0; i-- {
		w.procs[i].kill()
	}
	for _, m := range w.machines {
		m.mendRuntime()
		for _, b := range m.Runtime.Sandboxes() {
			m.Runtime.KillSandbox(b.Pod)
		}
	}
}

// note keeps a step for the case of failure.
func (w *World) note(format string, args ...any) {
	at := time.Since(epoch).Round(time.Millisecond)
	w.log = append(w.log, fmt.Sprintf("%10s  %s", at, fmt.Sprintf(format, args...)))
}

// epoch is when every bubble begins.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// Failf fails the test with the steps that led here and the story of a pod.
func (w *World) Failf(pod *v1.Pod, format string, args ...any) {
	w.t.Helper()
	story := ""
	if pod != nil {
		story = "\n" + timeline.Format(timeline.Fold(w.Timeline.Records(timeline.Query{UID: string(pod.UID)})))
	}
	from := max(0, len(w.log)-60)
	w.t.Fatalf("seed %d: %s%s\nthe last steps:\n%s", w.opts.Seed, fmt.Sprintf(format, args...), story, strings.Join(w.log[from:], "\n"))
}

func (w *World) ctx() context.Context { return context.Background() }
