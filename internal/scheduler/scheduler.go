// Package scheduler gives pods their nodes. The decisions are pure (packages framework, plugins, plan, queue); this shell feeds
// them from the view, acts on what they decide, and reports what happened.
//
// One goroutine owns all state and runs one cycle after the other, so that no decision is made on a state that another is about
// to change. A cycle places batches of equal pods and hands their binds over together, unless it takes too long. Binding is
// asynchronous: the pod is assumed to be on its node at once, and forgotten again when the bind fails. A bounded number of
// workers writes to the API server (binds, conditions, events).
package scheduler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/scheduler/framework"
	"podo.dev/podo/internal/scheduler/profile"
	"podo.dev/podo/internal/scheduler/volumes"
	"podo.dev/podo/internal/timeline"
	"podo.dev/podo/internal/view"
)

// Config is what a Scheduler is made of. View and Client are required.
type Config struct {
	View   *view.View
	Client client.Client
	Events func(profile string) Recorder // of each profile; default: none are sent
	Append timeline.Append               // default: Discard
	Logger *slog.Logger                  // default: none

	// Profiles say which pods are placed, by spec.schedulerName, and how. Default: profile.Default.
	Profiles profile.Config
	Metrics  *Metrics // default: ones that nobody sees
	Page     *Page    // the same
	// Transport is the way to extenders; nil: as the configuration says.
	Transport http.RoundTripper
	// Budgets are those that pods have now; default: there are none.
	Budgets func() []framework.Budget
	// Seed decides between equally good nodes.
	Seed uint64
	// Binders is how many batches of binds may be under way, MaxInFlight how many pods may be assumed and not yet bound.
	// Defaults: 8 and 512.
	Binders, MaxInFlight int
}

// Recorder sends an event about an object: action is what was done, related another object that it is about, or nil.
type Recorder interface {
	Eventf(about, related runtime.Object, kind, reason, action, note string, args ...any)
}

// Validate fills in defaults and says what is missing.
func (c *Config) Validate() error {
	if c.View == nil || c.Client == nil {
		return errors.New("scheduler: View and Client are required")
	}
	if c.Events == nil {
		c.Events = func(string) Recorder { return noEvents{} }
	}
	if c.Append == nil {
		c.Append = timeline.Discard
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Profiles.Profiles == nil {
		c.Profiles = profile.Default(Given(c.View))
	}
	if c.Metrics == nil {
		c.Metrics = NewMetrics()
	}
	if c.Page == nil {
		c.Page = NewPage()
	}
	if c.Budgets == nil {
		c.Budgets = func() []framework.Budget { return nil }
	}
	if c.Binders == 0 {
		c.Binders = 8
	}
	if c.MaxInFlight == 0 {
		c.MaxInFlight = 512
	}
	if c.Binders < 1 || c.MaxInFlight < c.Binders {
		return fmt.Errorf("scheduler: want 1 <= Binders <= MaxInFlight, have %d and %d", c.Binders, c.MaxInFlight)
	}
	return nil
}

// Given is what the plug-ins read from a view, for profile.Read.
func Given(v *view.View) profile.Given {
	return profile.Given{
		Like:    likes(v),
		Volumes: volumes.New(v).Plugins,
	}
}

// Scheduler is a component.
type Scheduler struct{ config Config }

// New makes a Scheduler.
func New(c Config) (*Scheduler, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return &Scheduler{config: c}, nil
}

// Name is the component's.
func (s *Scheduler) Name() string { return "scheduler" }

var (
	pods       = schema.GroupResource(client.Pods)
	nodes      = schema.GroupResource(client.Nodes)
	namespaces = schema.GroupResource(client.Namespaces)
)

// Run schedules until ctx ends. When the view no longer has the changes since the last look, it starts again from a fresh
// snapshot, after everything in flight has come back.
func (s *Scheduler) Run(ctx context.Context, ready func()) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	out := newOutbox(s.config)
	stopped := out.start(ctx)
	var r *run
	defer func() {
		cancel()
		stopped()
		if r != nil {
			r.release()
		}
	}()
	for first := true; ; first = false {
		snapshot, err := s.config.View.Fresh(ctx)
		if err != nil {
			return quiet(ctx, err)
		}
		r, err = newRun(s.config, out, snapshot)
		if err == nil {
			if first {
				ready()
			}
			err = r.loop(ctx)
		}
		if !errors.Is(err, view.ErrGone) {
			return quiet(ctx, err)
		}
		s.config.Logger.Info("scheduler starts anew: the view no longer has the changes since the last look")
		r.close()
		if err := out.drain(ctx); err != nil {
			return quiet(ctx, err)
		}
		r.release()
		r = nil
	}
}

// quiet makes an orderly end of what ctx ended.
func quiet(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// after is a channel that gets a value at t, with its release; nil when there is nothing to wait for.
func after(t time.Time, ok bool) (<-chan time.Time, func()) {
	if !ok {
		return nil, func() {}
	}
	timer := time.NewTimer(time.Until(t))
	return timer.C, func() { timer.Stop() }
}
