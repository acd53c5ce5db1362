// Package pleg is the pod lifecycle event generator: it knows what the runtime says of each pod of this node, and tells when
// that changes. The runtime's event stream comes first; a slow relist repairs what the stream missed and proves that the
// runtime answers. The relist is adaptive: the less it finds to repair, the rarer it gets.
//
//	stream stands: a container ended ─► what the event says of it ─► cache ─► tell
//	               a sandbox ended ─► inspect that pod ─► cache ─► tell
//	               created, started, removed ─► cache: the worker knows from its own calls,
//	                   but that a sandbox starts beside another one: it may be of a call that the worker has given up
//	               relist every MinRelist, doubling up to MaxRelist while it finds nothing, back to MinRelist when it does
//	an event from before the last answer of the runtime ─► inspect that pod: a runtime keeps what nobody heard for who listens next
//	stream broken: relist every Fallback until it stands again; the moment it stands, once more
package pleg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"podo.dev/podo/internal/kubelet/labels"
	"podo.dev/podo/internal/podlife"
)

// Runtime is what is listened to and listed.
type Runtime interface {
	ListPodSandbox(ctx context.Context, filter *runtimev1.PodSandboxFilter) ([]*runtimev1.PodSandbox, error)
	ListContainers(ctx context.Context, filter *runtimev1.ContainerFilter) ([]*runtimev1.Container, error)
	Events(ctx context.Context, connected func(), out chan<- *runtimev1.ContainerEventResponse) error
}

// Inspect asks the runtime for everything it has of one pod.
type Inspect func(ctx context.Context, uid types.UID) (podlife.Observed, error)

// Read is what an event itself tells of its pod: one sandbox and its containers (At is zero).
type Read func(ctx context.Context, e *runtimev1.ContainerEventResponse) podlife.Observed

// Config is what a Generator needs.
type Config struct {
	Runtime Runtime
	Inspect Inspect
	Read    Read
	Node    string // whose containers these are: the label of package labels
	Log     *slog.Logger
	// Relisted is told of each relist: when it began, how long it took, and how long after the one before it began (0: the first). It
	// must not block, and may be nil.
	Relisted func(began time.Time, took, since time.Duration)
	// Inspected is called with the duration of each inspection of a pod, whether it succeeded or not. It must not block, and may
	// be nil.
	Inspected func(took time.Duration)
	// Defaults: 10 s, 2 min, 1 s, 2 min (of one call) and 3 min (without a relist that succeeded).
	MinRelist, MaxRelist, Fallback, CallTimeout, Unhealthy time.Duration
}

// Validate fills in defaults and says what is missing.
func (c *Config) Validate() error {
	if c.Runtime == nil || c.Inspect == nil || c.Read == nil || c.Node == "" || c.Log == nil {
		return errors.New("pleg: Runtime, Inspect, Read, Node and Log must be set")
	}
	c.MinRelist, c.MaxRelist = cmp.Or(c.MinRelist, 10*time.Second), cmp.Or(c.MaxRelist, 2*time.Minute)
	c.Fallback, c.CallTimeout = cmp.Or(c.Fallback, time.Second), cmp.Or(c.CallTimeout, 2*time.Minute)
	c.Unhealthy = cmp.Or(c.Unhealthy, 3*time.Minute)
	return nil
}

// Change is what the runtime now has of a pod; a part of it, the one that changed, when Observed.At is zero.
type Change struct {
	UID      types.UID
	Owner    labels.Owner // namespace and name, for pods that no source knows
	Observed podlife.Observed
}

// Generator is the PLEG.
type Generator struct {
	cfg   Config
	out   chan Change
	slots chan struct{} // inspections under way because of events
	wg    sync.WaitGroup

	mu     sync.Mutex
	cache  map[types.UID]*known
	listed time.Time // the last relist that succeeded
	begun  time.Time
	asking map[types.UID]bool // the pods being inspected; true: inspect once more afterwards
	under  map[types.UID]int  // inspections under way
	// forgets counts the calls of Forget; forgotten has, for each pod that is being inspected, the number of its last one.
	forgets   int
	forgotten map[types.UID]int
	stream    string // why the stream is broken, "" while it stands
}

