// Package cert keeps the certificates of a kubelet that is a process of its own: the one with which it is known to the API server, and
// the one that its port :10250 shows. Both come by CertificateSigningRequest, are kept in the node's directory, and are replaced long
// before their end, without a restart and without an end to what is connected.
//
//	             token's hash              token               Node's addresses
//	(nothing) ──────────────► authority ─────────► client ──────────────────────► serving
//	                 kept in Dir: a later start begins where the last one was
//
// The server is the judge of time: a machine whose clock is wrong at its first boot uses what the server signed, and looks at its
// certificates anew when its clock is set. trust.go says what is believed of a server meanwhile, plan.go when a certificate is replaced.
package cert

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"podo.dev/podo/internal/jointoken"
)

// Config is what a Manager is made of.
type Config struct {
	// Server is the API server's address, https://host:port.
	Server string
	// Token is what `podo token create` printed, or only its part id.secret when CA is given. It is used while Dir has no client
	// certificate from an earlier start, and when the server refuses the one that Dir has; otherwise it may be empty.
	Token string
	// CA is the cluster's authority in PEM. Without it the authority is the one that the token's hash names, or that of an earlier start.
	CA       []byte
	NodeName string
	// Dir is made with mode 0700. It holds ca.crt, kubelet-client-current.pem and kubelet-server-current.pem.
	Dir string
	// Addresses are those of the Node object, which the serving certificate must cover. It is called again at each Poke. While it
	// is nil or returns none, no serving certificate is requested.
	Addresses func() []v1.NodeAddress
	// ClockSet tells that the machine's clock was set (host/linux.ClockSet). May be nil: then a clock that was wrong is noticed late.
	ClockSet <-chan struct{}

	Now    func() time.Time // default time.Now
	Random func() float64   // of [0,1); default math/rand/v2's
	Log    *slog.Logger     // may be nil
}

// Validate says what is missing.
func (c *Config) Validate() error {
	var errs []error
	if u, err := url.Parse(c.Server); err != nil || u.Scheme != "https" || u.Hostname() == "" {
		errs = append(errs, fmt.Errorf("the server %q is no address of the form https://host:port", c.Server))
	}
	if c.NodeName == "" {
		errs = append(errs, errors.New("the node has no name"))
	}
	if c.Dir == "" {
		errs = append(errs, errors.New("there is no folder for the node's certificates"))
	}
	return errors.Join(errs...)
}

// Manager is a component. Its other methods are safe for concurrent use, and may be called before Run.
type Manager struct {
	c       Config
	host    string // the server's name, that its certificate must be for
	token   jointoken.Token
	ca      atomic.Pointer[authority]
	client  *keeper
	serving *keeper
	api     *transport
	metrics *metrics
	once    sync.Once
	joined  chan struct{}
}

// New reads what Dir holds. It speaks to nobody.
func New(c Config) (*Manager, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Random == nil {
		c.Random = rand.Float64
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	u, _ := url.Parse(c.Server)
	m := &Manager{c: c, host: u.Hostname(), joined: make(chan struct{})}
	if c.Token != "" {
		var err error
		if m.token, err = jointoken.Parse(c.Token); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the folder for the node's certificates: %w", err)
	}
	m.api = &transport{}
	m.client = m.newKeeper(clientKind, filepath.Join(c.Dir, clientFile))
	m.serving = m.newKeeper(servingKind, filepath.Join(c.Dir, "kubelet-server"))
	m.metrics = newMetrics(m.client, m.serving)
	return m, m.load()
}

// Joined tells whether a folder has what a node has when it has joined.
func Joined(dir string) bool {
	for _, file := range []string{authorityFile, clientFile + current} {
		if _, err := os.Stat(filepath.Join(dir, file)); err != nil {
			return false
		}
	}
	return true
}

// Name implements component.Component.
func (m *Manager) Name() string { return "kubelet-certificates" }

// Run requests missing certificates and replaces those that near their end, until ctx ends. It is ready as soon as there is a
// client certificate. Failures that time may cure (an unreachable server, a wrong clock, a CSR that waits for approval) are
// retried with back-off. ErrRefused ends Run, since then the operator has to give another token.
func (m *Manager) Run(ctx context.Context, ready func()) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := m.findAuthority(ctx); err != nil {
		return quiet(ctx, err)
	}
	errs := make(chan error, 2)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() { errs <- m.client.run(ctx) })
	joined := m.joined
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-errs:
			return quiet(ctx, err)
		case <-joined:
			joined = nil
			ready()
			wg.Go(func() { errs <- m.serving.run(ctx) })
		case <-m.c.ClockSet:
			m.c.Log.Info("the clock was set: the node's certificates are looked at anew")
			m.client.look(true)
			m.serving.look(true)
		}
	}
}

func quiet(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// Joined is closed once there is a client certificate: from then on RESTConfig and Transport reach the server as the node.
func (m *Manager) Joined() <-chan struct{} { return m.joined }

// RESTConfig is for client-go: the server, as the node system:node:<NodeName>, with whichever certificate is current. It has no TLS
// settings of its own and must be given none.
func (m *Manager) RESTConfig() *rest.Config {
	return &rest.Config{Host: m.c.Server, Transport: m.api}
}

// Transport is the same for net/http. A request goes out on a connection with the current certificate; what runs on connections with
// an earlier one runs to its end.
func (m *Manager) Transport() http.RoundTripper { return m.api }

// ServerTLS is for the port :10250: the serving certificate that is current at each handshake. A handshake fails while there is none.
// Clients' certificates are asked for and not verified here: that is authentication's (Authority).
func (m *Manager) ServerTLS() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			if c := m.serving.current.Load(); c != nil {
				return c, nil
			}
			return nil, errors.New("no serving certificate available for the kubelet")
		},
		ClientAuth: tls.RequestClientCert,
	}
}

// Authority verifies peers that the cluster's authority signed: nil until it is known, which it is once Joined.
func (m *Manager) Authority() *x509.CertPool {
	if a := m.ca.Load(); a != nil {
		return a.pool
	}
	return nil
}

// Poke says that the node's addresses may have changed.
func (m *Manager) Poke() { m.serving.look(false) }
