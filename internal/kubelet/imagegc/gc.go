// Package imagegc removes images that nothing needs: old ones, some when the disk fills up, and all before pods would be evicted
// for the disk; the longest unused go first. It never removes an image that a container in any state refers to, nor a pinned one.
// Pinned are the sandbox image and images imported from an archive, since no registry could bring those back.
package imagegc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"podo.dev/podo/internal/cri"
)

const (
	period = 5 * time.Minute
	// limit keeps a hanging runtime from blocking the eviction manager, which waits for its turn.
	limit = 2 * time.Minute
)

// What images are removed for, in upstream's words.
const (
	Age   = "age"
	Space = "space"
)

// Runtime is what the collector asks of the container runtime.
type Runtime interface {
	ListImages(ctx context.Context) ([]*runtimev1.Image, error)
	RemoveImage(ctx context.Context, image *runtimev1.ImageSpec) error
	ListContainers(ctx context.Context, filter *runtimev1.ContainerFilter) ([]*runtimev1.Container, error)
	ContainerStatus(ctx context.Context, id string) (*runtimev1.ContainerStatus, error)
}

// Config is what a Collector needs.
type Config struct {
	Runtime Runtime
	// Disk tells the size of the file system that holds the images, and what of it is available, in bytes (see FileSystem).
	Disk      func(ctx context.Context) (capacity, available int64, err error)
	NodeEvent func(eventType, reason, message string) // must not block
	Log       *slog.Logger
	// Removed is told of each image that was removed, and for what: Age or Space. May be nil.
	Removed func(why string)
	// Seen is told the ids of all images that there were at a moment; may be nil.
	Seen   func(ids []string, at time.Time)
	Policy Policy
	Every  time.Duration // default five minutes
}

// Validate fills in defaults and says what is missing.
func (c *Config) Validate() error {
	if c.Runtime == nil || c.Disk == nil || c.NodeEvent == nil || c.Log == nil {
		return errors.New("imagegc: Runtime, Disk, NodeEvent and Log must be set")
	}
	if c.Every == 0 {
		c.Every = period
	}
	return nil
}

// Collector removes images. It owns what is known of their use.
type Collector struct {
	cfg    Config
	turn   chan struct{} // holds one token: the timer and the eviction manager take turns
	memory memory        // of whose turn it is

	mu     sync.Mutex
	wanted map[string]time.Time // since the last look
}

// New makes a Collector. It starts nothing.
func New(cfg Config) (*Collector, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Collector{cfg: cfg, turn: make(chan struct{}, 1), memory: memory{}, wanted: map[string]time.Time{}}, nil
}

// Wanted says that a container is about to be created from an image, by id or name: no container has it yet, and it must stay.
func (c *Collector) Wanted(image string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wanted[image] = time.Now()
}

