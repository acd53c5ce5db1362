package pleg

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"podo.dev/podo/internal/podlife"
)

// Changes is where changes are told.
func (g *Generator) Changes() <-chan Change { return g.out }

// Healthy says why the runtime must be thought dead, or nil.
func (g *Generator) Healthy() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	last := g.listed
	if last.IsZero() {
		last = g.begun
	}
	if d := time.Since(last); d > g.cfg.Unhealthy {
		return fmt.Errorf("pleg was last seen active %s ago; threshold is %s", d.Round(time.Second), g.cfg.Unhealthy)
	}
	return nil
}

// Get is what the cache has of a pod.
func (g *Generator) Get(uid types.UID) (podlife.Observed, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	k := g.cache[uid]
	if k == nil || k.print == "" {
		return podlife.Observed{}, false
	}
	return k.observed, true
}

// All is the whole cache.
func (g *Generator) All() []Change {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := make([]Change, 0, len(g.cache))
	for uid, k := range g.cache {
		if k.print == "" {
			continue
		}
		out = append(out, Change{UID: uid, Owner: k.owner, Observed: k.observed})
	}
	return out
}

// NewerThan waits until the cache has what the runtime said of a pod after t, or ctx ends. A pod that the runtime does not
// have is an empty answer.
func (g *Generator) NewerThan(ctx context.Context, uid types.UID, t time.Time) (podlife.Observed, error) {
	for {
		g.mu.Lock()
		k, newer, listed := g.cache[uid], g.newer, g.listed
		g.mu.Unlock()
		switch {
		case k != nil && k.print != "" && k.at.After(t):
			return k.observed, nil
		case k == nil && listed.After(t):
			return podlife.Observed{At: listed}, nil
		}
		select {
		case <-newer:
		case <-ctx.Done():
			return podlife.Observed{}, ctx.Err()
		}
	}
}
