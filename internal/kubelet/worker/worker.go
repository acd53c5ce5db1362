package worker

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"podo.dev/podo/internal/cri"
	"podo.dev/podo/internal/podlife"
	"podo.dev/podo/internal/timeline"
)

// Checkpoints keep what of a pod must survive this process (package state).
type Checkpoints interface {
	// Save returns once the state survives the end of this process and, when durable, of the machine.
	Save(s podlife.Saved, durable bool) error
	Remove(uid types.UID) error
}

// Observer asks the runtime (package observe).
type Observer interface {
	Pod(ctx context.Context, uid types.UID) (podlife.Observed, error)
	Sandbox(ctx context.Context, id string) (podlife.SandboxInfo, error)
	Container(ctx context.Context, id, sandbox string) (*podlife.Instance, error)
}

// Hooks run lifecycle hooks. They return an error when the hook failed or ctx ended.
type Hooks interface {
	RunHook(ctx context.Context, pod *v1.Pod, c *v1.Container, containerID string, h *v1.LifecycleHandler, podIP string) error
}

// Probes run probes (package probe). Results come back as events, by Workers.Send.
type Probes interface {
	SetProbes(pod *v1.Pod, c *v1.Container, containerID, podIP string, set podlife.ProbeSet)
}

// Config is what Workers need. Hooks, Probes and Resizer may be nil: then hooks succeed at once, probes are not run, and resizes
// are reported as done.
type Config struct {
	Life        *podlife.Config
	Runtime     cri.Runtime
	Observer    Observer
	Admission   Admission
	Volumes     Volumes
	Images      Images
	Cgroups     Cgroups
	Resizer     Resizer
	Specs       Specs
	Reporter    Reporter
	Checkpoints Checkpoints
	Hooks       Hooks
	Probes      Probes
	// Event tells users about a container of a pod; container "" is the pod itself. It must not block.
	Event  func(pod *v1.Pod, container, eventType, reason, message string)
	Append timeline.Append
	// NetworkProblem says why the runtime gives pods no network now; "" when it does. Nil stands for "".
	NetworkProblem func() string
	// Reached is called at each boundary of an effect ("StartContainer.before", "StartContainer.after"), and may block the worker
	// there: tests end the process at such a point. May be nil.
	Reached func(pod *v1.Pod, point string)
	// Gone is called for each pod of which nothing but logs is left. It must not block. May be nil.
	Gone func(pod *v1.Pod)
	// Metrics may be nil.
	Metrics Metrics
	Log     *slog.Logger
	// CallTimeout bounds most effects: a call of the runtime, volumes, a cgroup. Making a sandbox may take twice as long,
	// stopping a container its grace period in addition; pulls and hooks have bounds of their own.
	CallTimeout time.Duration
	// Parallel bounds the effects that make the runtime work (sandboxes, creates, starts) at one time; default 32.
	Parallel int
}

// CallTimeout is the default of Config.CallTimeout.
const CallTimeout = 2 * time.Minute

// Validate fills in defaults and says what is missing.
func (c *Config) Validate() error {
	if c.Life == nil || c.Runtime == nil || c.Observer == nil || c.Admission == nil || c.Volumes == nil || c.Images == nil ||
		c.Cgroups == nil || c.Specs == nil || c.Reporter == nil || c.Checkpoints == nil || c.Event == nil || c.Append == nil || c.Log == nil {
		return errors.New("worker: Life, Runtime, Observer, the ports, Checkpoints, Event, Append and Log must be set")
	}
	if c.Metrics == nil {
		c.Metrics = noMetrics{}
	}
	if c.NetworkProblem == nil {
		c.NetworkProblem = func() string { return "" }
	}
	c.CallTimeout = cmp.Or(c.CallTimeout, CallTimeout)
	c.Parallel = cmp.Or(c.Parallel, 32)
	return nil
}

// Workers is the set of pod workers: one goroutine for each pod that there is something to do for. Its methods do not block.
//
// Two ends are kept apart. A pod is stopped by events (deletion, eviction); the process is stopped by the end of the context
// that Workers were made with: then workers return where they are and no container is touched.
type Workers struct {
	cfg   Config
	ctx   context.Context // the process's
	slots chan struct{}

	mu      sync.Mutex
	pods    map[types.UID]*pod
	names   map[string][]types.UID // of each namespace/name the pods that use it and have not ended: several after a restart only
	waiting map[string]*v1.Pod     // pods that wait until another pod of their name has ended
	sweeps  map[types.UID]*sweep   // see sweep.go
	resizes []*pod                 // see allocate.go
	open    bool                   // resizes are judged

	endings []*ending // see preempt.go

	gate   sync.Mutex // held while a goroutine is started
	closed bool       // no goroutine is started any more; guarded by gate
	wg     sync.WaitGroup
}

