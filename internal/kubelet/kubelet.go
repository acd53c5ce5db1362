// Package kubelet puts the node agent's modules together and runs them: sources say what is wanted, the PLEG what exists, and one
// worker for each pod turns the one into the other. Each module is a package of its own below this one.
package kubelet

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"podo.dev/podo/internal/kubelet/observe"
	"podo.dev/podo/internal/kubelet/pleg"
	"podo.dev/podo/internal/kubelet/podmanager"
	"podo.dev/podo/internal/kubelet/source"
	"podo.dev/podo/internal/kubelet/state"
	"podo.dev/podo/internal/kubelet/syncloop"
	"podo.dev/podo/internal/kubelet/worker"
	"podo.dev/podo/internal/podlife"
)

// Source tells which pods are wanted, until ctx ends (package source).
type Source interface {
	Run(ctx context.Context, out chan<- source.Change) error
}

// Reporter is the status manager (package status).
type Reporter interface {
	worker.Reporter
	// Refresh takes a pod as the API has it now.
	Refresh(pod *v1.Pod)
	// Forget drops a pod of which nothing is left.
	Forget(uid types.UID)
}

// Checkpoints keep what must survive a restart (package state).
type Checkpoints interface {
	worker.Checkpoints
	Load() (map[types.UID]*podlife.Saved, []state.Damaged, error)
}

// Config is what a Kubelet needs: what its workers do, and what is the node's. Hooks, Probes, NodeEvent, Gone and Mirror may be nil.
type Config struct {
	worker.Config // without Observer; Reporter and Checkpoints are those below

	Node        string
	Sources     []Source
	Checkpoints Checkpoints
	Reporter    Reporter
	// NodeEvent tells users about the node.
	NodeEvent func(eventType, reason, message string)
	// Logged are the newest attempts, by container, that have a log in the pod's folder (logs.Attempts). May be nil.
	Logged func(pod *v1.Pod) map[string]uint32
	// Mirror is called when something happened to the static pod of a name, or to its mirror (package mirror). It must not block.
	Mirror func(name types.NamespacedName)
	// Relisted and Inspected (pleg.Config) may be nil.
	Relisted  func(began time.Time, took, since time.Duration)
	Inspected func(took time.Duration)
	// Swept is called after each sweep of volumes with the number of unknown pods whose volumes were removed, or could not be.
	// May be nil.
	Swept func(removed, failed int)
	// PLEG times; zero values take the modules' defaults.
	MinRelist, MaxRelist, Housekeeping time.Duration
}

// Validate says what is missing.
func (c *Config) Validate() error {
	if c.Node == "" || c.Life == nil || c.Runtime == nil || len(c.Sources) == 0 || c.Checkpoints == nil || c.Reporter == nil || c.Event == nil ||
		c.Append == nil || c.Log == nil {
		return errors.New("kubelet: Node, Life, Runtime, Sources, Checkpoints, Reporter, Event, Append and Log must be set")
	}
	return nil // the worker checks its own ports
}

// Kubelet is the node agent's heart. Its queries may be called at any time.
type Kubelet struct {
	cfg     Config
	pods    *podmanager.Manager
	signals chan syncloop.Signal
	run     atomic.Pointer[running]
}

// running is what one Run has.
type running struct {
	workers *worker.Workers
	pleg    *pleg.Generator
	saved   map[types.UID]*podlife.Saved // of pods that have no worker yet; owned by the sync loop
	synced  atomic.Bool
	ctx     context.Context
	// Held while leftovers of unknown pods are swept.
	cgroups, volumes sync.Mutex
}

// New makes a Kubelet.
func New(cfg Config) (*Kubelet, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Kubelet{cfg: cfg, pods: podmanager.New(), signals: make(chan syncloop.Signal, 256)}, nil
}

// Name implements component.Component.
func (k *Kubelet) Name() string { return "kubelet" }

