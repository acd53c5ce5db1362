package wire

import (
	"slices"
	"strings"
	"testing"

	auditinternal "k8s.io/apiserver/pkg/apis/audit"
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
