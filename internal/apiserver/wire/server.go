// Package wire is the API over HTTPS: it reads requests, passes them to the verbs, and writes the answers in the form that the
// client asked for. It decides nothing about objects.
package wire

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	"podo.dev/podo/internal/about"
	"podo.dev/podo/internal/apiserver/audit"
	"podo.dev/podo/internal/apiserver/authn"
	"podo.dev/podo/internal/apiserver/authz"
	"podo.dev/podo/internal/apiserver/impersonate"
	"podo.dev/podo/internal/apiserver/verbs"
	"podo.dev/podo/internal/gcroom"
	"podo.dev/podo/internal/registry"
)

const (
	// requestTimeout bounds every request that is not long by nature.
	requestTimeout = time.Minute
	// A client that sends its body slowly, or does not read its answer, cannot hold a request forever. The body's time ends after
	// the request's, so that the client still hears of that.
	bodyTimeout   = requestTimeout + time.Second
	answerTimeout = 2 * requestTimeout
	// stopTimeout is how long requests under way may take to end when the server stops.
	stopTimeout = 5 * time.Second
	// concurrentStreams is HTTP/2's limit of concurrent requests on one connection.
	concurrentStreams = 250
)

// Check is one line of the health endpoints.
type Check struct {
	Name string
	// Live says that a failure also fails /livez and /healthz, not only /readyz.
	Live  bool
	Check func() error
}

// Handler serves paths that are no part of the Kubernetes API: Path itself and, when it ends in a slash, everything below.
// Who may use them is the authorizer's decision, as for any path; who asks is in the request's context (request.UserFrom).
type Handler struct {
	Path    string
	Handler http.Handler
	Type    string // of a document's media type; only GET has it
	// Long says which requests last as long as their clients want, or until the server stops. Default: none.
	Long func(*http.Request) bool
}

// Config is what a Server is made of.
type Config struct {
	Verbs *verbs.Verbs
	Kinds []*registry.Kind
	// Listen is the address of the HTTPS port; Advertise is the host:port that discovery tells clients (default: where
	// they reached it).
	Listen    string
	Advertise string
	// Certificate is the serving certificate, called at each handshake; ClientCAs verify clients.
	Certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	ClientCAs   *x509.CertPool
	// Authn authenticates requests. Default: client certificates, and anonymous without one.
	Authn *authn.Authenticator
	// Kubelets is the TLS configuration for kubelets (the API server's client certificate, the authority); KubeletPort is the
	// port of nodes that do not report theirs.
	Kubelets    *tls.Config
	KubeletPort int
	// Version is the version at /version. Default: Kubernetes' version with Podo's name.
	Version string
	// OpenAPI serves /openapi/v2 and below /openapi/v3; nil leaves them out.
	OpenAPI  http.Handler
	Handlers []Handler
	Checks   func() []Check
	// Audit records every request; nil: none.
	Audit *audit.Log
	// Metrics is the registry of the server's metrics, served at /metrics. Default: a new one.
	Metrics *prometheus.Registry
	Logger  *slog.Logger
	Now     func() time.Time
}

// Validate says what is missing.
func (c *Config) Validate() error {
	var errs []error
	if c.Verbs == nil || len(c.Kinds) == 0 {
		errs = append(errs, errors.New("apiserver: Config needs Verbs and Kinds"))
	}
	if c.Certificate == nil || c.ClientCAs == nil {
		errs = append(errs, errors.New("apiserver: Config needs Certificate and ClientCAs"))
	}
	if c.Kubelets == nil {
		errs = append(errs, errors.New("apiserver: Config needs Kubelets"))
	}
	return errors.Join(errs...)
}

// Server is the component "apiserver".
type Server struct {
	c        Config
	authn    *authn.Authenticator
	routes   map[string]http.Handler // exact paths
	below    []Handler               // those with a trailing slash
	kinds    map[schema.GroupVersionResource]*registry.Kind
	kubelets *http.Transport
	// unverified is for kubelets whose certificates are not verified.
	unverified *http.Transport
	proxies    *http.Transport // to pods, services and other ports of nodes
	metrics    *metrics
	flight     flight
	patience   time.Duration // watchWrite
	body       time.Duration // bodyTimeout
	answer     time.Duration // answerTimeout
	join       time.Duration // joinWait

	impersonator *impersonate.Impersonator

	mu   sync.Mutex
	addr net.Addr
}

// closingKey finds, in a request's context, the context that ends when the server stops: it ends watches and other long requests.
type closingKey struct{}

