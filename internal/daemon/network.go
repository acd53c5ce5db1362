package daemon

import (
	"context"
	"net/netip"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/client/events"
	"podo.dev/podo/internal/daemon/joined"
	"podo.dev/podo/internal/kubelet/routes"
	"podo.dev/podo/internal/runtime"
)

// runRoutes keeps the routes to other nodes' pods, and reports every node's range to network.
func (p *process) runRoutes(ctx context.Context, nodes routes.Source, c client.Client, network func(ctx context.Context, own, all []netip.Prefix) error) error {
	recorder := events.New(ctx, c, "kubelet", p.cfg.NodeName, p.log)
	name := p.cfg.NodeName
	k, err := routes.New(routes.Config{
		Source: nodes, Node: name, File: p.dir.Routes(), Ignore: runtime.LayoutFor(p.dir.Root).Bridge, Network: network,
		Far: func(_, message string) {
			ref := &v1.ObjectReference{Kind: "Node", APIVersion: "v1", Name: name, UID: types.UID(name)}
			recorder.Event(ref, v1.EventTypeWarning, "NodeNotOnLink", message)
		},
		Log: p.log.With("component", "routes"),
	})
	if err != nil {
		return err
	}
	return k.Run(ctx, func() {})
}

// setNetwork configures the pod network of the embedded runtime; another runtime has its own.
func (p *process) setNetwork(ctx context.Context, n runtime.Network) error {
	if p.node.embedded == nil {
		return nil
	}
	return p.node.embedded.SetNetwork(ctx, n)
}

// keepRoutes is for the server's own node, whose range is fixed. What changes is the list of addresses that are not masqueraded.
func (s *server) keepRoutes(ctx context.Context, ready func()) error {
	ready()
	alone := true
	c := s.control.Cluster()
	return s.runRoutes(ctx, routes.InView{View: c.View}, c.Client, func(ctx context.Context, own, all []netip.Prefix) error {
		if alone = alone && len(all) == len(own); alone {
			return nil // the server's own range is in place from the start
		}
		n := s.network()
		n.Cluster = all
		return s.setNetwork(ctx, n)
	})
}

// network is the pod network of the server's own node while it knows no other. The API server is reached at the address of the
// Service "kubernetes", as long as nobody proxies Services.
func (s *server) network() runtime.Network {
	return runtime.Network{Pods: []netip.Prefix{s.cfg.Pods()}, Redirects: []runtime.Redirect{toAPI(s.cfg.APIService(), s.cfg.API())}}
}

// agentNetwork is an agent's pod network as it was last reported, with the way to the API server.
func agentNetwork(c *joined.Cluster, server netip.AddrPort) (n runtime.Network) {
	var service netip.Addr
	n.Pods, n.Cluster, service = c.Network()
	if service.IsValid() && server.IsValid() && service.Is4() == server.Addr().Is4() {
		n.Redirects = []runtime.Redirect{toAPI(service, server)}
	}
	return n
}

// toAPI redirects the address of the Service "kubernetes" to the API server.
func toAPI(service netip.Addr, server netip.AddrPort) runtime.Redirect {
	const port = 443
	return runtime.Redirect{From: netip.AddrPortFrom(service, port), To: server}
}
