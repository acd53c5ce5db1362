package daemon

import (
	"context"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/component"
	"podo.dev/podo/internal/controllers/daemonset"
	"podo.dev/podo/internal/controllers/loop"
	"podo.dev/podo/internal/controllers/statefulset"
)

// setControllers keep the pods that are not interchangeable: one on every node, or one with each number.
func (s *server) setControllers() []component.Component {
	return []component.Component{
		component.Func(daemonset.Name, s.controller(func(_ context.Context, c client.Client) (*loop.Loop, error) {
			return daemonset.New(daemonset.Config{View: s.control.view, Client: c, Events: s.control.events.Recorder(daemonset.Name, ""), Logger: s.log})
		})),
		component.Func(statefulset.Name, s.controller(func(_ context.Context, c client.Client) (*loop.Loop, error) {
			return statefulset.New(statefulset.Config{View: s.control.view, Client: c, Events: s.control.events.Recorder(statefulset.Name, ""), Logger: s.log})
		})),
	}
}
