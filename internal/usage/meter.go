// Package usage tells what pods and nodes use now: the load of their processors and their memory, for metrics.k8s.io and for whoever
// scales by it. Nothing is measured while nobody asks. Who asks has the kubelets of the nodes in question read, and the answer is what was
// used since an earlier reading, or since one made a second before where there is none of the last minute.
package usage

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	dto "github.com/prometheus/client_model/go"
	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/view"
)

const (
	// fresh is how long an answer holds: many who ask at once cost one reading.
	fresh = 2 * time.Second
	// respite is how long a node that did not answer is not asked again, so that it does not hold up everybody's answer.
	respite = 15 * time.Second
	// patience is how long a kubelet may take for one reading.
	patience = 5 * time.Second
	// atOnce is how many kubelets are read side by side.
	atOnce = 32
)

// Config is what a Meter needs; all of it.
type Config struct {
	View *view.View
	// Read asks a node's kubelet for what it tells at /metrics/resource.
	Read   func(ctx context.Context, node *v1.Node) ([]*dto.MetricFamily, error)
	Logger *slog.Logger
}

// Meter is safe for concurrent use.
type Meter struct {
	cfg   Config
	slots chan struct{} // one a reading that is on its way

	mu    sync.Mutex
	nodes map[types.UID]*gauge
}

// gauge is what is known of a node. Who has put something into turn may touch the rest.
type gauge struct {
	turn   chan struct{}
	window window
	last   span
	err    error     // why the last try gave nothing
	at     time.Time // of the last try
}

// New makes a Meter.
func New(cfg Config) (*Meter, error) {
	if cfg.View == nil || cfg.Read == nil || cfg.Logger == nil {
		return nil, errors.New("usage: Config needs View, Read and Logger")
	}
	return &Meter{cfg: cfg, slots: make(chan struct{}, atOnce), nodes: map[types.UID]*gauge{}}, nil
}

// measure has nodes read side by side. Those that do not answer are left out: what the others' pods use is known without them.
func (m *Meter) measure(ctx context.Context, snap view.Snapshot, names map[string]bool) (map[string]span, error) {
	m.forget(snap)
	var mu sync.Mutex
	out := make(map[string]span, len(names))
	var g errgroup.Group
	for name := range names {
		node := nodeOf(snap, name)
		if node == nil || silent(node) {
			continue
		}
		g.Go(func() error {
			s, err := m.gauge(node.UID).measure(ctx, m, node)
			if err != nil {
				return ctx.Err() // nil: the node's own fault, and told by then
			}
			mu.Lock()
			defer mu.Unlock()
			out[name] = s
			return nil
		})
	}
	return out, g.Wait()
}

func nodeOf(snap view.Snapshot, name string) *v1.Node {
	if e := snap.Get(client.Nodes.At("", "").Resource, "", name); e != nil {
		return e.Object.(*v1.Node)
	}
	return nil
}

// silent nodes have not been heard of for a while: to wait for them would hold up everybody.
func silent(n *v1.Node) bool {
	for _, c := range n.Status.Conditions {
		if c.Type == v1.NodeReady {
			return c.Status == v1.ConditionUnknown
		}
	}
	return false
}

func (m *Meter) gauge(uid types.UID) *gauge {
	m.mu.Lock()
	defer m.mu.Unlock()
	g := m.nodes[uid]
	if g == nil {
		g = &gauge{turn: make(chan struct{}, 1)}
		m.nodes[uid] = g
	}
	return g
}

// forget drops what is known of nodes that are gone.
func (m *Meter) forget(snap view.Snapshot) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.nodes) <= snap.Len(client.Nodes.At("", "").Resource) {
		return
	}
	there := map[types.UID]bool{}
	for e := range snap.All(client.Nodes.At("", "").Resource, "", view.Key{}) {
		there[e.Meta.GetUID()] = true
	}
	for uid := range m.nodes {
		if !there[uid] {
			delete(m.nodes, uid)
		}
	}
}

// measure returns the last answer while it is fresh, and makes another one otherwise; one caller at a time.
func (g *gauge) measure(ctx context.Context, m *Meter, node *v1.Node) (span, error) {
	select {
	case g.turn <- struct{}{}:
		defer func() { <-g.turn }()
	case <-ctx.Done():
		return span{}, ctx.Err()
	}
	holds := fresh
	if g.err != nil {
		holds = respite
	}
	if !g.at.IsZero() && time.Since(g.at) < holds {
		return g.last, g.err
	}
	s, err := g.read(ctx, m, node)
	if ctx.Err() != nil {
		return span{}, ctx.Err() // who asked has gone, which says nothing of the node
	}
	if err != nil && g.err == nil {
		m.cfg.Logger.Warn("a node does not tell what it uses, and is left out", "node", node.Name, "err", err)
	}
	g.last, g.err, g.at = s, err, time.Now()
	return s, err
}

func (g *gauge) read(ctx context.Context, m *Meter, node *v1.Node) (span, error) {
	to, err := m.read(ctx, node)
	if err != nil {
		return span{}, err
	}
	from := g.window.add(to)
	if from == nil {
		wait := time.NewTimer(Moment)
		defer wait.Stop()
		select {
		case <-wait.C:
		case <-ctx.Done():
			return span{}, ctx.Err()
		}
		if to, err = m.read(ctx, node); err != nil {
			return span{}, err
		}
		if from = g.window.add(to); from == nil {
			return span{}, errors.New("the node started anew meanwhile")
		}
	}
	return span{from: from, to: to}, nil
}

// read asks a kubelet once.
func (m *Meter) read(ctx context.Context, node *v1.Node) (*Reading, error) {
	select {
	case m.slots <- struct{}{}:
		defer func() { <-m.slots }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("no answer within %v", patience))
	defer cancel()
	families, err := m.cfg.Read(ctx, node)
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, err
	}
	return ReadingOf(time.Now(), families)
}
