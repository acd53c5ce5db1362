package daemon

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"podo.dev/podo/internal/apiserver/admit"
	"podo.dev/podo/internal/apiserver/audit"
	"podo.dev/podo/internal/apiserver/authz/modes"
	"podo.dev/podo/internal/apiserver/verbs"
	"podo.dev/podo/internal/apiserver/wire"
	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/client/events"
	"podo.dev/podo/internal/client/local"
	"podo.dev/podo/internal/component"
	"podo.dev/podo/internal/controllers/deployment"
	"podo.dev/podo/internal/controllers/garbage"
	"podo.dev/podo/internal/controllers/horizontalpodautoscaler"
	"podo.dev/podo/internal/controllers/loop"
	"podo.dev/podo/internal/controllers/namespaces"
	"podo.dev/podo/internal/controllers/nodeipam"
	"podo.dev/podo/internal/controllers/nodelifecycle"
	"podo.dev/podo/internal/controllers/nodettl"
	"podo.dev/podo/internal/controllers/podgc"
	"podo.dev/podo/internal/controllers/replicas"
	"podo.dev/podo/internal/controllers/rootca"
	"podo.dev/podo/internal/controllers/serviceaccounts"
	"podo.dev/podo/internal/controllers/tainteviction"
	"podo.dev/podo/internal/daemon/why"
	"podo.dev/podo/internal/kubelet/routes"
	"podo.dev/podo/internal/openapi"
	"podo.dev/podo/internal/pki"
	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/scheduler"
	"podo.dev/podo/internal/scheduler/profile"
	"podo.dev/podo/internal/store/etcd"
	"podo.dev/podo/internal/timeline/recorder"
	"podo.dev/podo/internal/usage"
	"podo.dev/podo/internal/view"
)

// control is the control plane's parts.
type control struct {
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
	events     *events.Writer // the controllers'
	kubelets   *http.Client
	usage      *usage.Meter

	audit      *audit.Log // nil without a policy
	authorizer *modes.Authorizer
	policyDone chan struct{} // closed when the default policy is in the store
	policyOnce sync.Once
}

func (s *server) pkiConfig() pki.Config {
	services, _ := netip.ParsePrefix(s.cfg.ServiceCIDR) // checked by Complete
	return pki.Config{
		Dir:      s.dirs.PKI(),
		NodeName: s.cfg.NodeName,
		NodeIP:   net.ParseIP(s.cfg.NodeIP),
		// The kubernetes service has the range's first address.
		ServiceIP: services.Addr().Next().AsSlice(),
		ExtraSANs: s.cfg.TLSSANs,
		Now:       time.Now,
	}
}

// serviceAddresses is the rule that gives Services their addresses.
func (s *server) serviceAddresses() *admit.ServiceAddresses {
	services, _ := netip.ParsePrefix(s.cfg.ServiceCIDR)          // checked by Complete
	ports, _ := admit.ParseNodePorts(s.cfg.ServiceNodePortRange) // as above
	return &admit.ServiceAddresses{View: s.control.view, Store: s.control.store, CIDR: services.Masked(), Ports: ports}
}

// apiURL is how programs on this machine reach the API server.
func (s *server) apiURL() string {
	return "https://127.0.0.1:" + strconv.Itoa(s.cfg.HTTPSPort)
}

func (s *server) buildControl() (err error) {
	c := &s.control
	if c.store, err = s.newStore(); err != nil {
		return err
	}
	id, err := s.serverID()
	if err != nil {
		return err
	}
	c.election = c.store.Election(id, s.log.With("component", "leader-election"))
	kinds := registry.All()
	c.view, err = view.New(view.Config{Store: c.store, Kinds: kinds, Append: s.timeline.Append, Logger: s.log.With("component", "view")})
	if err != nil {
		return err
	}
	c.metrics, c.page, c.board = scheduler.NewMetrics(), scheduler.NewPage(), loop.NewBoard()
	if c.profiles, err = s.schedulerProfiles(); err != nil {
		return err
	}
	if err := s.buildIdentity(); err != nil {
		return err
	}
	rules, err := s.configuredRules()
	if err != nil {
		return err
	}
	if c.audit, err = audit.Open(s.cfg.Audit); err != nil {
		return err
	}
	c.authorizer, c.policyDone, c.kubelets = modes.New(c.view), make(chan struct{}), s.newKubeletClient()
	c.usage, err = usage.New(usage.Config{View: c.view, Read: s.readUsage, Logger: s.log.With("component", "usage")})
	if err != nil {
		return err
	}
	c.verbs, err = verbs.New(verbs.Config{
		Store: c.store, View: c.view, Kinds: kinds, Authorizer: c.authorizer, Admission: append(rules, s.serviceAddresses()),
		Audit: c.audit, Tokens: c.identity.issuer, Reviews: s.identityReviews(), Computed: s.computers(),
		Append: s.timeline.Append, Now: time.Now, Logger: s.log.With("component", "apiserver"),
	})
	return err
}

