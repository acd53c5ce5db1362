package cert

import (
	"crypto/tls"
	"errors"
	"net/http"
	"sync/atomic"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// transport sends each request with the newest certificate. A new certificate opens new connections; an old connection ends with
// the last request on it, so that rotation cuts no watch. The server authenticates a request when it arrives, so one may outlive
// the old certificate.
type transport struct {
	current atomic.Pointer[http.Transport]
}

var errNotJoined = errors.New("the node has no client certificate yet")

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if c := t.current.Load(); c != nil {
		return c.RoundTrip(r)
	}
	return nil, errNotJoined
}

// use makes c the certificate of requests from now on.
func (t *transport) use(c *tls.Certificate, base *tls.Config) {
	cfg := base.Clone()
	cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return c, nil }
	if old := t.current.Swap(newHTTP(cfg)); old != nil {
		// Connections that are busy now are closed by the transport's idle timeout later.
		old.CloseIdleConnections()
	}
}

// CloseIdleConnections is what http.Client looks for.
func (t *transport) CloseIdleConnections() {
	if c := t.current.Load(); c != nil {
		c.CloseIdleConnections()
	}
}

// newHTTP is upstream's usual transport: HTTP/2 with pings that notice a dead server, idle connections kept for 90 s.
func newHTTP(cfg *tls.Config) *http.Transport {
	return utilnet.SetTransportDefaults(&http.Transport{TLSClientConfig: cfg, MaxIdleConnsPerHost: 25})
}
