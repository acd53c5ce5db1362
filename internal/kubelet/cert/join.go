package cert

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	csrclient "k8s.io/client-go/kubernetes/typed/certificates/v1"
	"k8s.io/client-go/rest"

	"podo.dev/podo/internal/pki"
)

// ErrRefused says that the server knows neither the node's certificate nor the token.
var ErrRefused = errors.New("the server refuses this node")

// Names of files; those of certificates end with current.
const (
	authorityFile = "ca.crt"
	clientFile    = "kubelet-client"
	current       = "-current.pem"
)

func (m *Manager) caPath() string { return filepath.Join(m.c.Dir, authorityFile) }

func (m *Manager) newKeeper(kind kind, path string) *keeper {
	k := &keeper{kind: kind, path: path, m: m, wake: make(chan struct{}, 1)}
	want := nodeSubject(m.c.NodeName)
	if kind == clientKind {
		k.subject = func() (subject, bool) { return want, true }
		k.use = m.join
		return k
	}
	k.subject = func() (subject, bool) {
		if m.c.Addresses == nil {
			return subject{}, false
		}
		at := want.at(m.c.Addresses())
		return at, at.located()
	}
	return k
}

// load reads what Dir has: the authority, then the certificates that it signed. A folder of another cluster or another node
// counts as empty: what this start was asked for wins.
func (m *Manager) load() error {
	data := m.c.CA
	stored, err := os.ReadFile(m.caPath())
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("reading the cluster's authority: %w", err)
	}
	if data == nil {
		data = stored
	}
	if data == nil {
		if m.token.CAHash == "" {
			return errors.New("whom to trust is not known: give a token with the authority's hash, as `podo token create` prints it, or the authority's " +
				"certificate with --ca-file. A server is never trusted unseen")
		}
		return nil
	}
	ca, err := parseAuthority(data)
	switch {
	case err != nil && m.c.CA != nil:
		return fmt.Errorf("the authority that was given cannot be read: %w", err)
	case err != nil && m.token.CAHash == "":
		return fmt.Errorf("%s is damaged (%w): start once with the whole token, it is then fetched again", m.caPath(), err)
	case err != nil:
		return nil
	}
	if m.token.CAHash != "" && !m.token.Means(ca.cert) {
		if m.c.CA != nil {
			return errors.New("the token and the authority that was given are of different clusters")
		}
		m.c.Log.Info("the token is of another cluster than the one of the last start: the node joins anew")
		return nil
	}
	m.ca.Store(ca)
	for _, k := range []*keeper{m.client, m.serving} {
		if err := k.load(); err != nil {
			return err
		}
	}
	return nil
}

// ours says that a certificate is this node's, in this cluster, whatever its time.
func (m *Manager) ours(c *x509.Certificate) bool {
	_, err := c.Verify(x509.VerifyOptions{Roots: m.ca.Load().pool, CurrentTime: c.NotBefore, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	return err == nil && c.Subject.CommonName == nodeSubject(m.c.NodeName).name
}

// join makes c the certificate of requests to the server.
func (m *Manager) join(c *tls.Certificate) {
	m.api.use(c, m.tls())
	m.once.Do(func() { close(m.joined) })
}

func (m *Manager) tls() *tls.Config {
	return tlsTo(m.host, func(tls.ConnectionState) (*x509.CertPool, error) { return m.ca.Load().pool, nil }, m.c.Now)
}

// findAuthority asks the server for the authority that the token names, unless it is known, until ctx ends.
func (m *Manager) findAuthority(ctx context.Context) error {
	for retry := firstRetry; ; retry = min(2*retry, lastRetry) {
		ca := m.ca.Load()
		var err error
		if ca == nil {
			ca, err = discover(ctx, m.c.Server, m.token, m.c.Now)
		}
		if err == nil {
			if err := pki.WriteFile(m.caPath(), ca.pem, 0o644); err != nil {
				return fmt.Errorf("storing the cluster's authority: %w", err)
			}
			m.ca.Store(ca)
			return nil
		}
		m.c.Log.Warn("the server cannot be joined yet, it is tried again", "server", m.c.Server, "in", retry, "err", err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(retry):
		case <-m.c.ClockSet:
			retry = firstRetry
		}
	}
}

// as calls do with a client for the API server: first with the certificate, then with the token when there is no certificate or
// the server refuses it. A certificate may have expired while the node was off, or belong to a Node that was deleted.
func (m *Manager) as(do func(csrclient.CertificateSigningRequestInterface) error) error {
	err := error(apierrors.NewUnauthorized("there is no certificate"))
	if m.client.current.Load() != nil {
		if err = m.with(m.RESTConfig(), do); err == nil || !apierrors.IsUnauthorized(err) {
			return err
		}
	}
	if m.token.ID == "" {
		return fmt.Errorf("%w: its certificate is no good (%w). Give a token, which `podo token create` makes on the server", ErrRefused, err)
	}
	bare := newHTTP(m.tls())
	defer bare.CloseIdleConnections()
	err = m.with(&rest.Config{Host: m.c.Server, Transport: bare, BearerToken: m.token.Bearer()}, do)
	if apierrors.IsUnauthorized(err) {
		return fmt.Errorf("%w: the token is no good (%w). It may have expired: `podo token create` makes another on the server", ErrRefused, err)
	}
	return err
}

func (m *Manager) with(c *rest.Config, do func(csrclient.CertificateSigningRequestInterface) error) error {
	c.ContentType = runtime.ContentTypeJSON // a request or two a year; JSON can be read on the wire
	api, err := csrclient.NewForConfig(c)
	if err != nil {
		return err
	}
	return do(api.CertificateSigningRequests())
}
