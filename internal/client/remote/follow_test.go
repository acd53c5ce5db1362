package remote

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"podo.dev/podo/internal/apiserver/authz/modes"
	"podo.dev/podo/internal/apiserver/verbs"
	"podo.dev/podo/internal/client/clienttest"
	"podo.dev/podo/internal/client/local"
	"podo.dev/podo/internal/client/remote/follow"
	"podo.dev/podo/internal/pki"
	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/store"
	"podo.dev/podo/internal/view"
	"podo.dev/podo/internal/view/viewtest"
)

// nodeWorld is an API server that can go and come back, and the view of the node "node-a".
type nodeWorld struct {
	t     *testing.T
	store store.Store
	admin *local.Client
	view  *view.View
	up    func()
	down  func()
	// restored gives the server another store, with these objects and a history of its own.
	restored func(objs ...runtime.Object)
}

func newNodeWorld(t *testing.T, patience time.Duration) *nodeWorld {
	t.Helper()
	certs, err := pki.Ensure(pki.Config{Dir: filepath.Join(t.TempDir(), "pki"), NodeName: "node-a", NodeIP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	vw, s := viewtest.New(t, clienttest.Objects()...)
	vb, err := verbs.New(verbs.Config{Store: s, View: vw, Kinds: registry.All(), Authorizer: modes.New(vw)})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	w := &nodeWorld{t: t, store: s, admin: local.Admin(vb)}
	w.up = func() {
		if l == nil {
			if l, err = net.Listen("tcp", address); err != nil {
				t.Fatal(err)
			}
		}
		w.down = serveOn(t, vb, certs, l)
		l = nil
	}
	w.restored = func(objs ...runtime.Object) {
		vw, w.store = viewtest.New(t, append(clienttest.Objects(), objs...)...)
		if vb, err = verbs.New(verbs.Config{Store: w.store, View: vw, Kinds: registry.All(), Authorizer: modes.New(vw)}); err != nil {
			t.Fatal(err)
		}
	}
	w.up()
	t.Cleanup(func() { w.down() })
	cert, err := certs.Client(pki.Node)(nil)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: certs.Pool(), Certificates: []tls.Certificate{*cert}}, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	api, err := New(&rest.Config{Host: "https://" + address, Transport: transport}, registry.All(), "kubelet")
	if err != nil {
		t.Fatal(err)
	}
	fed, feed, err := view.NewFed(view.Config{Kinds: registry.All(), CheckMutation: true})
	if err != nil {
		t.Fatal(err)
	}
	f, err := follow.New(follow.Config{API: api, Feed: feed, Node: "node-a", Patience: patience, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	w.view = fed
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx, func() {}) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		fed.CheckAll()
	})
	return w
}

func (w *nodeWorld) get(resource, name string) *view.Entry {
	return w.view.Snapshot().Get(schema.GroupResource{Resource: resource}, "default", name)
}

// until waits, by the view's own changes of the resource, until ok is true of its object (nil: there is none).
func (w *nodeWorld) until(resource, name, what string, ok func(*view.Entry) bool) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 2*time.Minute)
	defer cancel()
	for {
		rev := w.view.Snapshot().Rev()
		if ok(w.get(resource, name)) {
			return
		}
		changes, err := w.view.Watch(schema.GroupResource{Resource: resource}, rev)
		if err != nil {
			w.t.Fatal(err)
		}
		if _, _, err := changes.Next(ctx); err != nil {
			w.t.Fatalf("%s %s: not %s: %v", resource, name, what, err)
		}
	}
}

func there(e *view.Entry) bool { return e != nil }
func gone(e *view.Entry) bool  { return e == nil }

func podOn(node, name string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-of-" + name)},
		Spec: v1.PodSpec{NodeName: node, Containers: []v1.Container{{
			Name: "c", Image: "i",
			EnvFrom: []v1.EnvFromSource{{SecretRef: &v1.SecretEnvSource{LocalObjectReference: v1.LocalObjectReference{Name: "s-" + name}}}},
		}}},
	}
}

func secret(name, value string) *v1.Secret {
	return &v1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Data: map[string][]byte{"k": []byte(value)}}
}

