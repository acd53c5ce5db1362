package wire

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	auditinternal "k8s.io/apiserver/pkg/apis/audit"
)

// TestTokensGiveNoMore: a token is good for its account, its audience and as long as its pod, and a kubelet gets those of its pods only.
func TestTokensGiveNoMore(t *testing.T) {
	l := newLocked(t, &auditinternal.Policy{Rules: []auditinternal.PolicyRule{{Level: auditinternal.LevelRequestResponse}}}, town()...)
	const (
		root = "root|system:masters"
		ns   = "/api/v1/namespaces/team"
		of   = "POST " + ns + "/serviceaccounts/default/token"
	)
	request := func(pod, uid string, audiences ...string) string {
		list, _ := json.Marshal(audiences)
		return fmt.Sprintf(`{"spec":{"audiences":%s,"boundObjectRef":{"apiVersion":"v1","kind":"Pod","name":%q,"uid":%q}}}`, list, pod, uid)
	}
	issue := func(who, line, body string) string {
		t.Helper()
		w := l.ask(who, line, "", body)
		var r struct{ Status struct{ Token string } }
		if err := json.Unmarshal(w.Body.Bytes(), &r); err != nil || r.Status.Token == "" {
			t.Fatalf("%s: %d %s", line, w.Code, w.Body)
		}
		return r.Status.Token
	}
	good := issue(nodeOne, of, request("p1", "uid-x"))
	elsewhere := issue(root, of, request("p1", "uid-x", "elsewhere"))
	if w := l.ask(good, "GET /api", "", ""); w.Code != 200 {
		t.Fatalf("a good token: %d %s", w.Code, w.Body)
	}
	part := strings.Split(good, ".")
	unsigned := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`)) + "." + part[1] + "."
	payload, _ := base64.RawURLEncoding.DecodeString(part[1])
	forged := part[0] + "." + base64.RawURLEncoding.EncodeToString(bytes.ReplaceAll(payload, []byte("default"), []byte("admin"))) + "." + part[2]
	for _, c := range []struct {
		name, who, line, headers, body string
		code                           int
		text                           string
	}{
		{"bound to nothing", nodeOne, of, "", `{"spec":{}}`, 403, `node requested token not bound to a pod`},
		{"bound to a secret", nodeOne, of, "", strings.Replace(request("one", "s"), "Pod", "Secret", 1), 403, `node requested token not bound to a pod`},
		{"bound to a pod of any UID", nodeOne, of, "", request("p1", ""), 403, `without a uid`},
		{"bound to another UID", nodeOne, of, "", request("p1", "uid-y"), 403, `does not match the UID in record`},
		{"bound to another node's pod", nodeOne, of, "", request("p2", "uid-x"), 403, `bound to a pod scheduled on a different node`},
		{"bound to no pod", nodeOne, of, "", request("p3", "uid-x"), 404, `not found`},
		{"two audiences", nodeOne, of, "", request("p1", "uid-x", "a", "b"), 403, `node may only request 0 or 1 audiences`},
		{"an audience that the pod does not name", nodeOne, of, "", request("p1", "uid-x", "bank"), 403, `system:node:n1 is not authorized to request tokens for audience "bank"`},
		{"of an account of no pod of mine", nodeOne, "POST " + ns + "/serviceaccounts/admin/token", "", request("p1", "uid-x"), 403, `no relationship found`},
		{"by who may write accounts", "jane", "POST " + ns + "/serviceaccounts/admin/token", "", `{"spec":{}}`, 403, `serviceaccounts/token`},
		{"another audience's token", elsewhere, "GET /api", "", "", 401, ``},
		{"not signed", unsigned, "GET /api", "", "", 401, ``},
		{"another account's name in it", forged, "GET /api", "", "", 401, ``},
		{"cut off", good[:len(good)-4], "GET /api", "", "", 401, ``},
		{"what the account may not", good, "GET " + ns + "/secrets/one", "", "", 403, `User "system:serviceaccount:team:default" cannot get resource "secrets"`},
		{"acts as its node", good, "GET " + ns + "/secrets/one", "Impersonate-User: system:node:n1", "", 403, `cannot impersonate-on:associated-node:get`},
		{"reviews tokens", good, "POST /apis/authentication.k8s.io/v1/tokenreviews", "", `{"spec":{"token":"x"}}`, 403, `tokenreviews`},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := l.ask(c.who, c.line, c.headers, c.body)
			if plain := strings.ReplaceAll(w.Body.String(), `\"`, `"`); w.Code != c.code || !strings.Contains(plain, c.text) {
				t.Errorf("answered %d %s, want %d %s", w.Code, w.Body, c.code, c.text)
			}
			if len(l.events(t, w.Header().Get("Audit-Id"))) == 0 {
				t.Error("nothing was written down")
			}
		})
	}
	if w := l.ask(root, "DELETE "+ns+"/pods/p1?gracePeriodSeconds=0", "", ""); w.Code != 200 {
		t.Fatal(w.Body)
	}
	l.ask(root, "GET "+ns+"/pods", "", "") // a consistent read: the deletion has been seen then
	if w := l.ask(good, "GET /api", "", ""); w.Code != 401 {
		t.Errorf("the token of a pod that has gone: %d %s", w.Code, w.Body)
	}
	if strings.Contains(l.log.String(), part[2]) {
		t.Error("a token was written down")
	}
}