// Run works until ctx ends. It is ready once every source has synced and every pod has its worker. Its end touches no container;
// the next Run finds whatever runs.
func (k *Kubelet) Run(ctx context.Context, ready func()) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r, err := k.start(ctx)
	if err != nil {
		return err
	}
	defer r.workers.Wait()
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	listed := make(chan struct{})
	wg.Go(func() { r.pleg.Run(ctx, func() { close(listed) }) }) //nolint:errcheck // it returns nil
	select {
	case <-listed: // what runs is known
	case <-ctx.Done():
		return nil
	}
	changes := make(chan source.Change, 256)
	for _, s := range k.cfg.Sources {
		wg.Go(func() {
			if err := s.Run(ctx, changes); err != nil && ctx.Err() == nil {
				k.cfg.Log.Error("a pod source ended", "err", err)
			}
		})
	}
	loop := syncloop.Loop{
		Handler: &handlers{k, r}, Sources: len(k.cfg.Sources), Config: changes, Runtime: r.pleg.Changes(), Signals: k.signals,
		Housekeeping: k.cfg.Housekeeping,
		Synced: func() {
			r.synced.Store(true)
			r.workers.OpenResizes()
			ready()
		},
	}
	loop.Run(ctx)
	return nil
}

func (k *Kubelet) start(ctx context.Context) (*running, error) {
	saved, damaged, err := k.cfg.Checkpoints.Load()
	if err != nil {
		return nil, err
	}
	for _, d := range damaged {
		k.cfg.Log.Error("the saved state of a pod is damaged and was set aside; the pod is restored from what the runtime and the API say",
			"file", d.Path, "err", d.Err)
		if k.cfg.NodeEvent != nil {
			k.cfg.NodeEvent(v1.EventTypeWarning, "CheckpointDamaged", "set aside as "+d.Path+": "+d.Err.Error())
		}
	}
	obs := observe.New(k.cfg.Runtime)
	r := &running{saved: saved, ctx: ctx}
	c := &k.cfg
	w := c.Config
	w.Observer, w.Reporter, w.Checkpoints = obs, c.Reporter, c.Checkpoints
	w.Gone = func(p *v1.Pod) {
		r.pleg.Forget(p.UID)
		c.Reporter.Forget(p.UID)
		k.mirror(p)
		if c.Gone != nil {
			c.Gone(p)
		}
	}
	r.workers, err = worker.New(ctx, w)
	if err != nil {
		return nil, err
	}
	r.pleg, err = pleg.New(pleg.Config{
		Runtime: c.Runtime, Inspect: obs.Pod, Read: obs.Event, Node: c.Node, Log: c.Log, Relisted: c.Relisted, Inspected: c.Inspected,
		MinRelist: c.MinRelist, MaxRelist: c.MaxRelist, CallTimeout: c.CallTimeout,
	})
	if err != nil {
		return nil, err
	}
	k.run.Store(r)
	return r, nil
}

// Signal hands an event to a pod's worker: a probe's result, an eviction, volumes that may work now. It never blocks: should
// the sync loop be behind, the worker is told directly.
func (k *Kubelet) Signal(uid types.UID, ev podlife.Event) {
	select {
	case k.signals <- syncloop.Signal{UID: uid, Event: ev}:
	default:
		if r := k.run.Load(); r != nil {
			r.workers.Send(uid, ev)
		}
	}
}

// Healthy says why the kubelet cannot look after its pods, or nil.
func (k *Kubelet) Healthy() error {
	r := k.run.Load()
	if r == nil {
		return errors.New("the kubelet has not started yet")
	}
	return r.pleg.Healthy()
}

// Pod is a pod with its status as its worker has it, or nil. It is shared and not to be changed. Of several of one name it is the one for
// which the others wait.
func (k *Kubelet) Pod(namespace, name string) *v1.Pod {
	p := k.pods.Named(namespace, name)
	if r := k.run.Load(); r != nil {
		p = cmp.Or(k.pods.Get(r.workers.Holder(namespace, name)), p)
	}
	if p == nil {
		return nil
	}
	return k.withStatus(p)
}

