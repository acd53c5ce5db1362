package daemon

import (
	"context"
	"net/netip"

	"podo.dev/podo/internal/apiserver/admit"
	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/client/events"
	"podo.dev/podo/internal/client/local"
	"podo.dev/podo/internal/controllers/kubernetesservice"
	"podo.dev/podo/internal/controllers/legacytokens"
	"podo.dev/podo/internal/controllers/loop"
	"podo.dev/podo/internal/controllers/secrettokens"
	"podo.dev/podo/internal/controllers/serviceaddresses"
	"podo.dev/podo/internal/controllers/tokencleaner"
)

// The controllers of accounts, their tokens, and the API server's own Service.

func (s *server) newSecretTokens(_ context.Context, c client.Client) (*loop.Loop, error) {
	return secrettokens.New(secrettokens.Config{
		View: s.control.view, Client: c, CA: s.certs.CAPEM(), Sign: s.control.identity.issuer.ForSecret, Logger: s.log,
	})
}

func (s *server) newTokenCleaner(_ context.Context, c client.Client) (*loop.Loop, error) {
	return tokencleaner.New(s.control.view, c, s.log)
}

func (s *server) newLegacyTokens(_ context.Context, c client.Client) (*loop.Loop, error) {
	return legacytokens.New(s.control.view, c, legacytokens.Period, s.log)
}

// newServiceAddresses acts as the server itself, as upstream's does.
func (s *server) newServiceAddresses(ctx context.Context, _ client.Client) (*loop.Loop, error) {
	ports, err := admit.ParseNodePorts(s.cfg.ServiceNodePortRange)
	if err != nil {
		return nil, err
	}
	c := local.Admin(s.control.verbs)
	w := events.Start(ctx, c, s.log)
	return serviceaddresses.New(serviceaddresses.Config{
		View: s.control.view, Client: c, FirstPort: ports.First, LastPort: ports.Last, Logger: s.log,
		Events:     w.Recorder("ipallocator-repair-controller", ""),
		PortEvents: w.Recorder("portallocator-repair-controller", ""),
	})
}

// runKubernetesService acts as the server itself, as upstream's does. Only an etcd of somebody else's can have other servers on it.
func (s *server) runKubernetesService(ctx context.Context, ready func()) error {
	services, err := netip.ParsePrefix(s.cfg.ServiceCIDR)
	if err != nil {
		return err
	}
	node, err := netip.ParseAddr(s.cfg.NodeIP)
	if err != nil {
		return err
	}
	var leases *kubernetesservice.Leases
	if len(s.cfg.EtcdEndpoints) > 0 {
		leases = &kubernetesservice.Leases{Store: s.control.store}
	}
	c, err := kubernetesservice.New(s.control.view, local.Admin(s.control.verbs), kubernetesservice.Address{
		Inside: services.Addr().Next(), Server: netip.AddrPortFrom(node, uint16(s.cfg.HTTPSPort)),
	}, leases, s.log)
	if err != nil {
		return err
	}
	return c.Run(ctx, ready)
}
