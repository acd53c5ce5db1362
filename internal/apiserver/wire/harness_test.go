package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/connrotation"

	"podo.dev/podo/internal/apiserver/verbs"
	"podo.dev/podo/internal/pki"
	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/store"
	"podo.dev/podo/internal/view"
	"podo.dev/podo/internal/view/viewtest"
)

// world is a server on loopback over a store in memory.
type world struct {
	t       testing.TB
	ctx     context.Context
	verbs   *verbs.Verbs
	certs   *pki.Bundle
	address string
	server  *Server
}

func newWorld(t testing.TB) *world {
	t.Helper()
	vw, s := viewtest.New(t, defaultNamespace(), viewtest.Account("default"))
	return serve(t, vw, s)
}

func defaultNamespace() *v1.Namespace {
	return &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default", UID: "u"}, Status: v1.NamespaceStatus{Phase: v1.NamespaceActive}}
}

// serve starts a server over a view and its store.
func serve(t testing.TB, vw *view.View, s store.Store) *world {
	t.Helper()
	vb, err := verbs.New(verbs.Config{Store: s, View: vw, Kinds: registry.All()})
	if err != nil {
		t.Fatal(err)
	}
	certs, err := pki.Ensure(pki.Config{Dir: filepath.Join(t.TempDir(), "pki"), NodeName: "n1", NodeIP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	failing := errors.New("secret reason")
	srv, err := New(Config{
		Verbs: vb, Kinds: registry.All(), Listen: "127.0.0.1:0",
		Certificate: certs.Server(pki.Serving), ClientCAs: certs.Pool(),
		Kubelets: &tls.Config{RootCAs: certs.Pool(), GetClientCertificate: certs.Client(pki.KubeletClient)},
		Checks: func() []Check {
			return []Check{{"store", true, func() error { return nil }}, {"node", false, func() error { return failing }}}
		},
		Handlers: []Handler{
			{Path: "/openid/keys", Type: "application/jwk-set+json", Handler: static("application/jwk-set+json", []byte("{}"))},
			{Path: "/podo/panic", Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("oh no") })},
			{Path: "/podo/timeline/", Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "story of ", r.URL.Path) })},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, ctx: t.Context(), verbs: vb, certs: certs}
	w.run(srv)
	return w
}

// run starts a server that is asked from then on; it runs until the test is over.
func (w *world) run(srv *Server) {
	w.t.Helper()
	w.runBy(srv, srv.Run)
}

// runBy is run by a method of srv's.
func (w *world) runBy(srv *Server, run func(ctx context.Context, ready func()) error) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- run(ctx, func() { close(ready) }) }()
	w.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Error(err)
		}
	})
	<-ready
	w.server, w.address = srv, "https://"+srv.Addr().String()
}

// again starts a second server like the first, changed before it runs.
func (w *world) again(change func(*Server)) {
	w.t.Helper()
	c := w.server.c
	c.Metrics = nil
	srv, err := New(c)
	if err != nil {
		w.t.Fatal(err)
	}
	change(srv)
	w.run(srv)
}

// config is that of a client with the named certificate.
func (w *world) config(n pki.Name) *rest.Config {
	w.t.Helper()
	data, err := w.certs.Kubeconfig(n, w.address)
	if err != nil {
		w.t.Fatal(err)
	}
	c, err := clientcmd.RESTConfigFromKubeConfig(data)
	if err != nil {
		w.t.Fatal(err)
	}
	c.QPS = -1
	// Its connections go before the server: an end in order gives those that are open another second.
	dialer := connrotation.NewDialer((&net.Dialer{}).DialContext)
	c.Dial = dialer.DialContext
	w.t.Cleanup(dialer.CloseAll)
	return c
}

func (w *world) client(contentType string) *kubernetes.Clientset {
	w.t.Helper()
	c := w.config(pki.Admin)
	c.ContentType = contentType
	if contentType != jsonType {
		c.AcceptContentTypes = contentType
	}
	cs, err := kubernetes.NewForConfig(c)
	if err != nil {
		w.t.Fatal(err)
	}
	return cs
}

// http is a plain client; without a certificate it is anonymous.
func (w *world) http(n pki.Name) *http.Client {
	c := &tls.Config{RootCAs: w.certs.Pool()}
	if n != "" {
		c.GetClientCertificate = w.certs.Client(n)
	}
	t := &http.Transport{TLSClientConfig: c, ForceAttemptHTTP2: true}
	w.t.Cleanup(t.CloseIdleConnections)
	return &http.Client{Transport: t}
}

func pod(name string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{"app": "x"}},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "c", Image: "i"}}},
	}
}
