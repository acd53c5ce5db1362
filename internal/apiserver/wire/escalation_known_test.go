package wire

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
)

// TestKnownEscalations: what has once worked against servers of this API, or against this one, does not. "chief" may do everything in team
// and nothing elsewhere; "reader" may read everything there.
func TestKnownEscalations(t *testing.T) {
	l := newLocked(t, &auditinternal.Policy{Rules: []auditinternal.PolicyRule{{Level: auditinternal.LevelRequestResponse}}}, knownTown()...)
	const (
		ns     = "/api/v1/namespaces/team"
		certs  = "/apis/certificates.k8s.io/v1"
		merge  = "Content-Type: application/merge-patch+json"
		jsonp  = "Content-Type: application/json-patch+json"
		create = `{"metadata":{"name":"x"},"spec":{"containers":[{"name":"c","image":"i"%s}]%s}}`
	)
	if w := l.ask("chief", "POST "+ns+"/pods", "", strings.Replace(fmt.Sprintf(create, "", `,"serviceAccountName":"strict"`), `"x"`, `"bound"`, 1)); w.Code != 201 {
		t.Fatal(w.Body)
	}
	for _, c := range []struct {
		name, who, line, headers, body string
		code                           int
		text                           string
	}{
		// What belongs to the whole cluster, by a namespace's path (CVE-2019-11247).
		{"a node by a namespace", "chief", "GET " + ns + "/nodes/n1", "", "", 404, "could not find the requested resource"},
		{"all nodes by a namespace", "chief", "GET " + ns + "/nodes", "", "", 404, "could not find the requested resource"},
		{"watch nodes by a namespace", "chief", "GET " + ns + "/nodes?watch=1&timeoutSeconds=1", "", "", 404, ""},
		{"watch nodes by a namespace, the old way", "chief", "GET /api/v1/watch/namespaces/team/nodes?timeoutSeconds=1", "", "", 404, ""},
		{"a new node by a namespace", "chief", "POST " + ns + "/nodes", "", `{"metadata":{"name":"n3"}}`, 404, ""},
		{"a node edited by a namespace", "chief", "PATCH " + ns + "/nodes/n1", merge, `{"metadata":{"labels":{"a":"b"}}}`, 404, ""},
		{"a node applied by a namespace", "chief", "PATCH " + ns + "/nodes/n3?fieldManager=x", "Content-Type: application/apply-patch+yaml", `{"kind":"Node","apiVersion":"v1","metadata":{"name":"n3"}}`, 404, ""},
		{"a node's status by a namespace", "chief", "PATCH " + ns + "/nodes/n1/status", merge, `{"status":{"phase":"x"}}`, 404, ""},
		{"a node deleted by a namespace", "chief", "DELETE " + ns + "/nodes/n1", "", "", 404, ""},
		{"all nodes deleted by a namespace", "chief", "DELETE " + ns + "/nodes", "", "", 404, ""},
		{"a node's proxy by a namespace", "chief", "GET " + ns + "/nodes/n1/proxy/pods", "", "", 404, ""},
		{"cluster roles by a namespace", "chief", "GET " + rbacPath + "/namespaces/team/clusterroles", "", "", 404, ""},
		{"a cluster role by a namespace", "chief", "POST " + rbacPath + "/namespaces/team/clusterroles", "", role("ClusterRole", `{"verbs":["*"],"apiGroups":["*"],"resources":["*"]}`), 404, ""},
		{"a cluster binding by a namespace", "chief", "POST " + rbacPath + "/namespaces/team/clusterrolebindings", "", binding("ClusterRoleBinding", "ClusterRole", "cluster-admin", "chief"), 404, ""},
		{"a namespace by a namespace", "chief", "POST " + ns + "/namespaces", "", `{"metadata":{"name":"mine"}}`, 403, "at the cluster scope"},
		{"a namespace deleted by another", "chief", "DELETE " + ns + "/namespaces/vault", "", "", 403, `in the namespace "vault"`},
		{"a volume by a namespace", "chief", "POST " + ns + "/persistentvolumes", "", `{"metadata":{"name":"root"},"spec":{"capacity":{"storage":"1Gi"},"accessModes":["ReadWriteOnce"],"hostPath":{"path":"/"}}}`, 404, ""},
		{"a review by a namespace", "chief", "POST /apis/authorization.k8s.io/v1/namespaces/team/subjectaccessreviews", "", `{"spec":{"user":"x","resourceAttributes":{"verb":"get","resource":"pods"}}}`, 404, ""},
		{"a token review by a namespace", "chief", "POST /apis/authentication.k8s.io/v1/namespaces/team/tokenreviews", "", `{"spec":{"token":"x"}}`, 404, ""},

		// One right in the place of another.
		{"a command by the old watch path", "reader", "GET /api/v1/watch/namespaces/team/pods/p1/exec?command=id", "Connection: Upgrade\nUpgrade: websocket", "", 404, ""},
		{"a command by the old watch path, posted", "reader", "POST /api/v1/watch/namespaces/team/pods/p1/exec?command=id", "Connection: Upgrade\nUpgrade: SPDY/3.1", "", 404, ""},
		{"a command by reading (CVE-2018-1002105's setting)", "reader", "GET " + ns + "/pods/p1/exec?command=id", "Connection: Upgrade\nUpgrade: websocket", "", 403, `cannot create resource "pods/exec"`},
		{"attach by reading", "reader", "GET " + ns + "/pods/p1/attach", "Connection: Upgrade\nUpgrade: websocket", "", 403, `cannot create resource "pods/attach"`},
		{"ports by reading", "reader", "GET " + ns + "/pods/p1/portforward", "Connection: Upgrade\nUpgrade: websocket", "", 403, `cannot create resource "pods/portforward"`},
		{"a write by the old watch path", "reader", "POST /api/v1/watch/namespaces/team/configmaps", "", `{"metadata":{"name":"x"}}`, 405, ""},
		{"a deletion by the old watch path", "reader", "DELETE /api/v1/watch/namespaces/team/configmaps", "", "", 405, ""},
		{"a method in a header", "reader", "GET " + ns + "/pods/none", "X-HTTP-Method-Override: DELETE\nX-Method-Override: DELETE", "", 404, `pods "none" not found`},
		{"a watch of a secret that may be got", "jane", "GET /api/v1/watch/namespaces/team/secrets/one", "", "", 403, `cannot watch resource "secrets"`},
		{"a list by the name of another", "jane", "GET " + ns + "/secrets?fieldSelector=metadata.name!=one", "", "", 403, `cannot list resource "secrets"`},
		{"a list by two names", "jane", "GET " + ns + "/secrets?fieldSelector=metadata.name=one,metadata.name=two", "", "", 403, `cannot list resource "secrets"`},

		// Who says it is somebody.
		{"a proxy's headers", "", "GET /api/v1/secrets", "X-Remote-User: admin\nX-Remote-Group: system:masters", "", 403, `system:anonymous`},
		{"a proxy's headers beside a token", "jane", "GET /api/v1/secrets", "X-Remote-User: admin\nX-Remote-Group: system:masters", "", 403, `User "jane"`},
		{"forwarded from this machine", "", "GET /api/v1/secrets", "X-Forwarded-For: 127.0.0.1\nForwarded: for=127.0.0.1", "", 403, `system:anonymous`},
		{"two users at once", "imp", "GET " + ns + "/pods", "Impersonate-User: bob\nImpersonate-User: jane", "", 403, ``},

		// Out of the namespace.
		{"a put into another namespace", "chief", "PUT " + ns + "/configmaps/x", "", `{"metadata":{"name":"x","namespace":"vault"}}`, 400, `does not match the namespace sent on the request`},
		{"a patch into another namespace", "chief", "PATCH " + ns + "/pods/p1", merge, `{"metadata":{"namespace":"vault"}}`, 400, ``},
		{"a JSON patch into another namespace", "chief", "PATCH " + ns + "/pods/p1", jsonp, `[{"op":"replace","path":"/metadata/namespace","value":"vault"}]`, 400, ``},
		{"applied into another namespace", "chief", "PATCH " + ns + "/configmaps/x?fieldManager=m", "Content-Type: application/apply-patch+yaml", `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"x","namespace":"vault"}}`, 400, ``},
		{"a name that is a path", "chief", "POST " + ns + "/configmaps", "", `{"metadata":{"name":"../vault/x"}}`, 422, `metadata.name`},
		{"a generated name that is a path", "chief", "POST " + ns + "/configmaps", "", `{"metadata":{"generateName":"../vault/x"}}`, 422, `metadata.`},
		{"a role's name that is a path", "chief", "POST " + rbacPath + "/namespaces/team/roles", "", strings.Replace(role("Role", ""), `"name":"x"`, `"name":"a/../../vault/b"`, 1), 422, `metadata.name`},
		{"a page of another namespace by a selector", "chief", "GET /api/v1/secrets?fieldSelector=metadata.namespace=team", "", "", 403, `at the cluster scope`},
		{"a token of another namespace's account", "chief", "POST /api/v1/namespaces/vault/serviceaccounts/default/token", "", `{"spec":{}}`, 403, `in the namespace "vault"`},
		{"a local review of another namespace", "chief", "POST /apis/authorization.k8s.io/v1/namespaces/team/localsubjectaccessreviews", "", `{"spec":{"user":"x","resourceAttributes":{"verb":"get","resource":"pods","namespace":"vault"}}}`, 422, `must match metadata.namespace`},

		// Pods that become more than they were.
		{"another account for a pod that runs", "chief", "PATCH " + ns + "/pods/p1", merge, `{"spec":{"serviceAccountName":"admin"}}`, 422, `pod updates may not change fields`},
		{"another node for a pod that runs", "chief", "PATCH " + ns + "/pods/p1", merge, `{"spec":{"nodeName":"n2"}}`, 422, `pod updates may not change fields`},
		{"a container that was made privileged", "chief", "PATCH " + ns + "/pods/p1", jsonp, `[{"op":"add","path":"/spec/containers/0/securityContext","value":{"privileged":true}}]`, 422, `pod updates may not change fields`},
		{"an ephemeral container by an update", "chief", "PATCH " + ns + "/pods/p1", merge, `{"spec":{"ephemeralContainers":[{"name":"e","image":"i"}]}}`, 422, ``},
		{"a mirror of nobody's", "chief", "POST " + ns + "/pods", "", strings.Replace(fmt.Sprintf(create, "", `,"serviceAccountName":"admin"`), `"name":"x"`, `"name":"x","annotations":{"kubernetes.io/config.mirror":"x"}`, 1), 403, `a mirror pod may not reference service accounts`},
		{"an account that is not there", "chief", "POST " + ns + "/pods", "", fmt.Sprintf(create, "", `,"serviceAccountName":"gone"`), 403, `error looking up service account team/gone`},

		// Secrets that an account does not list (CVE-2023-2728, CVE-2024-3177).
		{"a secret as a volume", "chief", "POST " + ns + "/pods", "", fmt.Sprintf(create, "", `,"serviceAccountName":"strict","volumes":[{"name":"v","secret":{"secretName":"two"}}]`), 403, `is not allowed because service account strict does not reference that secret`},
		{"a secret as a variable", "chief", "POST " + ns + "/pods", "", fmt.Sprintf(create, `,"env":[{"name":"E","valueFrom":{"secretKeyRef":{"name":"two","key":"k"}}}]`, `,"serviceAccountName":"strict"`), 403, `does not reference that secret`},
		{"a secret as all variables", "chief", "POST " + ns + "/pods", "", fmt.Sprintf(create, `,"envFrom":[{"secretRef":{"name":"two"}}]`, `,"serviceAccountName":"strict"`), 403, `with envFrom referencing secret.secretName="two" is not allowed`},
		{"a secret of an ephemeral container", "chief", "PATCH " + ns + "/pods/bound/ephemeralcontainers", "Content-Type: application/strategic-merge-patch+json", `{"spec":{"ephemeralContainers":[{"name":"e","image":"i","envFrom":[{"secretRef":{"name":"two"}}]}]}}`, 500, `ephemeral container e with envFrom referencing secret.secretName="two" is not allowed`},

		// Roles by labels and by groups.
		{"a role that admins gather", "max", "POST " + rbacPath + "/clusterroles", "", strings.Replace(role("ClusterRole", `{"verbs":["get"],"apiGroups":[""],"resources":["secrets"]}`), `"name":"x"`, `"name":"x","labels":{"rbac.authorization.k8s.io/aggregate-to-admin":"true"}`, 1), 403, `not currently held`},
		{"strangers become admins", "max", "POST " + rbacPath + "/clusterrolebindings", "", strings.Replace(binding("ClusterRoleBinding", "ClusterRole", "cluster-admin", "system:unauthenticated"), `"kind":"User"`, `"kind":"Group"`, 1), 403, `not currently held`},
		{"a cluster role's rules by a JSON patch", "max", "PATCH " + rbacPath + "/clusterroles/role-manager", jsonp, `[{"op":"add","path":"/rules/-","value":{"verbs":["*"],"apiGroups":["*"],"resources":["*"]}}]`, 403, `not currently held`},
		{"a dry run learns nothing", "jane", "POST " + rbacPath + "/namespaces/vault/rolebindings?dryRun=All", "", binding("RoleBinding", "ClusterRole", "cluster-admin", "jane"), 403, `in the namespace "vault"`},

		// Nodes.
		{"an owner, so that garbage collection deletes (CVE-2025-5187)", nodeOne, "PATCH /api/v1/nodes/n1", merge, `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"gone","uid":"x"}]}}`, 403, `node "n1" is not allowed to modify ownerReferences`},
		{"my own node deleted", nodeOne, "DELETE /api/v1/nodes/n1", "", "", 403, `cannot delete resource "nodes"`},
		{"another name for my node", nodeOne, "POST /api/v1/nodes", "", `{"metadata":{"name":"n3"}}`, 403, `node "n1" is not allowed to modify node "n3"`},
		{"a mirror pod with claims of devices (CVE-2025-4563)", nodeOne, "POST " + ns + "/pods", "", fmt.Sprintf(mirror, `,"resourceClaims":[{"name":"c","resourceClaimName":"x"}]`), 403, `can not create pods that reference resourceclaims`},
		{"a mirror pod with a claim", nodeOne, "POST " + ns + "/pods", "", fmt.Sprintf(mirror, `,"volumes":[{"name":"v","persistentVolumeClaim":{"claimName":"x"}}]`), 403, `can not create pods that reference`},
		{"another node's CSINode", nodeOne, "POST /apis/storage.k8s.io/v1/csinodes", "", `{"metadata":{"name":"n2"},"spec":{"drivers":[]}}`, 403, `can only access CSINode with the same name as the requesting node`},
		{"another node's client certificate", nodeOne, "POST " + certs + "/certificatesigningrequests", "", signing(t, "system:node:n2", "kubernetes.io/kube-apiserver-client-kubelet", "client auth"), 403, `can only create a node CSR with CN=system:node:n1`},
		{"another node's serving certificate", nodeOne, "POST " + certs + "/certificatesigningrequests", "", signing(t, "system:node:n2", "kubernetes.io/kubelet-serving", "server auth"), 403, `can only create a node CSR with CN=system:node:n1`},
		{"a pod's certificate for another node", nodeOne, "POST " + certs + "/namespaces/team/podcertificaterequests", "", podCertificate(t, "p2", "n2"), 403, `which is not the requesting node "n1"`},
		{"a certificate for another node's pod", nodeOne, "POST " + certs + "/namespaces/team/podcertificaterequests", "", podCertificate(t, "p2", "n1"), 403, `pod "team/p2" is not running on node "n1"`},
		{"a certificate that the pod does not ask for", nodeOne, "POST " + certs + "/namespaces/team/podcertificaterequests", "", podCertificate(t, "p1", "n1"), 403, `does not mount a podCertificate projected volume for signer`},
		{"an audience that no driver wants", nodeOne, "POST " + ns + "/serviceaccounts/default/token", "", tokenFor("driven", "bank"), 403, `is not authorized to request tokens for audience "bank"`},
		{"approve my own certificate", nodeOne, "PUT " + certs + "/certificatesigningrequests/x/approval", "", `{"metadata":{"name":"x"}}`, 403, `certificatesigningrequests/approval`},

		// This machine through a node's address (CVE-2022-3294).
		{"loopback as a node's address", "root|system:masters", "GET /api/v1/nodes/loop:80/proxy/", "", "", 400, `address not allowed`},
		{"loopback as a node's name", "root|system:masters", "GET /api/v1/nodes/named:80/proxy/", "", "", 400, `address not allowed`},
		{"a cloud's secrets as a node's address", "root|system:masters", "GET /api/v1/nodes/link:80/proxy/", "", "", 400, `address not allowed`},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := l.ask(c.who, c.line, c.headers, c.body)
			if w.Code < 400 || c.code != 0 && w.Code != c.code {
				t.Fatalf("answered %d, want %d: %s", w.Code, c.code, w.Body)
			}
			if plain := strings.ReplaceAll(w.Body.String(), `\"`, `"`); !strings.Contains(plain, c.text) {
				t.Errorf("says %s, want %q", w.Body, c.text)
			}
			if strings.Contains(w.Body.String(), "dG9wLXNlY3JldA") {
				t.Error("the secret is out")
			}
			events := l.events(t, w.Header().Get("Audit-Id"))
			if len(events) == 0 {
				t.Fatal("nothing was written down")
			}
			if status, _ := events[len(events)-1]["responseStatus"].(map[string]any); status["code"] != float64(w.Code) {
				t.Errorf("written down as %v, answered %d", status, w.Code)
			}
		})
	}
	// The same, when it is the node's own.
	for _, c := range []struct{ line, body string }{
		{"POST /apis/storage.k8s.io/v1/csinodes", `{"metadata":{"name":"n1"},"spec":{"drivers":[]}}`},
		{"POST " + certs + "/certificatesigningrequests", signing(t, "system:node:n1", "kubernetes.io/kubelet-serving", "server auth")},
		{"POST " + certs + "/namespaces/team/podcertificaterequests", podCertificate(t, "driven", "n1")},
		{"POST " + ns + "/serviceaccounts/default/token", tokenFor("driven", "vault-of-d")},
	} {
		if w := l.ask(nodeOne, c.line, "", c.body); w.Code != 201 {
			t.Errorf("%s: %d %s", c.line, w.Code, w.Body)
		}
	}
}

