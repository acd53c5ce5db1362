package follow

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"podo.dev/podo/internal/view"
)

// pod is a pod of the node, in the view or on its way there.
//
//	held ──► shown     its references are there, or patience is over
//	shown ──► held     a newer form refers to more; the older form stays in the view meanwhile
type pod struct {
	newest     *v1.Pod
	shown      bool // newest is in the view
	references map[reference]bool
	waiting    bool // somebody will show it
	settled    chan struct{}
}

// podSink takes pods.
type podSink struct{ f *Follower }

func (s podSink) put(obj runtime.Object) error {
	p, ok := obj.(*v1.Pod)
	if !ok {
		return errNotAPod
	}
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	return s.f.take(p)
}

func (s podSink) remove(obj runtime.Object) error {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	return s.f.drop(keyOf(obj))
}

// replace: what the view has from an earlier Run and the API server does not know any more goes too.
func (s podSink) replace(objs []runtime.Object) error {
	f := s.f
	f.mu.Lock()
	defer f.mu.Unlock()
	there := map[view.Key]bool{}
	for _, obj := range objs {
		there[keyOf(obj)] = true
	}
	for key := range f.pods {
		if !there[key] {
			if err := f.drop(key); err != nil {
				return err
			}
		}
	}
	if err := f.c.Feed.Replace(podKind, func(k view.Key) bool { return !there[k] }, nil); err != nil {
		return err
	}
	for _, obj := range objs {
		p, ok := obj.(*v1.Pod)
		if !ok {
			return errNotAPod
		}
		if err := f.take(p); err != nil {
			return err
		}
	}
	return nil
}

// take brings a pod into the view, now or when what it refers to is there. f.mu is held.
func (f *Follower) take(p *v1.Pod) error {
	key := keyOf(p)
	have := f.pods[key]
	if have == nil {
		have = &pod{settled: make(chan struct{})}
		f.pods[key] = have
	}
	have.newest, have.shown = p, false
	want := references(p)
	for r := range want {
		if !have.references[r] {
			f.acquire(r)
		}
	}
	for r := range have.references {
		if !want[r] {
			f.release(r)
		}
	}
	have.references = want
	if f.allThere(have) {
		return f.show(have)
	}
	if !have.waiting {
		have.waiting = true
		f.tasks.Go(func() { f.awaitReferences(f.ctx, key, have) })
	}
	return nil
}

func (f *Follower) drop(key view.Key) error {
	have := f.pods[key]
	if have == nil {
		return nil
	}
	delete(f.pods, key)
	f.settle(have)
	err := f.c.Feed.Delete(podKind, key)
	for r := range have.references {
		f.release(r)
	}
	return err
}

func (f *Follower) show(p *pod) error {
	p.shown = true
	f.settle(p)
	return f.c.Feed.Put(podKind, p.newest)
}

func (f *Follower) settle(p *pod) {
	select {
	case <-p.settled:
	default:
		close(p.settled)
	}
}

func (f *Follower) allThere(p *pod) bool {
	for r := range p.references {
		if !f.references[r].isThere() {
			return false
		}
	}
	return true
}

// awaitReferences shows the pod once all that it refers to is there, or patience is over: it then says itself what it misses.
func (f *Follower) awaitReferences(ctx context.Context, key view.Key, p *pod) {
	limit := time.NewTimer(f.c.Patience)
	defer limit.Stop()
	for patient := true; ; {
		f.mu.Lock()
		var missing *followed
		for r := range p.references {
			if x := f.references[r]; !x.isThere() {
				missing = x
			}
		}
		if missing == nil || !patient || f.pods[key] != p {
			p.waiting = false
			if f.pods[key] == p && !p.shown {
				if err := f.show(p); err != nil {
					f.c.Log.Error("a pod cannot be shown to the kubelet", "pod", key, "err", err)
				}
			}
			f.mu.Unlock()
			return
		}
		f.mu.Unlock()
		select {
		case <-missing.there:
		case <-limit.C:
			f.c.Log.Warn("the API server does not tell what a pod refers to; the pod goes on without", "pod", key, "missing", missing.name)
			patient = false
		case <-ctx.Done():
			return
		}
	}
}

// settled waits until every pod of now has been shown, or has gone.
func (f *Follower) settled(ctx context.Context) bool {
	f.mu.Lock()
	var all []chan struct{}
	for _, p := range f.pods {
		all = append(all, p.settled)
	}
	f.mu.Unlock()
	for _, ch := range all {
		select {
		case <-ch:
		case <-ctx.Done():
			return false
		}
	}
	return true
}
