package routes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// growing is a cluster that nodes come to.
type growing struct {
	mu      sync.Mutex
	nodes   []Node
	changed chan struct{}
}

func (g *growing) Nodes() ([]Node, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.nodes[:len(g.nodes):len(g.nodes)], true
}

func (g *growing) Changed() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.changed
}

func (g *growing) come() {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := len(g.nodes)
	g.nodes = append(g.nodes, Node{Name: fmt.Sprint("n", i), Pods: []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 0}), 24)}})
	close(g.changed)
	g.changed = make(chan struct{})
}

// The rules are written as a whole, by a program: not for each of a thousand nodes that come, also when they are refused. The node's own range does
// not wait.
func TestManyNodesComeAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := &growing{changed: make(chan struct{})}
		asked, ranges, first := 0, 0, time.Duration(0)
		began := time.Now()
		k, err := New(Config{
			Source: cluster, Node: "n0", File: t.TempDir() + "/routes.json", Far: func(string, string) {}, Log: slog.New(slog.DiscardHandler),
			Network: func(_ context.Context, _, all []netip.Prefix) error {
				if asked++; asked == 1 {
					first = time.Since(began)
				}
				ranges = len(all)
				return errors.New("refused")
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ended := make(chan struct{})
		go func() { defer close(ended); k.run(ctx, nil) }()
		synctest.Wait()
		const nodes = 1000
		for range nodes {
			cluster.come()
			time.Sleep(5 * time.Millisecond)
		}
		time.Sleep(2 * retry)
		cancel()
		<-ended
		if took := nodes * 5 * time.Millisecond; asked > atFirst+int((took+2*retry)/burst)+1 || ranges != nodes || first != 0 {
			t.Errorf("asked %d times for %d nodes, at last for %d; at first after %v", asked, nodes, ranges, first)
		}
	})
}