// A page that was begun elsewhere shows nothing of elsewhere.
func TestContinueStaysInItsNamespace(t *testing.T) {
	l := newLocked(t, nil, knownTown()...)
	for _, path := range []string{"secrets", "events"} {
		for _, start := range []string{"a/a", "team/a", "vault/a", "zoo/a"} {
			w := l.ask("chief", "GET /api/v1/namespaces/team/"+path+"?limit=5&continue="+pageFrom(start), "", "")
			if w.Code != 200 || strings.Contains(w.Body.String(), "vault") {
				t.Errorf("%s from %s: %d %s", path, start, w.Code, w.Body)
			}
		}
	}
}

// knownTown is town with those who may do or read everything in team, an account that limits its pods' secrets, a pod with a CSI driver's
// volume, and nodes of strange addresses.
func knownTown() []runtime.Object {
	node := func(name string, addresses ...v1.NodeAddress) *v1.Node {
		return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1.NodeStatus{Addresses: addresses}}
	}
	driven := pod("driven")
	driven.Namespace, driven.UID, driven.Spec.NodeName, driven.Spec.ServiceAccountName = "team", "uid-x", "n1", "default"
	driven.Spec.Volumes = []v1.Volume{
		{Name: "v", VolumeSource: v1.VolumeSource{CSI: &v1.CSIVolumeSource{Driver: "d.example"}}},
		{Name: "c", VolumeSource: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
			{PodCertificate: &v1.PodCertificateProjection{SignerName: "example.com/s", KeyType: "ECDSAP256"}},
		}}}},
	}
	return append(
		town(), bind("chiefs", "team", "strong", person("chief")), reader(), bind("readers", "team", "reader", person("reader")), driven,
		&v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "strict", Annotations: map[string]string{"kubernetes.io/enforce-mountable-secrets": "true"}}},
		&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "d.example"}, Spec: storagev1.CSIDriverSpec{TokenRequests: []storagev1.TokenRequest{{Audience: "vault-of-d"}}}},
		node("loop", v1.NodeAddress{Type: v1.NodeInternalIP, Address: "127.0.0.1"}), node("named", v1.NodeAddress{Type: v1.NodeHostName, Address: "localhost"}),
		node("link", v1.NodeAddress{Type: v1.NodeInternalIP, Address: "169.254.169.254"}),
	)
}