func (s *server) newStore() (stored, error) {
	log := s.log.With("component", "etcd")
	if len(s.cfg.EtcdEndpoints) > 0 {
		return etcd.NewExternal(etcd.ExternalConfig{
			Endpoints: s.cfg.EtcdEndpoints,
			CAFile:    s.cfg.EtcdCAFile, CertFile: s.cfg.EtcdCertFile, KeyFile: s.cfg.EtcdKeyFile,
			Logger: log,
		})
	}
	return etcd.NewEmbedded(etcd.EmbeddedConfig{Dir: s.dirs.Etcd(), Logger: log})
}

// controlComponents in the order of their start. The API server comes last, so that whoever reaches it finds everything running.
func (s *server) controlComponents() []component.Component {
	c := &s.control
	all := []component.Component{
		component.Func("timeline", s.timeline.Run),
		c.store,
		component.Func("view", c.view.Run),
		component.Func("default-policy", s.ensurePolicy),
		c.election,
	}
	all = append(all, led(c.election, s.controllers())...)
	return append(all,
		component.Func("kubernetes-service", s.runKubernetesService),
		component.Func("token-keys", s.reloadTokenKeys),
		component.Func("apiserver", s.runAPIServer),
		component.Func("certificates", s.keepCertificates),
	)
}

// controllers and the scheduler run on one of the servers that share a store.
func (s *server) controllers() []component.Component {
	all := []component.Component{
		component.Func("priority-classes", s.controller(s.newPriorityClasses)),
		component.Func("namespaces", s.controller(s.newNamespaces)),
		component.Func("service-accounts", s.controller(s.newServiceAccounts)),
		component.Func("root-ca", s.controller(s.newRootCA)),
		component.Func("secret-tokens", s.controller(s.newSecretTokens)),
		component.Func("token-cleaner", s.controller(s.newTokenCleaner)),
		component.Func("legacy-tokens", s.controller(s.newLegacyTokens)),
		component.Func("service-cidr", s.controller(s.newServiceCIDR)),
		component.Func("service-cidrs", s.controller(s.newServiceCIDRs)),
		component.Func("service-addresses", s.controller(s.newServiceAddresses)),
		component.Func("node-lifecycle", s.controller(s.newNodeLifecycle)),
		component.Func("node-ipam", s.controller(s.newNodeIPAM)),
		component.Func("node-ttl", s.controller(s.newNodeTTL)),
		component.Func("pod-gc", s.controller(s.newPodGC)),
		component.Func("garbage-collector", s.controller(s.newGarbage)),
		component.Func("taint-eviction", s.controller(s.newTaintEviction)),
		component.Func("replication-controller", s.controller(s.newReplicas(replicas.ReplicationControllers))),
		component.Func("replicaset-controller", s.controller(s.newReplicas(replicas.ReplicaSets))),
		component.Func("deployment-controller", s.controller(s.newDeployments)),
		component.Func(horizontalpodautoscaler.Name, s.controller(s.newAutoscaler)),
		component.Func("disruption", s.controller(s.newDisruption)),
		component.Func("stale-disruption", s.controller(s.newStaleDisruption)),
		component.Func("endpoint-slices", s.controller(s.newEndpointSlices)),
		component.Func("endpoints", s.controller(s.newEndpoints)),
		component.Func("endpoint-slice-mirroring", s.controller(s.newEndpointSliceMirroring)),
		component.Func("resource-quotas", s.controller(s.newQuotas)),
		component.Func("cluster-role-aggregation", s.controller(s.newClusterRoles)),
	}
	all = append(all, s.setControllers()...)
	all = append(all, s.batchControllers()...)
	all = append(all, s.certificateControllers()...)
	all = append(all, s.volumeControllers()...)
	if !s.cfg.DisableScheduler {
		all = append(all, component.Func("scheduler", s.runScheduler))
	}
	return all
}

