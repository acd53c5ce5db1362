package wire

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	streamportforward "k8s.io/cri-streaming/pkg/streaming/portforward"
	streamcommand "k8s.io/cri-streaming/pkg/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"

	"podo.dev/podo/internal/pki"
)

// kubelet is a node's kubelet that streams with the runtime's own library.
type kubelet struct {
	mu    sync.Mutex
	asked []string
}

func (k *kubelet) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	k.mu.Lock()
	k.asked = append(k.asked, r.Method+" "+r.URL.Path+"?"+r.URL.RawQuery)
	k.mu.Unlock()
	if len(r.TLS.PeerCertificates) == 0 || r.TLS.PeerCertificates[0].Subject.CommonName != "kube-apiserver-kubelet-client" {
		http.Error(w, "who are you", http.StatusUnauthorized)
		return
	}
	switch {
	case strings.HasPrefix(r.URL.Path, "/containerLogs/default/p/gone"):
		http.Error(w, `container "gone" in pod "p" is terminated`, http.StatusBadRequest)
	case strings.HasPrefix(r.URL.Path, "/containerLogs/"):
		fmt.Fprintf(w, "log of %s %s\n", r.URL.Path, r.URL.RawQuery)
		http.NewResponseController(w).Flush()
		if r.URL.Query().Get("follow") == "true" {
			<-r.Context().Done()
		}
	case strings.HasPrefix(r.URL.Path, "/exec/"), strings.HasPrefix(r.URL.Path, "/attach/"):
		o, err := streamcommand.NewOptions(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		streamcommand.ServeExec(w, r, k, "p", "", "c", r.URL.Query()["command"], o, time.Minute, time.Minute, streamcommand.SupportedStreamingProtocols)
	case strings.HasPrefix(r.URL.Path, "/portForward/"):
		o, err := streamportforward.NewV4Options(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		streamportforward.ServePortForward(w, r, k, "p", "", o, time.Minute, time.Minute, streamportforward.SupportedProtocols)
	}
}

// ExecInContainer shouts what it hears and ends with code 3.
func (k *kubelet) ExecInContainer(_ context.Context, _, _, _ string, cmd []string, in io.Reader, out, stderr io.WriteCloser, _ bool, _ <-chan streamcommand.TerminalSize, _ time.Duration) error {
	fmt.Fprintf(out, "%v:", cmd)
	if in != nil {
		b, err := io.ReadAll(in)
		if err != nil {
			return err
		}
		out.Write(bytes.ToUpper(b))
	}
	if stderr != nil {
		fmt.Fprint(stderr, "oops")
	}
	return utilexec.CodeExitError{Err: errors.New("exit status 3"), Code: 3}
}

func (k *kubelet) PortForward(_ context.Context, _, _ string, port int32, s io.ReadWriteCloser) error {
	defer s.Close()
	b := make([]byte, 5)
	if _, err := io.ReadFull(s, b); err != nil {
		return err
	}
	_, err := fmt.Fprintf(s, "%s to port %d", b, port)
	return err
}

// withKubelet starts a kubelet for node n1 and a pod p on it.
func (w *world) withKubelet() *kubelet {
	w.t.Helper()
	k := &kubelet{}
	srv := httptest.NewUnstartedServer(k)
	srv.TLS = &tls.Config{Certificates: []tls.Certificate{*w.certs.Get(pki.Kubelet)}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: w.certs.Pool()}
	srv.StartTLS()
	w.t.Cleanup(srv.Close)
	cs := w.client(jsonType)
	n, err := cs.CoreV1().Nodes().Create(w.ctx, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, metav1.CreateOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	n.Status.Addresses = []v1.NodeAddress{{Type: v1.NodeHostName, Address: "n1"}, {Type: v1.NodeInternalIP, Address: "127.0.0.1"}}
	n.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(srv.Listener.Addr().(*net.TCPAddr).Port)
	if _, err := cs.CoreV1().Nodes().UpdateStatus(w.ctx, n, metav1.UpdateOptions{}); err != nil {
		w.t.Fatal(err)
	}
	p := pod("p")
	p.Spec.NodeName = "n1"
	p.Spec.InitContainers = []v1.Container{{Name: "gone", Image: "i"}}
	two := pod("two")
	two.Spec.NodeName = "n1"
	two.Spec.Containers = append(two.Spec.Containers, v1.Container{Name: "d", Image: "i"})
	three := two.DeepCopy()
	three.Name, three.Spec.InitContainers = "three", p.Spec.InitContainers
	for _, p := range []*v1.Pod{p, two, three, pod("unscheduled")} {
		if _, err := cs.CoreV1().Pods("default").Create(w.ctx, p, metav1.CreateOptions{}); err != nil {
			w.t.Fatal(err)
		}
	}
	return k
}

func TestLogs(t *testing.T) {
	w := newWorld(t)
	w.withKubelet()
	pods := w.client(jsonType).CoreV1().Pods("default")
	get := func(name string, o *v1.PodLogOptions) (string, error) {
		s, err := pods.GetLogs(name, o).Stream(w.ctx)
		if err != nil {
			return "", err
		}
		defer s.Close()
		b, err := io.ReadAll(s)
		return string(b), err
	}
	if s, err := get("p", &v1.PodLogOptions{Timestamps: true}); err != nil || s != "log of /containerLogs/default/p/c timestamps=true\n" {
		t.Errorf("%q %v", s, err)
	}
	if _, err := get("two", &v1.PodLogOptions{}); !apierrors.IsBadRequest(err) || err.Error() != "a container name must be specified for pod two, choose one of: [c d]" {
		t.Errorf("%v", err)
	}
	if _, err := get("p", &v1.PodLogOptions{Container: "x"}); !apierrors.IsBadRequest(err) || err.Error() != "container x is not valid for pod p" {
		t.Errorf("%v", err)
	}
	if _, err := get("p", &v1.PodLogOptions{Container: "gone"}); !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), "is terminated") {
		t.Errorf("%v", err)
	}
	if s, err := get("unscheduled", &v1.PodLogOptions{}); err != nil || s != "" {
		t.Errorf("%q %v", s, err)
	}
	if _, err := get("three", &v1.PodLogOptions{}); !apierrors.IsBadRequest(err) || err.Error() != "a container name must be specified for pod three, choose one of: [gone c d]" {
		t.Errorf("%v", err)
	}
	// Followed logs come as they are written.
	ctx, cancel := context.WithCancel(w.ctx)
	defer cancel()
	s, err := pods.GetLogs("p", &v1.PodLogOptions{Follow: true}).Stream(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	b := make([]byte, 10)
	if _, err := io.ReadFull(s, b); err != nil || string(b) != "log of /co" {
		t.Errorf("%q %v", b, err)
	}
}

// TestWhatIsWantedOfALog is read as upstream reads it, and refused before it is asked whether there is such a pod.
func TestWhatIsWantedOfALog(t *testing.T) {
	w := newWorld(t)
	w.withKubelet()
	admin := w.http(pki.Admin)
	for _, c := range []struct {
		query string
		code  int
		has   string
	}{
		{"p/log?timestamps=yes&tailLines=3&tailLines=4&previous=False&sinceSeconds=9", 200, "log of /containerLogs/default/p/c sinceSeconds=9&tailLines=3&timestamps=true\n"},
		{"p/log?sinceTime=2026-12-01T10:00:00%2B02:00&limitBytes=8", 200, "limitBytes=8&sinceTime=2026-12-01T"},
		{"unscheduled/log", 204, ""},
		{"p/log?tailLines=", 400, `strconv.ParseInt: parsing \"\": invalid syntax`},
		{"p/log?sinceTime=today", 400, `cannot parse`},
		{"p/log?tailLines=-1&limitBytes=0&sinceSeconds=0", 422, `PodLogOptions \"p\" is invalid: [tailLines: Invalid value: -1: must be greater than or equal to 0, limitBytes: Invalid value: 0: must be greater than 0, sinceSeconds: Invalid value: 0: must be greater than 0]`},
		{"p/log?sinceSeconds=0&sinceTime=2026-12-01T10:00:00Z", 422, "at most one of `sinceTime` or `sinceSeconds` may be specified"},
		{"p/log?stream=Stdout", 422, "stream: Forbidden: may not be specified"},
		{"none/log?tailLines=-1", 422, "tailLines"},
		{"none/log", 404, `pods \"none\" not found`},
	} {
		res, body := w.do(admin, "GET", "/api/v1/namespaces/default/pods/"+c.query, "")
		if res.StatusCode != c.code || !strings.Contains(body, c.has) {
			t.Errorf("%s: %d %s", c.query, res.StatusCode, body)
		}
	}
}

// TestLogsOfWhoeverAnswers: a client may want a log although the kubelet's certificate is bad.
func TestLogsOfWhoeverAnswers(t *testing.T) {
	w := newWorld(t)
	w.withKubelet()
	w.again(func(s *Server) {
		strangers := s.c.Kubelets.Clone()
		strangers.RootCAs = x509.NewCertPool()
		s.kubelets, s.unverified = kubeletTransport(strangers), unverifiedTransport(strangers)
	})
	admin := w.http(pki.Admin)
	if res, body := w.do(admin, "GET", "/api/v1/namespaces/default/pods/p/log", ""); res.StatusCode != 500 || !strings.Contains(body, "certificate") {
		t.Errorf("%d %s", res.StatusCode, body)
	}
	if res, body := w.do(admin, "GET", "/api/v1/namespaces/default/pods/p/log?insecureSkipTLSVerifyBackend=true", ""); res.StatusCode != 200 || !strings.HasPrefix(body, "log of ") {
		t.Errorf("%d %s", res.StatusCode, body)
	}
}

// TestLogsOverWebSocket is how upstream's suite and browsers read a log.
func TestLogsOverWebSocket(t *testing.T) {
	w := newWorld(t)
	w.withKubelet()
	cfg := w.config(pki.Admin)
	tlsConfig, err := rest.TLSConfigFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	dialer := websocket.Dialer{TLSClientConfig: tlsConfig, Subprotocols: []string{"binary.k8s.io"}}
	u := w.url("p", "log", map[string][]string{"container": {"c"}})
	u.Scheme = "wss"
	conn, _, err := dialer.DialContext(w.ctx, u.String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var text []byte
	for {
		_, piece, err := conn.ReadMessage()
		if err != nil {
			break // the end of the log ends the connection
		}
		text = append(text, piece...)
	}
	if string(text) != "log of /containerLogs/default/p/c \n" {
		t.Errorf("%q", text)
	}
}

func (w *world) url(name, sub string, params map[string][]string) *url.URL {
	u, err := url.Parse(w.address + "/api/v1/namespaces/default/pods/" + name + "/" + sub + "?" + url.Values(params).Encode())
	if err != nil {
		w.t.Fatal(err)
	}
	return u
}

func TestExec(t *testing.T) {
	w := newWorld(t)
	w.withKubelet()
	query := map[string][]string{"command": {"sh", "-c"}, "stdin": {"true"}, "stdout": {"true"}, "stderr": {"true"}}
	u := w.url("p", "exec", query)
	ws, err := remotecommand.NewWebSocketExecutor(w.config(pki.Admin), "GET", u.String())
	if err != nil {
		t.Fatal(err)
	}
	sp, err := remotecommand.NewSPDYExecutor(w.config(pki.Admin), "POST", u)
	if err != nil {
		t.Fatal(err)
	}
	for name, e := range map[string]remotecommand.Executor{"websocket": ws, "spdy": sp} {
		var out, errOut bytes.Buffer
		err := e.StreamWithContext(w.ctx, remotecommand.StreamOptions{Stdin: strings.NewReader("hello"), Stdout: &out, Stderr: &errOut})
		var exit interface{ ExitStatus() int }
		if !errors.As(err, &exit) || exit.ExitStatus() != 3 {
			t.Errorf("%s: exit %v", name, err)
		}
		if out.String() != "[sh -c]:HELLO" || errOut.String() != "oops" {
			t.Errorf("%s: %q %q", name, out.String(), errOut.String())
		}
	}
	attach, err := remotecommand.NewWebSocketExecutor(w.config(pki.Admin), "GET", w.url("p", "attach", map[string][]string{"stdout": {"true"}}).String())
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	_ = attach.StreamWithContext(w.ctx, remotecommand.StreamOptions{Stdout: &out})
	if out.String() != "[]:" {
		t.Errorf("attach: %q", out.String())
	}
	admin := w.http(pki.Admin)
	if res, b := w.do(admin, "POST", "/api/v1/namespaces/default/pods/unscheduled/exec?command=x&stdout=true", ""); res.StatusCode != 400 || !strings.Contains(b, "pod unscheduled does not have a host assigned") {
		t.Errorf("%d %s", res.StatusCode, b)
	}
	if res, b := w.do(admin, "POST", "/api/v1/namespaces/default/pods/p/exec?command=x&stdout=true", ""); res.StatusCode != 400 || !strings.Contains(b, "Upgrade request required") {
		t.Errorf("no upgrade: %d %s", res.StatusCode, b)
	}
	if res, _ := w.do(w.http(pki.Scheduler), "POST", "/api/v1/namespaces/default/pods/p/exec?command=x&stdout=true", ""); res.StatusCode != 403 {
		t.Errorf("exec by the scheduler: %d", res.StatusCode)
	}
}

func TestPortForward(t *testing.T) {
	w := newWorld(t)
	w.withKubelet()
	u := w.url("p", "portforward", nil)
	transport, upgrader, err := spdy.RoundTripperFor(w.config(pki.Admin))
	if err != nil {
		t.Fatal(err)
	}
	overSPDY := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, "POST", u)
	overWebSocket, err := portforward.NewSPDYOverWebsocketDialer(u, w.config(pki.Admin))
	if err != nil {
		t.Fatal(err)
	}
	ports := []string{"0:8080"}
	for name, start := range map[string]func(stop <-chan struct{}, ready chan struct{}) (*portforward.PortForwarder, error){
		"spdy": func(stop <-chan struct{}, ready chan struct{}) (*portforward.PortForwarder, error) {
			return portforward.New(overSPDY, ports, stop, ready, io.Discard, io.Discard)
		},
		"websocket": func(stop <-chan struct{}, ready chan struct{}) (*portforward.PortForwarder, error) {
			return portforward.New(overWebSocket, ports, stop, ready, io.Discard, io.Discard)
		},
	} {
		stop, ready := make(chan struct{}), make(chan struct{})
		f, err := start(stop, ready)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- f.ForwardPorts() }()
		select {
		case <-ready:
		case err := <-done:
			t.Fatalf("%s: %v", name, err)
		}
		ports, err := f.GetPorts()
		if err != nil {
			t.Fatal(err)
		}
		conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", ports[0].Local))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(conn, "hello")
		b, err := io.ReadAll(conn)
		if err != nil || string(b) != "hello to port 8080" {
			t.Errorf("%s: %q %v", name, b, err)
		}
		conn.Close()
		close(stop)
		<-done
	}
}

