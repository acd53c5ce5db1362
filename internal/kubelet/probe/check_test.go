package probe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

type fakeRuntime func(cmd []string) (string, int32, error)

func (f fakeRuntime) ExecSync(_ context.Context, id string, cmd []string, timeout time.Duration) ([]byte, []byte, int32, error) {
	if id != "id" || timeout != 2*time.Second {
		return nil, nil, 0, fmt.Errorf("container %q, timeout %v", id, timeout)
	}
	out, code, err := f(cmd)
	return []byte(out), []byte("!"), code, err
}

// try runs one handler against loopback.
func try(t *testing.T, h v1.ProbeHandler, rt fakeRuntime) string {
	t.Helper()
	c := &v1.Container{Name: "a", Ports: []v1.ContainerPort{{Name: "web", ContainerPort: 1}}}
	res, err := NewChecker(rt).Check(t.Context(), &v1.Probe{ProbeHandler: h, TimeoutSeconds: 2}, Target{Pod: &v1.Pod{}, Container: c, ID: "id", IP: "127.0.0.1"})
	if err != nil {
		return "error: " + err.Error()
	}
	return fmt.Sprintf("%v %s%s", res.OK, res.Output, res.Warn)
}

func expect(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

func TestExec(t *testing.T) {
	h := v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"test", "-f"}}}
	expect(t, "success", try(t, h, func([]string) (string, int32, error) { return "out", 0, nil }), "true out!")
	expect(t, "failure", try(t, h, func([]string) (string, int32, error) { return "out", 1, nil }), "false out!")
	expect(t, "timeout", try(t, h, func([]string) (string, int32, error) { return "", 0, status.Error(codes.DeadlineExceeded, "x") }),
		`false command timed out: "test -f" timed out after 2s`)
	expect(t, "no answer", try(t, h, func([]string) (string, int32, error) { return "", 0, errors.New("away") }), "error: away")
	long := try(t, h, func([]string) (string, int32, error) { return strings.Repeat("포", 9000), 0, nil })
	if len(long) > maxOutput+5 || len(long) < maxOutput || !strings.HasSuffix(long, "포") {
		t.Errorf("%d bytes are kept", len(long))
	}
}

// kubernetes/kubernetes#40846: names of variables are replaced in exec probes, though not where their values come from elsewhere.
func TestExecExpandsVariables(t *testing.T) {
	c := &v1.Container{Env: []v1.EnvVar{
		{Name: "A", Value: "x"},
		{Name: "B", Value: "$(A)"},
		{Name: "P", ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{FieldPath: "metadata.name"}}},
	}}
	var ran []string
	rt := fakeRuntime(func(cmd []string) (string, int32, error) { ran = cmd; return "", 0, nil })
	p := &v1.Probe{TimeoutSeconds: 2, ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"$(A)/y", "$(B)", "<$(P)>", "$(Z)", "$$(A)"}}}}
	if _, err := NewChecker(rt).Check(t.Context(), p, Target{Pod: &v1.Pod{}, Container: c, ID: "id"}); err != nil {
		t.Fatal(err)
	}
	expect(t, "command", strings.Join(ran, " "), "x/y $(A) <> $(Z) $(A)")
	expect(t, "spec", p.Exec.Command[0], "$(A)/y")
}

