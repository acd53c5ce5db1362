package wire

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"podo.dev/podo/internal/pki"
)

func (w *world) do(c *http.Client, method, path, body string, header ...string) (*http.Response, string) {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.ctx, method, w.address+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := c.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return res, string(b)
}

func TestWhoMay(t *testing.T) {
	w := newWorld(t)
	anonymous, node, admin := w.http(""), w.http(pki.Node), w.http(pki.Admin)
	for _, c := range []struct {
		who  *http.Client
		path string
		code int
	}{
		{anonymous, "/version", 200},
		{anonymous, "/healthz", 200},
		{anonymous, "/livez", 200},
		{anonymous, "/readyz", 500},
		{anonymous, "/api", 403},
		{anonymous, "/api/v1/pods", 403},
		{anonymous, "/podo/timeline/x", 403},
		{node, "/api", 200},
		{node, "/api/v1/secrets", 403},
		{node, "/api/v1/pods?fieldSelector=spec.nodeName%3Dn1", 200},
		{node, "/api/v1/pods", 403},
		{node, "/metrics", 403},
		{admin, "/metrics", 200},
		{admin, "/podo/timeline/x", 200},
		{admin, "/nothing", 404},
		{admin, "/api/v1/things", 404},
		{admin, "/apis/nowhere.example.com/v1/deployments", 404},
		{admin, "/api/v1/namespaces/default/pods/none", 404},
		{admin, "/api/v1/namespaces/default", 200},
	} {
		if res, b := w.do(c.who, "GET", c.path, ""); res.StatusCode != c.code {
			t.Errorf("%s: %d, want %d: %s", c.path, res.StatusCode, c.code, b)
		}
	}
	if res, b := w.do(anonymous, "GET", "/version", "", "Authorization", "Bearer x"); res.StatusCode != 401 {
		t.Errorf("a token that nobody issued: %d %s", res.StatusCode, b)
	}
	// A certificate of another authority gets an answer, and that is no.
	other := newWorld(t)
	stranger := w.http("")
	stranger.Transport.(*http.Transport).TLSClientConfig.GetClientCertificate = other.certs.Client(pki.Admin)
	if res, b := w.do(stranger, "GET", "/api/v1/pods", ""); res.StatusCode != 401 || !strings.Contains(b, `"reason":"Unauthorized"`) {
		t.Errorf("a stranger: %d %s", res.StatusCode, b)
	}
	// As someone else: no more than that one may do, and only for who may be someone else.
	if res, b := w.do(admin, "GET", "/api/v1/pods", "", "Impersonate-User", "jane"); res.StatusCode != 403 || !strings.Contains(b, `User \"jane\" cannot list resource \"pods\"`) {
		t.Errorf("impersonated: %d %s", res.StatusCode, b)
	}
	if res, b := w.do(node, "GET", "/api", "", "Impersonate-User", "jane"); res.StatusCode != 403 || !strings.Contains(b, `cannot impersonate-on:user-info:get path \"/api\"`) {
		t.Errorf("impersonation by a node: %d %s", res.StatusCode, b)
	}
	if _, b := w.do(anonymous, "GET", "/readyz?verbose", ""); !strings.Contains(b, "[+]store ok\n[-]node failed: reason withheld\nreadyz check failed") || strings.Contains(b, "secret") {
		t.Errorf("readyz: %s", b)
	}
	if _, b := w.do(anonymous, "GET", "/livez?verbose", ""); !strings.Contains(b, "[+]store ok\nlivez check passed") {
		t.Errorf("livez: %s", b)
	}
}

// TestTypedDocument: a document that is made in one media type is refused to other methods and to who takes no such type.
func TestTypedDocument(t *testing.T) {
	w := newWorld(t)
	admin := w.http(pki.Admin)
	for _, c := range []struct {
		method, accept string
		code           int
	}{{"GET", "*/*", 200}, {"GET", "application/jwk-set+json", 200}, {"GET", "application/json", 406}, {"POST", "*/*", 405}} {
		if res, b := w.do(admin, c.method, "/openid/keys", "", "Accept", c.accept); res.StatusCode != c.code {
			t.Errorf("%s for %s: %d %s", c.method, c.accept, res.StatusCode, b)
		}
	}
}

func TestAPanicIsItsRequestsFault(t *testing.T) {
	w := newWorld(t)
	admin := w.http(pki.Admin)
	if res, b := w.do(admin, "GET", "/podo/panic", ""); res.StatusCode != 500 || !strings.Contains(b, "InternalError") {
		t.Errorf("%d %s", res.StatusCode, b)
	}
	if res, _ := w.do(admin, "GET", "/livez", ""); res.StatusCode != 200 {
		t.Error("the server did not survive")
	}
	if _, b := w.do(admin, "GET", "/metrics", ""); !strings.Contains(b, "podo_apiserver_request_panics_total 1") || !strings.Contains(b, `apiserver_request_total{code="200"`) {
		t.Errorf("metrics: %s", b)
	}
}

