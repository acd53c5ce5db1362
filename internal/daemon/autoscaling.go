package daemon

import (
	"context"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/controllers/horizontalpodautoscaler"
	"podo.dev/podo/internal/controllers/loop"
)

// newAutoscaler scales by what pods use, which the server measures itself when it is asked.
func (s *server) newAutoscaler(_ context.Context, c client.Client) (*loop.Loop, error) {
	return horizontalpodautoscaler.New(horizontalpodautoscaler.Config{
		View: s.control.view, Client: c, Metrics: s.control.usage, Events: s.control.events.Recorder(horizontalpodautoscaler.Name, ""), Logger: s.log,
	})
}