func TestHTTP(t *testing.T) {
	var seen *http.Request
	elsewhere := httptest.NewServer(http.NotFoundHandler())
	defer elsewhere.Close()
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/fine": // who asks for it waits for the answer; other requests may come here when nobody waits for them any more
			seen = r
		case "/bad":
			w.WriteHeader(http.StatusInternalServerError)
		case "/moved":
			http.Redirect(w, r, "/fine", http.StatusFound)
		case "/away":
			http.Redirect(w, r, strings.Replace(elsewhere.URL, "127.0.0.1", "localhost", 1), http.StatusFound)
		case "/nowhere":
			w.WriteHeader(http.StatusMultipleChoices)
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusFound)
		case "/slow":
			<-r.Context().Done()
		case "/stuck":
			fmt.Fprint(w, "beginning")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		case "/long":
			_, _ = w.Write(make([]byte, 2*maxOutput))
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}
		fmt.Fprint(w, "hi")
	})
	plain, secure := httptest.NewServer(mux), httptest.NewUnstartedServer(mux)
	secure.EnableHTTP2 = true
	secure.StartTLS()
	defer plain.Close()
	defer secure.Close()
	port := func(s *httptest.Server) intstr.IntOrString {
		return intstr.FromInt32(int32(s.Listener.Addr().(*net.TCPAddr).Port))
	}
	ask := func(path string) string {
		return try(t, v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{Path: path, Port: port(plain)}}, nil)
	}
	expect(t, "fine", ask("/fine?q=1"), "true hi")
	if seen.URL.RawQuery != "q=1" || seen.Header.Get("User-Agent") != "kube-probe/1.37" || seen.Header.Get("Accept") != "*/*" || seen.Header.Get("Accept-Encoding") != "" {
		t.Errorf("%v %v", seen.URL, seen.Header)
	}
	expect(t, "no path", ask(""), "true hi")
	expect(t, "bad", ask("/bad"), "false HTTP probe failed with statuscode: 500")
	expect(t, "moved", ask("/moved"), "true hi")
	if got := ask("/away"); !strings.HasPrefix(got, "true Probe terminated redirects, Response body: <a href=") {
		t.Error(got)
	}
	expect(t, "nowhere", ask("/nowhere"), "true Probe terminated redirects, Response body: hi")
	if got := ask("/loop"); !strings.HasPrefix(got, "false ") || !strings.Contains(got, "stopped after 10 redirects") {
		t.Error(got)
	}
	if got := ask("/slow"); !strings.Contains(got, "context deadline exceeded (Client.Timeout exceeded while awaiting headers)") {
		t.Error(got)
	}
	// kubernetes/kubernetes#122591: an answer that does not come to its end is no result; one that is longer than what is kept may.
	expect(t, "stuck", ask("/stuck"), "error: context deadline exceeded (Client.Timeout or context cancellation while reading body)")
	expect(t, "long", ask("/long"), "true "+strings.Repeat("\x00", maxOutput))
	expect(t, "tls", try(t, v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{
		Path: "/fine", Port: port(secure), Scheme: v1.URISchemeHTTPS,
		HTTPHeaders: []v1.HTTPHeader{{Name: "Host", Value: "example.com"}, {Name: "User-Agent", Value: "me"}, {Name: "Accept", Value: ""}},
	}}, nil), "true hi")
	if seen.ProtoMajor != 2 || seen.Host != "example.com" || seen.Header.Get("User-Agent") != "me" || len(seen.Header["Accept"]) != 0 {
		t.Errorf("%s %v", seen.Host, seen.Header)
	}
	expect(t, "named port", try(t, v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{Port: intstr.FromString("web")}}, nil),
		`false Get "http://127.0.0.1:1/": dial tcp 127.0.0.1:1: connect: connection refused`)
	expect(t, "unknown port", try(t, v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{Port: intstr.FromString("nope")}}, nil), `error: port "nope" not found`)
	expect(t, "impossible port", try(t, v1.ProbeHandler{TCPSocket: &v1.TCPSocketAction{Port: intstr.FromInt32(70000)}}, nil), "error: invalid port number: 70000")
}

func TestTCPAndGRPC(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv, hs := grpc.NewServer(), health.NewServer()
	grpc_health_v1.RegisterHealthServer(srv, hs)
	go srv.Serve(ln)
	defer srv.Stop()
	port := int32(ln.Addr().(*net.TCPAddr).Port)
	expect(t, "tcp", try(t, v1.ProbeHandler{TCPSocket: &v1.TCPSocketAction{Port: intstr.FromInt32(port)}}, nil), "true ")
	expect(t, "tcp refused", try(t, v1.ProbeHandler{TCPSocket: &v1.TCPSocketAction{Port: intstr.FromString("web")}}, nil),
		"false dial tcp 127.0.0.1:1: connect: connection refused")
	ask := func(service string, port int32) string {
		return try(t, v1.ProbeHandler{GRPC: &v1.GRPCAction{Port: port, Service: &service}}, nil)
	}
	expect(t, "grpc", ask("", port), "true service healthy")
	hs.SetServingStatus("db", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	expect(t, "grpc unhealthy", ask("db", port), `false service unhealthy (responded with "NOT_SERVING")`)
	if got := ask("other", port); !strings.HasPrefix(got, "false error: health rpc probe failed: ") || !strings.Contains(got, "unknown service") {
		t.Error(got)
	}
	// Who does not listen, or speaks something else, is tried until the time is over; who answers at the second try is healthy.
	within := func(seconds int32, addr net.Addr) string {
		p := &v1.Probe{ProbeHandler: v1.ProbeHandler{GRPC: &v1.GRPCAction{Port: int32(addr.(*net.TCPAddr).Port)}}, TimeoutSeconds: seconds}
		res, err := NewChecker(nil).Check(t.Context(), p, Target{Pod: &v1.Pod{}, Container: &v1.Container{}, ID: "id", IP: "127.0.0.1"})
		return fmt.Sprintf("%v %s %v", res.OK, res.Output, err)
	}
	expect(t, "grpc refused", within(1, &net.TCPAddr{Port: 1}), `false timeout: failed to connect service "127.0.0.1:1" within 1s: context deadline exceeded <nil>`)
	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	at := web.Listener.Addr()
	expect(t, "no grpc", within(1, at), fmt.Sprintf("false timeout: failed to connect service %q within 1s: context deadline exceeded <nil>", at))
	if ln, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	go func() {
		if c, err := ln.Accept(); err == nil {
			_ = c.Close()
		}
		_ = srv.Serve(ln)
	}()
	expect(t, "grpc at the second try", within(30, ln.Addr()), "true service healthy <nil>")
}
