package daemon

import (
	"context"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/component"
	"podo.dev/podo/internal/controllers/cronjob"
	"podo.dev/podo/internal/controllers/job"
	"podo.dev/podo/internal/controllers/loop"
	"podo.dev/podo/internal/controllers/ttlafterfinished"
	"podo.dev/podo/internal/host/linux"
)

// batchControllers run work that ends.
func (s *server) batchControllers() []component.Component {
	return []component.Component{
		component.Func("jobs", s.controller(s.newJobs)),
		component.Func("job-orphans", s.controller(s.newJobOrphans)),
		component.Func("cronjobs", s.controller(s.newCronJobs)),
		component.Func("ttl-after-finished", s.controller(s.newTTLAfterFinished)),
		component.Func("clock", s.followClock),
	}
}

func (s *server) newJobs(_ context.Context, c client.Client) (*loop.Loop, error) {
	return job.New(job.Config{View: s.control.view, Client: c, Events: s.control.events.Recorder("job-controller", ""), Logger: s.log})
}

func (s *server) newJobOrphans(_ context.Context, c client.Client) (*loop.Loop, error) {
	return job.NewOrphans(job.Config{View: s.control.view, Client: c, Logger: s.log})
}

func (s *server) newCronJobs(_ context.Context, c client.Client) (*loop.Loop, error) {
	return cronjob.New(cronjob.Config{View: s.control.view, Client: c, Events: s.control.events.Recorder("cronjob-controller", ""), Logger: s.log})
}

func (s *server) newTTLAfterFinished(_ context.Context, c client.Client) (*loop.Loop, error) {
	return ttlafterfinished.New(s.control.view, c, s.log)
}

// followClock tells the controllers when the clock was set: of what is due by it, their timers know nothing.
func (s *server) followClock(ctx context.Context, ready func()) error {
	ready()
	set, err := linux.ClockSet(ctx)
	if err != nil {
		s.log.Warn("changes of the clock will be noticed late", "err", err)
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-set:
			s.control.board.ClockSet()
		}
	}
}
