package scheduler_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"podo.dev/podo/internal/apiserver/verbs"
	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/client/local"
	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/scheduler"
	"podo.dev/podo/internal/store/mem"
	"podo.dev/podo/internal/view"
	"podo.dev/podo/internal/view/viewtest"
)

// counting tells when so many binds have come. With instant, binds reach nobody: the scheduler's own work alone.
type counting struct {
	client.Client
	mu      sync.Mutex
	left    int
	done    chan struct{}
	instant bool
}

func (c *counting) Bind(ctx context.Context, b *v1.Binding) error {
	var err error
	if !c.instant {
		err = c.Client.Bind(ctx, b)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left--; c.left == 0 {
		close(c.done)
	}
	return err
}

// BenchmarkScheduler binds pods that are there before it starts, on many nodes, over the real verbs and a store in memory.
func BenchmarkScheduler(b *testing.B) {
	for _, c := range []struct {
		nodes, pods int
		instant     bool
	}{{1000, 5000, false}, {5000, 5000, false}, {5000, 10_000, true}} {
		b.Run(fmt.Sprintf("nodes=%d/pods=%d/instant=%v", c.nodes, c.pods, c.instant), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				objs := []runtime.Object{&v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns", UID: "ns"}, Status: v1.NamespaceStatus{Phase: v1.NamespaceActive}}}
				for i := range c.nodes {
					objs = append(objs, node(fmt.Sprintf("node-%d", i), "32"))
				}
				for i := range c.pods {
					p := pod(fmt.Sprintf("p-%d", i), "100m")
					p.UID, p.Generation, p.Spec.SchedulerName = types.UID(p.Name), 1, v1.DefaultSchedulerName
					objs = append(objs, p)
				}
				s := mem.New(mem.Options{Keep: 1000})
				for _, o := range objs {
					viewtest.Put(b, s, o)
				}
				v := viewtest.Start(b, view.Config{Store: s, Mutated: func(*registry.Kind, *view.Entry) {}})
				vs, err := verbs.New(verbs.Config{Store: s, View: v, Kinds: registry.All()})
				if err != nil {
					b.Fatal(err)
				}
				cl := &counting{Client: local.Scheduler(vs), left: c.pods, done: make(chan struct{}), instant: c.instant}
				sched, err := scheduler.New(scheduler.Config{View: v, Client: cl, Seed: 1, MaxInFlight: 20_000})
				if err != nil {
					b.Fatal(err)
				}
				ctx, cancel := context.WithCancel(context.Background())
				ended := make(chan error, 1)
				b.StartTimer()
				start := time.Now()
				go func() { ended <- sched.Run(ctx, func() {}) }()
				<-cl.done
				b.ReportMetric(float64(c.pods)/time.Since(start).Seconds(), "pods/s")
				b.StopTimer()
				cancel()
				if err := <-ended; err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
		})
	}
}
