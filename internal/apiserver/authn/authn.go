// Package authn says who a request is from: the subject of a client certificate that the cluster's authority signed, or nobody.
package authn

import (
	"context"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
)

// ErrUnauthorized says that the credentials given are no good; a request without any is anonymous instead.
var ErrUnauthorized = errors.New("Unauthorized") //nolint:staticcheck // upstream's text

// X509 verifies client certificates.
type X509 struct {
	Roots *x509.CertPool
	Now   func() time.Time // default time.Now
}

// anonymous is who has shown nothing.
var anonymous = &user.DefaultInfo{Name: user.Anonymous, Groups: []string{user.AllUnauthenticated}}

// connection remembers a connection's verdict: checking a signature for each request would cost more than the request.
type connection struct {
	once sync.Once
	user user.Info
	end  time.Time
	err  error
}

type connKey struct{}

// ConnContext is for http.Server.ConnContext.
func ConnContext(ctx context.Context, _ net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, &connection{})
}

// User is who r is from.
func (x *X509) User(r *http.Request) (user.Info, error) {
	if r.Header.Get("Authorization") != "" {
		return nil, ErrUnauthorized // no kind of token is known yet: never let one pass as anonymous
	}
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return anonymous, nil
	}
	c, ok := r.Context().Value(connKey{}).(*connection)
	if !ok {
		c = &connection{}
	}
	c.once.Do(func() { c.user, c.end, c.err = x.verify(r.TLS.PeerCertificates) })
	if c.err != nil || x.now().After(c.end) {
		return nil, ErrUnauthorized
	}
	return c.user, nil
}

func (x *X509) now() time.Time {
	if x.Now != nil {
		return x.Now()
	}
	return time.Now()
}

func (x *X509) verify(chain []*x509.Certificate) (user.Info, time.Time, error) {
	o := x509.VerifyOptions{
		Roots:         x.Roots,
		Intermediates: x509.NewCertPool(),
		CurrentTime:   x.now(),
		KeyUsages:     []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	for _, c := range chain[1:] {
		o.Intermediates.AddCert(c)
	}
	if _, err := chain[0].Verify(o); err != nil {
		return nil, time.Time{}, err
	}
	s := chain[0].Subject
	if s.CommonName == "" {
		return nil, time.Time{}, errors.New("the certificate has no common name")
	}
	groups := append(append([]string(nil), s.Organization...), user.AllAuthenticated)
	return &user.DefaultInfo{Name: s.CommonName, Groups: groups}, chain[0].NotAfter, nil
}