// controller builds a controller anew for each of its runs: one that panicked starts without what it held.
func (s *server) controller(build func(context.Context, client.Client) (*loop.Loop, error)) func(context.Context, func()) error {
	return func(ctx context.Context, ready func()) error {
		own := local.Controllers(s.control.verbs)
		c, err := build(ctx, own)
		if err != nil {
			return err
		}
		own.Be(c.Name())
		return s.control.board.Run(ctx, c, ready)
	}
}

func (s *server) newNamespaces(_ context.Context, c client.Client) (*loop.Loop, error) {
	return namespaces.New(namespaces.Config{
		View: s.control.view, Client: c, Kinds: registry.All(), Logger: s.log, DeleteCollection: local.Controllers(s.control.verbs).DeleteCollection,
	})
}

func (s *server) newNodeLifecycle(_ context.Context, c client.Client) (*loop.Loop, error) {
	return nodelifecycle.New(s.control.view, c, s.cfg.NodeMonitorGrace, s.control.events.Recorder("node-controller", ""), s.log)
}

func (s *server) newNodeTTL(_ context.Context, c client.Client) (*loop.Loop, error) {
	return nodettl.New(s.control.view, c, s.log)
}

func (s *server) newNodeIPAM(_ context.Context, c client.Client) (*loop.Loop, error) {
	ranges, err := s.cfg.clusterRanges()
	if err != nil {
		return nil, err
	}
	own, err := netip.ParsePrefix(s.cfg.PodCIDR)
	if err != nil {
		return nil, err
	}
	return nodeipam.New(nodeipam.Config{
		View: s.control.view, Client: c, Ranges: ranges, Reserved: []netip.Prefix{own}, Events: s.control.events.Recorder("cidrAllocator", ""), Logger: s.log,
	})
}

func (s *server) newGarbage(_ context.Context, c client.Client) (*loop.Loop, error) {
	return garbage.New(garbage.Config{
		View: s.control.view, Client: c, Events: s.control.events.Recorder("garbage-collector-controller", ""), Kinds: registry.All(), Logger: s.log,
	})
}

func (s *server) newReplicas(kind replicas.Kind) func(context.Context, client.Client) (*loop.Loop, error) {
	return func(_ context.Context, c client.Client) (*loop.Loop, error) {
		return replicas.New(replicas.Config{
			Kind: kind, View: s.control.view, Client: c, Events: s.control.events.Recorder(kind.Name, ""), Logger: s.log,
		})
	}
}

func (s *server) newDeployments(_ context.Context, c client.Client) (*loop.Loop, error) {
	return deployment.New(deployment.Config{
		View: s.control.view, Client: c, Events: s.control.events.Recorder(deployment.Name, ""), Logger: s.log,
	})
}

func (s *server) newTaintEviction(_ context.Context, c client.Client) (*loop.Loop, error) {
	return tainteviction.New(tainteviction.Config{
		View: s.control.view, Client: c, Events: s.control.events.Recorder("taint-eviction-controller", ""), Logger: s.log,
	})
}

func (s *server) newPodGC(_ context.Context, c client.Client) (*loop.Loop, error) {
	return podgc.New(s.control.view, c, s.log)
}

func (s *server) newServiceAccounts(_ context.Context, c client.Client) (*loop.Loop, error) {
	return serviceaccounts.New(s.control.view, c, s.log)
}

func (s *server) newRootCA(_ context.Context, c client.Client) (*loop.Loop, error) {
	return rootca.New(s.control.view, c, s.certs.CAPEM(), s.log)
}

