package wire

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
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

	"podo.dev/podo/internal/apiserver/admit"
	"podo.dev/podo/internal/apiserver/audit"
	"podo.dev/podo/internal/apiserver/authn"
	"podo.dev/podo/internal/apiserver/tokens"
	"podo.dev/podo/internal/apiserver/verbs"
	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/store"
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
	store store.Store
	mu    sync.Mutex
	log   bytes.Buffer
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
	return newLockedWith(t, policy, func(*Config) {}, objs...)
}

// newLockedWith is newLocked with a configuration that is changed first.
func newLockedWith(t testing.TB, policy *auditinternal.Policy, change func(*Config), objs ...runtime.Object) *locked {
	t.Helper()
	vw, s := viewtest.New(t, append(objs, defaultNamespace())...)
	issuer, accounts := identities(t, vw)
	addresses := &admit.ServiceAddresses{View: vw, Store: s, CIDR: netip.MustParsePrefix("10.43.0.0/24"), Ports: admit.NodePorts{First: 30000, Last: 30099}}
	vb, err := verbs.New(verbs.Config{Store: s, View: vw, Kinds: registry.All(), Tokens: issuer, Admission: admit.Chain{addresses}})
	if err != nil {
		t.Fatal(err)
	}
	who, err := authn.New(authn.Config{
		Certificates: &authn.X509{Roots: x509.NewCertPool()}, Tokens: []authenticator.Token{accounts, people{}}, Anonymous: authn.Everywhere,
	})
	if err != nil {
		t.Fatal(err)
	}
	l := &locked{store: s}
	c := Config{
		Verbs: vb, Kinds: registry.All(), Authn: who, ClientCAs: x509.NewCertPool(), Kubelets: &tls.Config{},
		Certificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return nil, nil },
	}
	if policy != nil {
		c.Audit = audit.New(policy, l)
	}
	change(&c)
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
	w := httptest.NewRecorder()
	l.ServeHTTP(w, asking(who, line, headers, body))
	return w
}

// asked is ask of something that may cut the connection.
func (l *locked) asked(who, line, headers, body string) (w *httptest.ResponseRecorder, cut bool) {
	w = httptest.NewRecorder()
	defer func() { cut = recover() == http.ErrAbortHandler }()
	l.ServeHTTP(w, asking(who, line, headers, body))
	return w, false
}

func asking(who, line, headers, body string) *http.Request {
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
	return r
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
		&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "binder"}, Rules: []rbacv1.PolicyRule{may("create", "", "pods/binding")}},
		bind("binders", "team", "binder", person("binder")),
		&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "collector"}, Rules: []rbacv1.PolicyRule{may("create", "", "bindings")}},
		bind("collectors", "team", "collector", person("collector")),
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
