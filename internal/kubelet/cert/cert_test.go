package cert

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"podo.dev/podo/internal/jointoken"
	"podo.dev/podo/internal/pki"
)

const goodToken = "abcdef.0123456789abcdef"

// server answers a node as an API server with its controllers does: it signs what is asked for, or does not.
type server struct {
	*httptest.Server
	t     *testing.T
	certs *pki.Bundle

	mu       sync.Mutex
	requests map[string]*certificatesv1.CertificateSigningRequest
	users    []string                                        // of requests that were created
	life     time.Duration                                   // of what is signed
	judge    func(*certificatesv1.CertificateSigningRequest) // instead of signing
	changed  chan struct{}
	refuse   atomic.Bool // every certificate of a client
}

func newServer(t *testing.T) *server {
	t.Helper()
	certs, err := pki.Ensure(pki.Config{Dir: filepath.Join(t.TempDir(), "pki"), NodeName: "s", NodeIP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	s := &server{t: t, certs: certs, requests: map[string]*certificatesv1.CertificateSigningRequest{}, life: 24 * time.Hour, changed: make(chan struct{})}
	s.Server = httptest.NewUnstartedServer(s)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{*certs.Get(pki.Serving)}, ClientAuth: tls.RequestClientCert}
	s.EnableHTTP2 = true
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func (s *server) token() string { return goodToken + "@" + jointoken.Hash(s.certs.Authority()) }

func (s *server) who(r *http.Request) string {
	if len(r.TLS.PeerCertificates) > 0 {
		if s.refuse.Load() {
			return ""
		}
		if c := r.TLS.PeerCertificates[0]; c.CheckSignatureFrom(s.certs.Authority()) == nil {
			return c.Subject.CommonName
		}
		return ""
	}
	if r.Header.Get("Authorization") == "Bearer "+goodToken {
		return "system:bootstrap:abcdef"
	}
	return ""
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	who := s.who(r)
	if who == "" {
		answerError(w, apierrors.NewUnauthorized("Unauthorized"))
		return
	}
	switch name := strings.TrimPrefix(r.URL.Path, "/apis/certificates.k8s.io/v1/certificatesigningrequests"); {
	case r.URL.Path == "/who":
		fmt.Fprint(w, who)
	case r.URL.Path == "/wait":
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	case r.Method == http.MethodPost:
		s.create(w, r, who)
	case r.URL.Query().Get("watch") != "":
		s.watch(w, r)
	default:
		s.mu.Lock()
		defer s.mu.Unlock()
		reply(w, s.requests[strings.TrimPrefix(name, "/")])
	}
}

func answerError(w http.ResponseWriter, err *apierrors.StatusError) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(int(err.ErrStatus.Code))
	err.ErrStatus.Kind, err.ErrStatus.APIVersion = "Status", "v1"
	_ = json.NewEncoder(w).Encode(err.ErrStatus)
}

func reply(w io.Writer, obj any) {
	if h, ok := w.(http.ResponseWriter); ok {
		h.Header().Set("Content-Type", "application/json")
	}
	_ = json.NewEncoder(w).Encode(obj)
}

func (s *server) create(w http.ResponseWriter, r *http.Request, who string) {
	csr := &certificatesv1.CertificateSigningRequest{}
	body, _ := io.ReadAll(r.Body)
	if err := json.Unmarshal(body, csr); err != nil {
		s.t.Error(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.requests[csr.Name] != nil {
		answerError(w, apierrors.NewAlreadyExists(schema.GroupResource{Group: "certificates.k8s.io", Resource: "certificatesigningrequests"}, csr.Name))
		return
	}
	csr.ResourceVersion = fmt.Sprint(len(s.requests) + 1)
	csr.Spec.Username = who
	s.users = append(s.users, who)
	s.requests[csr.Name] = csr
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	reply(w, csr)
	go s.decide(csr.Name)
}

// decide signs, or what judge does.
func (s *server) decide(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	csr := s.requests[name].DeepCopy()
	if s.judge != nil {
		s.judge(csr)
	} else {
		s.sign(csr)
	}
	csr.ResourceVersion += "0"
	s.requests[name] = csr
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *server) sign(csr *certificatesv1.CertificateSigningRequest) {
	block, _ := pem.Decode(csr.Spec.Request)
	req, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		s.t.Error(err)
	}
	now := time.Now()
	chain, err := s.certs.Sign(&x509.Certificate{
		Subject: req.Subject, DNSNames: req.DNSNames, IPAddresses: req.IPAddresses, PublicKey: req.PublicKey,
		NotBefore: now.Add(-time.Minute), NotAfter: now.Add(s.life), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{map[string]x509.ExtKeyUsage{clientKind.signer: x509.ExtKeyUsageClientAuth, servingKind.signer: x509.ExtKeyUsageServerAuth}[csr.Spec.SignerName]},
	})
	if err != nil {
		s.t.Error(err)
	}
	csr.Status.Certificate = chain
}

func (s *server) watch(w http.ResponseWriter, r *http.Request) {
	_, name, _ := strings.Cut(r.URL.Query().Get("fieldSelector"), "=")
	w.Header().Set("Content-Type", "application/json")
	for seen := r.URL.Query().Get("resourceVersion"); ; {
		s.mu.Lock()
		csr, changed := s.requests[name], s.changed
		s.mu.Unlock()
		if csr != nil && csr.ResourceVersion != seen {
			csr = csr.DeepCopy()
			csr.APIVersion, csr.Kind = "certificates.k8s.io/v1", "CertificateSigningRequest"
			b, _ := json.Marshal(csr)
			fmt.Fprintf(w, `{"type":"MODIFIED","object":%s}`+"\n", b)
			seen = csr.ResourceVersion
		}
		w.(http.Flusher).Flush()
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
	}
}

func (s *server) asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.users)
}