// known is one pod's entry.
type known struct {
	owner    labels.Owner
	print    string           // of identities and states; listings are compared by it
	observed podlife.Observed // At is zero while only events have told of it
	at       time.Time        // the question was asked
}

// New makes a Generator.
func New(cfg Config) (*Generator, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Generator{
		cfg: cfg, out: make(chan Change, 256), slots: make(chan struct{}, 8), cache: map[types.UID]*known{},
		asking: map[types.UID]bool{}, under: map[types.UID]int{}, forgotten: map[types.UID]int{},
		begun: time.Now(), stream: "not connected yet",
	}, nil
}

// Run listens and relists until ctx ends. ready is called after the first relist.
func (g *Generator) Run(ctx context.Context, ready func()) error {
	defer g.wg.Wait()
	events := make(chan *runtimev1.ContainerEventResponse, 256)
	stands := make(chan bool, 1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	g.wg.Add(1)
	go func() {
		defer g.wg.Done()
		g.listen(ctx, stands, events)
	}()
	g.mu.Lock()
	g.begun = time.Now()
	g.mu.Unlock()
	standing, every := false, g.cfg.Fallback
	timer := time.NewTimer(0)
	defer timer.Stop()
	ready = sync.OnceFunc(ready)
	var last time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case standing = <-stands:
			every = g.cfg.Fallback
			if standing {
				every = g.cfg.MinRelist / 2
			}
			timer.Reset(0)
		case e := <-events:
			g.react(ctx, e)
		case <-timer.C:
			began := time.Now()
			repaired, err := g.relist(ctx)
			if g.cfg.Relisted != nil {
				var since time.Duration
				if !last.IsZero() {
					since = began.Sub(last)
				}
				g.cfg.Relisted(began, time.Since(began), since)
			}
			last = began
			switch {
			case err != nil && ctx.Err() == nil:
				g.cfg.Log.Warn("cannot list what the runtime has", "err", err)
				every = g.cfg.Fallback
			case !standing:
				every = g.cfg.Fallback
			case repaired > 0:
				every = g.cfg.MinRelist
			default:
				every = min(max(2*every, g.cfg.MinRelist), g.cfg.MaxRelist)
			}
			if err == nil {
				ready()
			}
			timer.Reset(every)
		}
	}
}

// listen keeps the stream standing.
func (g *Generator) listen(ctx context.Context, stands chan<- bool, events chan<- *runtimev1.ContainerEventResponse) {
	tell := func(b bool) {
		select {
		case stands <- b:
		case <-ctx.Done():
		}
	}
	stood := false
	for wait := 100 * time.Millisecond; ctx.Err() == nil; wait = min(2*wait, 10*time.Second) {
		err := g.cfg.Runtime.Events(ctx, func() {
			wait, stood = 100*time.Millisecond, true
			g.broken("")
			tell(true)
		}, events)
		if ctx.Err() != nil {
			return
		}
		g.broken(fmt.Sprint(err))
		if stood {
			g.cfg.Log.Warn("the runtime's event stream broke; listing every second until it is back", "err", err)
			tell(false)
		}
		stood = false
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
}

func (g *Generator) broken(why string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stream = why
}

// Stream is "" while the event stream stands, and otherwise why it does not.
func (g *Generator) Stream() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.stream
}

