// Package pki makes and keeps the cluster's certificates: an authority made at first start, and under it the serving and
// client certificates of every part. Files live in one folder: ca.crt, ca.key, and <name>.pem with certificate and key
// together. Keys are mode 0600; every file is replaced whole or not at all.
//
// A certificate is issued anew when it is missing, damaged, about to expire, signed by another authority, or when its names
// no longer cover what the configuration asks for.
package pki

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"
)

const (
	leafLife = 365 * 24 * time.Hour
	// renewBefore is how long before its end a certificate is replaced.
	renewBefore = 90 * 24 * time.Hour
)

// Name names a certificate; it is also its file's name.
type Name string

// The certificates that there are.
const (
	Serving           Name = "apiserver"                // the API server's HTTPS port
	Kubelet           Name = "kubelet"                  // the kubelet's HTTPS port
	KubeletClient     Name = "apiserver-kubelet-client" // the API server as a client of kubelets
	Admin             Name = "admin"                    // group system:masters
	Node              Name = "node"                     // system:node:<name>, group system:nodes
	Scheduler         Name = "kube-scheduler"
	ControllerManager Name = "kube-controller-manager"
)

// Config says what the certificates must cover.
type Config struct {
	Dir       string // created with mode 0700
	NodeName  string
	NodeIP    net.IP
	ServiceIP net.IP   // the kubernetes service's address; may be nil
	ExtraSANs []string // --tls-san: names or addresses
	Now       func() time.Time
}

// Validate says what is missing.
func (c *Config) Validate() error {
	var errs []error
	if c.Dir == "" {
		errs = append(errs, errors.New("pki: Dir is empty: give the folder for certificates"))
	}
	if c.NodeName == "" {
		errs = append(errs, errors.New("pki: NodeName is empty"))
	}
	if c.NodeIP == nil {
		errs = append(errs, errors.New("pki: NodeIP is empty"))
	}
	return errors.Join(errs...)
}

// Bundle holds the current certificates. Its methods are safe for concurrent use; Renew has one caller at a time.
type Bundle struct {
	cfg   Config
	ca    *authority
	pool  *x509.CertPool
	certs atomic.Pointer[map[Name]*tls.Certificate]
}

// profile is what a certificate says of its holder.
type profile struct {
	commonName string
	groups     []string
	usage      x509.ExtKeyUsage
	names      []string
	addresses  []net.IP
}

// Ensure makes what is missing in cfg.Dir and returns all of it.
func Ensure(cfg Config) (*Bundle, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the folder for certificates: %w", err)
	}
	ca, err := loadOrMakeCA(cfg.Dir, cfg.Now())
	if err != nil {
		return nil, err
	}
	b := &Bundle{cfg: cfg, ca: ca, pool: x509.NewCertPool()}
	b.pool.AddCert(ca.cert)
	b.certs.Store(&map[Name]*tls.Certificate{})
	if _, err := b.Renew(); err != nil {
		return nil, err
	}
	return b, nil
}

// CAPEM is the authority's certificate, for kubeconfigs.
func (b *Bundle) CAPEM() []byte { return slices.Clone(b.ca.pem) }

// Pool verifies peers that the authority signed.
func (b *Bundle) Pool() *x509.CertPool { return b.pool }

// Get returns the current certificate of that name, with Leaf set.
func (b *Bundle) Get(n Name) *tls.Certificate { return (*b.certs.Load())[n] }

// Server is for tls.Config.GetCertificate: a renewed certificate is served from the next handshake on.
func (b *Bundle) Server(n Name) func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return b.Get(n), nil }
}

// Client is for tls.Config.GetClientCertificate.
func (b *Bundle) Client(n Name) func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	return func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return b.Get(n), nil }
}

