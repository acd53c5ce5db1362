package controllers

import (
	"context"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/controllers/daemonset"
	"podo.dev/podo/internal/controllers/deployment"
	"podo.dev/podo/internal/controllers/disruption"
	"podo.dev/podo/internal/controllers/horizontalpodautoscaler"
	"podo.dev/podo/internal/controllers/loop"
	"podo.dev/podo/internal/controllers/replicas"
	"podo.dev/podo/internal/controllers/statefulset"
)

// Those who keep pods that are there for good.

func (c *Config) replicas(kind replicas.Kind) func(context.Context, client.Client) (*loop.Loop, error) {
	return func(_ context.Context, own client.Client) (*loop.Loop, error) {
		return replicas.New(replicas.Config{Kind: kind, View: c.View, Client: own, Events: c.events(kind.Name), Logger: c.Logger})
	}
}

func (c *Config) deployments(_ context.Context, own client.Client) (*loop.Loop, error) {
	return deployment.New(deployment.Config{View: c.View, Client: own, Events: c.events(deployment.Name), Logger: c.Logger})
}

func (c *Config) daemonSets(_ context.Context, own client.Client) (*loop.Loop, error) {
	return daemonset.New(daemonset.Config{View: c.View, Client: own, Events: c.events(daemonset.Name), Logger: c.Logger})
}

func (c *Config) statefulSets(_ context.Context, own client.Client) (*loop.Loop, error) {
	return statefulset.New(statefulset.Config{View: c.View, Client: own, Events: c.events(statefulset.Name), Logger: c.Logger})
}

// autoscaler scales by the usage of pods, which the server reads from kubelets on request.
func (c *Config) autoscaler(_ context.Context, own client.Client) (*loop.Loop, error) {
	return horizontalpodautoscaler.New(horizontalpodautoscaler.Config{
		View: c.View, Client: own, Metrics: c.Usage, Events: c.events(horizontalpodautoscaler.Name), Logger: c.Logger,
	})
}

func (c *Config) disruption(_ context.Context, own client.Client) (*loop.Loop, error) {
	return disruption.New(c.disruptionConfig(own))
}

func (c *Config) staleDisruption(_ context.Context, own client.Client) (*loop.Loop, error) {
	return disruption.NewStale(c.disruptionConfig(own))
}

func (c *Config) disruptionConfig(own client.Client) disruption.Config {
	return disruption.Config{View: c.View, Client: own, Events: c.events("controllermanager"), Logger: c.Logger}
}
