package wire

import (
	"fmt"
	"strings"
	"testing"

	auditinternal "k8s.io/apiserver/pkg/apis/audit"
)

// TestPrivilegeEscalation: each attempt is refused, in words where they are upstream's, and written down as refused.
func TestPrivilegeEscalation(t *testing.T) {
	l := newLocked(t, &auditinternal.Policy{Rules: []auditinternal.PolicyRule{{Level: auditinternal.LevelRequestResponse}}}, town()...)
	const ns = "/api/v1/namespaces/team"
	for _, c := range []struct {
		name, who, line, headers, body string
		code                           int
		text                           string
	}{
		// Impersonation.
		{"act as an admin's group", "jane", "GET /api/v1/secrets", "Impersonate-User: jane\nImpersonate-Group: system:masters", "", 403, `cannot impersonate`},
		{"act as somebody without a right to", "jane", "GET " + ns + "/pods", "Impersonate-User: max", "", 403, `User "jane" cannot impersonate-on:user-info:list resource "pods"`},
		{"act as bob in a group of my choice", "imp", "GET " + ns + "/pods", "Impersonate-User: bob\nImpersonate-Group: system:masters", "", 403, `impersonating the system:masters group is not allowed`},
		{"act as bob with another's uid", "imp", "GET " + ns + "/pods", "Impersonate-User: bob\nImpersonate-Uid: 7", "", 403, `resource "uids"`},
		{"act as bob with scopes", "imp", "GET " + ns + "/pods", "Impersonate-User: bob\nImpersonate-Extra-A.example%2Fscopes: all", "", 403, `resource "userextras/a.example/scopes"`},
		{"groups without a user", "imp", "GET " + ns + "/pods", "Impersonate-Group: system:masters", "", 400, `without impersonating a user name`},
		{"a uid without a user", "imp", "GET " + ns + "/pods", "Impersonate-Uid: 1", "", 400, `without impersonating a user name`},
		{"an extra field without a user", "imp", "GET " + ns + "/pods", "Impersonate-Extra-X: 1", "", 400, `without impersonating a user name`},
		{"act as a node", "imp", "GET /api/v1/nodes/n1", "Impersonate-User: system:node:n1", "", 403, `impersonate-on:arbitrary-node:get`},
		{"act as an account", "imp", "GET " + ns + "/secrets/one", "Impersonate-User: system:serviceaccount:kube-system:namespace-controller", "", 403, `impersonate-on:serviceaccount:get`},
		{"an account acts as another pod's node", "pod-of-n1", "GET /api/v1/nodes/n2", "Impersonate-User: system:node:n2", "", 403, `impersonate-on:arbitrary-node:get`},
		{"an account acts as its node without a right to", "pod-of-n1", "GET /api/v1/nodes/n1", "Impersonate-User: system:node:n1", "", 403, `impersonate-on:associated-node:get`},
		{"act as bob and do what bob may not", "imp", "GET " + ns + "/pods", "Impersonate-User: bob", "", 403, `User "bob" cannot list resource "pods"`},
		{"act as the server itself", "imp", "GET /api/v1/secrets", "Impersonate-User: system:apiserver", "", 403, `cannot impersonate`},
		{"a stranger acts as somebody", "", "GET " + ns + "/pods", "Impersonate-User: bob", "", 403, `system:anonymous`},

		// Roles.
		{
			"a role with more than I have", "jane", "POST " + rbacPath + "/namespaces/team/roles", "", role("Role", `{"verbs":["get"],"apiGroups":[""],"resources":["secrets"]}`), 403,
			`user \"jane\" (groups=[\"system:authenticated\"]) is attempting to grant RBAC permissions not currently held:\n{APIGroups:[\"\"], Resources:[\"secrets\"], Verbs:[\"get\"]}`,
		},
		{"a role with all verbs", "jane", "POST " + rbacPath + "/namespaces/team/roles", "", role("Role", `{"verbs":["*"],"apiGroups":[""],"resources":["pods"]}`), 403, `not currently held`},
		{"a role with escalate", "jane", "POST " + rbacPath + "/namespaces/team/roles", "", role("Role", `{"verbs":["escalate","bind"],"apiGroups":["rbac.authorization.k8s.io"],"resources":["roles"]}`), 403, `Verbs:[\"escalate\" \"bind\"]`},
		{"one secret becomes all", "jane", "POST " + rbacPath + "/namespaces/team/roles", "", role("Role", `{"verbs":["get"],"apiGroups":[""],"resources":["secrets"],"resourceNames":["one","two"]}`), 403, `ResourceNames:[\"two\"]`},
		{"my own role grows by a put", "jane", "PUT " + rbacPath + "/namespaces/team/roles/worker", "", strings.Replace(role("Role", `{"verbs":["*"],"apiGroups":["*"],"resources":["*"]}`), `"name":"x"`, `"name":"worker"`, 1), 403, `not currently held`},
		{"my own role grows by a patch", "jane", "PATCH " + rbacPath + "/namespaces/team/roles/worker", "Content-Type: application/merge-patch+json", `{"rules":[{"verbs":["*"],"apiGroups":["*"],"resources":["*"]}]}`, 403, `not currently held`},
		{"my own role grows by apply", "jane", "PATCH " + rbacPath + "/namespaces/team/roles/worker?fieldManager=x&force=true", "Content-Type: application/apply-patch+yaml", strings.Replace(role("Role", `{"verbs":["*"],"apiGroups":["*"],"resources":["*"]}`), `"name":"x"`, `"name":"worker"`, 1), 403, `not currently held`},
		{"apply creates a role", "jane", "PATCH " + rbacPath + "/namespaces/team/roles/x?fieldManager=x&force=true", "Content-Type: application/apply-patch+yaml", role("Role", `{"verbs":["*"],"apiGroups":["*"],"resources":["*"]}`), 403, `not currently held`},
		{"a put creates a role", "jane", "PUT " + rbacPath + "/namespaces/team/roles/x", "", role("Role", `{"verbs":["*"],"apiGroups":["*"],"resources":["*"]}`), 403, `not currently held`},
		{"a role in another namespace", "jane", "POST " + rbacPath + "/namespaces/vault/roles", "", role("Role", ``), 403, `in the namespace \"vault\"`},
		{"a role whose object says another namespace", "jane", "POST " + rbacPath + "/namespaces/team/roles", "", strings.Replace(role("Role", ``), `"name":"x"`, `"name":"x","namespace":"vault"`, 1), 400, `does not match`},
		{"a cluster role with more than I have", "max", "POST " + rbacPath + "/clusterroles", "", role("ClusterRole", `{"verbs":["*"],"nonResourceURLs":["*"]}`), 403, `NonResourceURLs:[\"*\"]`},
		{"a cluster role that gathers", "max", "POST " + rbacPath + "/clusterroles", "", `{"metadata":{"name":"x"},"aggregationRule":{"clusterRoleSelectors":[{"matchLabels":{"a":"b"}}]}}`, 403, `must have cluster-admin privileges to use the aggregationRule`},

		// Bindings.
		{"bind a role that I do not hold", "jane", "POST " + rbacPath + "/namespaces/team/rolebindings", "", binding("RoleBinding", "Role", "strong", "jane"), 403, `not currently held`},
		{"bind cluster-admin in my namespace", "jane", "POST " + rbacPath + "/namespaces/team/rolebindings", "", binding("RoleBinding", "ClusterRole", "cluster-admin", "jane"), 403, `not currently held`},
		{"bind a role that does not exist yet", "jane", "POST " + rbacPath + "/namespaces/team/rolebindings", "", binding("RoleBinding", "Role", "later", "jane"), 404, `"rolebindings.rbac.authorization.k8s.io \"later\" not found`},
		{"bind a cluster role that does not exist yet", "max", "POST " + rbacPath + "/clusterrolebindings", "", binding("ClusterRoleBinding", "ClusterRole", "later", "max"), 404, `clusterrolebindings.rbac.authorization.k8s.io \"later\" not found`},
		{"a binding gets another role", "jane", "PATCH " + rbacPath + "/namespaces/team/rolebindings/workers", "Content-Type: application/merge-patch+json", `{"roleRef":{"name":"strong"}}`, 403, `not currently held`},
		{"bind in the whole cluster", "jane", "POST " + rbacPath + "/clusterrolebindings", "", binding("ClusterRoleBinding", "ClusterRole", "cluster-admin", "jane"), 403, `at the cluster scope`},
		{"a manager binds cluster-admin", "max", "POST " + rbacPath + "/clusterrolebindings", "", binding("ClusterRoleBinding", "ClusterRole", "cluster-admin", "max"), 403, `not currently held`},
		{"a manager joins the admins' binding", "max", "PUT " + rbacPath + "/clusterrolebindings/x", "", binding("ClusterRoleBinding", "ClusterRole", "cluster-admin", "max"), 403, `not currently held`},

		// Nodes.
		{"another node's secret", nodeOne, "GET " + ns + "/secrets/two", "", "", 403, `node: no relationship found between node 'n1' and this object`},
		{"a secret of no pod", nodeOne, "GET /api/v1/namespaces/vault/secrets/gold", "", "", 403, `no relationship found`},
		{"all secrets", nodeOne, "GET " + ns + "/secrets", "", "", 403, `No Object name found`},
		{"secrets by a selector", nodeOne, "GET " + ns + "/secrets?fieldSelector=metadata.name=two", "", "", 403, `no relationship found`},
		{"watch another node's pods", nodeOne, "GET /api/v1/pods?watch=true&fieldSelector=spec.nodeName=n2", "", "", 403, `can only list/watch pods with spec.nodeName field selector`},
		{"another node", nodeOne, "PATCH /api/v1/nodes/n2", "Content-Type: application/merge-patch+json", `{"metadata":{"labels":{"a":"b"}}}`, 403, `node \"n1\" is not allowed to modify node \"n2\"`},
		{"another node's status", nodeOne, "PATCH /api/v1/nodes/n2/status", "Content-Type: application/merge-patch+json", `{"status":{}}`, 403, `is not allowed to modify node`},
		{"a role for myself", nodeOne, "PATCH /api/v1/nodes/n1", "Content-Type: application/merge-patch+json", `{"metadata":{"labels":{"node-role.kubernetes.io/control-plane":""}}}`, 403, `is not allowed to modify labels: node-role.kubernetes.io/control-plane`},
		{"a label that steers pods", nodeOne, "PATCH /api/v1/nodes/n1", "Content-Type: application/merge-patch+json", `{"metadata":{"labels":{"x.node-restriction.kubernetes.io/gold":"1"}}}`, 403, `is not allowed to modify labels`},
		{"my own taints", nodeOne, "PATCH /api/v1/nodes/n1", "Content-Type: application/merge-patch+json", `{"spec":{"taints":[{"key":"a","effect":"NoSchedule"}]}}`, 403, `is not allowed to modify taints`},
		{"a pod that is no mirror", nodeOne, "POST " + ns + "/pods", "", `{"metadata":{"name":"m"},"spec":{"nodeName":"n1","containers":[{"name":"c","image":"i"}]}}`, 403, `can only create mirror pods`},
		{"a mirror pod with a secret", nodeOne, "POST " + ns + "/pods", "", fmt.Sprintf(mirror, `,"volumes":[{"name":"v","secret":{"secretName":"two"}}]`), 403, `a mirror pod may not reference secrets`},
		{"a mirror pod with an account", nodeOne, "POST " + ns + "/pods", "", fmt.Sprintf(mirror, `,"serviceAccountName":"default"`), 403, `a mirror pod may not reference service accounts`},
		{"a mirror pod on another node", nodeOne, "POST " + ns + "/pods", "", strings.Replace(fmt.Sprintf(mirror, ""), `"nodeName":"n1"`, `"nodeName":"n2"`, 1), 403, `spec.nodeName set to itself`},
		{"a mirror pod of another node's", nodeOne, "POST " + ns + "/pods", "", strings.Replace(fmt.Sprintf(mirror, ""), `"uid":"n"`, `"uid":"other"`, 1), 403, `UID mismatch`},
		{"delete another node's pod", nodeOne, "DELETE " + ns + "/pods/p2", "", "", 403, `can only delete pods with spec.nodeName set to itself`},
		{"another pod's status", nodeOne, "PATCH " + ns + "/pods/p2/status", "Content-Type: application/merge-patch+json", `{"status":{"phase":"Failed"}}`, 403, `can only update pod status`},
		{"labels by a status", nodeOne, "PATCH " + ns + "/pods/p1/status", "Content-Type: application/merge-patch+json", `{"metadata":{"labels":{"app":"db"}}}`, 403, `cannot update labels through pod status`},
		{"a token of another node's pod", nodeOne, "POST " + ns + "/serviceaccounts/admin/token", "", `{"spec":{}}`, 403, `no relationship found`},
		{"another node's lease", nodeOne, "POST /apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases", "", `{"metadata":{"name":"n2"}}`, 403, `can only access node lease with the same name`},
		{"a command in a pod of mine", nodeOne, "POST " + ns + "/pods/p1/exec?command=sh", "", "", 403, `cannot create resource \"pods/exec\"`},
		{"bind a pod to myself", nodeOne, "POST " + ns + "/pods/p2/binding", "", `{"target":{"name":"n1"}}`, 403, `pods/binding`},

		// Subresources and collections that do the same have rights of their own.
		{"bind a pod through the collection", "jane", "POST " + ns + "/bindings", "", `{"metadata":{"name":"p1"},"target":{"name":"n2"}}`, 403, `cannot create resource \"bindings\"`},
		{"bind through the collection with the right to the subresource", "binder", "POST " + ns + "/bindings", "", `{"metadata":{"name":"p1"},"target":{"name":"n2"}}`, 403, `cannot create resource \"bindings\"`},
		{"an eviction is no deletion", "jane", "POST " + ns + "/pods/p1/eviction", "", `{"metadata":{"name":"p1"}}`, 403, `pods/eviction`},
		{"an ephemeral container is no update", "jane", "PATCH " + ns + "/pods/p1/ephemeralcontainers", "Content-Type: application/merge-patch+json", `{}`, 403, `pods/ephemeralcontainers`},
		{"a resize is no update", "jane", "PATCH " + ns + "/pods/p1/resize", "Content-Type: application/merge-patch+json", `{}`, 403, `pods/resize`},
		{"finalize a namespace", "jane", "PUT /api/v1/namespaces/team/finalize", "", `{"metadata":{"name":"team"},"spec":{}}`, 403, `namespaces/finalize`},

		// Paths.
		{"dots in a namespace", "jane", "GET /api/v1/namespaces/team/../vault/secrets/gold", "", "", 403, ``},
		{"escaped dots", "jane", "GET /api/v1/namespaces/team/pods/..%2F..%2Fvault%2Fsecrets%2Fgold", "", "", 0, ``},
		{"double slashes", "jane", "GET /api/v1//namespaces/vault/secrets/gold", "", "", 0, ``},
		{"the old watch path", "jane", "GET /api/v1/watch/namespaces/vault/secrets", "", "", 403, `cannot watch resource \"secrets\"`},
		{"exec with get", "jane", "GET " + ns + "/pods/p1/exec?command=sh", "Connection: Upgrade\nUpgrade: websocket", "", 403, `pods/exec`},
		{"attach", "jane", "GET " + ns + "/pods/p1/attach", "Connection: Upgrade\nUpgrade: websocket", "", 403, `pods/attach`},
		{"port-forward", "jane", "GET " + ns + "/pods/p1/portforward", "Connection: Upgrade\nUpgrade: websocket", "", 403, `pods/portforward`},
		{"proxy", "jane", "GET " + ns + "/pods/p1/proxy/../../../secrets", "", "", 403, ``},
		{"a node's proxy", "jane", "GET /api/v1/nodes/n1/proxy/run/team/p1/c?cmd=id", "", "", 403, `nodes/proxy`},
		{"another namespace", "jane", "GET /api/v1/namespaces/vault/secrets/gold", "", "", 403, `in the namespace \"vault\"`},
		{"all namespaces", "jane", "GET /api/v1/pods", "", "", 403, `at the cluster scope`},
		{"a secret by a list", "jane", "GET " + ns + "/secrets", "", "", 403, `cannot list resource \"secrets\"`},
		{"all of a collection", "jane", "DELETE " + ns + "/pods", "", "", 403, `cannot deletecollection resource \"pods\"`},
		{"metrics", "jane", "GET /metrics", "", "", 403, `cannot get path \"/metrics\"`},
		{"a handler's path", "jane", "GET /podo/timeline/", "", "", 403, ``},
		{"a stranger lists", "", "GET /api/v1/pods", "", "", 403, `User \"system:anonymous\" cannot list resource \"pods\"`},
		{"a stranger discovers", "", "GET /apis", "", "", 403, `cannot get path`},
		{"a bad method", "jane", "TRACE " + ns + "/secrets/one", "", "", 403, `cannot  resource "secrets"`},
		{"what others may do", "jane", "POST /apis/authorization.k8s.io/v1/subjectaccessreviews", "", `{"spec":{"user":"max","resourceAttributes":{"verb":"get","resource":"pods"}}}`, 403, `subjectaccessreviews`},
		{"basic credentials", "", "GET /api/v1/pods", "Authorization: Basic YWRtaW46YWRtaW4=", "", 0, ``},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := l.ask(c.who, c.line, c.headers, c.body)
			if w.Code < 400 || c.code != 0 && w.Code != c.code {
				t.Fatalf("answered %d, want %d: %s", w.Code, c.code, w.Body)
			}
			plain := strings.ReplaceAll(w.Body.String(), `\"`, `"`)
			if want := strings.ReplaceAll(c.text, `\"`, `"`); !strings.Contains(plain, want) {
				t.Errorf("says %s, want %q", w.Body, c.text)
			}
			if strings.Contains(w.Body.String(), "top-secret") || strings.Contains(w.Body.String(), "dG9wLXNlY3JldA") {
				t.Error("the secret is out")
			}
			events := l.events(t, w.Header().Get("Audit-Id"))
			if len(events) == 0 {
				t.Fatal("nothing was written down")
			}
			last := events[len(events)-1]
			status, _ := last["responseStatus"].(map[string]any)
			if code, _ := status["code"].(float64); int(code) != w.Code {
				t.Errorf("written down as %v, answered %d", status, w.Code)
			}
		})
	}
}

