package daemon

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"podo.dev/podo/internal/component"
	"podo.dev/podo/internal/daemon/boot"
	"podo.dev/podo/internal/daemon/config"
	"podo.dev/podo/internal/daemon/datadir"
	"podo.dev/podo/internal/daemon/moved"
	"podo.dev/podo/internal/timeline/recorder"
)

// process is what servers and agents share: a data directory of their own, a log, a timeline, and a node.
type process struct {
	cfg    config.Node
	dir    datadir.Dir
	report *boot.Report
	log    *slog.Logger
	level  *slog.LevelVar // of log

	timeline *recorder.Recorder
	before   moved.Before // nothing, on an agent
	node     nodeParts
}

// newProcess locks the data directory until the process's lock is closed.
func newProcess(cfg config.Node, report *boot.Report, log *slog.Logger, level *slog.LevelVar) (*process, *os.File, error) {
	if err := os.MkdirAll(cfg.DataDir, 0o711); err != nil {
		return nil, nil, fmt.Errorf("--data-dir: %w", err)
	}
	real, err := filepath.EvalSymlinks(cfg.DataDir)
	if err != nil {
		return nil, nil, fmt.Errorf("--data-dir: %w", err)
	}
	cfg.DataDir = real
	p := &process{cfg: cfg, dir: datadir.Dir{Root: real}, report: report, log: log, level: level}
	p.node.supervisor = component.NewSupervisor(component.Options{Logger: log})
	lock, err := p.dir.Lock()
	if err != nil {
		return nil, nil, err
	}
	if p.timeline, err = recorder.New(recorder.Config{Dir: p.dir.Timeline(), Logger: log, Level: slog.LevelDebug}); err != nil {
		lock.Close()
		return nil, nil, err
	}
	if p.node.config, err = p.kubeletConfig(); err != nil {
		lock.Close()
		return nil, nil, err
	}
	return p, lock, nil
}