// Renew replaces what needs replacing and says which. The old certificates stay valid until they expire, so nothing that
// is connected notices.
func (b *Bundle) Renew() ([]Name, error) {
	var renewed []Name
	now := b.cfg.Now()
	next := map[Name]*tls.Certificate{}
	for name, p := range profiles(&b.cfg) {
		path := filepath.Join(b.cfg.Dir, string(name)+".pem")
		data, err := readOptional(path)
		if err != nil {
			return renewed, err
		}
		if c, err := tls.X509KeyPair(data, data); err == nil && b.good(c.Leaf, p, now) {
			next[name] = b.shown(name, &c)
			continue
		}
		if data, err = b.ca.issue(p, now); err != nil {
			return renewed, fmt.Errorf("issuing the certificate %s: %w", name, err)
		}
		if err := WriteFile(path, data, 0o600); err != nil {
			return renewed, fmt.Errorf("writing the certificate %s: %w", name, err)
		}
		c, err := tls.X509KeyPair(data, data)
		if err != nil {
			return renewed, err
		}
		next[name] = b.shown(name, &c)
		renewed = append(renewed, name)
	}
	b.certs.Store(&next)
	slices.Sort(renewed)
	return renewed, nil
}

// shown is the certificate as peers get it: the API server shows its authority too, so that a machine which knows this one's hash alone
// can join (internal/jointoken).
func (b *Bundle) shown(n Name, c *tls.Certificate) *tls.Certificate {
	if n == Serving {
		c.Certificate = append(c.Certificate, b.ca.cert.Raw)
	}
	return c
}

// Authority is the authority's certificate.
func (b *Bundle) Authority() *x509.Certificate { return b.ca.cert }

// good says that a certificate still serves: ours, far from its end (or as far as the authority reaches), names covered.
func (b *Bundle) good(c *x509.Certificate, p profile, now time.Time) bool {
	if c == nil || c.CheckSignatureFrom(b.ca.cert) != nil || now.Before(c.NotBefore) || !now.Before(c.NotAfter) {
		return false
	}
	if now.Add(renewBefore).After(c.NotAfter) && c.NotAfter.Before(b.ca.cert.NotAfter) {
		return false
	}
	if c.Subject.CommonName != p.commonName || !slices.Equal(c.Subject.Organization, p.groups) {
		return false
	}
	for _, n := range p.names {
		if !slices.Contains(c.DNSNames, n) {
			return false
		}
	}
	for _, ip := range p.addresses {
		if !slices.ContainsFunc(c.IPAddresses, ip.Equal) {
			return false
		}
	}
	return true
}

func profiles(c *Config) map[Name]profile {
	names := []string{c.NodeName, "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"}
	addresses := []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback, c.NodeIP}
	if c.ServiceIP != nil {
		addresses = append(addresses, c.ServiceIP)
	}
	for _, san := range c.ExtraSANs {
		if ip := net.ParseIP(san); ip != nil {
			addresses = append(addresses, ip)
		} else if san != "" {
			names = append(names, san)
		}
	}
	client := func(user string, groups ...string) profile {
		return profile{commonName: user, groups: groups, usage: x509.ExtKeyUsageClientAuth}
	}
	return map[Name]profile{
		Serving: {commonName: "kube-apiserver", usage: x509.ExtKeyUsageServerAuth, names: names, addresses: addresses},
		Kubelet: {
			commonName: "system:node:" + c.NodeName, groups: []string{"system:nodes"}, usage: x509.ExtKeyUsageServerAuth,
			names: []string{c.NodeName, "localhost"}, addresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback, c.NodeIP},
		},
		KubeletClient:     client("kube-apiserver-kubelet-client", "system:masters"),
		Admin:             client("kubernetes-admin", "system:masters"),
		Node:              client("system:node:"+c.NodeName, "system:nodes"),
		Scheduler:         client("system:kube-scheduler"),
		ControllerManager: client("system:kube-controller-manager"),
	}
}

// lookEvery is how often Keep looks at the certificates.
const lookEvery = 12 * time.Hour

// Keep renews what is near its end until ctx ends, also at once when clockSet says that the machine's clock was set; it may be nil.
// renewed is told what was replaced, so that files made of it follow. An error of either is tried again at the next look: certificates are
// replaced long before they end.
func (b *Bundle) Keep(ctx context.Context, clockSet <-chan struct{}, renewed func([]Name) error, failed func(error)) {
	t := time.NewTicker(lookEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		case <-clockSet:
		}
		names, err := b.Renew()
		if len(names) > 0 {
			err = errors.Join(err, renewed(names))
		}
		if err != nil {
			failed(err)
		}
	}
}
