package daemon

import (
	"context"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/client/events"
	"podo.dev/podo/internal/controllers/endpoints"
	"podo.dev/podo/internal/controllers/endpointslicemirroring"
	"podo.dev/podo/internal/controllers/endpointslices"
	"podo.dev/podo/internal/controllers/loop"
)

func (s *server) newEndpointSlices(ctx context.Context, c client.Client) (*loop.Loop, error) {
	return endpointslices.New(endpointslices.Config{
		View: s.control.view, Client: c, Events: events.New(ctx, c, "endpoint-slice-controller", "", s.log), Logger: s.log,
	})
}

func (s *server) newEndpoints(ctx context.Context, c client.Client) (*loop.Loop, error) {
	return endpoints.New(endpoints.Config{
		View: s.control.view, Client: c, Events: events.New(ctx, c, endpoints.Name, "", s.log), Logger: s.log,
	})
}

func (s *server) newEndpointSliceMirroring(ctx context.Context, c client.Client) (*loop.Loop, error) {
	return endpointslicemirroring.New(endpointslicemirroring.Config{
		View: s.control.view, Client: c, Events: events.New(ctx, c, "endpoint-slice-mirroring-controller", "", s.log), Logger: s.log,
	})
}
