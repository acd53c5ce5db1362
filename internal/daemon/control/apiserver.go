package control

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"podo.dev/podo/internal/apiserver/wire"
	"podo.dev/podo/internal/component"
	"podo.dev/podo/internal/daemon/why"
	"podo.dev/podo/internal/kubelet/routes"
	"podo.dev/podo/internal/openapi"
	"podo.dev/podo/internal/pki"
	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/scheduler"
	"podo.dev/podo/internal/timeline/recorder"
)

// runAPIServer serves the wire on loopback and the node's address.
func (p *Plane) runAPIServer(ctx context.Context, ready func()) error {
	if !p.awaitPolicy(ctx) {
		return nil
	}
	shipped, err := p.shippedTimelines()
	if err != nil {
		return err
	}
	metrics := prometheus.NewRegistry()
	for _, c := range append(masters(p.election), p.metrics, p.board) {
		if err := metrics.Register(c); err != nil {
			return err
		}
	}
	docs, err := openapi.Release(p.cfg.Version)
	if err != nil {
		return err
	}
	srv, err := wire.New(wire.Config{
		Verbs: p.verbs, Kinds: registry.All(), Metrics: metrics,
		Advertise:   net.JoinHostPort(p.cfg.Server.NodeIP, strconv.Itoa(p.cfg.Server.HTTPSPort)),
		Certificate: p.cfg.Certs.Server(pki.Serving),
		ClientCAs:   p.cfg.Certs.Pool(),
		Authn:       p.identity.authn,
		Kubelets:    p.kubeletTLS(),
		KubeletPort: p.cfg.Server.KubeletPort,
		OpenAPI:     docs,
		Handlers: append(p.discovery(),
			wire.Handler{Path: recorder.PathPrefix, Handler: p.cfg.Timeline.Handler(), Long: recorder.Follows},
			wire.Handler{Path: why.Prefix, Handler: why.Handler(p.verbs, p.cfg.Timeline)},
			wire.Handler{Path: "/debug/controllers", Handler: p.board},
			wire.Handler{Path: "/debug/scheduler", Handler: p.page},
			wire.Handler{Path: "/metrics/resources", Handler: scheduler.PodResources(p.view)},
			shipped,
			wire.Handler{Path: routes.Path, Handler: routes.Serve(ctx, routes.InView{View: p.view})},
		),
		Checks: p.checks,
		Audit:  p.audit,
		Logger: p.log("apiserver"),
		Now:    time.Now,
	})
	if err != nil {
		return err
	}
	ips := []string{"127.0.0.1"}
	if p.cfg.Server.NodeIP != ips[0] {
		ips = append(ips, p.cfg.Server.NodeIP)
	}
	l, err := listenAll(p.cfg.Server.HTTPSPort, ips...)
	if err != nil {
		return err
	}
	return srv.Serve(ctx, l, ready)
}

// checks are the lines of /readyz, one for each component. Only a failed store means that this process is not alive; everything
// else is being restarted.
func (p *Plane) checks() []wire.Check {
	var all []wire.Check
	for _, h := range append(p.Health(), p.cfg.NodeHealth()...) {
		all = append(all, wire.Check{Name: h.Name, Live: h.Name == "etcd", Check: func() error {
			switch {
			case h.State == component.Ready && h.Name == "etcd":
				return p.storeAnswers()
			case h.State == component.Ready:
				return nil
			}
			return fmt.Errorf("%s since %s: %s", h.State, h.Since.Format(time.RFC3339), h.LastError)
		}})
	}
	return all
}

// storeAnswers asks the store, which may be on other machines and gone while this process is well.
func (p *Plane) storeAnswers() error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	_, err := p.store.Revision(ctx)
	return err
}