// node is a Manager at work, and what it has said.
type node struct {
	*Manager
	t    *testing.T
	log  *lockedBuffer
	done chan error
	stop func()
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
	on chan struct{} // told at each write
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case b.on <- struct{}{}:
	default:
	}
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func join(t *testing.T, c Config) *node {
	t.Helper()
	n := &node{t: t, log: &lockedBuffer{on: make(chan struct{}, 1)}, done: make(chan error, 1)}
	c.NodeName = "n1"
	c.Log = slog.New(slog.NewTextHandler(n.log, nil))
	if c.Random == nil {
		c.Random = func() float64 { return 0 }
	}
	var err error
	if n.Manager, err = New(c); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() { n.done <- n.Run(ctx, func() {}) }()
	n.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-n.done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(n.stop)
	return n
}

func (n *node) await(c <-chan struct{}) {
	n.t.Helper()
	select {
	case <-c:
	case <-time.After(10 * time.Second):
		n.t.Fatalf("it took too long; the log:\n%s", n.log)
	}
}

// says waits until the log has the text.
func (n *node) says(text string) {
	n.t.Helper()
	deadline := time.After(10 * time.Second)
	for !strings.Contains(n.log.String(), text) {
		select {
		case <-n.log.on:
		case <-deadline:
			n.t.Fatalf("it never says %q:\n%s", text, n.log)
		}
	}
}

func (n *node) get(path string) string {
	n.t.Helper()
	res, err := (&http.Client{Transport: n.Transport()}).Get(n.c.Server + path)
	if err != nil {
		n.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		n.t.Fatal(err)
	}
	return string(b)
}

func addresses(list ...string) func() []v1.NodeAddress {
	return func() (out []v1.NodeAddress) {
		for _, a := range list {
			out = append(out, v1.NodeAddress{Type: v1.NodeInternalIP, Address: a})
		}
		return out
	}
}

func TestJoinAndComeBack(t *testing.T) {
	s := newServer(t)
	dir := filepath.Join(t.TempDir(), "certs")
	n := join(t, Config{Server: s.URL, Token: s.token(), Dir: dir, Addresses: addresses("127.0.0.1")})
	n.await(n.Joined())
	if who := n.get("/who"); who != "system:node:n1" {
		t.Errorf("the server knows it as %q", who)
	}
	n.says(`msg="the node has a new certificate" certificate=serving`)
	if got := s.asked(); !slices.Equal(got, []string{"system:bootstrap:abcdef", "system:node:n1"}) {
		t.Errorf("they were asked for by %v", got)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", n.ServerTLS())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		if c, err := l.Accept(); err == nil {
			_ = c.(*tls.Conn).Handshake()
			c.Close()
		}
	}()
	c, err := tls.Dial("tcp", l.Addr().String(), &tls.Config{RootCAs: s.certs.Pool()})
	if err != nil {
		t.Fatal("its port: ", err)
	}
	c.Close()
	n.stop()
	// What it has is enough for the next start, without a token.
	again := join(t, Config{Server: s.URL, Dir: dir, Addresses: addresses("127.0.0.1")})
	again.await(again.Joined())
	if who := again.get("/who"); who != "system:node:n1" || len(s.asked()) != 2 {
		t.Errorf("%q; asked for by %v", who, s.asked())
	}
	for _, f := range []string{"kubelet-client-current.pem", "kubelet-server-current.pem"} {
		if info, err := os.Stat(filepath.Join(dir, f)); err != nil || info.Mode() != 0o600 {
			t.Errorf("%s: %v, %v", f, info, err)
		}
	}
	if strings.Contains(n.log.String()+again.log.String(), "0123456789abcdef") {
		t.Error("the log tells the token")
	}
}

