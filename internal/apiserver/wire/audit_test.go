package wire

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"

	"podo.dev/podo/internal/registry"
)

// TestAudit: stages, levels, what is left out.
func TestAudit(t *testing.T) {
	resources := func(group string, names ...string) []auditinternal.GroupResources {
		return []auditinternal.GroupResources{{Group: group, Resources: names}}
	}
	l := newLocked(t, &auditinternal.Policy{OmitManagedFields: true, Rules: []auditinternal.PolicyRule{
		{Level: auditinternal.LevelNone, Resources: resources("", "nodes")},
		{Level: auditinternal.LevelMetadata, Resources: resources("", "secrets")},
		{Level: auditinternal.LevelRequest, Resources: resources("", "configmaps"), OmitStages: []auditinternal.Stage{auditinternal.StageRequestReceived}},
		{Level: auditinternal.LevelRequestResponse},
	}}, town()...)
	stages := func(events []map[string]any) (out []string) {
		for _, e := range events {
			out = append(out, e["stage"].(string))
		}
		return out
	}
	const root, ns = "root|system:masters", "/api/v1/namespaces/team"
	ask := func(who, line, headers, body string) []map[string]any {
		w := l.ask(who, line, headers, body)
		return l.events(t, w.Header().Get("Audit-Id"))
	}
	if e := ask(root, "GET /api/v1/nodes/n1", "", ""); len(e) != 0 {
		t.Errorf("level None: %v", e)
	}
	e := ask(root, "GET "+ns+"/secrets/one", "", "")
	if got := stages(e); !slices.Equal(got, []string{"RequestReceived", "ResponseComplete"}) {
		t.Fatalf("stages %v", got)
	}
	if e[1]["responseObject"] != nil || e[1]["verb"] != "get" || e[1]["objectRef"].(map[string]any)["name"] != "one" {
		t.Errorf("level Metadata: %v", e[1])
	}
	if a := e[1]["annotations"].(map[string]any); a["authorization.k8s.io/decision"] != "allow" {
		t.Errorf("annotations %v", a)
	}
	e = ask(root, "POST "+ns+"/configmaps", "", `{"metadata":{"name":"c"},"data":{"a":"b"}}`)
	if got := stages(e); !slices.Equal(got, []string{"ResponseComplete"}) || e[0]["requestObject"] == nil || e[0]["responseObject"] != nil {
		t.Errorf("level Request: %v %v", got, e)
	}
	e = ask(root, "GET "+ns+"/pods", "", "")
	if items := e[1]["responseObject"].(map[string]any)["items"].([]any); len(items) != 2 {
		t.Errorf("level RequestResponse: %v", items)
	}
	e = ask("jane", "GET "+ns+"/pods", "Impersonate-User: max", "")
	if e[len(e)-1]["responseStatus"].(map[string]any)["code"] != float64(403) {
		t.Errorf("a refused impersonation: %v", e)
	}
	e = ask(root, "GET "+ns+"/pods", "Impersonate-User: jane", "")
	if u := e[len(e)-1]["impersonatedUser"].(map[string]any); u["username"] != "jane" {
		t.Errorf("impersonated %v", u)
	}
	if m := e[len(e)-1]["authenticationMetadata"].(map[string]any); m["impersonationConstraint"] != "impersonate:user-info" {
		t.Errorf("constraint %v", m)
	}
	e = ask("jane", "GET /api/v1/pods", "", "")
	if a := e[1]["annotations"].(map[string]any); a["authorization.k8s.io/decision"] != "forbid" {
		t.Errorf("annotations %v", a)
	}
	e = ask(root, "POST /apis/authentication.k8s.io/v1/tokenreviews", "", `{"spec":{"token":"hush"}}`)
	if len(e) == 0 || e[len(e)-1]["requestObject"] != nil || strings.Contains(l.log.String(), "hush") {
		t.Errorf("a token was written down: %v", e)
	}
	if strings.Contains(l.log.String(), "managedFields") {
		t.Error("managed fields were written down")
	}
}

