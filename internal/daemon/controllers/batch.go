package controllers

import (
	"context"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/controllers/cronjob"
	"podo.dev/podo/internal/controllers/job"
	"podo.dev/podo/internal/controllers/loop"
	"podo.dev/podo/internal/controllers/ttlafterfinished"
	"podo.dev/podo/internal/host/linux"
)

// Work that ends.

func (c *Config) jobs(_ context.Context, own client.Client) (*loop.Loop, error) {
	return job.New(job.Config{View: c.View, Client: own, Events: c.events("job-controller"), Logger: c.Logger})
}

func (c *Config) jobOrphans(_ context.Context, own client.Client) (*loop.Loop, error) {
	return job.NewOrphans(job.Config{View: c.View, Client: own, Logger: c.Logger})
}

func (c *Config) cronJobs(_ context.Context, own client.Client) (*loop.Loop, error) {
	return cronjob.New(cronjob.Config{View: c.View, Client: own, Events: c.events("cronjob-controller"), Logger: c.Logger})
}

func (c *Config) ttlAfterFinished(_ context.Context, own client.Client) (*loop.Loop, error) {
	return ttlafterfinished.New(c.View, own, c.Logger)
}

// followClock tells all controllers that the clock was set, since their timers do not notice.
func (c *Config) followClock(ctx context.Context, ready func()) error {
	ready()
	linux.WhenClockSet(ctx, c.Board.ClockSet, func(err error) { c.Logger.Warn("changes of the clock will be noticed late", "err", err) })
	return nil
}