func TestNobodyElseIsTrusted(t *testing.T) {
	s, stranger := newServer(t), newServer(t)
	n := join(t, Config{Server: stranger.URL, Token: s.token(), Dir: t.TempDir()})
	n.says("is not of the cluster that the token is of")
	if len(stranger.asked()) != 0 || n.Authority() != nil {
		t.Error("a stranger was asked")
	}
	if _, err := New(Config{Server: s.URL, Token: goodToken, NodeName: "n1", Dir: t.TempDir()}); err == nil || !strings.Contains(err.Error(), "--ca-file") {
		t.Errorf("a token without its hash: %v", err)
	}
	if _, err := New(Config{Server: s.URL, Token: s.token(), CA: stranger.certs.CAPEM(), NodeName: "n1", Dir: t.TempDir()}); err == nil || !strings.Contains(err.Error(), "different clusters") {
		t.Errorf("a token with another authority: %v", err)
	}
	given := join(t, Config{Server: s.URL, Token: goodToken, CA: s.certs.CAPEM(), Dir: t.TempDir()})
	given.await(given.Joined())
}

func TestATokenThatIsNoGood(t *testing.T) {
	s := newServer(t)
	n := join(t, Config{Server: s.URL, Token: "abcdef.aaaaaaaaaaaaaaaa@" + jointoken.Hash(s.certs.Authority()), Dir: t.TempDir()})
	select {
	case err := <-n.done:
		n.done <- nil
		if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "podo token create") || strings.Contains(err.Error(), "aaaaaaa") {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("it goes on trying")
	}
}

// A certificate is replaced while a request runs on: that one is not cut, and the next goes out with the new certificate.
func TestRotationCutsNothing(t *testing.T) {
	s := newServer(t)
	s.life = 2 * time.Second // and a minute before now: it is due at once
	n := join(t, Config{Server: s.URL, Token: s.token(), Dir: t.TempDir()})
	n.await(n.Joined())
	res, err := (&http.Client{Transport: n.Transport()}).Get(s.URL + "/wait")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	first := n.client.current.Load()
	s.mu.Lock()
	s.life = time.Hour
	s.mu.Unlock()
	n.client.look(false)
	for deadline := time.Now().Add(10 * time.Second); n.client.current.Load().Leaf.NotAfter.Before(time.Now().Add(10 * time.Minute)); {
		select {
		case <-n.log.on:
		case <-time.After(time.Until(deadline)):
			t.Fatal("it was not replaced:\n", n.log)
		}
	}
	if n.client.current.Load() == first || n.get("/who") != "system:node:n1" {
		t.Error("the next request goes out with the old certificate")
	}
	cut := make(chan error, 1)
	go func() {
		_, err := res.Body.Read(make([]byte, 1))
		cut <- err
	}()
	select {
	case err := <-cut:
		t.Errorf("the request that ran was cut: %v", err)
	default:
	}
	if last := s.asked(); last[len(last)-1] != "system:node:n1" {
		t.Errorf("renewed as %v", last)
	}
}

// What the server refuses is not the end of a node that has a token.
func TestARefusedCertificateIsReplacedByToken(t *testing.T) {
	s := newServer(t)
	dir := t.TempDir()
	s.life = -time.Second
	n := join(t, Config{Server: s.URL, Token: s.token(), Dir: dir})
	n.await(n.Joined())
	n.stop()
	s.refuse.Store(true)
	s.mu.Lock()
	s.life, s.users = time.Hour, nil
	s.mu.Unlock()
	n = join(t, Config{Server: s.URL, Token: s.token(), Dir: dir})
	n.says("the node has a new certificate")
	if got := s.asked(); !slices.Equal(got, []string{"system:bootstrap:abcdef"}) {
		t.Errorf("asked for by %v", got)
	}
}

