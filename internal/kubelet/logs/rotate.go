package logs

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Names beside a log file 0.log: 0.log.20260102-030405 is rotated, the same with .gz compressed, with .tmp unfinished.
const (
	rotatedFormat = "20060102-150405"
	compressed    = ".gz"
	unfinished    = ".tmp"
)

// Runtime is what rotation asks of the container runtime.
type Runtime interface {
	ListContainers(ctx context.Context, filter *runtimev1.ContainerFilter) ([]*runtimev1.Container, error)
	ContainerStatus(ctx context.Context, id string) (*runtimev1.ContainerStatus, error)
	ReopenContainerLog(ctx context.Context, id string) error
}

// RotatorConfig is what a Rotator needs.
type RotatorConfig struct {
	Runtime  Runtime
	Log      *slog.Logger
	MaxSize  int64         // bytes of a log before it is rotated; negative: never
	MaxFiles int           // files kept of one log, the current one included; at least 2
	Workers  int           // logs rotated at once; default 1
	Every    time.Duration // between two looks; default 10 s
}

// Validate fills in defaults and says what is wrong.
func (c *RotatorConfig) Validate() error {
	switch {
	case c.Runtime == nil || c.Log == nil:
		return errors.New("logs: Runtime and Log must be set")
	case c.MaxFiles < 2:
		return fmt.Errorf("logs: containerLogMaxFiles is %d and must be at least 2", c.MaxFiles)
	case c.MaxSize == 0:
		return errors.New("logs: containerLogMaxSize must not be 0")
	}
	if c.Every == 0 {
		c.Every = 10 * time.Second
	}
	c.Workers = max(c.Workers, 1)
	return nil
}

// Rotator keeps the log files of running containers within their bounds.
//
//	0.log ── grew over MaxSize ──► 0.log.<time> ── next rotation ──► 0.log.<time>.gz ── too many ──► deleted
//	  ▲ the runtime opens a new one (ReopenContainerLog); if it cannot, the rename is undone
type Rotator struct {
	cfg   RotatorConfig
	paths map[string]string // log path by container, as the runtime told it; only Run's goroutine uses it
}

// NewRotator makes a Rotator.
func NewRotator(cfg RotatorConfig) (*Rotator, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Rotator{cfg: cfg, paths: map[string]string{}}, nil
}

// Run looks at all running containers' logs until ctx ends.
func (r *Rotator) Run(ctx context.Context, ready func()) error {
	ready()
	if r.cfg.MaxSize < 0 {
		<-ctx.Done()
		return nil
	}
	tick := time.NewTicker(r.cfg.Every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if err := r.Rotate(ctx); err != nil && ctx.Err() == nil {
				r.cfg.Log.Warn("container logs could not be rotated, will try again", "err", err)
			}
		}
	}
}

// Rotate looks once at all running containers' logs and rotates those that are too big. One log's failure does not keep the
// others. It has no time limit of its own: compressing what was written in a hurry takes long, and the logs after it would fail.
// Calls of the runtime have limits.
func (r *Rotator) Rotate(ctx context.Context) error {
	running, err := r.cfg.Runtime.ListContainers(ctx, &runtimev1.ContainerFilter{
		State: &runtimev1.ContainerStateValue{State: runtimev1.ContainerState_CONTAINER_RUNNING},
	})
	if err != nil {
		return fmt.Errorf("list running containers: %w", err)
	}
	var errs []error
	paths := make(map[string]string, len(running))
	for _, c := range running {
		path := r.paths[c.Id]
		if path == "" {
			s, err := r.cfg.Runtime.ContainerStatus(ctx, c.Id)
			if err != nil {
				errs = append(errs, fmt.Errorf("status of container %s: %w", c.Id, err))
				continue
			}
			if path = s.GetLogPath(); path == "" {
				continue
			}
		}
		paths[c.Id] = path
	}
	r.paths = paths
	return errors.Join(append(errs, r.all(ctx, paths)...)...)
}

// all looks at logs, by container, several at once: compressing takes time.
func (r *Rotator) all(ctx context.Context, paths map[string]string) (errs []error) {
	var mu sync.Mutex
	var g errgroup.Group
	g.SetLimit(r.cfg.Workers)
	for id, path := range paths {
		g.Go(func() error {
			if err := r.one(ctx, id, path); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, fmt.Errorf("log %s: %w", path, err))
			}
			return nil
		})
	}
	_ = g.Wait() // nothing fails but its own log
	return errs
}

func (r *Rotator) one(ctx context.Context, id, path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		// We were stopped after the rename and before the runtime was told.
		return r.cfg.Runtime.ReopenContainerLog(ctx, id)
	}
	if err != nil || info.Size() < r.cfg.MaxSize {
		return err
	}
	if err := r.tidy(path); err != nil {
		return err
	}
	to := path + "." + time.Now().Format(rotatedFormat)
	if _, err := os.Lstat(to); err == nil {
		return nil // rotated within this very second; the next look is soon enough
	}
	if err := os.Rename(path, to); err != nil {
		return err
	}
	if err := r.cfg.Runtime.ReopenContainerLog(ctx, id); err != nil {
		// The runtime still writes to the renamed file. It is renamed back, so that readers find it.
		if _, serr := os.Lstat(path); errors.Is(serr, fs.ErrNotExist) {
			err = errors.Join(err, os.Rename(to, path))
		}
		return fmt.Errorf("reopen: %w", err)
	}
	return nil
}

// tidy makes room for one more rotated file: it deletes leftovers and the oldest files, and compresses the rest. The runtime
// writes to none of them, since it has reopened its log after the last rename.
func (r *Rotator) tidy(path string) error {
	all, err := filepath.Glob(escape(path) + ".*")
	if err != nil {
		return err
	}
	slices.Sort(all) // by age: the names hold the time
	var keep []string
	var errs []error
	for _, name := range all {
		switch {
		case strings.HasSuffix(name, unfinished), slices.Contains(all, name+compressed):
			errs = append(errs, os.Remove(name))
		default:
			keep = append(keep, name)
		}
	}
	for extra := len(keep) - (r.cfg.MaxFiles - 2); extra > 0; extra-- {
		errs = append(errs, os.Remove(keep[0]))
		keep = keep[1:]
	}
	for _, name := range keep {
		if !strings.HasSuffix(name, compressed) {
			errs = append(errs, compress(name))
		}
	}
	return errors.Join(errs...)
}

// compress replaces name by name.gz; at any moment one of them is there whole.
func compress(name string) (err error) {
	in, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	tmp := name + unfinished
	out, err := os.OpenFile(tmp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, info.Mode())
	if err != nil {
		return err
	}
	zip := gzip.NewWriter(out)
	_, err = io.Copy(zip, in)
	err = errors.Join(err, zip.Close(), out.Close())
	if err == nil {
		err = os.Rename(tmp, name+compressed)
	}
	if err != nil {
		_ = os.Remove(tmp)
		return err
	}
	return os.Remove(name)
}

// rotated lists the files that path was rotated to and that are not compressed, oldest first.
func rotated(path string) ([]string, error) {
	all, err := filepath.Glob(escape(path) + ".*")
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(n string) bool {
		return strings.HasSuffix(n, compressed) || strings.HasSuffix(n, unfinished)
	})
	slices.Sort(all)
	return all, nil
}

// escape makes a path mean itself in a glob pattern.
func escape(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}
