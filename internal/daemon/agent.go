package daemon

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os/exec"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/client/remote"
	"podo.dev/podo/internal/client/remote/follow"
	"podo.dev/podo/internal/component"
	"podo.dev/podo/internal/daemon/boot"
	"podo.dev/podo/internal/daemon/config"
	"podo.dev/podo/internal/daemon/datadir"
	"podo.dev/podo/internal/daemon/joined"
	"podo.dev/podo/internal/daemon/node"
	"podo.dev/podo/internal/daemon/preflight"
	"podo.dev/podo/internal/host/linux"
	"podo.dev/podo/internal/kubelet/cert"
	"podo.dev/podo/internal/kubelet/delegate"
	"podo.dev/podo/internal/kubelet/routes"
	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/timeline"
	"podo.dev/podo/internal/timeline/ship"
	"podo.dev/podo/internal/view"
)

// agent is a node of a cluster whose API server runs elsewhere: the kubelet of a server, with the node's credentials and nothing else.
//
//	host checked ─► data directory locked ─┬─► certificates ─► view of this node's part ─► what is told to the server
//	                                       └─► containerd ─► network ─► (certificates) ─► kubelet ─► node Ready
//
// A server that does not answer stops nothing of it: after the first join everything starts without one.
type agent struct {
	*process
	cfg    config.Agent
	joined *joined.Cluster

	certs *cert.Manager
	api   *remote.Client
	view  *view.View
	cloud *follow.Follower
}

// RunAgent runs an agent until ctx ends, or something fails that restarting a component cannot mend. Its end touches no
// container.
func RunAgent(ctx context.Context, cfg config.Agent, version string, report *boot.Report, logOut io.Writer) error {
	log, level := newLogger(logOut, &cfg.Node)
	err := runAgent(ctx, cfg, version, report, log, level)
	if err != nil {
		report.Fail(err)
	}
	return err
}

func runAgent(ctx context.Context, cfg config.Agent, version string, report *boot.Report, log *slog.Logger, level *slog.LevelVar) error {
	if err := (datadir.Dir{Root: cfg.DataDir}).ForAgent(); err != nil {
		return err
	}
	p, lock, err := newProcess(cfg.Node, report, log, level)
	if err != nil {
		return err
	}
	defer lock.Close()
	cfg.Node = p.cfg
	a := &agent{process: p, cfg: cfg}
	checked := report.Begin("host checked")
	if err := preflight.Check("agent", p.dir, p.ports(), exec.LookPath); err != nil {
		return err
	}
	if err := a.build(ctx); err != nil {
		return err
	}
	checked("")
	log.Info("podo agent starts", "version", version, "dataDir", p.dir.Root, "node", cfg.NodeName, "address", cfg.NodeIP, "server", cfg.Server)
	err = a.run(ctx)
	log.Info("podo agent has stopped; containers go on", "err", err)
	return err
}

// build makes every part. Nothing runs yet, and nobody is contacted.
func (a *agent) build(ctx context.Context) (err error) {
	if a.joined, err = joined.Load(a.dir); err != nil {
		return err
	}
	if err := a.joined.Claim(a.cfg.NodeName, a.cfg.Server, a.healthAt()); err != nil {
		return err
	}
	v, feed, err := view.NewFed(view.Config{Kinds: registry.All(), Logger: a.log.With("component", "view")})
	if err != nil {
		return err
	}
	a.view = v
	if err := a.buildCertificates(ctx); err != nil {
		return err
	}
	if a.api, err = remote.New(a.certs.RESTConfig(), registry.All(), "kubelet"); err != nil {
		return err
	}
	a.cloud, err = follow.New(follow.Config{API: a.api, Feed: feed, Node: a.cfg.NodeName, Log: a.log.With("component", "cluster")})
	if err != nil {
		return err
	}
	return a.buildNode(ctx, agentNetwork(a.joined, a.cfg.Address))
}

func (a *agent) buildCertificates(ctx context.Context) error {
	ca, err := a.cfg.Authority()
	if err != nil {
		return err
	}
	clock, err := linux.ClockSet(ctx)
	if err != nil {
		a.log.Warn("changes of the clock will be noticed late", "err", err)
	}
	a.certs, err = cert.New(cert.Config{
		Server: a.cfg.Server, Token: a.cfg.Token, CA: ca, NodeName: a.cfg.NodeName, Dir: a.dir.Certificates(), ClockSet: clock,
		Addresses: func() []v1.NodeAddress {
			if n := node.In(a.view, a.cfg.NodeName); n != nil {
				return n.Status.Addresses
			}
			return nil
		},
		Log: a.log.With("component", "certificates"),
	})
	return err
}

// run runs the parts that talk to the server beside the parts of the node. The kubelet needs the node's certificate, but no
// answer of the server.
func (a *agent) run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	outside := component.NewSupervisor(component.Options{Logger: a.log})
	// The node stops first, so that what it records at its end still reaches the server.
	outer, stop := context.WithCancel(context.WithoutCancel(ctx))
	group.Go(func() error {
		defer stop()
		return outside.Run(outer, nil, a.report.Staged([]component.Component{
			component.Func("timeline", a.timeline.Run),
			component.Func("certificates", a.certs.Run),
			component.Func("cluster", a.followCluster),
			component.Func("serving-addresses", a.followAddresses),
			component.Func("timeline-shipping", a.shipTimeline),
		})...)
	})
	group.Go(func() error {
		defer stop()
		// The node is Ready once it has a network, for which the server has to have given it addresses: the kubelet comes last.
		all := []component.Component{component.Func("routes", a.keepRoutes), component.Func("kubelet", a.kubelet)}
		if a.node.embedded != nil {
			all = append([]component.Component{a.node.embedded}, all...)
		}
		return a.node.supervisor.Run(ctx, a.announce, a.report.Staged(all)...)
	})
	return group.Wait()
}

