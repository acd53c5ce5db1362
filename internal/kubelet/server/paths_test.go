package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
)

// ask sends a request of an administrator over the wire.
func (g *rig) ask(method, path, accept, body string) (code int, text string, header http.Header) {
	g.t.Helper()
	client, err := rest.HTTPClientFor(g.config("system:masters"))
	if err != nil {
		g.t.Fatal(err)
	}
	defer client.CloseIdleConnections()
	r, err := http.NewRequestWithContext(g.t.Context(), method, g.url(path).String(), strings.NewReader(body))
	if err != nil {
		g.t.Fatal(err)
	}
	if accept != "" {
		r.Header.Set("Accept", accept)
	}
	res, err := client.Do(r)
	if err != nil {
		g.t.Fatal(err)
	}
	defer res.Body.Close()
	out, err := io.ReadAll(res.Body)
	if err != nil {
		g.t.Fatal(err)
	}
	return res.StatusCode, string(out), res.Header
}

func TestHealthIsToldCheckByCheck(t *testing.T) {
	var stuck atomic.Bool
	g := newRig(t, func(c *Config) {
		c.Healthy = func() error {
			if stuck.Load() {
				return errors.New("the sync loop is stuck")
			}
			return nil
		}
	})
	expect := func(path string, code int, want string) {
		t.Helper()
		if c, body, _ := g.ask("GET", path, "", ""); c != code || body != want {
			t.Errorf("%s: %d %q, want %d %q", path, c, body, code, want)
		}
	}
	expect("/healthz", 200, "ok")
	expect("/healthz?verbose", 200, "[+]ping ok\n[+]log ok\n[+]syncloop ok\nhealthz check passed\n")
	expect("/healthz/ping", 200, "ok")
	stuck.Store(true)
	expect("/healthz", 500, "[+]ping ok\n[+]log ok\n[-]syncloop failed: reason withheld\nhealthz check failed\n")
	expect("/healthz/syncloop", 500, "internal server error: the sync loop is stuck\n")
	expect("/healthz?exclude=ping,syncloop", 500, "[+]ping ok\n[+]log ok\n[-]syncloop failed: reason withheld\n"+
		"warn: some health checks cannot be excluded: no matches for \"ping,syncloop\"\nhealthz check failed\n")
	expect("/healthz?exclude=syncloop&verbose", 200, "[+]ping ok\n[+]log ok\n[+]syncloop excluded: ok\nhealthz check passed\n")
	_, slis, _ := g.ask("GET", "/metrics/slis", "", "")
	for _, want := range []string{
		`kubernetes_healthcheck{name="syncloop",type="healthz"} 0`, `kubernetes_healthchecks_total{name="ping",status="success",type="healthz"} 5`,
		`kubernetes_healthchecks_total{name="syncloop",status="error",type="healthz"} 2`,
	} {
		if !strings.Contains(slis, want) {
			t.Errorf("%s is missing in\n%s", want, slis)
		}
	}
	if _, all, _ := g.ask("GET", "/metrics", "", ""); !strings.Contains(all, "\nkubernetes_build_info{") || !strings.Contains(all, "\nkubernetes_feature_enabled{") {
		t.Errorf("it tells nothing of itself:\n%s", all)
	}
	if code, body, _ := g.ask("DELETE", "/metrics/slis", "", ""); code != 200 || body != "metrics reset\n" {
		t.Errorf("%d %s", code, body)
	}
	if _, slis, _ = g.ask("GET", "/metrics/slis", "", ""); strings.Contains(slis, "syncloop") {
		t.Error(slis)
	}
}

