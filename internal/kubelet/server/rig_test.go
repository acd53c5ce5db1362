package server

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http/httptest"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/cri-streaming/pkg/streaming"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"

	"podo.dev/podo/internal/kubelet/labels"
)

// rig is a kubelet server in front of the streaming server that containerd uses, over a scripted runtime.
type rig struct {
	t    *testing.T
	srv  *Server
	rt   *fakeRuntime
	pods *fakePods
	ca   *x509.Certificate
	key  *ecdsa.PrivateKey
	stop func() error
}

func newRig(t *testing.T, change ...func(*Config)) *rig {
	t.Helper()
	g := &rig{t: t, rt: &fakeRuntime{}, pods: &fakePods{}}
	conf := streaming.DefaultConfig
	web := httptest.NewUnstartedServer(nil)
	base, _ := url.Parse("http://" + web.Listener.Addr().String())
	conf.BaseURL = base
	stream, err := streaming.NewServer(conf, process{g.rt})
	if err != nil {
		t.Fatal(err)
	}
	web.Config.Handler = stream
	web.Start()
	t.Cleanup(func() { web.CloseClientConnections(); web.Listener.Close() })
	g.rt.Server = stream

	g.ca, g.key, _ = certificate(t, pkix.Name{CommonName: "ca"}, nil, nil)
	_, _, own := certificate(t, pkix.Name{CommonName: "system:node:n1"}, g.ca, g.key)
	pool := x509.NewCertPool()
	pool.AddCert(g.ca)
	cfg := Config{
		Addr: "127.0.0.1:0", HealthAddr: "", Pods: g.pods, Runtime: port{g.rt}, Log: slog.New(slog.DiscardHandler),
		TLS: &tls.Config{Certificates: []tls.Certificate{own}, ClientCAs: pool}, Authorize: allowGroups("system:masters"),
	}
	for _, c := range change {
		c(&cfg)
	}
	if g.srv, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- g.srv.Run(ctx, func() { close(ready) }) }()
	select {
	case <-ready:
	case err := <-done:
		t.Fatal(err)
	}
	var once sync.Once
	g.stop = func() (err error) { once.Do(func() { cancel(); err = <-done }); return err }
	t.Cleanup(func() {
		if err := g.stop(); err != nil {
			t.Error(err)
		}
	})
	return g
}

// config is a client's, with a certificate of the group; "" for none.
func (g *rig) config(group string) *rest.Config {
	c := &rest.Config{Host: "https://" + g.srv.Addr()}
	c.CAData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: g.ca.Raw})
	if group != "" {
		_, key, cert := certificate(g.t, pkix.Name{CommonName: "someone", Organization: []string{group}}, g.ca, g.key)
		der, _ := x509.MarshalECPrivateKey(key)
		c.CertData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]})
		c.KeyData = pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
	}
	return c
}

func (g *rig) url(path string) *url.URL {
	u, err := url.Parse("https://" + g.srv.Addr() + path)
	if err != nil {
		g.t.Fatal(err)
	}
	return u
}

// get returns code and body of a GET as an administrator.
func (g *rig) get(group, path string) (int, string) {
	g.t.Helper()
	client, err := rest.HTTPClientFor(g.config(group))
	if err != nil {
		g.t.Fatal(err)
	}
	defer client.CloseIdleConnections()
	res, err := client.Get(g.url(path).String())
	if err != nil {
		g.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		g.t.Error(err)
	}
	return res.StatusCode, string(b)
}

func certificate(t *testing.T, name pkix.Name, ca *x509.Certificate, caKey *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey, tls.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	serial, _ := rand.Int(rand.Reader, big.NewInt(1<<62))
	c := &x509.Certificate{
		SerialNumber: serial, Subject: name, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		BasicConstraintsValid: true, IsCA: ca == nil, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	if ca == nil {
		ca, caKey = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, ca, &key.PublicKey, caKey)
	if err != nil {
		t.Fatal(err)
	}
	out, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return out, key, tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

type fakePods struct{ list []*v1.Pod }

func (f *fakePods) Pods() []*v1.Pod { return f.list }
func (f *fakePods) Pod(ns, name string) *v1.Pod {
	for _, p := range append(f.list, pod()) {
		if p.Namespace == ns && p.Name == name {
			return p
		}
	}
	return nil
}

func pod() *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u"},
		Spec: v1.PodSpec{
			InitContainers: []v1.Container{{Name: "init", TTY: true}},
			Containers:     []v1.Container{{Name: "a"}, {Name: "tty", TTY: true}},
			EphemeralContainers: []v1.EphemeralContainer{
				{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "debugger", TTY: true}},
			},
		},
	}
}

// fakeRuntime runs the containers of pod u. exec is what a command does; port-forward echoes in upper case.
type fakeRuntime struct {
	streaming.Server
	exec     func(cmd []string, in io.Reader, out, errOut io.Writer, tty bool, resize <-chan remotecommand.TerminalSize) error
	statuses map[string]*runtimev1.ContainerStatus
	mu       sync.Mutex

	checkpoints []string
}

