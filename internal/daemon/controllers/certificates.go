package controllers

import (
	"context"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/controllers/certificateapproval"
	"podo.dev/podo/internal/controllers/certificatecleaning"
	"podo.dev/podo/internal/controllers/certificatesigning"
	"podo.dev/podo/internal/controllers/loop"
	"podo.dev/podo/internal/controllers/trustbundle"
	"podo.dev/podo/internal/pki"
)

// Those who answer who asks for certificates.

// certificateApproval refuses other servers a certificate for the names of the API server's.
func (c *Config) certificateApproval(_ context.Context, own client.Client) (*loop.Loop, error) {
	return certificateapproval.New(certificateapproval.Config{
		View: c.View, Client: own, Logger: c.Logger,
		Reserved: func() []string {
			leaf := c.Certs.Get(pki.Serving).Leaf
			all := append([]string{}, leaf.DNSNames...)
			for _, ip := range leaf.IPAddresses {
				all = append(all, ip.String())
			}
			return all
		},
	})
}

func (c *Config) certificateSigning(_ context.Context, own client.Client) (*loop.Loop, error) {
	return certificatesigning.New(c.View, own, c.Certs, c.Logger)
}

func (c *Config) certificateCleaning(_ context.Context, own client.Client) (*loop.Loop, error) {
	return certificatecleaning.New(c.View, own, c.Logger)
}

func (c *Config) trustBundle(_ context.Context, own client.Client) (*loop.Loop, error) {
	return trustbundle.New(c.View, own, c.Certs.CAPEM(), c.Logger)
}