func TestPagesAboutTheProcess(t *testing.T) {
	g := newRig(t, func(c *Config) {
		c.Version = "v1.37.2"
		c.Flags = func() map[string]string { return map[string]string{"v": "2", "data-dir": "/d"} }
		c.Configz = func() any { return nil }
	})
	_, text, _ := g.ask("GET", "/flagz", "", "")
	if want := "\nkubelet flagz\nWarning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is for debugging purposes only.\ndata-dir=/d\nv=2\n"; text != want {
		t.Errorf("%q, want %q", text, want)
	}
	_, text, _ = g.ask("GET", "/statusz", "text/plain", "")
	for _, want := range []string{"kubelet statusz", "Binary version: 1.37.2", "Emulation version: 1.37\n", "Paths: /configz /debug /flagz /healthz /metrics\n", "Up: 0 hr 00 min"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in %s", want, text)
		}
	}
	for accept, want := range map[string]string{
		"application/json;g=config.k8s.io;v=v1beta1;as=Statusz":                  "200 config.k8s.io/v1beta1 kubelet 1.37.2",
		"application/json;g=config.k8s.io;v=v1alpha1;as=Statusz":                 "200 config.k8s.io/v1alpha1 kubelet 1.37.2",
		"text/plain;q=0.1,application/json;g=config.k8s.io;v=v1beta1;as=Statusz": "200 config.k8s.io/v1beta1 kubelet 1.37.2",
		"application/json": "406 v1  ", "text/html": "406 v1  ", "application/json;g=config.k8s.io;v=v1beta1;as=Flagz": "406 v1  ",
		"application/json;g=config.k8s.io;v=v9;as=Statusz": "406 v1  ",
	} {
		code, body, header := g.ask("GET", "/statusz", accept, "")
		var got statusz
		if code == 200 {
			if text := header.Get("Content-Type"); text != "text/plain; charset=utf-8" && !strings.HasPrefix(text, "application/json;g=config.k8s.io;v=") {
				t.Errorf("%s: %s", accept, text)
			}
		}
		if strings.HasPrefix(body, "{") {
			if err := json.Unmarshal([]byte(body), &got); err != nil {
				t.Error(err)
			}
		}
		if s := fmt.Sprint(code, " ", got.APIVersion, " ", got.Name, " ", got.BinaryVersion); s != want {
			t.Errorf("%s: %s, want %s", accept, s, want)
		}
		if strings.Contains(header.Get("Warning"), "deprecated") != strings.Contains(accept, "v1alpha1") {
			t.Errorf("%s: warning %q", accept, header.Get("Warning"))
		}
	}
}

// What nobody serves is refused in upstream's words, which end no line, and by upstream's rules: a path takes every method, what is below a
// service's root is that service's.
func TestHowRequestsAreRefused(t *testing.T) {
	g := newRig(t, func(c *Config) { c.Configz = func() any { return 1 } })
	g.pods.list = []*v1.Pod{pod()}
	const json = "406 406: Not Acceptable\n\nAvailable representations: application/json"
	for request, want := range map[string]string{
		"GET /nope":                             "404 404 page not found\n",
		"GET /healthz/":                         "404 404 page not found\n",
		"GET /podsx":                            "404 404 page not found\n",
		"GET /pods/x":                           "404 404: Page Not Found",
		"GET /checkpoint/":                      "404 404: Page Not Found",
		"GET /debug/pprof/none":                 "404 Unknown profile\n",
		"GET /stats/":                           "404 404: Page Not Found",
		"GET /runningpods/x":                    "404 404: Page Not Found",
		"GET /exec/ns/p":                        "404 404: Page Not Found",
		"GET /containerLogs/ns/p/a/b":           "404 404: Page Not Found",
		"POST /pods":                            "405 405: Method Not Allowed GET",
		"DELETE /exec/ns/p/a":                   "405 405: Method Not Allowed GET, POST",
		"GET /run/ns/p/a":                       "405 405: Method Not Allowed POST",
		"PUT /logs/":                            "405 405: Method Not Allowed GET",
		"GET /checkpoint/ns/p/a":                "405 405: Method Not Allowed POST",
		"GET /pods text/html":                   json,
		"GET /runningpods/ application/yaml":    json,
		"DELETE /configz":                       `200 {"kubeletconfig":1}`,
		"GET /containerLogs/ns/p/none":          `404 container "none" not found in pod "p"`,
		"GET /exec/ns/p/a":                      "400 you must specify at least 1 of stdin, stdout, stderr",
		"GET /exec/ns/none/a?output=1":          "404 pod does not exist",
		"GET /exec/ns/p/none?output=1":          `500 container not found ("none")`,
		"GET /exec/ns/p/other/a?output=1":       `500 container not found ("a")`,
		"POST /run/ns/p/other/a?cmd=x":          `500 container not found ("a")`,
		"GET /attach/ns/p/none?output=1":        "500 container none not found in pod p_ns",
		"GET /attach/ns/p/other/a?output=1":     "500 pod p_ns not found",
		"GET /exec/ns/p/a?output=1":             "500 Upgrade request required\n",
		"GET /portForward/ns/p/other":           "404 pod not found",
		"GET /portForward/ns/none":              "404 pod does not exist",
		"POST /checkpoint/ns/none/a":            "404 pod does not exist",
		"GET /allocatedPods/ns/none":            "404 pod not found",
		"GET /pods application/json;as=Table":   "200",
		"GET /pods text/html,*/*;q=0.1":         "200",
		"GET /containerLogs/ns/p/a?tailLines=x": `400 {"message": "Unable to decode query."}`,
	} {
		parts := strings.SplitN(request, " ", 3)
		accept := ""
		if len(parts) == 3 {
			accept = parts[2]
		}
		code, body, header := g.ask(parts[0], parts[1], accept, "")
		got := strings.TrimSuffix(fmt.Sprint(code, " ", body, " ", header.Get("Allow")), " ")
		if got != want && (want != "200" || code != 200) {
			t.Errorf("%s: %q, want %q", request, got, want)
		}
	}
	// Who is nobody learns what there is not, and nothing else.
	for path, want := range map[string]int{"/nope": 404, "//pods": 307, "/pods": 401, "/pods/x": 401, "/exec/ns/p/a": 401, "/metrics": 401} {
		w := httptest.NewRecorder()
		g.srv.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if w.Code != want || want == 401 && w.Body.String() != "Unauthorized" {
			t.Errorf("%s: %d %q, want %d", path, w.Code, w.Body, want)
		}
	}
}

