package controllers

import (
	"context"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/client/events"
	"podo.dev/podo/internal/client/local"
	"podo.dev/podo/internal/controllers/endpoints"
	"podo.dev/podo/internal/controllers/endpointslicemirroring"
	"podo.dev/podo/internal/controllers/endpointslices"
	"podo.dev/podo/internal/controllers/loop"
	"podo.dev/podo/internal/controllers/serviceaddresses"
	"podo.dev/podo/internal/controllers/servicecidr"
	"podo.dev/podo/internal/controllers/servicecidrs"
)

// serviceCIDR acts as the server itself, as upstream's does.
func (c *Config) serviceCIDR(context.Context, client.Client) (*loop.Loop, error) {
	return servicecidr.New(c.View, local.Admin(c.Verbs), c.Server.Services().String(), c.Logger)
}

func (c *Config) serviceCIDRs(_ context.Context, own client.Client) (*loop.Loop, error) {
	return servicecidrs.New(c.View, own, c.events("service-cidr-controller"), c.Logger)
}

// serviceAddresses acts as the server itself, as upstream's does.
func (c *Config) serviceAddresses(ctx context.Context, _ client.Client) (*loop.Loop, error) {
	server, ports := local.Admin(c.Verbs), c.Server.NodePorts()
	w := events.Start(ctx, server, c.Logger)
	return serviceaddresses.New(serviceaddresses.Config{
		View: c.View, Client: server, FirstPort: ports.First, LastPort: ports.Last, Logger: c.Logger,
		Events:     w.Recorder("ipallocator-repair-controller", ""),
		PortEvents: w.Recorder("portallocator-repair-controller", ""),
	})
}

func (c *Config) endpointSlices(_ context.Context, own client.Client) (*loop.Loop, error) {
	return endpointslices.New(endpointslices.Config{View: c.View, Client: own, Events: c.events("endpoint-slice-controller"), Logger: c.Logger})
}

func (c *Config) endpoints(_ context.Context, own client.Client) (*loop.Loop, error) {
	return endpoints.New(endpoints.Config{View: c.View, Client: own, Events: c.events(endpoints.Name), Logger: c.Logger})
}

func (c *Config) endpointSliceMirroring(_ context.Context, own client.Client) (*loop.Loop, error) {
	return endpointslicemirroring.New(endpointslicemirroring.Config{
		View: c.View, Client: own, Events: c.events("endpoint-slice-mirroring-controller"), Logger: c.Logger,
	})
}
