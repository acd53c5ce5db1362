package controllers

import (
	"context"
	"net/netip"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/controllers/loop"
	"podo.dev/podo/internal/controllers/nodeipam"
	"podo.dev/podo/internal/controllers/nodelifecycle"
	"podo.dev/podo/internal/controllers/nodettl"
	"podo.dev/podo/internal/controllers/podgc"
	"podo.dev/podo/internal/controllers/tainteviction"
)

// Nodes, and pods that lose theirs.

func (c *Config) nodeLifecycle(_ context.Context, own client.Client) (*loop.Loop, error) {
	return nodelifecycle.New(c.View, own, c.Server.NodeMonitorGrace, c.events("node-controller"), c.Logger)
}

func (c *Config) nodeIPAM(_ context.Context, own client.Client) (*loop.Loop, error) {
	ranges, err := c.Server.ClusterRanges()
	if err != nil {
		return nil, err
	}
	return nodeipam.New(nodeipam.Config{
		View: c.View, Client: own, Ranges: ranges, Reserved: []netip.Prefix{c.Server.Pods()}, Events: c.events("cidrAllocator"), Logger: c.Logger,
	})
}

func (c *Config) nodeTTL(_ context.Context, own client.Client) (*loop.Loop, error) {
	return nodettl.New(c.View, own, c.Logger)
}

func (c *Config) taintEviction(_ context.Context, own client.Client) (*loop.Loop, error) {
	return tainteviction.New(tainteviction.Config{View: c.View, Client: own, Events: c.events("taint-eviction-controller"), Logger: c.Logger})
}

func (c *Config) podGC(_ context.Context, own client.Client) (*loop.Loop, error) {
	return podgc.New(c.View, own, c.Logger)
}