// New makes a Server; Run serves.
func New(c Config) (*Server, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.KubeletPort == 0 {
		c.KubeletPort = 10250
	}
	if c.Version == "" {
		c.Version = DefaultVersion
	}
	if c.Metrics == nil {
		c.Metrics = prometheus.NewRegistry()
	}
	m, err := newMetrics(c.Metrics, about.Program(c.Version), c.Verbs.Metrics())
	if err != nil {
		return nil, err
	}
	if c.Authn == nil {
		certificates := &authn.X509{Roots: c.ClientCAs, Now: c.Now}
		if c.Authn, err = authn.New(authn.Config{Certificates: certificates, Anonymous: authn.Everywhere}); err != nil {
			return nil, err
		}
	}
	s := &Server{
		c: c, authn: c.Authn, kubelets: kubeletTransport(c.Kubelets), unverified: unverifiedTransport(c.Kubelets), proxies: proxyTransport(), metrics: m,
		kinds: map[schema.GroupVersionResource]*registry.Kind{}, flight: make(flight, maxInFlight),
		patience: watchWrite, body: bodyTimeout, answer: answerTimeout, join: joinWait,
		impersonator: impersonate.New(c.Verbs.Authorizer()),
	}
	for _, k := range c.Kinds {
		s.kinds[k.GroupVersion().WithResource(k.Resource)] = k
	}
	return s, s.route()
}

// Name implements component.Component.
func (s *Server) Name() string { return "apiserver" }

// Addr is the address that the server listens on, for tests that ask for port 0.
func (s *Server) Addr() net.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.addr
}

// Run implements component.Component.
func (s *Server) Run(ctx context.Context, ready func()) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.c.Listen)
	if err != nil {
		return fmt.Errorf("listening on %s for the API: %w: stop what uses the port, or choose another with --https-port", s.c.Listen, err)
	}
	return s.Serve(ctx, l, ready)
}

// Serve is Run on an existing listener, which it closes.
func (s *Server) Serve(ctx context.Context, l net.Listener, ready func()) error {
	s.mu.Lock()
	s.addr = l.Addr()
	s.mu.Unlock()
	srv := &http.Server{
		Handler: s,
		TLSConfig: &tls.Config{
			MinVersion:     tls.VersionTLS12,
			GetCertificate: s.c.Certificate,
			// Requested but verified later: an unknown client gets an answer (401), not a broken handshake.
			ClientAuth: tls.RequestClientCert,
			ClientCAs:  s.c.ClientCAs,
			NextProtos: []string{"h2", "http/1.1"},
			// Dynamic record sizes help browsers that render incrementally.
			DynamicRecordSizingDisabled: true,
		},
		ReadHeaderTimeout: 32 * time.Second,
		// For all requests but long ones: on HTTP/2 each timeout that a handler sets is a message to the connection's goroutine.
		ReadTimeout:    s.body,
		WriteTimeout:   s.answer,
		IdleTimeout:    3 * time.Minute,
		MaxHeaderBytes: 1 << 20,
		BaseContext: func(net.Listener) context.Context {
			return context.WithValue(context.Background(), closingKey{}, ctx)
		},
		ConnContext: func(ctx context.Context, c net.Conn) context.Context { return withJoined(authn.ConnContext(ctx, c), c) },
		ErrorLog:    log.New(s, "", 0),
		HTTP2:       &http.HTTP2Config{MaxConcurrentStreams: concurrentStreams},
	}
	done := make(chan error, 1)
	go func() { done <- srv.ServeTLS(joins{gatherer{l}, s.join}, "", "") }()
	ready()
	select {
	case err := <-done:
		return fmt.Errorf("serving the API: %w", err)
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	if srv.Shutdown(stop) != nil {
		_ = srv.Close() // what is still open now is cut
	}
	<-done
	s.kubelets.CloseIdleConnections()
	s.unverified.CloseIdleConnections()
	s.proxies.CloseIdleConnections()
	return nil
}

// Write receives what the HTTP server logs about connections, which is about handshakes that clients break off.
func (s *Server) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte("TLS handshake error")) {
		s.metrics.handshakes.Inc()
	}
	s.c.Logger.Debug(strings.TrimSpace(string(line)))
	return len(line), nil
}

