package cert

import (
	"crypto/tls"
	"errors"
	"net/http"
	"sync/atomic"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// transport sends each request with the newest certificate. A new certificate begins new connections; an old connection ends when
// the last request on it has, so that no watch is cut for a rotation. The server judges a request when it comes, so that one which
// outlives the old certificate is no less good.
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
		// Connections that are busy now end by the transport's idle timeout once they are not.
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
