package controllers

import (
	"context"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/client/local"
	"podo.dev/podo/internal/controllers/garbage"
	"podo.dev/podo/internal/controllers/loop"
	"podo.dev/podo/internal/controllers/namespaces"
	"podo.dev/podo/internal/controllers/priorityclasses"
	"podo.dev/podo/internal/controllers/quotas"
	"podo.dev/podo/internal/registry"
)

// Those for objects of every kind.

func (c *Config) namespaces(_ context.Context, own client.Client) (*loop.Loop, error) {
	return namespaces.New(namespaces.Config{
		View: c.View, Client: own, Kinds: registry.All(), Logger: c.Logger, DeleteCollection: local.Controllers(c.Verbs).DeleteCollection,
	})
}

func (c *Config) garbage(_ context.Context, own client.Client) (*loop.Loop, error) {
	return garbage.New(garbage.Config{
		View: c.View, Client: own, Events: c.events("garbage-collector-controller"), Kinds: registry.All(), Logger: c.Logger,
	})
}

func (c *Config) quotas(_ context.Context, own client.Client) (*loop.Loop, error) {
	return quotas.New(c.View, own, registry.All(), c.Logger)
}

// priorityClasses acts as the API server itself, which owns the classes.
func (c *Config) priorityClasses(context.Context, client.Client) (*loop.Loop, error) {
	return priorityclasses.New(c.View, local.Admin(c.Verbs), c.Logger)
}
