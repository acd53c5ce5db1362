package follow

import (
	"context"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/view"
)

// again is how long a reflector waits before it asks an API server that does not answer, or refuses.
var again = wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 8, Cap: 15 * time.Second}

// reflect has s told of the objects that the fields select, until the Follower's Run ends.
func (f *Follower) reflect(r schema.GroupResource, namespace, fields string, sample runtime.Object, s *sink) {
	f.reflectUntil(f.ctx, r, namespace, fields, sample, s)
}

func (f *Follower) reflectUntil(ctx context.Context, r schema.GroupResource, namespace, fields string, sample runtime.Object, s *sink) {
	ref := client.Ref{Resource: r, Namespace: namespace}
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = fields
			newest(&o)
			return f.c.API.List(ctx, ref, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = fields
			if o.SendInitialEvents != nil && *o.SendInitialEvents {
				newest(&o)
			}
			return f.c.API.Watch(ctx, ref, o)
		},
	}
	var expected any
	if sample != nil {
		expected = sample
	}
	backoff := again
	name := r.Resource
	if fields != "" {
		name += " " + fields
	}
	rf := cache.NewReflectorWithOptions(lw, expected, s, cache.ReflectorOptions{Name: name, TypeDescription: r.Resource, Backoff: &backoff})
	f.tasks.Go(func() { rf.RunWithContext(ctx) })
}

// newest asks for what is there now. A reflector would ask for what is no older than it has seen: a server that was restored from an older
// snapshot makes it wait for that in vain, and one that reads the store for each list has nothing older to give.
func newest(o *metav1.ListOptions) {
	if o.Continue == "" {
		o.ResourceVersion, o.ResourceVersionMatch = "", ""
	}
	if o.SendInitialEvents != nil {
		o.ResourceVersionMatch = metav1.ResourceVersionMatchNotOlderThan // the only one that such a watch may name
	}
}

// taker is who keeps what a reflector brings.
type taker interface {
	put(obj runtime.Object) error
	remove(obj runtime.Object) error
	replace(objs []runtime.Object) error
}

// sink is a taker as a reflector knows it.
type sink struct {
	taker
	once   sync.Once
	synced chan struct{} // closed when it has been told of everything for the first time
}

func newSink(t taker) *sink { return &sink{taker: t, synced: make(chan struct{})} }

func (s *sink) Add(obj any) error    { return s.each(obj, s.put) }
func (s *sink) Update(obj any) error { return s.each(obj, s.put) }
func (s *sink) Delete(obj any) error { return s.each(obj, s.remove) }
func (s *sink) Resync() error        { return nil }

func (s *sink) each(obj any, do func(runtime.Object) error) error {
	o, ok := obj.(runtime.Object)
	if !ok {
		return errNotObject
	}
	return do(o)
}

func (s *sink) Replace(list []any, _ string) error {
	objs := make([]runtime.Object, 0, len(list))
	for _, x := range list {
		o, ok := x.(runtime.Object)
		if !ok {
			return errNotObject
		}
		objs = append(objs, o)
	}
	if err := s.replace(objs); err != nil {
		return err
	}
	s.once.Do(func() { close(s.synced) })
	return nil
}

// part feeds one kind's objects, those that within is true of, as they come.
type part struct {
	feed   *view.Feed
	kind   schema.GroupResource
	within func(view.Key) bool
}

func (p part) put(obj runtime.Object) error {
	if !p.within(keyOf(obj)) {
		return nil
	}
	return p.feed.Put(p.kind, obj)
}

func (p part) remove(obj runtime.Object) error {
	if !p.within(keyOf(obj)) {
		return nil
	}
	return p.feed.Delete(p.kind, keyOf(obj))
}

func (p part) replace(objs []runtime.Object) error {
	var mine []runtime.Object
	for _, obj := range objs {
		if p.within(keyOf(obj)) {
			mine = append(mine, obj)
		}
	}
	return p.feed.Replace(p.kind, p.within, mine)
}

func keyOf(obj runtime.Object) view.Key {
	m, ok := obj.(metav1.Object)
	if !ok {
		return view.Key{}
	}
	return view.Key{Namespace: m.GetNamespace(), Name: m.GetName()}
}