// New makes an empty set, whose workers run until ctx ends.
func New(ctx context.Context, cfg Config) (*Workers, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Workers{
		cfg: cfg, ctx: ctx, slots: make(chan struct{}, cfg.Parallel), pods: map[types.UID]*pod{}, names: map[string][]types.UID{},
		waiting: map[string]*v1.Pod{}, sweeps: map[types.UID]*sweep{},
	}, nil
}

// Wait returns when every worker has returned, after the process's context ended.
func (w *Workers) Wait() {
	<-w.ctx.Done()
	w.gate.Lock()
	w.closed = true
	w.gate.Unlock()
	w.wg.Wait()
}

// spawn runs f in a goroutine of its own, unless the process ends.
func (w *Workers) spawn(f func()) {
	w.gate.Lock()
	defer w.gate.Unlock()
	if !w.closed && w.ctx.Err() == nil {
		w.wg.Go(f)
	}
}

func fullName(p *v1.Pod) string { return p.Namespace + "/" + p.Name }

// Update hands a worker its pod as the source wants it now. A new pod is admitted at once, in the order of the calls. A pod whose
// name is still in use by another waits for the end of that one.
func (w *Workers) Update(p *v1.Pod) {
	seen := time.Now()
	w.give(p, true, func(p *v1.Pod) func() { return w.updated(p, seen, nil) })
}

// updated is called with mu held, and the function that it returns without. before is how the pod ended that comes back as p; nil for most.
func (w *Workers) updated(p *v1.Pod, seen time.Time, before *podlife.State) func() {
	if old := w.pods[p.UID]; old != nil {
		if w.waiting[fullName(p)] != nil && old.removed {
			w.waiting[fullName(p)] = p
		}
		return func() { old.send(podlife.Desired{Pod: p}) }
	}
	if len(w.names[fullName(p)]) > 0 {
		w.waiting[fullName(p)] = p
		return func() {}
	}
	now := time.Now()
	s := podlife.Begin(w.cfg.Life, p, now)
	if before != nil {
		s = podlife.BeginAgain(w.cfg.Life, p, before, now)
	}
	n := w.add(p, s)
	return func() {
		w.cfg.Metrics.Taken(p, seen)
		w.cfg.Append(timeline.New(time.Now(), timeline.RefOf(p), timeline.Taken))
		n.begin(podlife.Desired{Pod: p})
	}
}

// Again takes a pod that its source reports anew, and tells whether it has a worker. When that worker is ending the pod because
// it had been removed (a manifest that went and came back), the pod begins again once nothing of it is left.
func (w *Workers) Again(p *v1.Pod) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := w.pods[p.UID]
	if n != nil && n.removed {
		w.waiting[fullName(p)] = p
	}
	return n != nil
}

// Restore brings back the worker of a pod that an earlier process had. p is the pod as its source has it; with gone, no source
// has it any more, p is what is known of it, and it is ended.
func (w *Workers) Restore(p *v1.Pod, saved *podlife.Saved, o podlife.Observed, gone bool) {
	w.give(p, !gone, func(p *v1.Pod) func() { return w.restored(p, saved, o, gone) })
}

// restored is called with mu held, and the function that it returns without.
func (w *Workers) restored(p *v1.Pod, saved *podlife.Saved, o podlife.Observed, gone bool) func() {
	if w.pods[p.UID] != nil {
		return func() {}
	}
	s := podlife.Restore(w.cfg.Life, p, saved, o, time.Now())
	n := w.add(p, s)
	n.removed = gone
	return func() {
		if s.Stage != podlife.New {
			w.cfg.Append(timeline.New(time.Now(), timeline.RefOf(p), timeline.Restored).Move("", s.Stage.String()))
		}
		if gone {
			if runs(o) {
				w.cfg.Metrics.Orphan()
			}
			n.begin(podlife.SourceRemoved{})
			return
		}
		n.begin(podlife.Desired{Pod: p})
	}
}

// runs tells whether anything of a pod does.
func runs(o podlife.Observed) bool {
	return slices.ContainsFunc(o.Sandboxes, func(b podlife.SandboxInfo) bool { return b.Ready }) ||
		slices.ContainsFunc(o.Containers, func(c podlife.Instance) bool { return c.State == podlife.InstanceRunning })
}

// add is called with mu held.
func (w *Workers) add(p *v1.Pod, s podlife.State) *pod {
	n := newPod(w, p, s)
	n.grant = s.Granted
	n.admitted = s.Stage > podlife.Admitting && s.Stage < podlife.Releasing
	w.pods[p.UID] = n
	w.names[fullName(p)] = append(w.names[fullName(p)], p.UID)
	return n
}

