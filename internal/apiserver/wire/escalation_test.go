package wire

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"

	"podo.dev/podo/internal/apiserver/audit"
	"podo.dev/podo/internal/apiserver/authn"
	"podo.dev/podo/internal/apiserver/tokens"
	"podo.dev/podo/internal/apiserver/verbs"
	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/view"
	"podo.dev/podo/internal/view/viewtest"
)

// people are who the tests' bearer tokens are: "jane" is jane, "x|g1,g2" is x in groups. They are in system:authenticated too.
type people struct{}

func (people) AuthenticateToken(_ context.Context, token string) (*authenticator.Response, bool, error) {
	if strings.Contains(token, ".") {
		return nil, false, nil // a ServiceAccount's
	}
	name, groups, _ := strings.Cut(token, "|")
	u := &user.DefaultInfo{Name: name}
	if groups != "" {
		u.Groups = strings.Split(groups, ",")
	}
	if name == "pod-of-n1" {
		u = &user.DefaultInfo{
			Name: "system:serviceaccount:team:agent", Groups: []string{"system:serviceaccounts", "system:serviceaccounts:team"},
			Extra: map[string][]string{"authentication.kubernetes.io/node-name": {"n1"}},
		}
	}
	return &authenticator.Response{User: u}, name != "", nil
}

const nodeOne = "system:node:n1|system:nodes"

// locked is a server with a few roles, and what it has written down.
type locked struct {
	http.Handler
	mu  sync.Mutex
	log bytes.Buffer
}

func (l *locked) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.log.Write(b)
}

// events are those of a request.
func (l *locked) events(t *testing.T, id string) (out []map[string]any) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range bytes.Lines(l.log.Bytes()) {
		var e map[string]any
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if e["auditID"] == id {
			out = append(out, e)
		}
	}
	return out
}

func newLocked(t testing.TB, policy *auditinternal.Policy, objs ...runtime.Object) *locked {
	t.Helper()
	vw, s := viewtest.New(t, append(objs, defaultNamespace())...)
	issuer, accounts := identities(t, vw)
	vb, err := verbs.New(verbs.Config{Store: s, View: vw, Kinds: registry.All(), Tokens: issuer})
	if err != nil {
		t.Fatal(err)
	}
	who, err := authn.New(authn.Config{
		Certificates: &authn.X509{Roots: x509.NewCertPool()}, Tokens: []authenticator.Token{accounts, people{}}, Anonymous: authn.Everywhere,
	})
	if err != nil {
		t.Fatal(err)
	}
	l := &locked{}
	c := Config{
		Verbs: vb, Kinds: registry.All(), Authn: who, ClientCAs: x509.NewCertPool(), Kubelets: &tls.Config{},
		Certificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return nil, nil },
	}
	if policy != nil {
		c.Audit = audit.New(policy, l)
	}
	srv, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	l.Handler = srv
	return l
}

// identities issue and read ServiceAccounts' tokens.
func identities(t testing.TB, vw *view.View) (*tokens.Issuer, *tokens.Authenticator) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := tokens.NewKeys(key)
	if err != nil {
		t.Fatal(err)
	}
	issuer, err := tokens.NewIssuer(tokens.IssuerConfig{Keys: keys, Issuer: "https://us", Audiences: []string{"https://us"}, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	accounts, err := tokens.NewAuthenticator(tokens.AuthenticatorConfig{
		Keys: keys, View: vw, Issuers: []string{"https://us"}, Audiences: []string{"https://us"}, Now: time.Now,
	})
	if err != nil {
		t.Fatal(err)
	}
	return issuer, accounts
}

// ask makes a request: who, what, further headers as "Name: value" lines, and a body.
func (l *locked) ask(who, line, headers, body string) *httptest.ResponseRecorder {
	method, target, _ := strings.Cut(line, " ")
	r := httptest.NewRequest(method, "https://api"+target, strings.NewReader(body))
	if who != "" {
		r.Header.Set("Authorization", "Bearer "+who)
	}
	r.Header.Set("Content-Type", "application/json")
	for h := range strings.Lines(headers) {
		name, value, _ := strings.Cut(strings.TrimSpace(h), ": ")
		if name == "Content-Type" {
			r.Header.Set(name, value)
		} else if name != "" {
			r.Header.Add(name, value)
		}
	}
	w := httptest.NewRecorder()
	l.ServeHTTP(w, r)
	return w
}

func bind(name, namespace, role string, to ...rbacv1.Subject) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Subjects: to,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role},
	}
}

func person(name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: "User", APIGroup: rbacv1.GroupName, Name: name}
}

func may(verbs, group, resources string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: strings.Split(verbs, ","), APIGroups: []string{group}, Resources: strings.Split(resources, ","), ResourceNames: names}
}