// ServeHTTP is the path of every request: who is it, what does it ask for, is that allowed, then the answer. A panic ends only
// its own request.
func (s *Server) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	audit.Identify(rw, r)
	info, err := parse(r)
	if err != nil {
		http.Error(rw, fmt.Sprintf("Internal Server Error: %q: failed to create RequestInfo: %v", markup.Replace(r.RequestURI), err), http.StatusInternalServerError)
		return
	}
	w := &response{ResponseWriter: rw}
	c := &call{s: s, w: w, r: r, info: info}
	start := s.c.Now()
	ours := c.info.Resource == "" && s.long(r)
	long := ours || c.info.long()
	defer s.metrics.observe(c, long, start, s.c.Now)
	if long {
		c.kind = s.c.Verbs.Kind(c.info.ref().Resource) // only served kinds are counted
		open := s.metrics.longRunning.WithLabelValues(c.what()...)
		open.Inc()
		defer open.Dec()
	}
	defer s.rescue(c)
	if long {
		endless(rw)
		if closing, _ := r.Context().Value(closingKey{}).(context.Context); ours && closing != nil {
			ctx, cancel := context.WithCancel(r.Context())
			defer cancel()
			defer context.AfterFunc(closing, cancel)()
			c.r = r.WithContext(ctx)
		}
	} else {
		deepen(0)
		limit, err := requestTime(r)
		if err != nil {
			c.fail(apierrors.NewBadRequest(err.Error()))
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), limit)
		defer cancel()
		c.r = r.WithContext(ctx)
		defer gcroom.Answered()
	}
	if s.c.Audit != nil {
		c.r = c.r.WithContext(audit.Prepare(c.r.Context()))
	}
	asked := time.Now()
	u, err := s.authn.User(c.r)
	s.metrics.authenticated(u, err, time.Since(asked))
	c.audit(u, start, long)
	if err != nil {
		c.fail(apierrors.NewUnauthorized(err.Error()))
		return
	}
	if u, err = c.impersonated(u); err != nil {
		c.fail(err)
		return
	}
	if !long && c.info.Resource != "" {
		if !s.flight.enter(c.r.Context()) {
			tooMany(w)
			c.kind = s.c.Verbs.Kind(c.info.ref().Resource) // as above
			s.metrics.ended.WithLabelValues(append(c.what(), strconv.Itoa(http.StatusTooManyRequests))...).Inc()
			return
		}
		defer s.flight.leave()
		now := s.metrics.inFlight.WithLabelValues(c.info.effect())
		now.Inc()
		defer now.Dec()
	}
	c.serve(u)
}

// markup is made harmless where an answer repeats what was asked.
var markup = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// deepen has the goroutine's stack grow at once to what most requests come to need, while there is next to nothing on it. On HTTP/2
// each request has a goroutine of its own, whose stack would else be doubled, and all that is on it moved, three times on its way down.
//
//go:noinline
func deepen(at int) byte {
	var room [12 << 10]byte
	return room[at]
}

// endless lifts the server's time limits on reading a request and writing its answer. Only writers of tests have no deadlines.
func endless(w http.ResponseWriter) {
	c := http.NewResponseController(w)
	_ = c.SetReadDeadline(time.Time{})  // as above
	_ = c.SetWriteDeadline(time.Time{}) // as above
}

// rescue answers for a request that panicked.
func (s *Server) rescue(c *call) {
	p := recover()
	if p == nil {
		c.audited.Completed()
		return
	}
	c.audited.Panicked(p)
	if what := c.what(); c.w.code != 0 {
		s.metrics.aborted.WithLabelValues(what[:6]...).Inc()
	}
	if p == http.ErrAbortHandler { //nolint:errorlint // a sentinel that is panicked with
		panic(p)
	}
	s.c.Logger.Error("a request panicked", "method", c.r.Method, "path", c.info.Path, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
	s.metrics.panics.Inc()
	if c.w.code != 0 {
		panic(http.ErrAbortHandler) // part of the answer has been sent: break it off, so that it does not look complete
	}
	c.fail(apierrors.NewInternalError(fmt.Errorf("the server panicked while serving this request; its log has the details")))
}

// requestTime is how long a request may take: what the client asks for, within bounds.
func requestTime(r *http.Request) (time.Duration, error) {
	q := r.URL.Query().Get("timeout")
	if q == "" {
		return requestTimeout, nil
	}
	d, err := time.ParseDuration(q)
	if err != nil {
		return 0, fmt.Errorf("invalid timeout specified in the request URL - %w", err)
	}
	if d <= 0 {
		return requestTimeout, nil
	}
	return min(d, requestTimeout), nil
}

func (c *call) serve(u user.Info) {
	if c.info.Resource == "" {
		c.path(u)
		return
	}
	if c.info.Resource == "bindings" && c.info.GV.Group == "" && c.r.Method == http.MethodPost && c.info.Name == "" {
		if err := c.bind(u); err != nil {
			c.fail(err)
		}
		return
	}
	c.resource(u)
}

// path serves what is no resource.
func (c *call) path(u user.Info) {
	if err := authz.Check(c.r.Context(), c.s.c.Verbs.Authorizer(), &authz.Attributes{User: u, Verb: c.info.Verb, Path: c.info.Path}); err != nil {
		c.fail(err)
		return
	}
	if h := c.s.handler(c.info.Path); h != nil {
		h.ServeHTTP(c.w, c.r.WithContext(request.WithUser(c.r.Context(), u)))
		return
	}
	c.absent()
}
