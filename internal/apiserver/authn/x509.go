package authn

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/asn1"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
)

// X509 verifies client certificates.
type X509 struct {
	Roots *x509.CertPool
	Now   func() time.Time // default time.Now
}

var _ authenticator.Request = (*X509)(nil)

// connection caches a connection's verdict: checking a signature at each request would cost more than the request.
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

var errExpired = errors.New("the client's certificate has expired")

// AuthenticateRequest implements authenticator.Request.
func (x *X509) AuthenticateRequest(r *http.Request) (*authenticator.Response, bool, error) {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return nil, false, nil
	}
	c, ok := r.Context().Value(connKey{}).(*connection)
	if !ok {
		c = &connection{}
	}
	c.once.Do(func() { c.user, c.end, c.err = x.verify(r.TLS.PeerCertificates) })
	switch {
	case c.err != nil:
		return nil, false, c.err
	case x.now().After(c.end):
		return nil, false, errExpired
	}
	return &authenticator.Response{User: c.user}, true, nil
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
	uid, err := uidOf(chain[0])
	if err != nil {
		return nil, time.Time{}, err
	}
	fingerprint := sha256.Sum256(chain[0].Raw)
	return &user.DefaultInfo{
		Name: s.CommonName, UID: uid, Groups: append(append([]string(nil), s.Organization...), user.AllAuthenticated),
		Extra: map[string][]string{user.CredentialIDKey: {"X509SHA256=" + hex.EncodeToString(fingerprint[:])}},
	}, chain[0].NotAfter, nil
}

// uidAttribute is the part of a certificate's subject that is the user's UID.
var uidAttribute = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57683, 2}

func uidOf(c *x509.Certificate) (uid string, err error) {
	for _, name := range c.Subject.Names {
		if !name.Type.Equal(uidAttribute) {
			continue
		}
		text, ok := name.Value.(string)
		if !ok || text == "" || uid != "" {
			return "", fmt.Errorf("the certificate's subject must have at most one UID, a text that is not empty")
		}
		uid = text
	}
	return uid, nil
}