func reader() *rbacv1.Role {
	return &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "reader"}, Rules: []rbacv1.PolicyRule{may("get,list,watch", "*", "*")}}
}

// pageFrom is a continue token that somebody made: a page of the newest revision from a key on.
func pageFrom(start string) string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"v":"meta.k8s.io/v1","rv":-1,"start":%q}`, start))
}

// signing is a CertificateSigningRequest.
func signing(t *testing.T, name, signer, usage string) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	asks := &x509.CertificateRequest{Subject: pkix.Name{CommonName: name, Organization: []string{"system:nodes"}}}
	if usage == "server auth" {
		asks.DNSNames = []string{"n"}
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, asks, key)
	if err != nil {
		t.Fatal(err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
	return fmt.Sprintf(`{"metadata":{"name":"csr-x"},"spec":{"request":%q,"signerName":%q,"usages":["digital signature",%q]}}`,
		base64.StdEncoding.EncodeToString(text), signer, usage)
}

// podCertificate is a PodCertificateRequest that is true but for the pod's name and the node's.
func podCertificate(t *testing.T, pod, node string) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"name": "pcr-x"},
		"spec": map[string]any{
			"signerName": "example.com/s", "podName": pod, "podUID": "uid-x", "serviceAccountName": "default", "serviceAccountUID": "sa-default",
			"nodeName": node, "nodeUID": "n", "maxExpirationSeconds": 86400, "stubPKCS10Request": der,
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func tokenFor(pod, audience string) string {
	return fmt.Sprintf(`{"spec":{"audiences":[%q],"boundObjectRef":{"apiVersion":"v1","kind":"Pod","name":%q,"uid":"uid-x"}}}`, audience, pod)
}

// TestNamedInURL: a right to one name counts where the URL has that name: also in a selector, but not below an old watch path, and also
// when an update or an apply creates the object. A name that is generated is not known yet.
func TestNamedInURL(t *testing.T) {
	const (
		ns    = "/api/v1/namespaces/team"
		roles = rbacPath + "/namespaces/team/roles"
		apply = "Content-Type: application/apply-patch+yaml"
	)
	l := newLocked(t, nil, append(town(),
		&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "one"}, Rules: []rbacv1.PolicyRule{
			may("list,watch", "", "configmaps", "one"), may("create,update,patch", rbacv1.GroupName, "roles"), may("escalate", rbacv1.GroupName, "roles", "x"),
		}},
		bind("ones", "team", "one", person("one")))...)
	strong := role("Role", `{"verbs":["*"],"apiGroups":["*"],"resources":["*"]}`)
	other := strings.Replace(strong, `"name":"x"`, `"name":"y"`, 1)
	for _, c := range []struct {
		line, headers, body string
		code                int
		text                string
	}{
		{"GET " + ns + "/configmaps?fieldSelector=metadata.name=one", "", "", 200, ""},
		{"GET " + ns + "/configmaps?fieldSelector=metadata.name=a/b", "", "", 403, "cannot list"},
		{"GET " + ns + "/configmaps?watch=1&timeoutSeconds=1&fieldSelector=metadata.name=one", "", "", 200, ""},
		{"GET /api/v1/watch/namespaces/team/configmaps/one?timeoutSeconds=1", "", "", 200, ""},
		{"GET /api/v1/watch/namespaces/team/configmaps?timeoutSeconds=1&fieldSelector=metadata.name=one", "", "", 403, `cannot watch resource "configmaps"`},
		{"GET /api/v1/proxy/namespaces/team/configmaps/one", "", "", 403, `configmaps "one" is forbidden: User "one" cannot proxy resource "configmaps" in API group "" in the namespace "team"`},
		{"PUT " + roles + "/x?dryRun=All", "", strong, 201, ""},
		{"PATCH " + roles + "/x?dryRun=All&fieldManager=m", apply, strong, 201, ""},
		{"PUT " + roles + "/y?dryRun=All", "", other, 403, "not currently held"},
		{"PATCH " + roles + "/y?dryRun=All&fieldManager=m", apply, other, 403, "not currently held"},
		{"POST " + roles + "?dryRun=All", "", strong, 403, `roles.rbac.authorization.k8s.io "x" is forbidden`},
		{"POST " + roles + "?dryRun=All", "", strings.Replace(strong, `"name"`, `"generateName"`, 1), 403, `"roles.rbac.authorization.k8s.io is forbidden`},
	} {
		w := l.ask("one", c.line, c.headers, c.body)
		if plain := strings.ReplaceAll(w.Body.String(), `\"`, `"`); w.Code != c.code || !strings.Contains(plain, c.text) {
			t.Errorf("%s: %d %s, want %d %q", c.line, w.Code, plain, c.code, c.text)
		}
	}
	for line, code := range map[string]int{
		"GET /apis//v1/namespaces/team/secrets/one":                  404,
		"GET /api/v1/proxy/namespaces/team/secrets/one":              404,
		"GET /apis//v1/namespaces/team/secrets?limit=1":              404,
		"GET /api/v1/watch/namespaces/team/secrets?timeoutSeconds=1": 200,
	} {
		if w := l.ask("root|system:masters", line, "", ""); w.Code != code {
			t.Errorf("%s: %d %s, want %d", line, w.Code, w.Body, code)
		}
	}
	if w := l.ask("root|system:masters", "POST "+rbacPath+"/clusterrolebindings", "", binding("ClusterRoleBinding", "Role", "strong", "x")); w.Code != 422 {
		t.Errorf("a role of a namespace for the cluster, by an admin: %d %s", w.Code, w.Body)
	}
	if w := l.ask("max", "POST "+rbacPath+"/clusterrolebindings", "", binding("ClusterRoleBinding", "Role", "strong", "x")); w.Code != 400 || !strings.Contains(w.Body.String(), "Namespace parameter required.") {
		t.Errorf("a role of a namespace for the cluster: %d %s", w.Code, w.Body)
	}
}