// town is a namespace "team" that jane works in and manages the roles of, "vault" with a secret, two nodes with a pod each, and imp, who may
// act as bob.
func town() []runtime.Object {
	ns := func(name string) *v1.Namespace {
		n := defaultNamespace()
		n.Name, n.UID = name, "u-"+"x"
		return n
	}
	onNode := func(node, name, secret string) *v1.Pod {
		p := pod(name)
		p.Namespace, p.UID, p.Spec.NodeName = "team", "uid-x", node
		p.Spec.ServiceAccountName = "default"
		p.Spec.Volumes = []v1.Volume{
			{Name: "v", VolumeSource: v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: secret}}},
			{Name: "t", VolumeSource: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: "token"}}}}}},
		}
		return p
	}
	account := func(name string) *v1.ServiceAccount {
		return &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, UID: types.UID("sa-" + name)}}
	}
	secret := func(ns, name string) *v1.Secret {
		return &v1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, UID: "s"}, Type: v1.SecretTypeOpaque, Data: map[string][]byte{"k": []byte("top-secret")}}
	}
	const all = "get,list,watch,create,update,patch,delete"
	return []runtime.Object{
		ns("team"), ns("vault"), ns("kube-node-lease"), secret("vault", "gold"), secret("team", "one"), secret("team", "two"),
		account("default"), account("admin"), onNode("n1", "p1", "one"), onNode("n2", "p2", "two"),
		&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "n"}}, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n2", UID: "n"}},
		&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "worker"}, Rules: []rbacv1.PolicyRule{
			may(all, "", "pods,configmaps,serviceaccounts"), may(all, rbacv1.GroupName, "roles,rolebindings"), may("get", "", "secrets", "one"),
		}},
		bind("workers", "team", "worker", person("jane")),
		&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "strong"}, Rules: []rbacv1.PolicyRule{may("*", "*", "*")}},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "cluster-admin"}, Rules: []rbacv1.PolicyRule{may("*", "*", "*"), {Verbs: []string{"*"}, NonResourceURLs: []string{"*"}}}},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "role-manager"}, Rules: []rbacv1.PolicyRule{may(all, rbacv1.GroupName, "clusterroles,clusterrolebindings")}},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "as-bob"}, Rules: []rbacv1.PolicyRule{
			may("impersonate", "", "users", "bob"), may("impersonate:user-info", "authentication.k8s.io", "users", "bob"), may("impersonate-on:user-info:list", "", "pods"),
		}},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "managers"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "role-manager"},
			Subjects: []rbacv1.Subject{person("max")},
		},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "impersonators"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "as-bob"},
			Subjects: []rbacv1.Subject{person("imp")},
		},
	}
}

const (
	rbacPath = "/apis/rbac.authorization.k8s.io/v1"
	mirror   = `{"metadata":{"name":"m","annotations":{"kubernetes.io/config.mirror":"x"},"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"n1","uid":"n","controller":true}]},"spec":{"nodeName":"n1","containers":[{"name":"c","image":"i"}]%s}}`
)

func role(kind, rules string) string {
	return fmt.Sprintf(`{"kind":%q,"apiVersion":"rbac.authorization.k8s.io/v1","metadata":{"name":"x"},"rules":[%s]}`, kind, rules)
}

func binding(kind, ofKind, of, to string) string {
	return fmt.Sprintf(`{"kind":%q,"apiVersion":"rbac.authorization.k8s.io/v1","metadata":{"name":"x"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":%q,"name":%q},"subjects":[{"kind":"User","apiGroup":"rbac.authorization.k8s.io","name":%q}]}`, kind, ofKind, of, to)
}

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
		{"a role with more than I have", "jane", "POST " + rbacPath + "/namespaces/team/roles", "", role("Role", `{"verbs":["get"],"apiGroups":[""],"resources":["secrets"]}`), 403,
			`user \"jane\" (groups=[\"system:authenticated\"]) is attempting to grant RBAC permissions not currently held:\n{APIGroups:[\"\"], Resources:[\"secrets\"], Verbs:[\"get\"]}`},
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
		{"bind a role that does not exist yet", "jane", "POST " + rbacPath + "/namespaces/team/rolebindings", "", binding("RoleBinding", "Role", "later", "jane"), 404, `roles.rbac.authorization.k8s.io \"later\" not found`},
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
		{"a mirror pod with a secret", nodeOne, "POST " + ns + "/pods", "", fmt.Sprintf(mirror, `,"volumes":[{"name":"v","secret":{"secretName":"two"}}]`), 403, `can not create pods that reference secrets`},
		{"a mirror pod with an account", nodeOne, "POST " + ns + "/pods", "", fmt.Sprintf(mirror, `,"serviceAccountName":"default"`), 403, `can not create pods that reference serviceaccounts`},
		{"a mirror pod on another node", nodeOne, "POST " + ns + "/pods", "", strings.Replace(fmt.Sprintf(mirror, ""), `"nodeName":"n1"`, `"nodeName":"n2"`, 1), 403, `spec.nodeName set to itself`},
		{"a mirror pod of another node's", nodeOne, "POST " + ns + "/pods", "", strings.Replace(fmt.Sprintf(mirror, ""), `"uid":"n"`, `"uid":"other"`, 1), 403, `UID mismatch`},
		{"delete another node's pod", nodeOne, "DELETE " + ns + "/pods/p2", "", "", 403, `can only delete pods with spec.nodeName set to itself`},
		{"another pod's status", nodeOne, "PATCH " + ns + "/pods/p2/status", "Content-Type: application/merge-patch+json", `{"status":{"phase":"Failed"}}`, 403, `can only update pod status`},
		{"labels by a status", nodeOne, "PATCH " + ns + "/pods/p1/status", "Content-Type: application/merge-patch+json", `{"metadata":{"labels":{"app":"db"}}}`, 403, `cannot update labels through pod status`},
		{"a token of another node's pod", nodeOne, "POST " + ns + "/serviceaccounts/admin/token", "", `{"spec":{}}`, 403, `no relationship found`},
		{"another node's lease", nodeOne, "POST /apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases", "", `{"metadata":{"name":"n2"}}`, 403, `can only access node lease with the same name`},
		{"a command in a pod of mine", nodeOne, "POST " + ns + "/pods/p1/exec?command=sh", "", "", 403, `cannot create resource \"pods/exec\"`},
		{"bind a pod to myself", nodeOne, "POST " + ns + "/pods/p2/binding", "", `{"target":{"name":"n1"}}`, 403, `pods/binding`},

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
	if w := l.ask("jane", "GET /api", "", ""); w.Header().Get("Audit-Id") != "" {
		t.Error("an audit ID although nothing is audited")
	}
}

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
