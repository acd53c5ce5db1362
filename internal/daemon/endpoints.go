package daemon

import (
	"context"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/controllers/endpoints"
	"podo.dev/podo/internal/controllers/endpointslicemirroring"
	"podo.dev/podo/internal/controllers/endpointslices"
	"podo.dev/podo/internal/controllers/loop"
)

func (s *server) newEndpointSlices(_ context.Context, c client.Client) (*loop.Loop, error) {
	return endpointslices.New(endpointslices.Config{
		View: s.control.view, Client: c, Events: s.control.events.Recorder("endpoint-slice-controller", ""), Logger: s.log,
	})
}

func (s *server) newEndpoints(_ context.Context, c client.Client) (*loop.Loop, error) {
	return endpoints.New(endpoints.Config{
		View: s.control.view, Client: c, Events: s.control.events.Recorder(endpoints.Name, ""), Logger: s.log,
	})
}

func (s *server) newEndpointSliceMirroring(_ context.Context, c client.Client) (*loop.Loop, error) {
	return endpointslicemirroring.New(endpointslicemirroring.Config{
		View: s.control.view, Client: c, Events: s.control.events.Recorder("endpoint-slice-mirroring-controller", ""), Logger: s.log,
	})
}
