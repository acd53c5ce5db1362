// Package server is the kubelet's HTTP server: logs, exec, attach and port-forward for the API server, and information about the
// node.
//
// Streams end at the container runtime, which speaks only SPDY and the old WebSocket protocols. Newer protocols
// (v5.channel.k8s.io, and SPDY tunnelled through WebSocket for port-forward) are translated here, so that the API server passes
// every upgrade on unchanged. Each stream has its own connection to the runtime: when one client leaves, the others go on.
package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"podo.dev/podo/internal/kubelet/logs"
)

// Pods is what the server asks about the pods of this node.
type Pods interface {
	// Pod returns a pod with its status as the kubelet knows it, or nil. The pod is shared.
	Pod(namespace, name string) *v1.Pod
	// Pods returns all of them.
	Pods() []*v1.Pod
}

// Runtime is what the server asks of the container runtime.
type Runtime interface {
	ListPodSandbox(ctx context.Context, filter *runtimev1.PodSandboxFilter) ([]*runtimev1.PodSandbox, error)
	ListContainers(ctx context.Context, filter *runtimev1.ContainerFilter) ([]*runtimev1.Container, error)
	ContainerStatus(ctx context.Context, id string) (*runtimev1.ContainerStatus, error)
	ExecSync(ctx context.Context, id string, cmd []string, timeout time.Duration) (stdout, stderr []byte, exitCode int32, err error)
	Exec(ctx context.Context, req *runtimev1.ExecRequest) (url string, err error)
	Attach(ctx context.Context, req *runtimev1.AttachRequest) (url string, err error)
	PortForward(ctx context.Context, req *runtimev1.PortForwardRequest) (url string, err error)
	CheckpointContainer(ctx context.Context, req *runtimev1.CheckpointContainerRequest) error
}

// Config is what a Server needs.
type Config struct {
	Addr       string      // host:port of the TLS server
	HealthAddr string      // host:port of the plain /healthz, on loopback; "" for none
	ReadOnly   string      // host:port that serves health, pods, statistics and metrics to everybody; "" for none
	TLS        *tls.Config // certificates, and ClientCAs that vouch for clients
	Pods       Pods
	Runtime    Runtime
	Log        *slog.Logger

	// Authorize decides on a request to node resources; subresource is logs, proxy, metrics, stats, pods, ...
	Authorize func(ctx context.Context, u user.Info, verb, subresource, path string) (bool, error)
	// Authenticate names the user of a request without a client certificate (bearer tokens); nil: there is none.
	Authenticate func(r *http.Request) (user.Info, bool, error)
	// Ended returns a channel that is closed once the container does not run any more; ctx bounds the asking.
	// Default: PollEnded(Runtime, a second), while someone follows a log.
	Ended func(ctx context.Context, containerID string) <-chan struct{}
	// Event tells users about a container of a pod; it must not block. nil: they are not told.
	Event func(pod *v1.Pod, container, eventType, reason, message string)
	// Healthy says what is wrong with the kubelet; nil when nothing can be.
	Healthy func() error
	// Configz returns the KubeletConfiguration in use; nil: /configz is not there.
	Configz func() any
	// Granted are the pods with the resources that they were granted; nil: as the pods say.
	Granted func() []*v1.Pod
	// Flags are what the process was started with; nil: /flagz is not there.
	Flags   func() map[string]string
	Version string // of Kubernetes, as in v1.37.2

	LogDir      string // of the machine, which /logs/ serves; default /var/log
	PodLogs     string // of this node's pods
	Checkpoints string // folder for checkpoints of containers
	Debugging   Debugging
	Metrics     []prometheus.Collector // more for /metrics
	// LocalVolumes takes the deletion of folders of the node's own volumes (localclass.Path); nil: it has none.
	LocalVolumes http.Handler
	// Summary serves /stats/summary; nil: it is not there.
	Summary http.HandlerFunc
	// Extra serves more paths that are not secret to those who may read metrics; one that ends with a slash stands for all below it.
	Extra map[string]http.Handler
}

// Validate fills in defaults and says what is missing.
func (c *Config) Validate() error {
	if c.Addr == "" || c.TLS == nil || c.Pods == nil || c.Runtime == nil || c.Log == nil || c.Authorize == nil {
		return errors.New("kubelet server: Addr, TLS, Pods, Runtime, Log and Authorize must be set")
	}
	if c.Ended == nil {
		c.Ended = PollEnded(c.Runtime, time.Second)
	}
	if c.LogDir == "" {
		c.LogDir = "/var/log"
	}
	if c.Event == nil {
		c.Event = func(*v1.Pod, string, string, string, string) {}
	}
	if c.Healthy == nil {
		c.Healthy = func() error { return nil }
	}
	return nil
}