func TestTheMachinesLogs(t *testing.T) {
	machine, pods, secret := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "secret")
	for path, text := range map[string]string{machine + "/sys.log": "boot\n", pods + "/0.log": "hello\n", secret: "secret"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(secret, machine+"/out.log"); err != nil {
		t.Fatal(err)
	}
	g := newRig(t, func(c *Config) { c.LogDir, c.PodLogs = machine, pods })
	name := filepath.Base(pods)
	for path, want := range map[string]string{
		"/logs/sys.log": "200 boot", "/logs/" + name + "/0.log": "200 hello", "/logs/none": "404 404 page not found",
	} {
		if code, body, _ := g.ask("GET", path, "", ""); fmt.Sprint(code, " ", strings.TrimSpace(body)) != want {
			t.Errorf("%s: %d %s, want %s", path, code, body, want)
		}
	}
	if code, body, _ := g.ask("GET", "/logs/", "", ""); code != 200 || !strings.Contains(body, `<a href="sys.log">sys.log</a>`) {
		t.Errorf("%d %s", code, body)
	}
	if code, body, _ := g.ask("GET", "/logs/out.log", "", ""); code == 200 || strings.Contains(body, "secret") {
		t.Errorf("a link out of the folder: %d %s", code, body)
	}
}

func TestDebuggingIsClosedByParts(t *testing.T) {
	level := ""
	g := newRig(t, func(c *Config) { c.Debugging.SetVerbosity = func(l string) error { level = l; return nil } })
	if code, body, _ := g.ask("PUT", "/debug/flags/v", "", "4"); code != 200 || level != "4" || body != "successfully set klog.logging.verbosity to 4\n" {
		t.Errorf("%d %s", code, body)
	}
	for method, want := range map[string]string{"PUT": `400 strconv.ParseUint: parsing "x": invalid syntax`, "GET": "406 unsupported http method"} {
		if code, body, _ := g.ask(method, "/debug/flags/v", "", "x"); fmt.Sprintln(want) != fmt.Sprint(code, " ", body) || level != "4" {
			t.Errorf("%s: %d %s", method, code, body)
		}
	}
	if code, body, _ := g.ask("GET", "/debug/pprof/cmdline", "", ""); code != 200 || body == "" {
		t.Errorf("%d %s", code, body)
	}
	g = newRig(t, func(c *Config) { c.Debugging = Debugging{NoLogs: true, NoProfiling: true, NoVerbosity: true} })
	for path, want := range map[string]string{
		"/logs/": "logs endpoint is disabled.", "/debug/pprof/heap": "profiling endpoint is disabled.", "/debug/flags/v": "flags endpoint is disabled.",
	} {
		if code, body, _ := g.ask("GET", path, "", ""); code != 405 || body != want+"\n" {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	g = newRig(t, func(c *Config) { c.Debugging.Off = true })
	for _, path := range []string{"/run/ns/p/a", "/exec/ns/p/a", "/containerLogs/ns/p/a", "/runningpods/", "/logs/", "/debug/pprof/"} {
		if code, body, _ := g.ask("GET", path, "", ""); code != 405 || body != "Debug endpoints are disabled.\n" {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	if code, _, _ := g.ask("GET", "/pods", "", ""); code != 200 {
		t.Error("pods are told with debugging off, too")
	}
}

func TestCheckpointAndGrant(t *testing.T) {
	g := newRig(t, func(c *Config) {
		c.Checkpoints = "/var/lib/x"
		c.Granted = func() []*v1.Pod {
			p := pod().DeepCopy()
			p.Spec.Containers[0].Image = "granted"
			return []*v1.Pod{p}
		}
	})
	g.pods.list = []*v1.Pod{pod()}
	for path, want := range map[string]string{
		"/checkpoint/ns/p/a":           `200 {"items":["/var/lib/x/checkpoint-p_ns-a-`,
		"/checkpoint/ns/p/none":        "404 container none does not exist",
		"/checkpoint/ns/none/a":        "404 pod does not exist",
		"/checkpoint/ns/p/a?timeout=x": "404 cannot parse value of timeout parameter",
		"/checkpoint/ns/p/a?timeout=7": "500 checkpointing of ns/p/a failed (rpc error: code = Unimplemented desc = no CRIU here)",
		"/run/ns/p/a?cmd=echo+x":       "200 [echo x]",
		"/run/ns/p/a?cmd=fail+x":       "500 command 'fail x' exited with 3: err",
	} {
		if code, body, _ := g.ask("POST", path, "", ""); !strings.HasPrefix(fmt.Sprint(code, " ", body), want) {
			t.Errorf("%s: %d %s, want %s", path, code, body, want)
		}
	}
	if len(g.rt.checkpoints) != 2 || g.rt.checkpoints[0][:2] != "a1" {
		t.Errorf("%q: only the newest container that runs, and only what is right", g.rt.checkpoints)
	}
	var list v1.PodList
	_, body, _ := g.ask("GET", "/allocatedPods", "", "")
	if err := json.Unmarshal([]byte(body), &list); err != nil || len(list.Items) != 1 || list.Items[0].Spec.Containers[0].Image != "granted" || list.Items[0].Status.Phase != "" {
		t.Errorf("%v %s", err, body)
	}
	if code, _, _ := g.ask("GET", "/allocatedPods/ns/p", "", ""); code != 200 {
		t.Error(code)
	}
	if code, body, _ := g.ask("GET", "/allocatedPods/ns/p/other", "", ""); code != 404 || body != "pod not found" {
		t.Errorf("%d %s", code, body)
	}
}

func TestRequestsAreCounted(t *testing.T) {
	more := prometheus.NewGauge(prometheus.GaugeOpts{Name: "kubelet_running_pods", Help: "x"})
	g := newRig(t, func(c *Config) { c.Metrics = []prometheus.Collector{more} })
	g.ask("GET", "/pods", "", "")
	g.ask("GET", "/made/up", "", "")
	g.ask("PUT", "/exec/ns/p/a", "", "")
	_, text, _ := g.ask("GET", "/metrics", "", "")
	for _, want := range []string{
		`kubelet_http_requests_total{long_running="false",method="GET",path="pods",server_type="readwrite"} 1`,
		`kubelet_http_requests_total{long_running="false",method="GET",path="other",server_type="readwrite"} 1`,
		`kubelet_http_requests_total{long_running="true",method="PUT",path="exec",server_type="readwrite"} 1`,
		`kubelet_http_inflight_requests{long_running="false",method="GET",path="metrics",server_type="readwrite"} 1`,
		"kubelet_running_pods 0", "go_goroutines", "process_start_time_seconds",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is missing in\n%s", want, text)
		}
	}
}

func TestTheReadOnlyPort(t *testing.T) {
	addr := free(t)
	g := newRig(t, func(c *Config) {
		c.ReadOnly = addr
		c.Summary = func(w http.ResponseWriter, _ *http.Request) { writeText(w, "sum") }
	})
	g.pods.list = []*v1.Pod{pod()}
	for path, code := range map[string]int{
		"/healthz": 200, "/pods": 200, "/metrics": 200, "/stats/summary": 200,
		"/exec/ns/p/a": 404, "/containerLogs/ns/p/a": 404, "/configz": 404, "/logs/": 404, "/runningpods/": 404, "/run/ns/p/a": 404, "/debug/pprof/": 404,
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != code {
			t.Errorf("%s: %d, want %d", path, res.StatusCode, code)
		}
	}
	// Without one, nothing is open.
	w := httptest.NewRecorder()
	newRig(t).srv.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/pods", nil))
	if w.Code != http.StatusUnauthorized {
		t.Error(w.Code)
	}
}

func free(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}
