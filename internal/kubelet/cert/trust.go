package cert

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/url"
	"time"

	"podo.dev/podo/internal/jointoken"
)

// authority is whom the node trusts.
type authority struct {
	pem  []byte
	cert *x509.Certificate // the first
	pool *x509.CertPool
}

func parseAuthority(data []byte) (*authority, error) {
	a := &authority{pem: data, pool: x509.NewCertPool()}
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		if a.cert == nil {
			a.cert = c
		}
		a.pool.AddCert(c)
	}
	if a.cert == nil {
		return nil, errors.New("no certificate in it")
	}
	return a, nil
}

// tlsTo is the TLS configuration of connections to host, which must show a certificate of one of roots.
func tlsTo(host string, roots func(tls.ConnectionState) (*x509.CertPool, error), now func() time.Time) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		// The library verifies with one fixed time only. VerifyConnection does everything that it does, for resumed sessions as
		// well.
		InsecureSkipVerify: true, //nolint:gosec // see above
		VerifyConnection: func(s tls.ConnectionState) error {
			pool, err := roots(s)
			if err != nil {
				return err
			}
			return verify(s.PeerCertificates, pool, host, now())
		},
	}
}

// verify judges a server's chain. A certificate whose validity begins in the future, signed by an authority that we trust, proves
// that our clock is behind, since authorities do not sign for later: its time is then taken as now. One that has expired proves
// nothing, since anybody may have found an old key: then the clock has to be set, and the error says so.
func verify(chain []*x509.Certificate, roots *x509.CertPool, host string, now time.Time) error {
	if len(chain) == 0 {
		return errors.New("the server shows no certificate")
	}
	between := x509.NewCertPool()
	at := now
	for i, c := range chain {
		if i > 0 {
			between.AddCert(c)
		}
		if c.NotBefore.After(at) {
			at = c.NotBefore
		}
	}
	_, err := chain[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, DNSName: host, CurrentTime: at})
	if invalid := (x509.CertificateInvalidError{}); errors.As(err, &invalid) && invalid.Reason == x509.Expired {
		return fmt.Errorf("a certificate of the server ended on %s, and here it is %s: set the clock of this machine, or renew that certificate: %w",
			invalid.Cert.NotAfter.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339), err)
	}
	return err
}

// discover gets the authority that the token names from the server, which shows it in its handshake. Nothing is sent to a server
// that has not proved that its certificate is that authority's.
func discover(ctx context.Context, server string, token jointoken.Token, now func() time.Time) (*authority, error) {
	u, err := url.Parse(server)
	if err != nil {
		return nil, err
	}
	port := u.Port()
	if port == "" {
		port = "443"
	}
	var found *x509.Certificate
	dialer := &tls.Dialer{
		NetDialer: &net.Dialer{Timeout: 10 * time.Second},
		Config: tlsTo(u.Hostname(), func(s tls.ConnectionState) (*x509.CertPool, error) {
			for _, c := range s.PeerCertificates {
				if c.IsCA && token.Means(c) {
					found = c
					pool := x509.NewCertPool()
					pool.AddCert(c)
					return pool, nil
				}
			}
			return nil, errors.New("the server is not of the cluster that the token is of: none of the certificates that it shows has the " +
				"token's hash. Make a token on that server, with `podo token create`, or correct --server")
		}, now),
	}
	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
	if err != nil {
		return nil, err
	}
	conn.Close()
	return parseAuthority(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: found.Raw}))
}
