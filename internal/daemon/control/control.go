// Package control is the control plane: it builds the store, the view, the API server, the scheduler and the controllers by hand, and runs
// them in the order in which they need each other.
//
//	etcd ─► view ─► default policy ─► election ─► controllers, scheduler (on the server that leads) ─► API server
package control

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"podo.dev/podo/internal/apiserver/admit/settings"
	"podo.dev/podo/internal/apiserver/audit"
	"podo.dev/podo/internal/apiserver/authz/modes"
	"podo.dev/podo/internal/apiserver/verbs"
	"podo.dev/podo/internal/client/events"
	"podo.dev/podo/internal/client/local"
	"podo.dev/podo/internal/component"
	"podo.dev/podo/internal/controllers/loop"
	"podo.dev/podo/internal/daemon/boot"
	"podo.dev/podo/internal/daemon/config"
	"podo.dev/podo/internal/daemon/controllers"
	"podo.dev/podo/internal/daemon/datadir"
	"podo.dev/podo/internal/daemon/moved"
	"podo.dev/podo/internal/kubelet/stats"
	"podo.dev/podo/internal/pki"
	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/scheduler"
	"podo.dev/podo/internal/scheduler/profile"
	"podo.dev/podo/internal/store/etcd"
	"podo.dev/podo/internal/timeline/recorder"
	"podo.dev/podo/internal/usage"
	"podo.dev/podo/internal/view"
)

// Config is what a control plane is made of. Everything is needed.
type Config struct {
	Server   *config.Server
	Dir      datadir.Dir
	Certs    *pki.Bundle
	Timeline *recorder.Recorder
	Report   *boot.Report
	Logger   *slog.Logger

	Before     *moved.Before                 // the start before this one
	Version    string                        // of Kubernetes, as clients hear it
	Hangup     <-chan os.Signal              // a signal says that the token keys have changed
	NodeStats  *atomic.Pointer[stats.Source] // of the server's own node; holds nil until its kubelet runs
	NodeHealth func() []component.Health     // of the parts of the server's own node, for /readyz
}

// Plane is a control plane's parts.
type Plane struct {
	cfg        Config
	supervisor *component.Supervisor
	store      stored
	election   *etcd.Election
	metrics    *scheduler.Metrics
	page       *scheduler.Page
	profiles   profile.Config
	view       *view.View
	identity   identity
	verbs      *verbs.Verbs
	board      *loop.Board
	kubelets   *http.Client
	usage      *usage.Meter

	audit      *audit.Log // nil without a policy
	authorizer *modes.Authorizer
	policyDone chan struct{} // closed when the default policy is in the store
	policyOnce sync.Once
}

// New makes every part; nothing runs yet.
func New(cfg Config) (p *Plane, err error) {
	p = &Plane{cfg: cfg, supervisor: component.NewSupervisor(component.Options{Logger: cfg.Logger})}
	if p.store, err = p.newStore(); err != nil {
		return nil, err
	}
	id, err := p.serverID()
	if err != nil {
		return nil, err
	}
	p.election = p.store.Election(id, p.log("leader-election"))
	kinds := registry.All()
	p.view, err = view.New(view.Config{Store: p.store, Kinds: kinds, Append: cfg.Timeline.Append, Logger: p.log("view")})
	if err != nil {
		return nil, err
	}
	p.metrics, p.page, p.board = scheduler.NewMetrics(), scheduler.NewPage(), loop.NewBoard()
	if p.profiles, err = p.schedulerProfiles(); err != nil {
		return nil, err
	}
	if err := p.buildIdentity(); err != nil {
		return nil, err
	}
	rules, err := settings.Rules(cfg.Server.AdmissionControlConfigFile, p.view)
	if err != nil {
		return nil, fmt.Errorf("--admission-control-config-file %s: %w", cfg.Server.AdmissionControlConfigFile, err)
	}
	if p.audit, err = audit.Open(cfg.Server.Audit); err != nil {
		return nil, err
	}
	p.authorizer, p.policyDone, p.kubelets = modes.New(p.view), make(chan struct{}), p.newKubeletClient()
	p.usage, err = usage.New(usage.Config{View: p.view, Read: p.readUsage, Logger: p.log("usage")})
	if err != nil {
		return nil, err
	}
	p.verbs, err = verbs.New(verbs.Config{
		Store: p.store, View: p.view, Kinds: kinds, Authorizer: p.authorizer, Admission: append(rules, p.serviceAddresses()),
		Audit: p.audit, Tokens: p.identity.issuer, Reviews: p.identityReviews(), Computed: p.computers(),
		Append: cfg.Timeline.Append, Now: time.Now, Logger: p.log("apiserver"),
	})
	return p, err
}

// Close ends what outlives every Run.
func (p *Plane) Close() { p.audit.Close() } //nolint:errcheck // the end: nobody to tell

// Run runs the control plane until ctx ends, or something fails that restarting a component cannot mend.
func (p *Plane) Run(ctx context.Context, ready func()) error {
	return p.supervisor.Run(ctx, ready, p.cfg.Report.Staged(p.components(ctx))...)
}

// Health is every part's.
func (p *Plane) Health() []component.Health { return p.supervisor.Health() }

func (p *Plane) log(component string) *slog.Logger { return p.cfg.Logger.With("component", component) }

func (p *Plane) newStore() (stored, error) {
	log := p.log("etcd")
	if len(p.cfg.Server.EtcdEndpoints) > 0 {
		return etcd.NewExternal(etcd.ExternalConfig{
			Endpoints: p.cfg.Server.EtcdEndpoints,
			CAFile:    p.cfg.Server.EtcdCAFile, CertFile: p.cfg.Server.EtcdCertFile, KeyFile: p.cfg.Server.EtcdKeyFile,
			Logger: log,
		})
	}
	return etcd.NewEmbedded(etcd.EmbeddedConfig{Dir: p.cfg.Dir.Etcd(), Logger: log})
}

// components in the order of their start. The API server comes last, so that whoever reaches it finds everything running.
func (p *Plane) components(ctx context.Context) []component.Component {
	all := []component.Component{
		component.Func("timeline", p.cfg.Timeline.Run),
		p.store,
		component.Func("view", p.view.Run),
		component.Func("data-directory", p.checkMoves),
		component.Func("default-policy", p.ensurePolicy),
		p.election,
	}
	all = append(all, led(p.election, p.controllers(ctx))...)
	return append(all,
		component.Func("kubernetes-service", p.runKubernetesService),
		component.Func("token-keys", p.reloadTokenKeys),
		component.Func("apiserver", p.runAPIServer),
		component.Func("certificates", p.keepCertificates),
	)
}

// controllers and the scheduler run on one of the servers that share a store.
func (p *Plane) controllers(ctx context.Context) []component.Component {
	all := controllers.All(controllers.Config{
		Server: p.cfg.Server, View: p.view, Verbs: p.verbs, Events: events.Start(ctx, local.Controllers(p.verbs), p.cfg.Logger),
		Board: p.board, Usage: p.usage, Tokens: p.identity.issuer, Certs: p.cfg.Certs, Kubelet: p.callKubelet, Logger: p.cfg.Logger,
	})
	if !p.cfg.Server.DisableScheduler {
		all = append(all, component.Func("scheduler", p.runScheduler))
	}
	return all
}
