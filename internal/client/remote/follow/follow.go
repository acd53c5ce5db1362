// Package follow keeps a node's view of the cluster by API watches, with what the Node authorizer grants a kubelet and no more: the pods
// bound to the node, its Node, Services, RuntimeClasses and trust bundles as they come; Secrets and ConfigMaps one by one while a pod of
// the node refers to them, each by a watch of that single object; claims and their volumes by reading, for which alone there is a right.
//
//	pod seen ──► what it refers to is asked for ──► all of it there, or Patience over ──► pod in the view
//	pod gone ──► out of the view, and with it what nobody else refers to
//
// So whoever finds a pod in the view finds there what it refers to, as in the view of a server. An API server that does not answer
// changes nothing: what is in the view stays, and what changed meanwhile is told when it is back. Watches, lists, bookmarks, 410 and
// back-off are client-go's reflector.
package follow

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/klog/v2"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/view"
)

// API is what is asked of the API server (client/remote).
type API interface {
	Get(ctx context.Context, ref client.Ref) (runtime.Object, error)
	List(ctx context.Context, ref client.Ref, o metav1.ListOptions) (runtime.Object, error)
	Watch(ctx context.Context, ref client.Ref, o metav1.ListOptions) (watch.Interface, error)
}

// Config is what a Follower needs.
type Config struct {
	API  API
	Feed *view.Feed
	Node string
	// Patience bounds how long a pod waits for what it refers to. Default 10 s.
	Patience time.Duration
	Log      *slog.Logger
}

// Follower is the one writer of a node's view.
type Follower struct {
	c Config

	mu         sync.Mutex
	ctx        context.Context // of the Run that goes on
	pods       map[view.Key]*pod
	references map[reference]*followed
	tasks      sync.WaitGroup
}

// New makes a Follower; it asks for nothing before Run.
func New(c Config) (*Follower, error) {
	if c.API == nil || c.Feed == nil || c.Node == "" || c.Log == nil {
		return nil, errors.New("follow: API, Feed, Node and Log must be set")
	}
	if c.Patience == 0 {
		c.Patience = 10 * time.Second
	}
	return &Follower{c: c, pods: map[view.Key]*pod{}, references: map[reference]*followed{}}, nil
}

var (
	podKind      = schema.GroupResource{Resource: "pods"}
	nodeKind     = schema.GroupResource{Resource: "nodes"}
	serviceKind  = schema.GroupResource{Resource: "services"}
	runtimeKind  = schema.GroupResource{Group: "node.k8s.io", Resource: "runtimeclasses"}
	requestKind  = schema.GroupResource{Group: "certificates.k8s.io", Resource: "podcertificaterequests"}
	bundleKind   = schema.GroupResource{Group: "certificates.k8s.io", Resource: "clustertrustbundles"}
	anywhere     = func(view.Key) bool { return true }
	fieldOfNode  = "spec.nodeName="
	fieldOfName  = "metadata.name="
	errNotAPod   = errors.New("follow: the API server sent something else than a pod")
	errNotObject = errors.New("follow: the API server sent something else than an object")
)

// Run follows until ctx ends. It is ready, and the view complete, when everything that there was at first is in the view.
func (f *Follower) Run(ctx context.Context, ready func()) error {
	ctx, cancel := context.WithCancel(klog.NewContext(ctx, logr.FromSlogHandler(f.c.Log.Handler())))
	f.mu.Lock()
	f.ctx = ctx
	f.mu.Unlock()
	// The next Run asks for everything anew; the view keeps it until then.
	defer func() {
		cancel()
		f.tasks.Wait()
		f.mu.Lock()
		defer f.mu.Unlock()
		clear(f.references)
		clear(f.pods)
	}()
	var all []*sink
	whole := func(r schema.GroupResource, fields string, sample runtime.Object, t taker) {
		all = append(all, newSink(t))
		f.reflect(r, "", fields, sample, all[len(all)-1])
	}
	as := func(r schema.GroupResource, within func(view.Key) bool) part { return part{f.c.Feed, r, within} }
	whole(podKind, fieldOfNode+f.c.Node, &v1.Pod{}, podSink{f})
	whole(nodeKind, fieldOfName+f.c.Node, &v1.Node{}, as(nodeKind, func(k view.Key) bool { return k.Name == f.c.Node }))
	whole(requestKind, fieldOfNode+f.c.Node, nil, as(requestKind, anywhere))
	for _, r := range []schema.GroupResource{serviceKind, runtimeKind, bundleKind} {
		whole(r, "", nil, as(r, anywhere))
	}
	for _, s := range all {
		select {
		case <-s.synced:
		case <-ctx.Done():
			return nil
		}
	}
	if !f.settled(ctx) {
		return nil
	}
	if err := f.prune(); err != nil {
		return err
	}
	f.c.Feed.Complete()
	ready()
	<-ctx.Done()
	return nil
}

// prune takes out of the view what an earlier Run left and no pod refers to any more.
func (f *Follower) prune() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	volumes := map[string]bool{}
	for _, x := range f.references {
		volumes[x.volume] = true
	}
	for _, kind := range []schema.GroupResource{secretKind, configMapKind, claimKind, volumeKind} {
		unused := func(k view.Key) bool { return f.references[reference{kind, k}] == nil }
		if kind == volumeKind {
			unused = func(k view.Key) bool { return !volumes[k.Name] }
		}
		if err := f.c.Feed.Replace(kind, unused, nil); err != nil {
			return err
		}
	}
	return nil
}
