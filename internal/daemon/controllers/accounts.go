package controllers

import (
	"context"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/controllers/clusterroles"
	"podo.dev/podo/internal/controllers/legacytokens"
	"podo.dev/podo/internal/controllers/loop"
	"podo.dev/podo/internal/controllers/rootca"
	"podo.dev/podo/internal/controllers/secrettokens"
	"podo.dev/podo/internal/controllers/serviceaccounts"
	"podo.dev/podo/internal/controllers/tokencleaner"
)

// The controllers of accounts, their tokens and their roles.

func (c *Config) serviceAccounts(_ context.Context, own client.Client) (*loop.Loop, error) {
	return serviceaccounts.New(c.View, own, c.Logger)
}

func (c *Config) rootCA(_ context.Context, own client.Client) (*loop.Loop, error) {
	return rootca.New(c.View, own, c.Certs.CAPEM(), c.Logger)
}

func (c *Config) secretTokens(_ context.Context, own client.Client) (*loop.Loop, error) {
	return secrettokens.New(secrettokens.Config{View: c.View, Client: own, CA: c.Certs.CAPEM(), Sign: c.Tokens.ForSecret, Logger: c.Logger})
}

func (c *Config) tokenCleaner(_ context.Context, own client.Client) (*loop.Loop, error) {
	return tokencleaner.New(c.View, own, c.Logger)
}

func (c *Config) legacyTokens(_ context.Context, own client.Client) (*loop.Loop, error) {
	return legacytokens.New(c.View, own, legacytokens.Period, c.Logger)
}

func (c *Config) clusterRoles(_ context.Context, own client.Client) (*loop.Loop, error) {
	return clusterroles.New(c.View, own, c.Logger)
}
