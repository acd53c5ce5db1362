package main

import (
	"context"
	"fmt"
	"runtime"

	v1 "k8s.io/api/core/v1"

	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/store"
	"podo.dev/podo/internal/store/mem"
	"podo.dev/podo/internal/view"
	"podo.dev/podo/internal/view/codec"
	"podo.dev/podo/test/bench/figures"
)

// cached: what a pod takes in podo's view, its encodings not made: the pods that podo holds now, in a view in this process, whose heap
// holds nothing else.
func (b *bench) cached(ctx context.Context) error {
	if b.podo == nil {
		return nil
	}
	l, err := b.targets[0].NewLister()
	if err != nil {
		return err
	}
	defer l.Close()
	pods, err := l.Pods(ctx)
	if err != nil {
		return err
	}
	if len(pods) == 0 {
		return fmt.Errorf("there are no pods to be cached")
	}
	s, kind := mem.New(mem.Options{}), registry.Lookup(v1.Resource("pods"))
	for i := range pods {
		pod := &pods[i]
		pod.SetGroupVersionKind(kind.GVK)
		value, err := codec.Encode(pod)
		if err != nil {
			return err
		}
		key := kind.Key(pod.Namespace, pod.Name)
		if _, err := s.Txn(ctx, []store.Cond{{Key: key}}, []store.Op{{Key: key, Value: value}}); err != nil {
			return err
		}
	}
	n := len(pods)
	pods = nil
	before := heap()
	v, err := view.New(view.Config{Store: s, Kinds: registry.All()})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- v.Run(ctx, func() { close(ready) }) }()
	select {
	case <-ready:
	case err := <-done:
		stop()
		return err
	}
	after := heap()
	b.book.Add(fmt.Sprintf("cached.pod.of.%d.%s", n, figures.Podo), float64(after-before)/float64(n)/1000, "kB")
	runtime.KeepAlive(v)
	stop()
	return <-done
}

// heap is what is live.
func heap() uint64 {
	runtime.GC()
	runtime.GC() // what the first one's finalizers let go of
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
