package remote

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"path/filepath"
	"testing"

	"k8s.io/client-go/rest"

	"podo.dev/podo/internal/apiserver/authz/modes"
	"podo.dev/podo/internal/apiserver/verbs"
	"podo.dev/podo/internal/apiserver/wire"
	"podo.dev/podo/internal/client/clienttest"
	"podo.dev/podo/internal/pki"
	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/view/viewtest"
)

func TestSuite(t *testing.T) {
	certs, err := pki.Ensure(pki.Config{Dir: filepath.Join(t.TempDir(), "pki"), NodeName: "node-a", NodeIP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	clienttest.Run(t, func(t *testing.T) clienttest.World {
		address := serve(t, certs)
		as := func(n pki.Name) *Client {
			cert, err := certs.Client(n)(nil)
			if err != nil {
				t.Fatal(err)
			}
			transport := &http.Transport{
				TLSClientConfig: &tls.Config{RootCAs: certs.Pool(), Certificates: []tls.Certificate{*cert}}, ForceAttemptHTTP2: true,
			}
			t.Cleanup(transport.CloseIdleConnections)
			c, err := New(&rest.Config{Host: address, Transport: transport}, registry.All(), "suite")
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		return clienttest.World{Admin: as(pki.Admin), Node: as(pki.Node)}
	})
}

// serve runs an API server over a store in memory.
func serve(t *testing.T, certs *pki.Bundle) string {
	t.Helper()
	vw, s := viewtest.New(t, clienttest.Objects()...)
	vb, err := verbs.New(verbs.Config{Store: s, View: vw, Kinds: registry.All(), Authorizer: modes.New(vw)})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(serveOn(t, vb, certs, l))
	return "https://" + l.Addr().String()
}

// serveOn serves until the returned function is called.
func serveOn(t *testing.T, vb *verbs.Verbs, certs *pki.Bundle, l net.Listener) (stop func()) {
	t.Helper()
	srv, err := wire.New(wire.Config{
		Verbs: vb, Kinds: registry.All(), Certificate: certs.Server(pki.Serving), ClientCAs: certs.Pool(),
		Kubelets: &tls.Config{RootCAs: certs.Pool()},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- srv.Serve(ctx, l, func() { close(ready) }) }()
	<-ready
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		done <- nil
	}
}
