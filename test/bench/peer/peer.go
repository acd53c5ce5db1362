// Package peer runs upstream's own components on this machine, as the yardstick of a benchmark: etcd, kube-apiserver,
// kube-controller-manager, kube-scheduler and kubelet at their defaults, on a containerd like the product's own in a data folder of
// its own. They listen on loopback and the node's address. Stop ends and removes everything that Start made.
package peer

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"podo.dev/podo/internal/cri/containerd"
	"podo.dev/podo/internal/pki"
	"podo.dev/podo/internal/runtime"
	"podo.dev/podo/internal/runtime/payload"
)

// Config says where the programs are and where the peer may live.
type Config struct {
	Bin      string // folder with kube-apiserver, kube-controller-manager, kube-scheduler, kubelet and etcd: `make peer`
	DataDir  string // absolute, without symbolic links; made, and removed by Stop
	NodeIP   net.IP
	PodCIDR  netip.Prefix
	Services netip.Prefix
	Log      *slog.Logger
}

// Validate says what is missing and what to do.
func (c Config) Validate() error {
	for _, name := range []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet"} {
		if _, err := os.Stat(filepath.Join(c.Bin, name)); err != nil {
			return fmt.Errorf("peer: %s is not built (make peer): %w", name, err)
		}
	}
	switch {
	case !filepath.IsAbs(c.DataDir):
		return fmt.Errorf("peer: data folder %q is not absolute", c.DataDir)
	case c.NodeIP == nil || !c.PodCIDR.IsValid() || !c.Services.IsValid() || c.Log == nil:
		return errors.New("peer: NodeIP, PodCIDR, Services and Log are needed")
	}
	return nil
}

// NodeName is the name of the peer's one node.
const NodeName = "peer"

// Peer is a running upstream cluster.
type Peer struct {
	Kubeconfig string        // the administrator's
	Boot       time.Duration // from the start of etcd to a node that is Ready

	cfg       Config
	runtime   *runtime.Runtime
	stopWatch context.CancelFunc // ends the supervision of containerd, not containerd
	watched   chan error
	procs     []*process // in the order of their start
	url       string
	api, kube int
	bundle    *pki.Bundle
}

// Start brings everything up and waits until the node is Ready. On an error nothing is left.
func Start(ctx context.Context, cfg Config) (_ *Peer, err error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	p := &Peer{cfg: cfg, watched: make(chan error, 1)}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Stop())
		}
	}()
	if err := os.MkdirAll(cfg.DataDir, 0o700); err != nil {
		return nil, err
	}
	if err := p.certificates(); err != nil {
		return nil, err
	}
	if err := p.startRuntime(ctx); err != nil {
		return nil, fmt.Errorf("peer: containerd: %w", err)
	}
	began := time.Now()
	for _, step := range []func(context.Context) error{p.startEtcd, p.startAPIServer, p.startControllers, p.startKubelet, p.waitForNode} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	p.Boot = time.Since(began)
	return p, nil
}

func (p *Peer) dir(name string) string { return filepath.Join(p.cfg.DataDir, name) }

func (p *Peer) certificates() error {
	service := p.cfg.Services.Addr().Next()
	bundle, err := pki.Ensure(pki.Config{Dir: p.dir("pki"), NodeName: NodeName, NodeIP: p.cfg.NodeIP, ServiceIP: service.AsSlice()})
	if err != nil {
		return err
	}
	p.bundle = bundle
	if err := os.WriteFile(p.dir("ca.crt"), bundle.CAPEM(), 0o644); err != nil {
		return err
	}
	for _, name := range []pki.Name{pki.Serving, pki.Kubelet, pki.KubeletClient} {
		cert := bundle.Get(name)
		var chain []byte
		for _, der := range cert.Certificate {
			chain = append(chain, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
		}
		key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
		if err != nil {
			return err
		}
		if err := p.writePair(string(name), chain, key); err != nil {
			return err
		}
	}
	tokens, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.MarshalECPrivateKey(tokens)
	if err != nil {
		return err
	}
	return os.WriteFile(p.dir("tokens.key"), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), 0o600)
}

func (p *Peer) writePair(name string, chain, key []byte) error {
	if err := os.WriteFile(p.dir(name+".crt"), chain, 0o644); err != nil {
		return err
	}
	return os.WriteFile(p.dir(name+".key"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}), 0o600)
}

func (p *Peer) startRuntime(ctx context.Context) error {
	carried, err := payload.Embedded()
	if err != nil {
		return err
	}
	p.runtime, err = runtime.New(runtime.Config{
		DataDir: p.cfg.DataDir, PodCIDRs: []netip.Prefix{p.cfg.PodCIDR}, SystemdCgroup: runtime.UseSystemd(), Payload: carried,
		Connect: func(socket string) (runtime.Client, error) { return containerd.New("unix://" + socket) },
		Log:     p.cfg.Log,
	})
	if err != nil {
		return err
	}
	watch, cancel := context.WithCancel(context.WithoutCancel(ctx))
	p.stopWatch = cancel
	ready := make(chan struct{})
	go func() { p.watched <- p.runtime.Run(watch, func() { close(ready) }) }()
	select {
	case <-ready:
		return nil
	case err := <-p.watched:
		return fmt.Errorf("it ended: %w", err)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Endpoint is the CRI endpoint of the peer's containerd, for images to be imported.
func (p *Peer) Endpoint() string { return p.runtime.Endpoint() }

// Processes are the peer's programs and their process ids, for footprints.
func (p *Peer) Processes() map[string]int {
	out := map[string]int{}
	for _, proc := range p.procs {
		out[proc.name] = proc.cmd.Process.Pid
	}
	return out
}

// Stop ends every program in the reverse order of their start, removes the containers and all data. It has a time limit of its own.
func (p *Peer) Stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var errs []error
	for i := len(p.procs) - 1; i >= 0; i-- {
		errs = append(errs, p.procs[i].stop())
	}
	p.procs = nil
	if p.runtime != nil {
		errs = append(errs, p.runtime.Cleanup(ctx))
	}
	if p.stopWatch != nil {
		p.stopWatch()
	}
	errs = append(errs, unmountBelow(p.cfg.DataDir))
	return errors.Join(append(errs, os.RemoveAll(p.cfg.DataDir))...)
}

// get asks the API server as administrator.
func (p *Peer) get(ctx context.Context, path string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+path, nil)
	if err != nil {
		return nil, err
	}
	return p.client().Do(r)
}