// What is allowed goes on to work: the table above is no proof that anything does.
func TestWhatIsAllowed(t *testing.T) {
	l := newLocked(t, nil, town()...)
	const ns = "/api/v1/namespaces/team"
	for _, c := range []struct{ who, line, headers, body string }{
		{"jane", "GET " + ns + "/pods", "", ""},
		{"jane", "GET " + ns + "/secrets/one", "", ""},
		{"jane", "POST " + rbacPath + "/namespaces/team/roles", "", role("Role", `{"verbs":["get"],"apiGroups":[""],"resources":["secrets"],"resourceNames":["one"]}`)},
		{"jane", "POST " + rbacPath + "/namespaces/team/rolebindings", "", binding("RoleBinding", "Role", "worker", "joe")},
		{"root|system:masters", "GET " + rbacPath + "/rolebindings", "", ""}, // a consistent read: what was written has been seen then
		{"joe", "GET " + ns + "/pods", "", ""},
		{"max", "POST " + rbacPath + "/clusterroles", "", role("ClusterRole", `{"verbs":["get"],"apiGroups":["rbac.authorization.k8s.io"],"resources":["clusterroles"]}`)},
		{"root|system:masters", "POST " + ns + "/pods", "", `{"metadata":{"name":"free"},"spec":{"containers":[{"name":"c","image":"i"}]}}`},
		{"collector", "POST " + ns + "/bindings", "", `{"metadata":{"name":"free"},"target":{"name":"n2"}}`},
		{nodeOne, "GET " + ns + "/secrets/one", "", ""},
		{nodeOne, "POST " + ns + "/pods", "", fmt.Sprintf(mirror, "")},
		{nodeOne, "PATCH /api/v1/nodes/n1", "Content-Type: application/merge-patch+json", `{"metadata":{"labels":{"mine":"x","kubernetes.io/arch":"amd64"}}}`},
		{"root|system:masters", "GET " + ns + "/pods", "Impersonate-User: jane", ""},
		{"root|system:masters", "GET /api/v1/secrets", "Impersonate-User: x\nImpersonate-Group: system:masters", ""},
		{"jane", "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "", `{"spec":{"resourceAttributes":{"verb":"get","resource":"pods","namespace":"team"}}}`},
		{"jane", "POST /apis/authorization.k8s.io/v1/selfsubjectrulesreviews", "", `{"spec":{"namespace":"team"}}`},
	} {
		if w := l.ask(c.who, c.line, c.headers, c.body); w.Code >= 300 {
			t.Errorf("%s: %s: %d %s", c.who, c.line, w.Code, w.Body)
		}
	}
}
