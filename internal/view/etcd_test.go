package view_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/store"
	"podo.dev/podo/internal/store/etcd"
	"podo.dev/podo/internal/view"
	"podo.dev/podo/internal/view/viewtest"
)

// realStore is an embedded etcd that ends with the test.
func realStore(t testing.TB) store.Store {
	t.Helper()
	e, err := etcd.NewEmbedded(etcd.EmbeddedConfig{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- e.Run(ctx, func() { close(ready) }) }()
	select {
	case <-ready:
	case err := <-done:
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); <-done })
	return e
}

// TestOverEtcd: what works over the store in memory works over etcd, its marks of progress included.
func TestOverEtcd(t *testing.T) {
	s := realStore(t)
	viewtest.Put(t, s, pod("a", "before", ""))
	v := viewtest.Start(t, view.Config{Store: s, HistoryChanges: 1})
	base := v.Snapshot().Rev()

	const writers, each = 4, 25
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			for j := range each {
				rev := viewtest.Put(t, s, pod(fmt.Sprint("ns", i), fmt.Sprint(j), "n"))
				snap, err := v.WaitFor(t.Context(), rev)
				if err != nil || snap.Get(pods, fmt.Sprint("ns", i), fmt.Sprint(j)) == nil {
					t.Errorf("a write is not in the view that waited for it: %v", err)
				}
			}
		})
	}
	wg.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	snap, err := v.Fresh(ctx)
	if err != nil || snap.Len(pods) != writers*each+1 {
		t.Fatalf("%d pods, %v", snap.Len(pods), err)
	}

	w := watch(t, v, pods, base)
	seen := 0
	for seen < writers*each {
		changes, _, err := w.Next(ctx)
		if err != nil {
			t.Fatal(err)
		}
		seen += len(changes)
	}

	// A watcher from the past, of a kind that nobody wrote to, while nothing happens: it must find its way to the present.
	idle := watch(t, v, nodes, base-1)
	got := make(chan error, 1)
	go func() {
		changes, _, err := idle.Next(ctx)
		if err == nil && (len(changes) != 1 || changes[0].New == nil) {
			err = fmt.Errorf("got %v", changes)
		}
		got <- err
	}()
	viewtest.Put(t, s, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
	if err := <-got; err != nil {
		t.Error(err)
	}

	// A write outside of /registry/ shows only as progress.
	if _, err := s.Txn(ctx, nil, []store.Op{{Key: "/elsewhere", Value: []byte("x")}}); err != nil {
		t.Fatal(err)
	}
	if _, err := v.Fresh(ctx); err != nil {
		t.Errorf("fresh: %v", err)
	}
	at, err := v.At(ctx, pods, base)
	if err != nil || at.Len(pods) != 1 {
		t.Errorf("at the beginning: %d pods, %v", at.Len(pods), err)
	}
}

// BenchmarkLoad5000 is a view's start on an etcd that holds 5,000 pods.
func BenchmarkLoad5000(b *testing.B) {
	s := realStore(b)
	var wg sync.WaitGroup
	for w := range 16 {
		wg.Go(func() {
			for i := w; i < thousands; i += 16 {
				viewtest.Put(b, s, realPod("ns", fmt.Sprintf("web-%d", i)))
			}
		})
	}
	wg.Wait()
	for b.Loop() {
		ctx, cancel := context.WithCancel(context.Background())
		v, err := view.New(view.Config{Store: s, Kinds: registry.All()})
		if err != nil {
			b.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- v.Run(ctx, cancel) }() // it ends as soon as it is ready
		if err := <-done; err != nil || v.Snapshot().Len(pods) != thousands {
			b.Fatalf("%d pods, %v", v.Snapshot().Len(pods), err)
		}
		cancel()
	}
}