// An object that comes is written down with what its kind fills in, a Status with its kind, and that what was asked for is deprecated.
func TestWhatIsWrittenDown(t *testing.T) {
	l := newLocked(t, &auditinternal.Policy{Rules: []auditinternal.PolicyRule{{Level: auditinternal.LevelRequestResponse}}}, town()...)
	const root, ns, config = "root|system:masters", "/api/v1/namespaces/team", `{"metadata":{"name":"x"},"spec":{"containers":[{"name":"c","image":"i"}]}}`
	for _, c := range []struct {
		line, body, want string
	}{
		{"POST " + ns + "/pods", config, `"restartPolicy":"Always"`},
		{"PUT " + ns + "/pods/p1", strings.Replace(config, `"x"`, `"p1"`, 1), `"imagePullPolicy":"Always"`},
		{"POST " + ns + "/pods/p1/eviction?dryRun=All", `{"metadata":{"name":"p1"}}`, `"responseObject":{"apiVersion":"v1","code":201,"kind":"Status"`},
		{"GET " + ns + "/endpoints", "", `"k8s.io/deprecated":"true"`},
	} {
		w := l.ask(root, c.line, "", c.body)
		e := l.events(t, w.Header().Get("Audit-Id"))
		text, err := json.Marshal(e[len(e)-1])
		if err != nil || !strings.Contains(string(text), c.want) {
			t.Errorf("%s: %d %s %v, want %s", c.line, w.Code, text, err, c.want)
		}
	}
}

// What Secrets hold is not written down, not even under a policy that wants everything's bodies.
func TestSecretsAreNotAudited(t *testing.T) {
	l := newLocked(t, &auditinternal.Policy{Rules: []auditinternal.PolicyRule{{Level: auditinternal.LevelRequestResponse}}}, town()...)
	const root, path, secret = "root|system:masters", "/api/v1/namespaces/team/secrets", `{"metadata":{"name":"s"},"data":{"k":"aHVzaA=="}}`
	for _, req := range [][2]string{{"POST " + path, secret}, {"GET " + path + "/s", ""}, {"GET " + path, ""}, {"PUT " + path + "/s", secret}, {"DELETE " + path + "/s", ""}} {
		w := l.ask(root, req[0], "", req[1])
		if e := l.events(t, w.Header().Get("Audit-Id")); w.Code >= 300 || len(e) != 2 || e[1]["level"] != "Metadata" {
			t.Errorf("%s: %d %v", req[0], w.Code, e)
		}
	}
	if strings.Contains(l.log.String(), "aHVzaA") {
		t.Error("a Secret was written down")
	}
}

// A request that panics ends in the stage Panic, however far it had come, and in no other one; the log says why, the client is not told.
func TestPanicsAreAudited(t *testing.T) {
	tables := *registry.ByGVK(v1.SchemeGroupVersion.WithKind("ConfigMap"))
	tables.Row = func(runtime.Object, time.Time) []any { panic("hush") }
	l := newLockedWith(t, &auditinternal.Policy{Rules: []auditinternal.PolicyRule{{Level: auditinternal.LevelMetadata}}}, func(c *Config) {
		for i, k := range c.Kinds {
			if k.GVK == tables.GVK {
				c.Kinds[i] = &tables
			}
		}
		c.Handlers = append(c.Handlers, Handler{Path: "/late", Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusOK)
			panic("hush")
		})}, Handler{Path: "/aborts", Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			panic(http.ErrAbortHandler)
		})})
	}, town()...)
	const maps, asTable = "/api/v1/namespaces/team/configmaps", "Accept: application/json;as=Table;v=v1;g=meta.k8s.io"
	if w := l.ask("root|system:masters", "POST "+maps, "", `{"metadata":{"name":"c"}}`); w.Code != http.StatusCreated {
		t.Fatal(w.Code, w.Body)
	}
	for path, want := range map[string]struct {
		stages, says string
		cut          bool // the connection is cut: no answer
	}{
		maps:                           {"RequestReceived, Panic", "APIServer panic'd: hush", false},
		maps + "/c":                    {"RequestReceived, Panic", "APIServer panic'd: hush", false},
		maps + "?watch=true":           {"RequestReceived, ResponseStarted, Panic", "APIServer panic'd: hush", true},
		"/late":                        {"RequestReceived, Panic", "APIServer panic'd: hush", true},
		"/aborts":                      {"RequestReceived, Panic", "APIServer panic'd: net/http: abort Handler", true},
		"/api/v1/namespaces/team/pods": {"RequestReceived, ResponseComplete", "", false}, // the server goes on
	} {
		w, panicked := l.asked("root|system:masters", "GET "+path, asTable+"\nAudit-Id: "+path, "")
		if panicked != want.cut {
			t.Errorf("%s: cut: %t", path, panicked)
		}
		if body := w.Body.String(); strings.Contains(body, "hush") || !want.cut && want.says != "" && w.Code != http.StatusInternalServerError {
			t.Errorf("%s: %d %s", path, w.Code, body)
		}
		var stages []string
		events := l.events(t, path)
		for _, e := range events {
			stages = append(stages, e["stage"].(string))
		}
		if got := strings.Join(stages, ", "); got != want.stages {
			t.Errorf("%s: stages %s, want %s", path, got, want.stages)
			continue
		}
		status, _ := events[len(events)-1]["responseStatus"].(map[string]any)
		if says, _ := status["message"].(string); says != want.says || want.says != "" && (status["code"] != float64(500) || status["reason"] != "InternalError") {
			t.Errorf("%s: %v", path, status)
		}
	}
}