// react handles an event. Each event carries the whole state of its sandbox, so the runtime is asked only where that is not
// enough: for a sandbox that ended, and for one that disappeared while it was thought to run.
func (g *Generator) react(ctx context.Context, e *runtimev1.ContainerEventResponse) {
	owner, ok := labels.Read(e.GetPodSandboxStatus().GetLabels())
	if !ok && len(e.GetContainersStatuses()) > 0 {
		owner, ok = labels.Read(e.GetContainersStatuses()[0].GetLabels())
	}
	if !ok || owner.Node != g.cfg.Node {
		return
	}
	owner.Container = ""
	if g.outdated(owner.UID, e) {
		g.ask(ctx, owner, nil)
		return
	}
	box := e.GetPodSandboxStatus()
	switch e.GetContainerEventType() {
	case runtimev1.ContainerEventType_CONTAINER_CREATED_EVENT, runtimev1.ContainerEventType_CONTAINER_STARTED_EVENT:
		if g.note(owner, g.cfg.Read(ctx, e)) && box.GetId() == e.GetContainerId() {
			g.ask(ctx, owner, nil)
		}
	case runtimev1.ContainerEventType_CONTAINER_STOPPED_EVENT:
		if box != nil && box.GetState() == runtimev1.PodSandboxState_SANDBOX_READY && box.GetId() != e.GetContainerId() && g.seen(owner.UID) {
			g.ask(ctx, owner, e)
			return
		}
		g.ask(ctx, owner, nil)
	case runtimev1.ContainerEventType_CONTAINER_DELETED_EVENT:
		if !g.removed(owner.UID, e.GetContainerId()) {
			g.ask(ctx, owner, nil)
		}
	default:
		g.ask(ctx, owner, nil)
	}
}

// ask inspects a pod in a goroutine of its own, at most one for each pod: an event that arrives meanwhile causes one more
// inspection. With an event that says enough, that is reported in place of the first inspection.
func (g *Generator) ask(ctx context.Context, owner labels.Owner, e *runtimev1.ContainerEventResponse) {
	g.mu.Lock()
	_, busy := g.asking[owner.UID] // true there: once more
	g.asking[owner.UID] = busy
	g.mu.Unlock()
	if busy {
		return
	}
	g.wg.Add(1)
	go func() {
		defer g.wg.Done()
		for again := true; again; {
			var err error
			if e != nil {
				o := g.cfg.Read(ctx, e)
				g.note(owner, o)
				g.tell(ctx, Change{UID: owner.UID, Owner: owner, Observed: o})
				e = nil
			} else if err = g.inTurn(ctx, owner); err != nil && ctx.Err() == nil {
				g.cfg.Log.Warn("cannot ask the runtime about a pod; the next relist will", "pod", owner.Namespace+"/"+owner.Pod, "err", err)
			}
			g.mu.Lock()
			if again = g.asking[owner.UID] && err == nil; again {
				g.asking[owner.UID] = false
			} else {
				delete(g.asking, owner.UID)
			}
			g.mu.Unlock()
		}
	}()
}

// inTurn inspects a pod when there is a slot.
func (g *Generator) inTurn(ctx context.Context, owner labels.Owner) error {
	select {
	case g.slots <- struct{}{}:
		defer func() { <-g.slots }()
		return g.inspect(ctx, owner)
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (g *Generator) tell(ctx context.Context, c Change) {
	select {
	case g.out <- c:
	case <-ctx.Done():
	}
}

// inspect asks about one pod and tells.
func (g *Generator) inspect(ctx context.Context, owner labels.Owner) error {
	cctx, cancel := context.WithTimeout(ctx, g.cfg.CallTimeout)
	defer cancel()
	g.mu.Lock()
	g.under[owner.UID]++
	forgets := g.forgets
	g.mu.Unlock()
	at := time.Now()
	o, err := g.cfg.Inspect(cctx, owner.UID)
	if g.cfg.Inspected != nil {
		g.cfg.Inspected(time.Since(at))
	}
	g.mu.Lock()
	old := g.forgotten[owner.UID] > forgets
	if g.under[owner.UID]--; g.under[owner.UID] == 0 {
		delete(g.under, owner.UID)
		delete(g.forgotten, owner.UID)
	}
	if err != nil || old {
		g.mu.Unlock()
		return err
	}
	if len(o.Sandboxes) == 0 && len(o.Containers) == 0 {
		delete(g.cache, owner.UID)
	} else {
		g.cache[owner.UID] = &known{owner: owner, print: printOf(o), observed: o, at: at}
	}
	g.mu.Unlock()
	g.tell(ctx, Change{UID: owner.UID, Owner: owner, Observed: o})
	return nil
}
