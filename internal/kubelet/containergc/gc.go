// Package containergc owns what dead containers leave behind: it removes them beyond a limit, sandboxes that nothing needs, and
// the logs of pods and of containers that have gone. It keeps the last dead one of each container for `logs --previous`.
package containergc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"podo.dev/podo/internal/kubelet/labels"
)

// Runtime is what the collector asks of the container runtime.
type Runtime interface {
	ListContainers(ctx context.Context, filter *runtimev1.ContainerFilter) ([]*runtimev1.Container, error)
	RemoveContainer(ctx context.Context, id string) error
	ListPodSandbox(ctx context.Context, filter *runtimev1.PodSandboxFilter) ([]*runtimev1.PodSandbox, error)
	StopPodSandbox(ctx context.Context, id string) error
	RemovePodSandbox(ctx context.Context, id string) error
}

// Config is what a Collector needs.
type Config struct {
	Runtime Runtime
	Log     *slog.Logger
	Node    string // whose containers these are: the label of package labels
	// Pods returns the pods of the node, each with whether it has ended and nothing of it is needed (its deletion was
	// asked for and its worker has finished, or it was evicted), and whether these are all: the sources have synced.
	Pods func() (pods map[types.UID]bool, complete bool)
	// Alone calls remove unless the pod is wanted again, and keeps anything from being made for it meanwhile. Nil: always call
	// remove.
	Alone func(uid types.UID, remove func()) bool
	// LogRoot holds a directory namespace_name_uid for each pod; "" leaves logs alone.
	LogRoot string
	// LogList is a folder with an entry for each directory of LogRoot that is this node's, for hosts where several nodes share
	// LogRoot. "": all directories are this node's.
	LogList string
	// Messages is the folder with the termination messages of a container's instances, one file each, named by its hexadecimal
	// number. Nil: there are none.
	Messages func(uid types.UID, container string) string
	// TendLinks removes links to logs that are gone and makes missing ones. Nil: there are no links.
	TendLinks func(ctx context.Context, containers []*runtimev1.Container) error
	// NodeEvent tells users about the node. It must not block. Default: nobody is told.
	NodeEvent func(eventType, reason, message string)
	Policy    Policy
	Every     time.Duration // default a minute
}

// Validate fills in defaults and says what is missing.
func (c *Config) Validate() error {
	if c.Runtime == nil || c.Log == nil || c.Node == "" || c.Pods == nil {
		return errors.New("containergc: Runtime, Log, Node and Pods must be set")
	}
	if c.LogRoot != "" && !filepath.IsAbs(c.LogRoot) {
		return fmt.Errorf("containergc: the log directory %q must be an absolute path", c.LogRoot)
	}
	if c.Alone == nil {
		c.Alone = func(_ types.UID, remove func()) bool { remove(); return true }
	}
	if c.NodeEvent == nil {
		c.NodeEvent = func(string, string, string) {}
	}
	if c.Every == 0 {
		c.Every = time.Minute
	}
	return nil
}

// Collector removes what is dead.
type Collector struct {
	cfg  Config
	poke chan struct{}
}

// New makes a Collector.
func New(cfg Config) (*Collector, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Collector{cfg: cfg, poke: make(chan struct{}, 1)}, nil
}

// Poke makes the Collector look soon, for instance after a pod has finished. It never blocks.
func (c *Collector) Poke() {
	select {
	case c.poke <- struct{}{}:
	default:
	}
}

// Run collects periodically until ctx ends. A collection that was asked for by Poke and fails is tried again; only the periodic
// one reports its failures.
func (c *Collector) Run(ctx context.Context, ready func()) error {
	ready()
	tick := time.NewTicker(c.cfg.Every)
	defer tick.Stop()
	for {
		regular := true
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-c.poke:
			regular = false
		}
		err := c.Collect(ctx)
		if err == nil || ctx.Err() != nil {
			continue
		}
		c.cfg.Log.Warn("dead containers could not be removed, will try again", "err", err)
		if regular {
			c.cfg.NodeEvent(v1.EventTypeWarning, "ContainerGCFailed", err.Error())
		}
	}
}

// Collect looks once. A thing that cannot be removed does not keep the others from going.
func (c *Collector) Collect(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	s, err := c.look(ctx)
	if err != nil {
		return err
	}
	t := plan(s, c.cfg.Policy, time.Now())
	var errs []error
	for _, id := range t.containers {
		if err := c.cfg.Runtime.RemoveContainer(ctx, id); err != nil {
			errs = append(errs, fmt.Errorf("container %s: %w", id, err))
		}
	}
	for _, id := range t.sandboxes {
		if err := c.cfg.Runtime.StopPodSandbox(ctx, id); err != nil {
			errs = append(errs, fmt.Errorf("stop sandbox %s: %w", id, err))
			continue
		}
		if err := c.cfg.Runtime.RemovePodSandbox(ctx, id); err != nil {
			errs = append(errs, fmt.Errorf("sandbox %s: %w", id, err))
		}
	}
	for _, dir := range t.logDirs {
		c.cfg.Alone(types.UID(dir[strings.LastIndex(dir, "_")+1:]), func() { errs = append(errs, c.removeLogs(dir)) })
	}
	errs = append(errs, c.sweepFiles(s)...)
	if c.cfg.TendLinks != nil {
		errs = append(errs, c.cfg.TendLinks(ctx, s.containers))
	}
	if n := len(t.containers) + len(t.sandboxes) + len(t.logDirs); n > 0 {
		c.cfg.Log.Debug("removed what was dead", "containers", len(t.containers), "sandboxes", len(t.sandboxes), "logs", len(t.logDirs))
	}
	return utilerrors.NewAggregate(errs)
}

// look reads the pods last: a pod that appeared while the runtime was asked is known then, and one that went is collected next
// time.
func (c *Collector) look(ctx context.Context) (s seen, err error) {
	own := map[string]string{labels.Node: c.cfg.Node}
	if s.logDirs, err = c.logs(); err != nil {
		return s, err
	}
	if s.containers, err = c.cfg.Runtime.ListContainers(ctx, &runtimev1.ContainerFilter{LabelSelector: own}); err != nil {
		return s, fmt.Errorf("list containers: %w", err)
	}
	if s.sandboxes, err = c.cfg.Runtime.ListPodSandbox(ctx, &runtimev1.PodSandboxFilter{LabelSelector: own}); err != nil {
		return s, fmt.Errorf("list sandboxes: %w", err)
	}
	s.pods, s.complete = c.cfg.Pods()
	return s, nil
}

func (c *Collector) removeLogs(dir string) error {
	if err := os.RemoveAll(filepath.Join(c.cfg.LogRoot, dir)); err != nil || c.cfg.LogList == "" {
		return err
	}
	return os.RemoveAll(filepath.Join(c.cfg.LogList, dir))
}

// logs lists the pods' log directories. A name that is not of a pod is left alone.
func (c *Collector) logs() (map[types.UID]string, error) {
	if c.cfg.LogRoot == "" {
		return nil, nil
	}
	entries, err := os.ReadDir(cmp.Or(c.cfg.LogList, c.cfg.LogRoot))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	out := map[types.UID]string{}
	for _, e := range entries {
		parts := strings.Split(e.Name(), "_")
		if e.IsDir() && len(parts) == 3 && parts[2] != "" {
			out[types.UID(parts[2])] = e.Name()
		}
	}
	return out, nil
}