// Remove says that the source no longer has the pod. Its resources are free at once, as in upstream's kubelet: the scheduler has
// given them away already, and a pod rejected for them would fail for good, while what is being stopped is gone soon.
func (w *Workers) Remove(p *v1.Pod) {
	w.mu.Lock()
	if q := w.waiting[fullName(p)]; q != nil && q.UID == p.UID {
		delete(w.waiting, fullName(p))
	}
	if s := w.sweeps[p.UID]; s != nil {
		s.begin = nil
	}
	n := w.pods[p.UID]
	if n != nil {
		n.admitted, n.removed = false, true
	}
	w.mu.Unlock()
	if n != nil {
		n.send(podlife.SourceRemoved{})
		w.RetryResizes(PodsRemoved)
	}
}

// Send hands an event to a pod's worker; false when there is no such pod.
func (w *Workers) Send(uid types.UID, ev podlife.Event) bool {
	w.mu.Lock()
	n := w.pods[uid]
	w.mu.Unlock()
	if n != nil {
		n.send(ev)
	}
	return n != nil
}

// Known tells whether a pod has a worker.
func (w *Workers) Known(uid types.UID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pods[uid] != nil
}

// Holder is the pod that uses a name and has not ended; "" when none does.
func (w *Workers) Holder(namespace, name string) types.UID {
	w.mu.Lock()
	defer w.mu.Unlock()
	if uids := w.names[namespace+"/"+name]; len(uids) > 0 {
		return uids[0]
	}
	return ""
}

// Snapshot is a pod as its worker has it.
type Snapshot struct {
	Pod     *v1.Pod // shared, not to be changed
	Stage   podlife.Stage
	Removed bool // no source has it any more
	// Given is the pod with what it was granted, Resizing says that not all of it runs with that yet.
	Given    *v1.Pod
	Resizing bool
	Pending  *podlife.Resize // why its resize was not granted; nil when there is nothing pending. Not to be changed
	// Status computes the status from the worker's present state. What it refers to is shared, not to be changed.
	Status func() v1.PodStatus
}

// All is every pod that has a worker.
func (w *Workers) All() []Snapshot {
	w.mu.Lock()
	pods := make([]*pod, 0, len(w.pods))
	for _, n := range w.pods {
		pods = append(pods, n)
	}
	w.mu.Unlock()
	out := make([]Snapshot, 0, len(pods))
	for _, n := range pods {
		out = append(out, n.snapshot())
	}
	slices.SortFunc(out, func(a, b Snapshot) int { return cmp.Compare(fullName(a.Pod), fullName(b.Pod)) })
	return out
}

// Get is one pod.
func (w *Workers) Get(uid types.UID) (Snapshot, bool) {
	w.mu.Lock()
	n := w.pods[uid]
	w.mu.Unlock()
	if n == nil {
		return Snapshot{}, false
	}
	return n.snapshot(), true
}

// admit is serialized: a verdict counts the pods that were admitted before it. nil means that the verdict comes later, when there
// is room.
func (w *Workers) admit(n *pod, p *v1.Pod) podlife.Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.cfg.Admission.Admit(p, w.active(n))
	if r != nil && len(r.Victims) == 0 {
		return podlife.Admitted{Reject: &podlife.Rejection{Reason: r.Reason, Message: r.Message}}
	}
	n.admitted, n.grant = true, podlife.GrantOf(p)
	if r != nil && !w.makeRoom(n, r) {
		return nil
	}
	return podlife.Admitted{}
}

// ended is called once by a worker whose pod holds nothing any more: a pod that waits for its name may begin.
func (w *Workers) ended(n *pod) {
	w.mu.Lock()
	n.admitted = false
	name := fullName(n.desired)
	var next *v1.Pod
	w.names[name] = slices.DeleteFunc(w.names[name], func(uid types.UID) bool { return uid == n.uid })
	if len(w.names[name]) == 0 {
		delete(w.names, name)
		if next = w.waiting[name]; next != nil && w.pods[next.UID] != nil {
			next = nil // it has ended, or ends, and comes back: see forget
		} else {
			delete(w.waiting, name)
		}
	}
	w.mu.Unlock()
	if next != nil {
		w.Update(next)
	}
}

// forget is called when nothing is left of a pod. The pod has no worker then, and gets none before tell has returned, since those
// who are told drop what they have of it. A pod that came back while it ended begins after that.
func (w *Workers) forget(n *pod, tell func()) {
	w.mu.Lock()
	delete(w.pods, n.uid)
	s := w.hold(n.uid)
	if p := w.waiting[fullName(n.desired)]; p != nil && p.UID == n.uid {
		delete(w.waiting, fullName(p))
		seen, before := time.Now(), n.state
		s.wait(p, func(p *v1.Pod) func() {
			begin := w.updated(p, seen, &before)
			return func() {
				w.cfg.Metrics.Restarted(p)
				begin()
			}
		})
	}
	w.mu.Unlock()
	w.haveEnded()
	tell()
	w.swept(n.uid, s)
}