func (a *agent) announce() {
	a.report.Begin(boot.Ready)("")
	a.log.Info("ready", "server", a.cfg.Server, "node", a.cfg.NodeName)
}

// followCluster is ready at once. Whoever needs the view waits for it, and a server that does not answer delays nobody's start.
func (a *agent) followCluster(ctx context.Context, ready func()) error {
	ready()
	return a.cloud.Run(ctx, func() { a.log.Info("this node's part of the cluster is known") })
}

// followAddresses keeps the serving certificate in step with the node's addresses.
func (a *agent) followAddresses(ctx context.Context, ready func()) error {
	ready()
	w, err := a.view.Watch(client.Nodes.At("", "").Resource, 0)
	if err != nil {
		return err
	}
	for {
		a.certs.Poke()
		switch _, _, err := w.Next(ctx); {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, view.ErrGone):
			if w, err = a.view.Watch(client.Nodes.At("", "").Resource, a.view.Snapshot().Rev()); err != nil {
				return err
			}
		}
	}
}

func (a *agent) kubelet(ctx context.Context, ready func()) error {
	select {
	case <-a.certs.Joined():
	case <-ctx.Done():
		return nil
	}
	if err := a.takeName(ctx); err != nil {
		return err
	}
	serving := a.certs.ServerTLS()
	serving.ClientCAs, serving.ClientAuth = a.certs.Authority(), tls.VerifyClientCertIfGiven
	who := delegate.New(a.api, a.cfg.NodeName, time.Now)
	c := node.Cluster{
		Client: a.api, View: a.view, Serving: serving, Authenticate: who.Authenticate, Authorize: who.Authorize, Metrics: a.certs.Collectors(),
	}
	return a.runKubelet(ctx, c, a.ports(), func() error { ready(); return nil })
}

// takeName makes sure, before the node's first registration, that no other machine uses its name.
func (a *agent) takeName(ctx context.Context) error {
	if a.joined.Registered {
		return nil
	}
	for pause := time.Second; ; pause = min(2*pause, 15*time.Second) {
		obj, err := a.api.Get(ctx, client.Nodes.At("", a.cfg.NodeName))
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			if n, ok := obj.(*v1.Node); ok {
				if other := livesAt(n, a.cfg.NodeIP); other != "" {
					return component.Fatal(fmt.Errorf("the name %q is taken by the node at %s, which is Ready: give this one another with --node-name; "+
						"if that machine is gone, delete its Node first (kubectl delete node %s)", n.Name, other, n.Name))
				}
			}
			return a.joined.Register()
		case apierrors.IsNotFound(err):
			return a.joined.Register()
		}
		a.log.Warn("the server does not say whether the node's name is free, it is asked again", "in", pause, "err", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

// livesAt is the address of a Ready node if it differs from ip, otherwise "".
func livesAt(n *v1.Node, ip string) string {
	ready := false
	for _, c := range n.Status.Conditions {
		ready = ready || c.Type == v1.NodeReady && c.Status == v1.ConditionTrue
	}
	for _, address := range n.Status.Addresses {
		if address.Type == v1.NodeInternalIP {
			if address.Address == ip || !ready {
				return ""
			}
			return address.Address
		}
	}
	return ""
}

// keepRoutes keeps the pod network as the cluster wants it, and remembers it for a start without a server.
func (a *agent) keepRoutes(ctx context.Context, ready func()) error {
	ready()
	if _, err := a.view.Fresh(ctx); err != nil { // then the Service of the API server is in the view, too
		return nil
	}
	told := routes.NewTold(func(ctx context.Context, known string) ([]byte, error) {
		return a.api.HTTP().Get().AbsPath(routes.Path).Param("known", known).Do(ctx).Raw()
	}, a.log.With("component", "routes"))
	var asking sync.WaitGroup
	defer asking.Wait()
	ctx, end := context.WithCancel(ctx)
	defer end() // before it waits, also when keeping the routes fails
	asking.Go(func() { told.Run(ctx) })
	return a.runRoutes(ctx, told, a.api, func(ctx context.Context, own, all []netip.Prefix) error {
		if err := a.joined.SetNetwork(own, all, apiService(a.view)); err != nil {
			return err
		}
		return a.setNetwork(ctx, agentNetwork(a.joined, a.cfg.Address))
	})
}

// shipTimeline sends the records of an agent's kubelet to the server, so that a pod's whole story is there (docs/decisions/0005).
func (a *agent) shipTimeline(ctx context.Context, ready func()) error {
	s, err := ship.NewSender(ship.SenderConfig{
		Recorder: a.timeline, File: a.dir.Shipped(), Log: a.log.With("component", "timeline"),
		Post: func(ctx context.Context, records []timeline.Record) error {
			body, err := ship.Encode(records)
			if err != nil {
				return err
			}
			return a.api.HTTP().Post().AbsPath(ship.Path+a.cfg.NodeName).SetHeader("Content-Type", "application/jsonl").Body(body).Do(ctx).Error()
		},
	})
	if err != nil {
		return err
	}
	return s.Run(ctx, ready)
}

// apiService is the address of the Service "kubernetes"; invalid when there is none.
func apiService(v *view.View) netip.Addr {
	e := v.Snapshot().Get(client.Services.At("", "").Resource, v1.NamespaceDefault, "kubernetes")
	if e == nil {
		return netip.Addr{}
	}
	s, ok := e.Object.(*v1.Service)
	if !ok {
		return netip.Addr{}
	}
	address, _ := netip.ParseAddr(s.Spec.ClusterIP)
	return address
}
