// Package daemon is the composition root: by hand it builds a server or an agent out of parts that never import each other, starts them
// in order and stops them in reverse. Only cli imports it.
//
// A server:
//
//	host checked ─► data directory locked ─┬─► control plane: etcd ─► view ─► controllers ─► scheduler ─► API server
//	                                       └─► node: containerd ─► (control plane ready) ─► kubelet ─► node Ready
//
// Its pieces are packages below it: configuration (config), data directory (datadir), checks of the host (preflight), progress (boot), the
// control plane (control, controllers), the kubelet (node), what an agent remembers (joined), what may change between two starts (moved),
// and what root does without the API server (upkeep).
package daemon

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"podo.dev/podo/internal/daemon/boot"
	"podo.dev/podo/internal/daemon/config"
	"podo.dev/podo/internal/daemon/control"
	"podo.dev/podo/internal/daemon/datadir"
	"podo.dev/podo/internal/daemon/moved"
	"podo.dev/podo/internal/daemon/preflight"
	"podo.dev/podo/internal/pki"
	"podo.dev/podo/internal/release"
)

// Run runs a server until ctx ends, or something fails that restarting a component cannot mend. Its end touches no container.
// version is podo's own.
func Run(ctx context.Context, cfg config.Server, version string, report *boot.Report, logOut io.Writer) error {
	log, level := newLogger(logOut, &cfg.Node)
	err := serve(ctx, cfg, version, report, log, level)
	if err != nil {
		report.Fail(err)
	}
	return err
}

func serve(ctx context.Context, cfg config.Server, version string, report *boot.Report, log *slog.Logger, level *slog.LevelVar) error {
	if err := (datadir.Dir{Root: cfg.DataDir}).ForServer(); err != nil {
		return err
	}
	hangup, stop := hangups()
	defer stop()
	p, lock, err := newProcess(cfg.Node, report, log, level)
	if err != nil {
		return err
	}
	defer lock.Close()
	cfg.Node = p.cfg
	if p.before, err = moved.Read(p.dir, cfg.NodeName); err != nil {
		return err
	}
	s := &server{process: p, cfg: cfg, hangup: hangup}
	checked := report.Begin("host checked")
	if err := preflight.Check("server", p.dir, s.ports(), exec.LookPath); err != nil {
		return err
	}
	if err := s.build(ctx); err != nil {
		return err
	}
	defer s.control.Close()
	checked("")
	log.Info("podo starts", "version", version, "dataDir", p.dir.Root, "node", cfg.NodeName, "address", cfg.NodeIP)
	err = s.run(ctx)
	log.Info("podo has stopped; containers go on", "err", err)
	return err
}

// hangups catches SIGHUP from before the data directory is locked. The lock is how others find this process, and a signal that
// came earlier would end it.
func hangups() (hangup chan os.Signal, stop func()) {
	hangup = make(chan os.Signal, 1)
	signal.Notify(hangup, unix.SIGHUP)
	return hangup, func() { signal.Stop(hangup) }
}

// server holds the parts while they run.
type server struct {
	*process
	cfg     config.Server
	certs   *pki.Bundle
	control *control.Plane
	hangup  chan os.Signal // a signal says that the token keys have changed
}

// ports are the API server's, on loopback and the node's address, and the kubelet's.
func (s *server) ports() []preflight.Port {
	api := preflight.Port{What: "--https-port", Port: s.cfg.HTTPSPort, From: "--node-ip", IPs: []string{"127.0.0.1", s.cfg.NodeIP}}
	return append([]preflight.Port{api}, s.process.ports()...)
}

// build makes every part; nothing runs yet.
func (s *server) build(ctx context.Context) (err error) {
	if s.certs, err = pki.Ensure(s.pkiConfig()); err != nil {
		return fmt.Errorf("certificates in %s: %w", s.dir.PKI(), err)
	}
	if err := s.certs.WriteKubeconfig(pki.Admin, s.cfg.LocalURL(), s.dir.Kubeconfig()); err != nil {
		return err
	}
	s.control, err = control.New(control.Config{
		Server: &s.cfg, Dir: s.dir, Certs: s.certs, Timeline: s.timeline, Report: s.report, Logger: s.log,
		Before: &s.before, Version: release.Kubernetes, Hangup: s.hangup, NodeStats: &s.node.stats, NodeHealth: s.node.supervisor.Health,
	})
	if err != nil {
		return err
	}
	return s.buildNode(ctx, s.network())
}

func (s *server) pkiConfig() pki.Config {
	return pki.Config{
		Dir:       s.dir.PKI(),
		NodeName:  s.cfg.NodeName,
		NodeIP:    net.ParseIP(s.cfg.NodeIP),
		ServiceIP: s.cfg.APIService().AsSlice(),
		ExtraSANs: s.cfg.TLSSANs,
		Now:       time.Now,
	}
}

// run runs the control plane and the node side by side. containerd needs nothing of the API; the kubelet waits for both.
func (s *server) run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	controlReady := make(chan struct{})
	group.Go(func() error { return s.control.Run(ctx, func() { close(controlReady) }) })
	group.Go(func() error {
		return s.node.supervisor.Run(ctx, s.announce, s.report.Staged(s.nodeComponents(controlReady))...)
	})
	return group.Wait()
}

// announce ends the boot: the kubelet is ready once its node is Ready.
func (s *server) announce() {
	s.report.Begin(boot.Ready)("")
	s.log.Info("ready", "server", s.cfg.LocalURL(), "kubeconfig", s.dir.Kubeconfig())
}