func TestBindingAndEviction(t *testing.T) {
	w := newWorld(t)
	cs := w.client(protoType)
	pods := cs.CoreV1().Pods("default")
	for _, n := range []string{"a", "b"} {
		if _, err := pods.Create(w.ctx, pod(n), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	b := &v1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Target: v1.ObjectReference{Kind: "Node", Name: "n1"}}
	if err := pods.Bind(w.ctx, b, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := pods.Bind(w.ctx, b, metav1.CreateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("bound twice: %v", err)
	}
	if res, body := w.do(w.http(pki.Scheduler), "POST", "/api/v1/namespaces/default/bindings", `{"metadata":{"name":"b"},"target":{"name":"n1"}}`); res.StatusCode != 201 {
		t.Errorf("%d %s", res.StatusCode, body)
	}
	if p, err := pods.Get(w.ctx, "b", metav1.GetOptions{}); err != nil || p.Spec.NodeName != "n1" {
		t.Errorf("%v %v", p.Spec.NodeName, err)
	}
	if res, body := w.do(w.http(pki.Admin), "POST", "/api/v1/namespaces/default/pods/b/eviction", `{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"b"}}`); res.StatusCode != 201 {
		t.Errorf("%d %s", res.StatusCode, body)
	}
	if p, err := pods.Get(w.ctx, "b", metav1.GetOptions{}); err != nil || p.DeletionTimestamp == nil {
		t.Errorf("not evicted: %v", err)
	}
}