// Run collects at once and then every five minutes until ctx ends. A single failure may pass by itself; users hear of a repeated
// one.
func (c *Collector) Run(ctx context.Context, ready func()) error {
	ready()
	tick := time.NewTicker(c.cfg.Every)
	defer tick.Stop()
	for failed := false; ; {
		err := c.round(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			c.cfg.Log.Warn("images could not be collected, will try again", "err", err)
		}
		if err != nil && failed {
			c.cfg.NodeEvent(v1.EventTypeWarning, "ImageGCFailed", err.Error())
		}
		failed = err != nil
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// round looks at the images even when nothing is to be collected: an eviction needs to know how long each has been there.
func (c *Collector) round(ctx context.Context) error {
	if !c.cfg.Policy.off() {
		return c.Collect(ctx)
	}
	return c.inTurn(ctx, func(ctx context.Context) error {
		_, _, err := c.look(ctx, time.Now())
		return err
	})
}

// Collect removes what is too old and then, when the disk is too full, as much as must go. It returns an error when it cannot.
func (c *Collector) Collect(ctx context.Context) error {
	return c.inTurn(ctx, func(ctx context.Context) error {
		now := time.Now()
		free, k, err := c.look(ctx, now)
		if err != nil {
			return err
		}
		old, rest := split(free, c.cfg.Policy, now)
		_, err = c.remove(ctx, Age, old, math.MaxInt64)
		if err != nil {
			err = fmt.Errorf("wanted to free images older than %v, encountered errors in image deletion: %w", c.cfg.Policy.MaxAge, err)
		}
		return utilerrors.NewAggregate([]error{err, c.makeRoom(ctx, rest, k)})
	})
}

// FreeAll removes every image that nothing needs, however full the disk is.
func (c *Collector) FreeAll(ctx context.Context) error {
	return c.inTurn(ctx, func(ctx context.Context) error {
		free, k, err := c.look(ctx, time.Now())
		if err != nil {
			return err
		}
		freed, err := c.remove(ctx, Space, free, math.MaxInt64)
		c.cfg.Log.Debug("what nothing needs was removed", "bytes", freed, "stay", k.String())
		return err
	})
}

func (c *Collector) inTurn(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	select {
	case c.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-c.turn }()
	return do(ctx)
}

// look lists images before containers: whoever creates a container after the list has called Wanted.
func (c *Collector) look(ctx context.Context, now time.Time) ([]*candidate, kept, error) {
	s := &seen{used: map[string]bool{}}
	var err error
	if s.images, err = c.cfg.Runtime.ListImages(ctx); err != nil {
		return nil, kept{}, fmt.Errorf("list images: %w", err)
	}
	if c.cfg.Seen != nil {
		ids := make([]string, len(s.images))
		for i := range s.images {
			ids[i] = s.images[i].Id
		}
		c.cfg.Seen(ids, now)
	}
	containers, err := c.cfg.Runtime.ListContainers(ctx, nil) // of whatever kubelet, when several share the runtime
	if err != nil {
		return nil, kept{}, fmt.Errorf("list containers: %w", err)
	}
	for _, x := range containers {
		s.used[x.ImageId], s.used[x.ImageRef], s.used[x.GetImage().GetImage()] = true, true, true
	}
	if s.anyIdle() {
		if err := c.mounted(ctx, s, containers); err != nil {
			return nil, kept{}, err
		}
	}
	c.mu.Lock()
	s.wanted, c.wanted = c.wanted, map[string]time.Time{}
	c.mu.Unlock()
	c.memory.learn(s, now)
	free, k := c.memory.plan(s, c.cfg.Policy, now)
	return free, k, nil
}

// mounted adds the images that containers mount as volumes; only the status of each container names them.
func (c *Collector) mounted(ctx context.Context, s *seen, containers []*runtimev1.Container) error {
	for _, x := range containers {
		st, err := c.cfg.Runtime.ContainerStatus(ctx, x.Id)
		if cri.IsNotFound(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("get container status: %w", err)
		}
		for _, m := range st.GetMounts() {
			if m.GetImage() != nil {
				s.used[m.Image.Image] = true
			}
		}
	}
	return nil
}

// makeRoom removes images, first ones first, until the disk is below the low threshold.
func (c *Collector) makeRoom(ctx context.Context, free []*candidate, k kept) error {
	capacity, available, err := c.cfg.Disk(ctx)
	if err != nil {
		return err
	}
	if capacity == 0 {
		err := errors.New("invalid capacity 0 on image filesystem")
		c.cfg.NodeEvent(v1.EventTypeWarning, "InvalidDiskCapacity", err.Error())
		return err
	}
	percent, want := c.cfg.Policy.room(capacity, available)
	if want <= 0 {
		return nil
	}
	freed, err := c.remove(ctx, Space, free, want)
	if err != nil {
		return fmt.Errorf("wanted to free %d bytes, but freed %d bytes space with errors in image deletion: %w", want, freed, err)
	}
	if freed >= want {
		return nil
	}
	message := shortage(percent, capacity, freed, k)
	c.cfg.NodeEvent(v1.EventTypeWarning, "FreeDiskSpaceFailed", message)
	return errors.New(message)
}

// remove removes images until want bytes are free. One that cannot be removed does not keep the others.
func (c *Collector) remove(ctx context.Context, why string, images []*candidate, want int64) (freed int64, err error) {
	var errs []error
	for _, i := range images {
		if freed >= want {
			break
		}
		if ctx.Err() != nil {
			errs = append(errs, ctx.Err())
			break
		}
		if c.wantedSince(i) {
			continue
		}
		if err := c.cfg.Runtime.RemoveImage(ctx, &runtimev1.ImageSpec{Image: i.id()}); err != nil {
			errs = append(errs, fmt.Errorf("image %s: %w", i.name(), err))
			continue
		}
		delete(c.memory, i.id())
		freed += i.size
		if c.cfg.Removed != nil {
			c.cfg.Removed(why)
		}
		c.cfg.Log.Info("removed an image", "image", i.name(), "id", i.id(), "bytes", i.size, "known since", i.first, "last used", i.used)
	}
	return freed, utilerrors.NewAggregate(errs)
}

// wantedSince tells whether a container has asked for the image since the look.
func (c *Collector) wantedSince(i *candidate) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range i.names {
		if _, ok := c.wanted[n]; ok {
			return true
		}
	}
	return false
}