// Server is the kubelet's HTTP server.
type Server struct {
	cfg      Config
	started  time.Time
	logs     logs.Reader
	health   *health
	requests *requests
	handler  http.Handler
	readOnly http.Handler

	mu   sync.Mutex
	addr string
}

// New makes a Server; it listens while Run runs.
func New(cfg Config) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, started: time.Now(), health: newHealth(cfg.Healthy), requests: newRequests()}
	s.logs.Log = cfg.Log
	mux := s.routes()
	s.handler = s.requests.counted(mux, "readwrite", mux)
	everybodys := newRouter(nil)
	s.open(everybodys)
	s.readOnly = s.requests.counted(everybodys, "readonly", everybodys)
	return s, nil
}

// Handler is what the TLS port serves: authentication and authorization included.
func (s *Server) Handler() http.Handler { return s.handler }

// Addr is where the TLS port listens, "" before it does.
func (s *Server) Addr() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.addr
}

// Run serves until ctx ends; streams that are open then are closed.
func (s *Server) Run(ctx context.Context, ready func()) error {
	ln, err := listen(ctx, s.cfg.Addr)
	if err != nil {
		return fmt.Errorf("kubelet server: %w: choose another --kubelet-port or end what uses this one", err)
	}
	defer ln.closeAll()
	s.mu.Lock()
	s.addr = ln.Addr().String()
	s.mu.Unlock()
	conf := s.cfg.TLS.Clone()
	conf.ClientAuth = tls.RequestClientCert // guard verifies them, so that a client with a bad one gets an answer
	conf.MinVersion = max(conf.MinVersion, tls.VersionTLS12)
	conf.NextProtos = []string{"http/1.1"} // HTTP/2 cannot be upgraded to streams
	main := s.server(ctx, s.handler)
	servers := []*http.Server{main}
	fail := make(chan error, 3)
	go func() { fail <- main.Serve(tls.NewListener(ln, conf)) }()
	running := 1
	for _, plain := range s.plain() {
		pln, err := listen(ctx, plain.addr)
		if err != nil {
			for _, h := range servers {
				_ = h.Close()
			}
			for range running {
				<-fail
			}
			return fmt.Errorf("kubelet %s: %w: choose another %s or end what uses this one", plain.name, err, plain.name)
		}
		defer pln.closeAll()
		h := s.server(ctx, plain.handler)
		servers = append(servers, h)
		go func() { fail <- h.Serve(pln) }()
		running++
	}
	ready()
	select {
	case <-ctx.Done():
		err = nil
	case err = <-fail:
		running--
	}
	for _, h := range servers {
		_ = h.Close()
	}
	for range running {
		<-fail
	}
	return err
}

// listening is a port without TLS.
type listening struct {
	name, addr string
	handler    http.Handler
}

func (s *Server) plain() (all []listening) {
	if s.cfg.HealthAddr != "" {
		mux := newRouter(nil)
		s.health.routes(mux)
		all = append(all, listening{"healthzPort", s.cfg.HealthAddr, mux})
	}
	if s.cfg.ReadOnly != "" {
		all = append(all, listening{"readOnlyPort", s.cfg.ReadOnly, s.readOnly})
	}
	return all
}

func (s *Server) server(ctx context.Context, h http.Handler) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 30 * time.Second,
		IdleTimeout:       90 * time.Second,
		MaxHeaderBytes:    1 << 20,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ErrorLog:          slog.NewLogLogger(s.cfg.Log.Handler(), slog.LevelDebug),
	}
}

// listener remembers its connections, those too that a handler has taken over from the HTTP server.
type listener struct {
	net.Listener
	mu    sync.Mutex
	conns map[*conn]struct{}
}

type conn struct {
	net.Conn
	from *listener
}

func listen(ctx context.Context, addr string) (*listener, error) {
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return &listener{Listener: ln, conns: map[*conn]struct{}{}}, nil
}

func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	out := &conn{c, l}
	l.mu.Lock()
	l.conns[out] = struct{}{}
	l.mu.Unlock()
	return out, nil
}

func (c *conn) Close() error {
	c.from.mu.Lock()
	delete(c.from.conns, c)
	c.from.mu.Unlock()
	return c.Conn.Close()
}

func (l *listener) closeAll() {
	_ = l.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		_ = c.Conn.Close()
	}
}