func (f *fakeRuntime) ListContainers(_ context.Context, filter *runtimev1.ContainerFilter) ([]*runtimev1.Container, error) {
	var out []*runtimev1.Container
	for i, name := range []string{"a", "a", "tty", "init", "debugger"} {
		l := map[string]string{labels.PodUID: "u", labels.ContainerName: name, labels.PodName: "p", labels.PodNamespace: "ns"}
		match := true
		for k, v := range filter.LabelSelector {
			match = match && l[k] == v
		}
		if match {
			out = append(out, &runtimev1.Container{Id: fmt.Sprint(name, i), Labels: l, CreatedAt: int64(i), Image: &runtimev1.ImageSpec{Image: "img"}})
		}
	}
	return out, nil
}

func (f *fakeRuntime) ListPodSandbox(_ context.Context, filter *runtimev1.PodSandboxFilter) ([]*runtimev1.PodSandbox, error) {
	if uid, ok := filter.LabelSelector[labels.PodUID]; ok && uid != "u" {
		return nil, nil
	}
	all := []*runtimev1.PodSandbox{{Id: "sandbox", CreatedAt: 1, Labels: map[string]string{labels.PodUID: "u", labels.PodName: "p", labels.PodNamespace: "ns"}}}
	if filter.LabelSelector == nil { // of a pod of which no container runs, and of nobody's
		all = append(all, &runtimev1.PodSandbox{Id: "other", CreatedAt: 2, Labels: map[string]string{labels.PodUID: "v", labels.PodName: "empty", labels.PodNamespace: "ns"}},
			&runtimev1.PodSandbox{Id: "foreign"})
	}
	return all, nil
}

func (f *fakeRuntime) ContainerStatus(_ context.Context, id string) (*runtimev1.ContainerStatus, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s := f.statuses[id]; s != nil {
		return s, nil
	}
	return nil, status.Error(codes.NotFound, "no such container")
}

func (f *fakeRuntime) setState(id string, s *runtimev1.ContainerStatus) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.statuses == nil {
		f.statuses = map[string]*runtimev1.ContainerStatus{}
	}
	f.statuses[id] = s
}

func (f *fakeRuntime) ExecSync(_ context.Context, _ string, cmd []string, _ time.Duration) ([]byte, []byte, int32, error) {
	if cmd[0] == "fail" {
		return []byte("out"), []byte("err"), 3, nil
	}
	return []byte(fmt.Sprint(cmd)), nil, 0, nil
}

// streams adapts the runtime to the names that the port uses.
func (f *fakeRuntime) ExecURL(req *runtimev1.ExecRequest) (string, error) {
	if req.ContainerId == "a0" {
		return "", errors.New("not the newest container: " + req.ContainerId)
	}
	r, err := f.GetExec(req)
	return r.GetUrl(), err
}

// port is the fakeRuntime as the kubelet server sees it: same methods, other signatures.
type port struct{ *fakeRuntime }

func (p port) Exec(_ context.Context, r *runtimev1.ExecRequest) (string, error) { return p.ExecURL(r) }

func (p port) Attach(_ context.Context, r *runtimev1.AttachRequest) (string, error) {
	res, err := p.GetAttach(r)
	return res.GetUrl(), err
}

func (p port) PortForward(_ context.Context, r *runtimev1.PortForwardRequest) (string, error) {
	res, err := p.GetPortForward(r)
	return res.GetUrl(), err
}

func (p port) CheckpointContainer(_ context.Context, r *runtimev1.CheckpointContainerRequest) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.checkpoints = append(p.checkpoints, fmt.Sprint(r.ContainerId, " ", r.Timeout))
	if r.Timeout == 7 {
		return status.Error(codes.Unimplemented, "no CRIU here")
	}
	return nil
}

// process is the fakeRuntime as the streaming server sees it.
type process struct{ *fakeRuntime }

func (p process) Exec(_ context.Context, _ string, cmd []string, in io.Reader, out, errOut io.WriteCloser, tty bool, resize <-chan remotecommand.TerminalSize) error {
	return p.exec(cmd, in, out, errOut, tty, resize)
}

func (p process) Attach(_ context.Context, _ string, in io.Reader, out, errOut io.WriteCloser, tty bool, resize <-chan remotecommand.TerminalSize) error {
	return p.exec(nil, in, out, errOut, tty, resize)
}

func (p process) PortForward(_ context.Context, _ string, n int32, stream io.ReadWriteCloser) error {
	if n != 80 {
		return fmt.Errorf("nothing listens on port %d", n)
	}
	buf := make([]byte, 4096)
	for {
		k, err := stream.Read(buf)
		if k > 0 {
			if _, werr := stream.Write(bytes.ToUpper(buf[:k])); werr != nil {
				return werr
			}
		}
		if err != nil {
			return nil
		}
	}
}

// exit is a command's end with a code.
func exit(code int) error {
	return utilexec.CodeExitError{Err: fmt.Errorf("command terminated with exit code %d", code), Code: code}
}

// allowGroups authorizes members of the groups for everything and nobody else for anything.
func allowGroups(groups ...string) func(context.Context, user.Info, string, string, string) (bool, error) {
	return func(_ context.Context, u user.Info, _, _, _ string) (bool, error) {
		return slices.ContainsFunc(u.GetGroups(), func(g string) bool { return slices.Contains(groups, g) }), nil
	}
}