// A request that was denied is made anew with another key; a crash between asking and getting asks for nothing twice.
func TestDeniedAndFoundAgain(t *testing.T) {
	s := newServer(t)
	s.judge = func(r *certificatesv1.CertificateSigningRequest) {
		r.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateDenied, Status: v1.ConditionTrue, Reason: "Why", Message: "because"}}
	}
	dir := t.TempDir()
	n := join(t, Config{Server: s.URL, Token: s.token(), Dir: dir})
	n.says("reason: Why, message: because")
	n.stop()
	s.mu.Lock()
	s.judge = func(*certificatesv1.CertificateSigningRequest) {}
	s.users = nil
	s.mu.Unlock()
	n = join(t, Config{Server: s.URL, Token: s.token(), Dir: dir})
	for len(s.asked()) == 0 {
		s.mu.Lock()
		changed := s.changed
		s.mu.Unlock()
		if len(s.asked()) == 0 {
			n.await(changed)
		}
	}
	n.stop() // before an answer
	s.mu.Lock()
	s.judge = nil
	var name string
	for _, r := range s.requests {
		if len(r.Status.Conditions) == 0 {
			name = r.Name
		}
	}
	s.mu.Unlock()
	s.decide(name)
	n = join(t, Config{Server: s.URL, Token: s.token(), Dir: dir})
	n.await(n.Joined())
	if got := s.asked(); len(got) != 1 {
		t.Errorf("asked for by %v", got)
	}
}

// The clock of the machine is wrong at its first boot, and is set later.
func TestClocks(t *testing.T) {
	for name, off := range map[string]time.Duration{"behind": -20 * 365 * 24 * time.Hour, "a little ahead": 48 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			var wrong atomic.Int64
			wrong.Store(int64(off))
			set := make(chan struct{}, 1)
			n := join(t, Config{
				Server: s.URL, Token: s.token(), Dir: t.TempDir(), ClockSet: set,
				Now: func() time.Time { return time.Now().Add(time.Duration(wrong.Load())) },
			})
			n.await(n.Joined())
			if who := n.get("/who"); who != "system:node:n1" {
				t.Errorf("the server knows it as %q", who)
			}
			wrong.Store(0)
			set <- struct{}{}
			n.says("the clock was set")
			n.stop()
			if got := s.asked(); len(got) != 1 {
				t.Errorf("a certificate that is good was replaced: %v", got)
			}
		})
	}
	t.Run("far ahead", func(t *testing.T) {
		s := newServer(t)
		var wrong atomic.Int64
		wrong.Store(int64(20 * 365 * 24 * time.Hour))
		set := make(chan struct{}, 1)
		n := join(t, Config{
			Server: s.URL, Token: s.token(), Dir: t.TempDir(), ClockSet: set,
			Now: func() time.Time { return time.Now().Add(time.Duration(wrong.Load())) },
		})
		n.says("set the clock of this machine")
		wrong.Store(0)
		set <- struct{}{}
		n.await(n.Joined())
	})
}

func TestAnswerOfSomebodyElsesRequest(t *testing.T) {
	s := newServer(t)
	dir := t.TempDir()
	m, err := New(Config{Server: s.URL, Token: s.token(), NodeName: "n1", Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	mine, err := m.client.pendingKey()
	if err != nil {
		t.Fatal(err)
	}
	again, err := m.client.pendingKey()
	if err != nil || !mine.Equal(again) {
		t.Errorf("the key of a request on its way is not kept: %v", err)
	}
	other, err := m.serving.pendingKey()
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, other)
	if err != nil {
		t.Fatal(err)
	}
	csr := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Spec: certificatesv1.CertificateSigningRequestSpec{Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})}}
	csr.Status.Certificate = []byte("x")
	if chain, err := answer(csr, &mine.PublicKey); chain != nil || !errors.Is(err, errTurnedDown) {
		t.Errorf("%s, %v", chain, err)
	}
	if chain, err := answer(csr, &other.PublicKey); chain == nil || err != nil {
		t.Errorf("%s, %v", chain, err)
	}
}
