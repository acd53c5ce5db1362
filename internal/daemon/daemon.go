// Package daemon is the composition root: it builds a server by hand, of the parts that never import each other, starts
// them in order and stops them in reverse. Nobody but cli imports it.
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
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"podo.dev/podo/internal/component"
	"podo.dev/podo/internal/pki"
	"podo.dev/podo/internal/timeline/recorder"
)

// StageReady is the last stage of a boot: the node is Ready.
const StageReady = "ready"

// Run runs a server until ctx ends or something fails that no restart of a part can mend. Containers are never touched by its
// end. version is podo's own.
func Run(ctx context.Context, cfg Config, version string, boot *BootReport, logOut io.Writer) error {
	log := newLogger(logOut, cfg)
	err := serve(ctx, cfg, version, boot, log)
	if err != nil {
		boot.Fail(err)
	}
	return err
}

func serve(ctx context.Context, cfg Config, version string, boot *BootReport, log *slog.Logger) error {
	checked := boot.Begin("host checked")
	if err := os.MkdirAll(cfg.DataDir, 0o711); err != nil {
		return fmt.Errorf("--data-dir: %w", err)
	}
	real, err := filepath.EvalSymlinks(cfg.DataDir)
	if err != nil {
		return fmt.Errorf("--data-dir: %w", err)
	}
	cfg.DataDir = real
	dirs := Dirs{Root: real}
	lock, err := lockDataDir(dirs)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := preflight(cfg, lookPath); err != nil {
		return err
	}
	s := &server{cfg: cfg, dirs: dirs, version: version, boot: boot, log: log}
	if err := s.build(ctx); err != nil {
		return err
	}
	defer s.control.audit.Close() //nolint:errcheck // the end: nobody to tell
	checked("")
	log.Info("podo starts", "version", version, "dataDir", real, "node", cfg.NodeName, "address", cfg.NodeIP)
	err = s.run(ctx)
	log.Info("podo has stopped; containers go on", "err", err)
	return err
}

// server holds the parts while they run.
type server struct {
	cfg     Config
	dirs    Dirs
	version string
	boot    *BootReport
	log     *slog.Logger

	certs    *pki.Bundle
	timeline *recorder.Recorder
	control  control
	node     node
}

// build makes every part; nothing runs yet.
func (s *server) build(ctx context.Context) error {
	if err := s.buildCommon(); err != nil {
		return err
	}
	if err := s.buildControl(); err != nil {
		return err
	}
	return s.buildNode(ctx)
}

func (s *server) buildCommon() (err error) {
	s.certs, err = pki.Ensure(s.pkiConfig())
	if err != nil {
		return fmt.Errorf("certificates in %s: %w", s.dirs.PKI(), err)
	}
	if err := s.certs.WriteKubeconfig(pki.Admin, s.apiURL(), s.dirs.Kubeconfig()); err != nil {
		return err
	}
	s.timeline, err = recorder.New(recorder.Config{Dir: s.dirs.Timeline(), Logger: s.log, Level: slog.LevelDebug})
	return err
}

// run runs the control plane and the node side by side: containerd needs nothing of the API, and the kubelet waits for both.
func (s *server) run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	controlReady := make(chan struct{})
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

func (s *server) supervision() component.Options {
	return component.Options{Logger: s.log}
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

// reported tells the boot report when each component is ready for the first time.
func (s *server) reported(components []component.Component) []component.Component {
	out := make([]component.Component, len(components))
	for i, c := range components {
		first := true
		out[i] = component.Func(c.Name(), func(ctx context.Context, ready func()) error {
			end := s.boot.Begin(c.Name())
			return c.Run(ctx, func() {
				if first {
					first = false
					end("")
				}
				ready()
			})
		})
	}
	return out
}

// announce ends the boot: the kubelet is ready once its node is Ready.
func (s *server) announce() {
	s.boot.Begin(StageReady)("")
	s.log.Info("ready", "server", s.apiURL(), "kubeconfig", s.dirs.Kubeconfig())
}
