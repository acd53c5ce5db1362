package control

import (
	"context"

	"podo.dev/podo/internal/apiserver/admit"
	"podo.dev/podo/internal/client/local"
	"podo.dev/podo/internal/controllers/kubernetesservice"
)

// The API server takes part in Services: it allocates their addresses on write, and one of the Services is its own.

// serviceAddresses is the rule that gives Services their addresses.
func (p *Plane) serviceAddresses() *admit.ServiceAddresses {
	return &admit.ServiceAddresses{View: p.view, Store: p.store, CIDR: p.cfg.Server.Services(), Ports: p.cfg.Server.NodePorts()}
}

// runKubernetesService acts as the server itself, as upstream's does. Only an external etcd can have other servers.
func (p *Plane) runKubernetesService(ctx context.Context, ready func()) error {
	if err := p.moveServices(ctx); err != nil {
		return err
	}
	var leases *kubernetesservice.Leases
	if len(p.cfg.Server.EtcdEndpoints) > 0 {
		leases = &kubernetesservice.Leases{Store: p.store}
	}
	c, err := kubernetesservice.New(p.view, local.Admin(p.verbs), kubernetesservice.Address{Inside: p.cfg.Server.APIService(), Server: p.cfg.Server.API()}, leases, p.cfg.Logger)
	if err != nil {
		return err
	}
	return c.Run(ctx, ready)
}