// runAPIServer serves the wire on loopback and the node's address.
func (s *server) runAPIServer(ctx context.Context, ready func()) error {
	if !s.awaitPolicy(ctx) {
		return nil
	}
	shipped, err := s.shippedTimelines()
	if err != nil {
		return err
	}
	metrics := prometheus.NewRegistry()
	for _, c := range append(masters(s.control.election), s.control.metrics, s.control.board) {
		if err := metrics.Register(c); err != nil {
			return err
		}
	}
	docs, err := openapi.Release(kubernetesVersion)
	if err != nil {
		return err
	}
	srv, err := wire.New(wire.Config{
		Verbs: s.control.verbs, Kinds: registry.All(), Metrics: metrics,
		Advertise:   net.JoinHostPort(s.cfg.NodeIP, strconv.Itoa(s.cfg.HTTPSPort)),
		Certificate: s.certs.Server(pki.Serving),
		ClientCAs:   s.certs.Pool(),
		Authn:       s.control.identity.authn,
		Kubelets:    s.kubeletTLS(),
		KubeletPort: s.cfg.KubeletPort,
		OpenAPI:     docs,
		Handlers: append(s.discovery(),
			wire.Handler{Path: recorder.PathPrefix, Handler: s.timeline.Handler(), Long: recorder.Follows},
			wire.Handler{Path: why.Prefix, Handler: why.Handler(s.control.verbs, s.timeline)},
			wire.Handler{Path: "/debug/controllers", Handler: s.control.board},
			wire.Handler{Path: "/debug/scheduler", Handler: s.control.page},
			wire.Handler{Path: "/metrics/resources", Handler: scheduler.PodResources(s.control.view)},
			shipped,
			wire.Handler{Path: routes.Path, Handler: routes.Serve(ctx, routes.InView{View: s.control.view})},
		),
		Checks: s.checks,
		Audit:  s.control.audit,
		Logger: s.log.With("component", "apiserver"),
		Now:    time.Now,
	})
	if err != nil {
		return err
	}
	ips := []string{"127.0.0.1"}
	if s.cfg.NodeIP != ips[0] {
		ips = append(ips, s.cfg.NodeIP)
	}
	l, err := listenAll(s.cfg.HTTPSPort, ips...)
	if err != nil {
		return err
	}
	return srv.Serve(ctx, l, ready)
}

// checks are the lines of /readyz: every component. Only the store's failure means that this process is not alive; everything else
// is being restarted.
func (s *server) checks() []wire.Check {
	var all []wire.Check
	for _, h := range s.health() {
		all = append(all, wire.Check{Name: h.Name, Live: h.Name == "etcd", Check: func() error {
			switch {
			case h.State == component.Ready && h.Name == "etcd":
				return s.storeAnswers()
			case h.State == component.Ready:
				return nil
			}
			return fmt.Errorf("%s since %s: %s", h.State, h.Since.Format(time.RFC3339), h.LastError)
		}})
	}
	return all
}

// storeAnswers asks the store, which may be elsewhere, and gone while we are well.
func (s *server) storeAnswers() error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	_, err := s.control.store.Revision(ctx)
	return err
}

// schedulerProfiles are those of the configured file, or upstream's default one.
func (s *server) schedulerProfiles() (profile.Config, error) {
	given := scheduler.Given(s.control.view)
	if s.cfg.SchedulerConfig == "" {
		return profile.Default(given), nil
	}
	text, err := os.ReadFile(s.cfg.SchedulerConfig)
	if err != nil {
		return profile.Config{}, fmt.Errorf("--scheduler-config: %w", err)
	}
	c, err := profile.Read(text, given)
	if err != nil {
		return profile.Config{}, fmt.Errorf("--scheduler-config %s: %w", s.cfg.SchedulerConfig, err)
	}
	return c, nil
}

func (s *server) runScheduler(ctx context.Context, ready func()) error {
	user := local.Scheduler(s.control.verbs)
	writer := events.StartSeries(ctx, user, s.log)
	sched, err := scheduler.New(scheduler.Config{
		View:   s.control.view,
		Client: user,
		Events: func(profile string) scheduler.Recorder { return writer.Recorder(profile) },
		Append: s.timeline.Append, Budgets: s.budgets,
		Logger: s.log.With("component", "scheduler"),
		Seed:   uint64(time.Now().UnixNano()), Metrics: s.control.metrics, Page: s.control.page, Profiles: s.control.profiles,
	})
	if err != nil {
		return err
	}
	return sched.Run(ctx, ready)
}
