// Package peer runs upstream's own components on this machine, as the yardstick of a benchmark: etcd, kube-apiserver,
// kube-controller-manager, kube-scheduler and kubelet, on a containerd like the product's own in a data folder of its own. They run at
// their defaults but where a default only holds them back here: no leader election, and no client-side limit for the scheduler and the
// controllers. They listen on loopback. Stop ends and removes everything that was made.
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
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
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
	Kubeconfig string // the administrator's

	cfg       Config
	bundle    *pki.Bundle
	host      *hostState // what a kubelet changes outside its folder
	runtime   *runtime.Runtime
	stopWatch context.CancelFunc // ends the supervision of containerd, not containerd
	watched   chan error
	ports     ports
	procs     []*process // in the order of their start
}

// New makes certificates and starts containerd; Up starts upstream's programs. On an error nothing is left.
func New(ctx context.Context, cfg Config) (_ *Peer, err error) {
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
	if p.ports, err = freePorts(); err != nil {
		return nil, err
	}
	if err := p.certificates(); err != nil {
		return nil, err
	}
	if p.host, err = rememberHost("/podo-" + filepath.Base(cfg.DataDir)); err != nil {
		return nil, err
	}
	if err := p.startRuntime(ctx); err != nil {
		return nil, fmt.Errorf("peer: containerd: %w", err)
	}
	return p, nil
}

// Up starts the five programs, and returns when the node is Ready and pods can be made. containerd runs already.
func (p *Peer) Up(ctx context.Context) error {
	for _, step := range []func(context.Context) error{p.startEtcd, p.startAPIServer, p.startControllers, p.startScheduler, p.startKubelet, p.waitForNode} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Down ends the five programs in the reverse order of their start. Containers and data stay.
func (p *Peer) Down() error {
	var errs []error
	for i := len(p.procs) - 1; i >= 0; i-- {
		errs = append(errs, p.procs[i].stop())
	}
	p.procs = nil
	return errors.Join(errs...)
}

// Suspend ends the scheduler and the controllers; what it returns starts them again, the scheduler first.
func (p *Peer) Suspend() (scheduler, controllers func(context.Context) error, err error) {
	for _, name := range []string{"kube-scheduler", "kube-controller-manager"} {
		i := slices.IndexFunc(p.procs, func(proc *process) bool { return proc.name == name })
		if i < 0 {
			return nil, nil, fmt.Errorf("peer: %s does not run", name)
		}
		if err := p.procs[i].stop(); err != nil {
			return nil, nil, err
		}
		p.procs = slices.Delete(p.procs, i, i+1)
	}
	return p.startScheduler, p.startControllers, nil
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
	p.Kubeconfig = p.dir("admin.kubeconfig")
	for name, file := range map[pki.Name]string{
		pki.Admin: "admin", pki.Node: "kubelet", pki.Scheduler: "scheduler", pki.ControllerManager: "controllers",
	} {
		if err := bundle.WriteKubeconfig(name, p.url(), p.dir(file+".kubeconfig")); err != nil {
			return err
		}
	}
	return p.tokenKey()
}

// tokenKey signs the tokens of service accounts.
func (p *Peer) tokenKey() error {
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
		p.watched <- err // Stop waits for it
		return fmt.Errorf("it ended: %w", err)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Endpoint is the CRI endpoint of the peer's containerd, for images to be imported.
func (p *Peer) Endpoint() string { return p.runtime.Endpoint() }

// Processes match the command lines of the peer's programs, containerd and its shims among them.
func (p *Peer) Processes() *regexp.Regexp {
	return regexp.MustCompile(regexp.QuoteMeta(p.cfg.DataDir) + "/|" + regexp.QuoteMeta(p.runtime.Layout().Run) + "/")
}

// Stop ends every program, removes the containers and all data, and puts back what was changed on the host. It has a time limit of its own.
func (p *Peer) Stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	errs := []error{p.Down()}
	if p.stopWatch != nil {
		p.stopWatch()
		<-p.watched
		errs = append(errs, p.runtime.Cleanup(ctx))
	}
	if p.host != nil {
		errs = append(errs, p.host.restore())
	}
	errs = append(errs, unmountBelow(p.cfg.DataDir))
	return errors.Join(append(errs, os.RemoveAll(p.cfg.DataDir))...)
}