func TestAPodComesWithWhatItRefersTo(t *testing.T) {
	w := newNodeWorld(t, time.Minute)
	viewtest.Put(t, w.store, secret("s-mine", "1"))
	viewtest.Put(t, w.store, secret("s-theirs", "1"))
	viewtest.Put(t, w.store, podOn("node-b", "theirs"))
	viewtest.Put(t, w.store, podOn("node-a", "lacking")) // its Secret does not exist: that is known, and no reason to wait
	viewtest.Put(t, w.store, podOn("node-a", "mine"))
	w.until("pods", "lacking", "there", there)
	w.until("pods", "mine", "there", there)
	if w.get("secrets", "s-mine") == nil {
		t.Error("the pod came before its Secret")
	}
	if w.get("pods", "theirs") != nil || w.get("secrets", "s-theirs") != nil {
		t.Error("another node's pod, or its Secret, is in the view")
	}
	viewtest.Put(t, w.store, secret("s-mine", "2"))
	w.until("secrets", "s-mine", "changed", func(e *view.Entry) bool { return e != nil && string(e.Object.(*v1.Secret).Data["k"]) == "2" })
	viewtest.Put(t, w.store, secret("s-lacking", "1"))
	w.until("secrets", "s-lacking", "there", there)
	viewtest.Delete(t, w.store, podOn("node-a", "mine"))
	w.until("pods", "mine", "gone", gone)
	w.until("secrets", "s-mine", "gone", gone)
}

func TestTheAPIServerGoesAndComesBack(t *testing.T) {
	w := newNodeWorld(t, time.Minute)
	viewtest.Put(t, w.store, secret("s-stays", "1"))
	viewtest.Put(t, w.store, podOn("node-a", "stays"))
	viewtest.Put(t, w.store, podOn("node-a", "goes"))
	w.until("pods", "stays", "there", there)
	w.until("pods", "goes", "there", there)
	w.down()
	if w.get("pods", "stays") == nil || w.get("pods", "goes") == nil || w.get("secrets", "s-stays") == nil {
		t.Fatal("the view forgot when the API server went")
	}
	viewtest.Delete(t, w.store, podOn("node-a", "goes"))
	viewtest.Put(t, w.store, podOn("node-a", "comes"))
	viewtest.Put(t, w.store, secret("s-stays", "2"))
	w.up()
	w.until("pods", "goes", "gone", gone)
	w.until("pods", "comes", "there", there)
	w.until("secrets", "s-stays", "changed", func(e *view.Entry) bool { return e != nil && string(e.Object.(*v1.Secret).Data["k"]) == "2" })
}

func TestTheViewIsCompleteOrWaits(t *testing.T) {
	w := newNodeWorld(t, time.Minute)
	viewtest.Put(t, w.store, podOn("node-a", "early"))
	snapshot, err := w.view.Fresh(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if snapshot.Rev() == 0 {
		t.Error("complete, and never told of anything")
	}
}

// A server that comes back restored from an older snapshot counts anew: what it has is the truth, also where it is another object, or another
// form of one, under a resourceVersion that was seen before.
func TestTheAPIServerComesBackWithAnotherHistory(t *testing.T) {
	w := newNodeWorld(t, time.Minute)
	viewtest.Put(t, w.store, secret("s-kept", "old"))
	viewtest.Put(t, w.store, podOn("node-a", "kept"))
	for i := range 20 { // what is lost
		viewtest.Put(t, w.store, secret("s-kept", fmt.Sprint("lost-", i)))
	}
	viewtest.Put(t, w.store, podOn("node-a", "lost"))
	w.until("pods", "lost", "there", there)
	w.until("secrets", "s-kept", "at its newest", func(e *view.Entry) bool { return e != nil && string(e.Object.(*v1.Secret).Data["k"]) == "lost-19" })
	w.down()
	w.restored(secret("s-kept", "old"), podOn("node-a", "kept"))
	w.up()
	w.until("pods", "lost", "gone", gone)
	value := func(want string) func(*view.Entry) bool {
		return func(e *view.Entry) bool { return e != nil && string(e.Object.(*v1.Secret).Data["k"]) == want }
	}
	w.until("secrets", "s-kept", "as it was", value("old"))
	for i := range 40 { // past the revisions that were seen before
		viewtest.Put(t, w.store, secret("s-kept", fmt.Sprint("new-", i)))
		if i == 20 {
			viewtest.Put(t, w.store, podOn("node-a", "new"))
		}
	}
	w.until("pods", "new", "there", there)
	w.until("secrets", "s-kept", "newest", value("new-39"))
}
