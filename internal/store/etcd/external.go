package etcd

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"podo.dev/podo/internal/component"
	"podo.dev/podo/internal/store"
)

// ExternalConfig says how to reach an etcd cluster. Endpoints are required; TLS is used when any file is set, and for
// https:// endpoints.
type ExternalConfig struct {
	Endpoints []string
	// CAFile, CertFile, KeyFile are PEM files: the CA that signed the servers' certificates (default: the system's), and our
	// client certificate with its key.
	CAFile, CertFile, KeyFile string
	// Logger gets the client's log too. Default: discard.
	Logger *slog.Logger
	// History is how long past revisions stay readable. Default 5 minutes.
	History time.Duration
}

// External is a store on an etcd cluster that others run.
type External struct {
	Client
	c   ExternalConfig
	tls *tls.Config
}

var (
	_ component.Component = (*External)(nil)
	_ store.Store         = (*External)(nil)
)

// NewExternal checks the configuration and reads the files; Run connects.
func NewExternal(c ExternalConfig) (*External, error) {
	if len(c.Endpoints) == 0 {
		return nil, errors.New("etcd: no endpoint is given")
	}
	if (c.CertFile == "") != (c.KeyFile == "") {
		return nil, errors.New("etcd: a client certificate needs both its certificate and its key file")
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.History == 0 {
		c.History = 5 * time.Minute
	}
	e := &External{Client: Client{noSpace: make(chan struct{}, 1)}, c: c}
	secure := c.CAFile != "" || c.CertFile != ""
	for _, ep := range c.Endpoints {
		if secure && strings.HasPrefix(ep, "http://") {
			return nil, fmt.Errorf("etcd: endpoint %s is not encrypted, yet TLS files are given: write https:// or leave them out", ep)
		}
		secure = secure || strings.HasPrefix(ep, "https://")
	}
	if !secure {
		return e, nil
	}
	e.tls = &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CAFile != "" {
		pem, err := os.ReadFile(c.CAFile)
		if err != nil {
			return nil, fmt.Errorf("etcd CA: %w", err)
		}
		e.tls.RootCAs = x509.NewCertPool()
		if !e.tls.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("etcd CA: %s has no PEM certificate", c.CAFile)
		}
	}
	if c.CertFile != "" {
		if _, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile); err != nil {
			return nil, fmt.Errorf("etcd client certificate: %w", err)
		}
		// Read anew at each handshake: a renewed certificate needs no restart.
		e.tls.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
			return &pair, err
		}
	}
	return e, nil
}

// Name implements component.Component.
func (e *External) Name() string { return "etcd" }

// reconnect is how soon a cluster that went away is tried again: by default that takes minutes.
var reconnect = grpc.ConnectParams{
	Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
	MinConnectTimeout: 5 * time.Second,
}

// answerTimeout bounds the first question to the cluster.
const answerTimeout = 10 * time.Second

// Run implements component.Component: ready once the cluster has answered.
func (e *External) Run(ctx context.Context, ready func()) error {
	c, err := clientv3.New(clientv3.Config{
		Endpoints:            e.c.Endpoints,
		TLS:                  e.tls,
		DialTimeout:          5 * time.Second,
		DialKeepAliveTime:    30 * time.Second,
		DialKeepAliveTimeout: 10 * time.Second,
		DialOptions:          []grpc.DialOption{grpc.WithConnectParams(reconnect)},
		Logger:               zapLogger(e.c.Logger, "", make(chan error, 1)),
	})
	if err != nil {
		return fmt.Errorf("etcd at %s: %w", strings.Join(e.c.Endpoints, ", "), err)
	}
	defer func() { _ = c.Close() }()
	first, cancel := context.WithTimeout(ctx, answerTimeout)
	_, err = c.Get(first, "/registry/", clientv3.WithKeysOnly())
	cancel()
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return fmt.Errorf("etcd at %s does not answer: check the endpoints, and the CA, certificate and key: %w",
			strings.Join(e.c.Endpoints, ", "), err)
	}
	e.conn.Store(&conn{c: c, kv: clientv3.RetryKVClient(c), lease: clientv3.RetryLeaseClient(c), leases: newLeases()})
	defer e.conn.Store(nil)
	ready()
	// Compaction is ours, as it is upstream's API server's; the cluster's disk is its keeper's.
	newKeeper(&e.Client, EmbeddedConfig{History: e.c.History, Logger: e.c.Logger}).run(ctx)
	return nil
}