// Pods is all of them.
func (k *Kubelet) Pods() []*v1.Pod {
	all := k.pods.All()
	out := make([]*v1.Pod, 0, len(all))
	for _, p := range all {
		out = append(out, k.withStatus(p))
	}
	return out
}

func (k *Kubelet) withStatus(p *v1.Pod) *v1.Pod {
	r := k.run.Load()
	if r == nil {
		return p
	}
	s, ok := r.workers.Get(p.UID)
	if !ok {
		return p
	}
	cp := *p
	cp.Status = s.Status()
	return &cp
}

// Collectable is what the container garbage collector asks: the pods that have a worker, each with whether it has ended for
// good, and whether these are all.
func (k *Kubelet) Collectable() (pods map[types.UID]bool, complete bool) {
	r := k.run.Load()
	if r == nil {
		return nil, false
	}
	pods = map[types.UID]bool{}
	for _, s := range r.workers.All() {
		pods[s.Pod.UID] = s.Stage >= podlife.Finished && s.Pod.DeletionTimestamp != nil
	}
	return pods, r.synced.Load()
}

// Alone calls f, which removes something of a pod, unless somebody wants the pod, and tells whether it did. Until f returns the
// pod gets no worker.
func (k *Kubelet) Alone(uid types.UID, f func()) bool {
	r := k.run.Load()
	return r != nil && r.workers.Sweep(uid, func() bool { return k.pods.Get(uid) != nil }, f)
}

// Static implements mirror.Pods.
func (k *Kubelet) Static(name types.NamespacedName) (pod *v1.Pod, ending bool) {
	r := k.run.Load()
	if r == nil {
		return nil, true // nothing is known yet
	}
	holder := r.workers.Holder(name.Namespace, name.Name)
	p := k.pods.Named(name.Namespace, name.Name)
	if p == nil || !podlife.Static(p) || holder != p.UID && r.workers.Known(holder) {
		return nil, holder != ""
	}
	return p, false
}

// Mirror implements mirror.Pods.
func (k *Kubelet) Mirror(name types.NamespacedName) *v1.Pod {
	return k.pods.MirrorNamed(name.Namespace, name.Name)
}

// Mirrors is how many mirror pods there are.
func (k *Kubelet) Mirrors() int { return k.pods.Mirrors() }

// mirror wakes the keeper of mirrors when p is a static pod, a mirror, or what is left of one whose manifest changed or went while no
// kubelet ran: its mirror outlived it, or the pod that the manifest describes now has waited for its name.
func (k *Kubelet) mirror(p *v1.Pod) {
	if k.cfg.Mirror == nil {
		return
	}
	next := k.pods.Named(p.Namespace, p.Name)
	if podlife.IsMirror(p) || podlife.Static(p) || next != nil && podlife.Static(next) || k.pods.MirrorNamed(p.Namespace, p.Name) != nil {
		k.cfg.Mirror(types.NamespacedName{Namespace: p.Namespace, Name: p.Name})
	}
}

// Active are the pods that run or are about to, with what they were granted.
func (k *Kubelet) Active() []*v1.Pod {
	var out []*v1.Pod
	for _, s := range k.Workers() {
		if s.Stage == podlife.Starting || s.Stage == podlife.Running {
			out = append(out, s.Given)
		}
	}
	return out
}

// Ended tells whether nothing of a pod runs any more.
func (k *Kubelet) Ended(uid types.UID) bool {
	r := k.run.Load()
	if r == nil {
		return false
	}
	s, ok := r.workers.Get(uid)
	return !ok || s.Stage >= podlife.Releasing
}

// AwaitEnds returns when nothing of the pods runs any more, or ctx ends.
func (k *Kubelet) AwaitEnds(ctx context.Context, pods []types.UID) {
	if r := k.run.Load(); r != nil {
		r.workers.AwaitEnds(ctx, pods)
	}
}

// Workers are the pods as their workers have them, for pages and tests.
func (k *Kubelet) Workers() []worker.Snapshot {
	if r := k.run.Load(); r != nil {
		return r.workers.All()
	}
	return nil
}
