// Package daemon is the composition root: it builds a server, or an agent, by hand, of the parts that never import each other, starts
// them in order and stops them in reverse. Nobody but cli imports it.
//
// A server:
//
//	host checked ─► data directory locked ─┬─► control plane: etcd ─► view ─► controllers ─► scheduler ─► API server
//	                                       └─► node: containerd ─► (control plane ready) ─► kubelet ─► node Ready
package daemon

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"

	"golang.org/x/sync/errgroup"

	"podo.dev/podo/internal/client/events"
	"podo.dev/podo/internal/client/local"
	"podo.dev/podo/internal/component"
	"podo.dev/podo/internal/pki"
)

// StageReady is the last stage of a boot: the node is Ready.
const StageReady = "ready"

// Run runs a server until ctx ends or something fails that no restart of a part can mend. Containers are never touched by its
// end. version is podo's own.
func Run(ctx context.Context, cfg Config, version string, boot *BootReport, logOut io.Writer) error {
	log := newLogger(logOut, &cfg.NodeConfig)
	err := serve(ctx, cfg, version, boot, log)
	if err != nil {
		boot.Fail(err)
	}
	return err
}

func serve(ctx context.Context, cfg Config, version string, boot *BootReport, log *slog.Logger) error {
	if err := ofServer(Dirs{Root: cfg.DataDir}); err != nil {
		return err
	}
	hangup, stop := hangups()
	defer stop()
	p, lock, err := newProcess(cfg.NodeConfig, version, boot, log)
	if err != nil {
		return err
	}
	defer lock.Close()
	cfg.NodeConfig = p.cfg
	s := &server{process: p, cfg: cfg, hangup: hangup}
	checked := boot.Begin("host checked")
	if err := p.preflight("server", lookPath, cfg.apiPort()); err != nil {
		return err
	}
	if err := s.build(ctx); err != nil {
		return err
	}
	defer s.control.audit.Close() //nolint:errcheck // the end: nobody to tell
	checked("")
	log.Info("podo starts", "version", version, "dataDir", p.dirs.Root, "node", cfg.NodeName, "address", cfg.NodeIP)
	err = s.run(ctx)
	log.Info("podo has stopped; containers go on", "err", err)
	return err
}

// server holds the parts while they run.
type server struct {
	*process
	cfg     Config
	certs   *pki.Bundle
	control control
	hangup  chan os.Signal // the keys of tokens have changed
}

// build makes every part; nothing runs yet.
func (s *server) build(ctx context.Context) error {
	if err := s.buildCommon(); err != nil {
		return err
	}
	if err := s.buildControl(); err != nil {
		return err
	}
	network, err := s.cfg.network()
	if err != nil {
		return err
	}
	return s.buildNode(ctx, network)
}

func (s *server) buildCommon() (err error) {
	s.certs, err = pki.Ensure(s.pkiConfig())
	if err != nil {
		return fmt.Errorf("certificates in %s: %w", s.dirs.PKI(), err)
	}
	return s.certs.WriteKubeconfig(pki.Admin, s.apiURL(), s.dirs.Kubeconfig())
}

// run runs the control plane and the node side by side: containerd needs nothing of the API, and the kubelet waits for both.
func (s *server) run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	controlReady := make(chan struct{})
	s.control.events = events.Start(ctx, local.Controllers(s.control.verbs), s.log)
	s.control.supervisor = component.NewSupervisor(s.supervision())
	s.node.supervisor = component.NewSupervisor(s.supervision())
	group.Go(func() error {
		return s.control.supervisor.Run(ctx, func() { close(controlReady) }, s.reported(s.controlComponents())...)
	})
	group.Go(func() error {
		return s.node.supervisor.Run(ctx, s.announce, s.reported(s.nodeComponents(controlReady))...)
	})
	return group.Wait()
}

// health is every component's, for /readyz.
func (s *server) health() []component.Health {
	var all []component.Health
	for _, v := range []*component.Supervisor{s.control.supervisor, s.node.supervisor} {
		if v != nil {
			all = append(all, v.Health()...)
		}
	}
	return all
}

// announce ends the boot: the kubelet is ready once its node is Ready.
func (s *server) announce() {
	s.boot.Begin(StageReady)("")
	s.log.Info("ready", "server", s.apiURL(), "kubeconfig", s.dirs.Kubeconfig())
}
