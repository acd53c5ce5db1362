package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"podo.dev/podo/internal/component"
	"podo.dev/podo/internal/timeline/recorder"
)

// process is what a server and an agent have in common: a data directory that is theirs alone, a log, a timeline, and a node.
type process struct {
	cfg     NodeConfig
	dirs    Dirs
	version string
	boot    *BootReport
	log     *slog.Logger

	timeline *recorder.Recorder
	node     nodeParts
}

// newProcess makes the data directory ours until the lock is closed.
func newProcess(cfg NodeConfig, version string, boot *BootReport, log *slog.Logger) (*process, *os.File, error) {
	if err := os.MkdirAll(cfg.DataDir, 0o711); err != nil {
		return nil, nil, fmt.Errorf("--data-dir: %w", err)
	}
	real, err := filepath.EvalSymlinks(cfg.DataDir)
	if err != nil {
		return nil, nil, fmt.Errorf("--data-dir: %w", err)
	}
	cfg.DataDir = real
	p := &process{cfg: cfg, dirs: Dirs{Root: real}, version: version, boot: boot, log: log}
	lock, err := lockDataDir(p.dirs)
	if err != nil {
		return nil, nil, err
	}
	if p.timeline, err = recorder.New(recorder.Config{Dir: p.dirs.Timeline(), Logger: log, Level: slog.LevelDebug}); err != nil {
		lock.Close()
		return nil, nil, err
	}
	if p.node.config, err = p.kubeletConfig(); err != nil {
		lock.Close()
		return nil, nil, err
	}
	return p, lock, nil
}

func (p *process) supervision() component.Options {
	return component.Options{Logger: p.log}
}

// reported tells the boot report when each component is ready for the first time.
func (p *process) reported(components []component.Component) []component.Component {
	out := make([]component.Component, len(components))
	for i, c := range components {
		first := true
		out[i] = component.Func(c.Name(), func(ctx context.Context, ready func()) error {
			end := p.boot.Begin(c.Name())
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
