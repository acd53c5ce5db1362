package control

import (
	"context"

	"podo.dev/podo/internal/apiserver/admit"
	"podo.dev/podo/internal/client/local"
	"podo.dev/podo/internal/controllers/kubernetesservice"
)

// The API server has a part in Services: their addresses are written with them, and one of them is its own.

// serviceAddresses is the rule that gives Services their addresses.
func (p *Plane) serviceAddresses() *admit.ServiceAddresses {
	return &admit.ServiceAddresses{View: p.view, Store: p.store, CIDR: p.cfg.Server.Services(), Ports: p.cfg.Server.NodePorts()}
}

// runKubernetesService acts as the server itself, as upstream's does. Only an etcd of somebody else's can have other servers on it.
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