// Which rule of a policy is a request's: by its namespace (a namespace is in itself, "" is none), what it is about, who asks, how, and the path
// of what is no resource.
func TestAuditRules(t *testing.T) {
	about := func(group string, resources, names []string) []auditinternal.GroupResources {
		return []auditinternal.GroupResources{{Group: group, Resources: resources, ResourceNames: names}}
	}
	l := newLocked(t, &auditinternal.Policy{Rules: []auditinternal.PolicyRule{
		{Level: auditinternal.LevelNone, Namespaces: []string{"vault"}},
		{Level: auditinternal.LevelNone, NonResourceURLs: []string{"/healthz*", "/version"}},
		{Level: auditinternal.LevelNone, Users: []string{"max"}, Verbs: []string{"watch", "list"}},
		{Level: auditinternal.LevelNone, UserGroups: []string{"bots"}},
		{Level: auditinternal.LevelRequestResponse, Namespaces: []string{"team"}, Resources: about("", []string{"pods"}, []string{"p1"})},
		{Level: auditinternal.LevelRequest, Namespaces: []string{"team"}, Resources: about("", []string{"pods/*", "namespaces"}, nil)},
		{Level: auditinternal.LevelRequest, Namespaces: []string{""}, Resources: about("", nil, nil)},
		{Level: auditinternal.LevelMetadata},
	}}, town()...)
	const root = "root|system:masters"
	for _, c := range []struct{ who, line, level string }{
		{root, "GET /api/v1/namespaces/vault/secrets", ""},
		{root, "GET /api/v1/namespaces/vault", ""},
		{root, "GET /api/v1/namespaces/vault/status", ""},
		{root, "GET /apis/apps/v1/namespaces/vault/deployments/x", ""},
		{root, "GET /api/v1/pods?fieldSelector=metadata.namespace=vault", "Request"}, // all namespaces are asked, and one is told of
		{root, "GET /api/v1/namespaces", "Request"},
		{root, "GET /api/v1/nodes/n1", "Request"},
		{root, "GET /apis/apps/v1/deployments", "Metadata"},
		{root, "GET /api/v1/namespaces/team/pods/p1", "RequestResponse"},
		{root, "GET /api/v1/namespaces/team/pods/p2", "Request"},
		{root, "GET /api/v1/namespaces/team/pods/p1/status", "Request"},
		{root, "GET /api/v1/namespaces/team", "Request"},
		{root, "GET /api/v1/namespaces/team/configmaps", "Metadata"},
		{root, "GET /healthz/ping", ""},
		{root, "GET /version", ""},
		{root, "GET /versions", "Metadata"},
		{root, "GET /api/v1", "Metadata"},
		{"max", "GET /api/v1/namespaces/team/configmaps", ""},
		{"max", "GET /api/v1/namespaces/team/configmaps/x", "Metadata"},
		{"r2|bots", "GET /api/v1/namespaces/team/pods/p1", ""},
		{"nobody", "GET /api/v1/namespaces/vault/secrets", ""},
	} {
		w := l.ask(c.who, c.line, "", "")
		level := ""
		for _, e := range l.events(t, w.Header().Get("Audit-Id")) {
			level = e["level"].(string)
		}
		if level != c.level {
			t.Errorf("%s asks %s: level %q, want %q", c.who, c.line, level, c.level)
		}
	}
}