func TestBodies(t *testing.T) {
	w := newWorld(t)
	admin := w.http(pki.Admin)
	post := func(query, contentType, body string) (*http.Response, string) {
		return w.do(admin, "POST", "/api/v1/namespaces/default/configmaps"+query, body, "Content-Type", contentType)
	}
	for _, c := range []struct {
		name, query, media, body string
		code                     int
		text                     string
	}{
		{"yaml", "", yamlType, "kind: ConfigMap\nmetadata: {name: yam}\ndata: {a: b}\n", 201, `"name":"yam"`},
		{"no type", "", "", `{"metadata":{"name":"n"}}`, 201, `"kind":"ConfigMap","apiVersion":"v1"`},
		{"not json", "", jsonType, `{"metadata"`, 400, "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse error"},
		{"wrong media", "", "text/plain", `x`, 415, "the body of the request was in an unknown format - accepted media types include"},
		{"wrong kind", "", jsonType, `{"kind":"Pod","apiVersion":"v1"}`, 400, `Pod in version \"v1\" cannot be handled as a ConfigMap`},
		{"wrong version", "", jsonType, `{"kind":"ConfigMap","apiVersion":"v2"}`, 400, `ConfigMap in version \"v2\" cannot be handled as a ConfigMap: no kind \"ConfigMap\" is registered for version \"v2\" in scheme`},
		{"wrong field type", "", jsonType, `{"metadata":{"name":"x"},"data":5}`, 400, `ConfigMap in version \"v1\" cannot be handled as a ConfigMap: json: cannot unmarshal number into Go struct field ConfigMap.data of type map[string]string`},
		{"strict", "?fieldValidation=Strict", jsonType, `{"metadata":{"name":"x"},"foo":1}`, 400, `ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: unknown field \"foo\"`},
		{"strict twice", "?fieldValidation=Strict", jsonType, `{"metadata":{"name":"x"},"metadata":{"name":"x"}}`, 400, `duplicate field \"metadata\"`},
		{"ignored", "?fieldValidation=Ignore", jsonType, `{"metadata":{"name":"i"},"foo":1}`, 201, `"name":"i"`},
		{"bad directive", "?fieldValidation=Maybe", jsonType, `{"metadata":{"name":"x"}}`, 422, "fieldValidation: Unsupported value"},
		{"bad dry run", "?dryRun=Some", jsonType, `{"metadata":{"name":"x"}}`, 422, "dryRun: Unsupported value"},
	} {
		if res, b := post(c.query, c.media, c.body); res.StatusCode != c.code || !strings.Contains(b, c.text) {
			t.Errorf("%s: %d %s", c.name, res.StatusCode, b)
		}
	}
	res, _ := post("", jsonType, `{"metadata":{"name":"warned"},"foo":1}`)
	if got := res.Header.Get("Warning"); got != `299 - "unknown field \"foo\""` {
		t.Errorf("warning %q", got)
	}
	if res, b := post("", jsonType, `{"data":{"x":"`+strings.Repeat("y", maxBody)+`"}}`); res.StatusCode != 413 {
		t.Errorf("too large: %d %s", res.StatusCode, b[:min(len(b), 200)])
	}
	if res, b := w.do(admin, "PATCH", "/api/v1/namespaces/default/configmaps/yam", "{}", "Content-Type", "application/apply-patch+yaml"); res.StatusCode != 415 && res.StatusCode != 422 {
		t.Errorf("apply: %d %s", res.StatusCode, b)
	}
	if res, b := w.do(admin, "PUT", "/api/v1/namespaces/default/configmaps", "{}"); res.StatusCode != 405 {
		t.Errorf("put on a collection: %d %s", res.StatusCode, b)
	}
	if res, b := w.do(admin, "GET", "/api/v1/namespaces/default/configmaps/yam", "", "Accept", yamlType); res.StatusCode != 200 || !strings.HasPrefix(b, "apiVersion: v1\ndata:\n  a: b\nkind: ConfigMap\n") {
		t.Errorf("yaml: %d %s", res.StatusCode, b)
	}
	if res, b := w.do(admin, "GET", "/api/v1/namespaces/default/configmaps/yam", "", "Accept", "text/html"); res.StatusCode != 406 {
		t.Errorf("not acceptable: %d %s", res.StatusCode, b)
	}
	if res, b := w.do(admin, "DELETE", "/api/v1/namespaces/default/configmaps/yam", ""); res.StatusCode != 200 || !strings.Contains(b, `"status":"Success","details":{"name":"yam","kind":"configmaps","uid":`) {
		t.Errorf("delete: %d %s", res.StatusCode, b)
	}
}

// What is followed on a path of our own has no end but its client's and the server's; anything else there is bounded as all requests are.
func TestALongPathOfOurOwn(t *testing.T) {
	w := newWorld(t)
	bounded := func(path string) string {
		res, err := w.http(pki.Admin).Get(w.address + path)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	began := make(chan struct{})
	c := w.server.c
	c.Metrics = nil
	c.Handlers = []Handler{{Path: "/ours/", Long: func(r *http.Request) bool { return r.URL.Query().Has("follow") }, Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		_, ends := r.Context().Deadline()
		fmt.Fprint(rw, ends)
		if r.URL.Query().Has("wait") {
			_ = http.NewResponseController(rw).Flush()
			close(began)
			<-r.Context().Done()
		}
	})}}
	srv, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- srv.Run(ctx, func() { close(ready) }) }()
	<-ready
	w.address = "https://" + srv.Addr().String()
	if got := bounded("/ours/x"); got != "true" {
		t.Errorf("what is not followed has an end: %s", got)
	}
	if got := bounded("/ours/x?follow"); got != "false" {
		t.Errorf("what is followed has an end: %s", got)
	}
	go func() { <-began; cancel() }()
	if got := bounded("/ours/x?follow&wait"); got != "false" { // and its end is no error, as it would be if it were cut
		t.Errorf("what is followed until the server stops: %s", got)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}
