package wire

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"podo.dev/podo/internal/pki"
	"podo.dev/podo/internal/view/viewtest"
)

// ownAddress is an address of this machine that others could reach: loopback is not proxied to.
func ownAddress(t *testing.T) string {
	t.Helper()
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && n.IP.IsGlobalUnicast() {
			return n.IP.String()
		}
	}
	t.Skip("this machine has no address but loopback")
	return ""
}

// backend is a program in a pod.
func backend(t *testing.T, address string) (port int32) {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		t.Fatal(err)
	}
	s := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/moved":
			w.Header().Set("Location", "/there")
			w.WriteHeader(http.StatusFound)
		case "/page":
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, `<html><a href="/there">x</a></html>`)
		case "/upgrade":
			conn, _, _ := http.NewResponseController(w).Hijack()
			defer conn.Close()
			fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
			_, _ = io.CopyN(conn, conn, 5)
		default:
			body, _ := io.ReadAll(r.Body)
			fmt.Fprintf(w, "%s %s %q %q", r.Method, r.URL.EscapedPath()+"?"+r.URL.RawQuery, body, r.Header.Get("Authorization"))
		}
	})}}
	s.Start()
	t.Cleanup(s.Close)
	_, p, _ := net.SplitHostPort(l.Addr().String())
	n, _ := strconv.Atoi(p)
	return int32(n)
}

func TestProxies(t *testing.T) {
	ip := ownAddress(t)
	port := backend(t, ip)
	pod := func(name, ip string) runtime.Object {
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c", Ports: []v1.ContainerPort{{ContainerPort: port}}}}}}
		p.Status.PodIPs = []v1.PodIP{{IP: ip}}
		return p
	}
	service := &v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "s"}, Spec: v1.ServiceSpec{Ports: []v1.ServicePort{{Name: "web", Port: 80}}}}
	slice := func(service, pod, ip string) runtime.Object {
		return &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: service, Labels: map[string]string{discoveryv1.LabelServiceName: service}}, AddressType: discoveryv1.AddressTypeIPv4,
			Ports:     []discoveryv1.EndpointPort{{Name: new("web"), Port: &port}},
			Endpoints: []discoveryv1.Endpoint{{Addresses: []string{ip}, TargetRef: &v1.ObjectReference{Kind: "Pod", Namespace: "default", Name: pod}}},
		}
	}
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	node.Status.Addresses = []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: ip}}
	vw, store := viewtest.New(t, defaultNamespace(), pod("p", ip), pod("loop", "127.0.0.1"), pod("link", "169.254.169.254"), service,
		slice("s", "p", ip), slice("forged", "p", "10.9.9.9"), node)
	w := serve(t, vw, store)
	c, err := rest.HTTPClientFor(w.config(pki.Admin))
	if err != nil {
		t.Fatal(err)
	}
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	do := func(method, path, body string) (*http.Response, string) {
		t.Helper()
		r, err := http.NewRequest(method, w.address+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Basic c2VjcmV0")
		res, err := c.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		b, _ := io.ReadAll(res.Body)
		return res, string(b)
	}
	const pods, services = "/api/v1/namespaces/default/pods/", "/api/v1/namespaces/default/services/"
	for _, r := range []struct{ method, path, body, want string }{
		{"GET", pods + "p/proxy/a/b?x=1&y=%2F", "", `GET /a/b?x=1&y=%2F "" ""`},
		{"GET", pods + "p/proxy/a%2Fb/", "", `GET /a%2Fb/? "" ""`},
		{"GET", pods + fmt.Sprintf("http:p:%d/proxy/", port), "", `GET /? "" ""`},
		{"POST", pods + "p/proxy/", "hello", `POST /? "hello" ""`},
		{"PUT", services + "s:web/proxy/x", "hello", `PUT /x? "hello" ""`},
		{"PATCH", services + "s:80/proxy/x", "{}", `PATCH /x? "{}" ""`},
		{"DELETE", "/api/v1/nodes/n:" + strconv.Itoa(int(port)) + "/proxy/x", "", `DELETE /x? "" ""`},
	} {
		if res, got := do(r.method, r.path, r.body); res.StatusCode != 200 || got != r.want {
			t.Errorf("%s %s: %s %s\nwant %s", r.method, r.path, res.Status, got, r.want)
		}
	}
	for path, want := range map[string]string{
		pods + "loop/proxy/":        "address not allowed",
		pods + "link/proxy/":        "address not allowed",
		pods + "gone/proxy/":        `pods "gone" not found`,
		services + "s:81/proxy/":    `no service port 81 found for service "s"`,
		services + "forged/proxy/":  "no endpoints available for service",
		services + "nobody/proxy/x": `no endpoints available for service "nobody"`,
	} {
		if res, got := do("GET", path, ""); res.StatusCode < 400 || !strings.Contains(strings.ReplaceAll(got, `\"`, `"`), want) {
			t.Errorf("%s: %s %s, want %s", path, res.Status, got, want)
		}
	}
	if res, _ := do("GET", pods+"p/proxy/moved", ""); res.Header.Get("Location") != pods+"p/proxy/there" {
		t.Errorf("moved to %q", res.Header.Get("Location"))
	}
	if _, got := do("GET", pods+"p/proxy/page", ""); !strings.Contains(got, `href="`+pods+`p/proxy/there"`) {
		t.Errorf("links to %s", got)
	}
	if res, _ := do("GET", pods+"p/proxy", ""); res.StatusCode != http.StatusMovedPermanently {
		t.Errorf("without a slash: %s", res.Status)
	}
	upgrade(t, w, pods+"p/proxy/upgrade")
}

// upgrade speaks another protocol through the proxy.
func upgrade(t *testing.T, w *world, path string) {
	t.Helper()
	cfg, err := rest.TLSConfigFor(w.config(pki.Admin))
	if err != nil {
		t.Fatal(err)
	}
	cfg.NextProtos = []string{"http/1.1"}
	conn, err := tls.Dial("tcp", strings.TrimPrefix(w.address, "https://"), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n", path)
	in := bufio.NewReader(conn)
	res, err := http.ReadResponse(in, nil)
	if err != nil || res.StatusCode != http.StatusSwitchingProtocols {
		t.Fatal(res, err)
	}
	fmt.Fprint(conn, "hello")
	got := make([]byte, 5)
	if _, err := io.ReadFull(in, got); err != nil || string(got) != "hello" {
		t.Fatal(string(got), err)
	}
}
