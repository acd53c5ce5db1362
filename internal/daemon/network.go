package daemon

import (
	"context"
	"net/netip"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/client/events"
	"podo.dev/podo/internal/kubelet/routes"
	"podo.dev/podo/internal/runtime"
)

func (d Dirs) routes() string { return d.path("routes.json") }

// runRoutes leads to other nodes' pods, and tells network of every node's range.
func (p *process) runRoutes(ctx context.Context, nodes routes.Source, c client.Client, network func(ctx context.Context, own, all []netip.Prefix) error) error {
	recorder := events.New(ctx, c, "kubelet", p.cfg.NodeName, p.log)
	name := p.cfg.NodeName
	k, err := routes.New(routes.Config{
		Source: nodes, Node: name, File: p.dirs.routes(), Ignore: runtime.LayoutFor(p.dirs.Root).Bridge, Network: network,
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

// setNetwork makes the pod network of the embedded runtime; another runtime's is its own affair.
func (p *process) setNetwork(ctx context.Context, n runtime.Network) error {
	if p.node.embedded == nil {
		return nil
	}
	return p.node.embedded.SetNetwork(ctx, n)
}

// keepRoutes of the server's own node: what changes is which addresses stay as they are on their way to other nodes.
func (s *server) keepRoutes(ctx context.Context, ready func()) error {
	ready()
	alone := true
	return s.runRoutes(ctx, routes.InView{View: s.control.view}, s.ownClient(), func(ctx context.Context, own, all []netip.Prefix) error {
		if alone = alone && len(all) == len(own); alone {
			return nil // that is what there is from the start
		}
		n, err := s.cfg.network()
		if err != nil {
			return err
		}
		n.Cluster = all
		return s.setNetwork(ctx, n)
	})
}
