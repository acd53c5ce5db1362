package wire

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	auditlog "podo.dev/podo/internal/apiserver/audit"
	"podo.dev/podo/internal/apiserver/authn"
	"podo.dev/podo/internal/apiserver/tokens"
	"podo.dev/podo/internal/apiserver/verbs"
	"podo.dev/podo/internal/pki"
	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/view/viewtest"
)

// serveTokens is a server that makes tokens and takes them, and audits all to log.
func serveTokens(t *testing.T, log *bytes.Buffer) *world {
	t.Helper()
	vw, s := viewtest.New(t, defaultNamespace(), viewtest.Account("default"))
	certs, err := pki.Ensure(pki.Config{Dir: filepath.Join(t.TempDir(), "pki"), NodeName: "n1", NodeIP: net.IPv4(127, 0, 0, 1)})
	must(t, err)
	pair, err := certs.TokenKeys()
	must(t, err)
	keys, err := tokens.NewKeys(pair.Signer, pair.Verify...)
	must(t, err)
	audiences := []string{"https://issuer"}
	issuer, err := tokens.NewIssuer(tokens.IssuerConfig{Keys: keys, Issuer: audiences[0], Audiences: audiences})
	must(t, err)
	accounts, err := tokens.NewAuthenticator(tokens.AuthenticatorConfig{Keys: keys, View: vw, Issuers: audiences, Audiences: audiences})
	must(t, err)
	who, err := authn.New(authn.Config{
		Certificates: &authn.X509{Roots: certs.Pool()}, Tokens: []authenticator.Token{accounts}, Audiences: audiences, Anonymous: authn.Health,
	})
	must(t, err)
	group := authenticationv1.GroupName
	vb, err := verbs.New(verbs.Config{Store: s, View: vw, Kinds: registry.All(), Tokens: issuer, Reviews: map[schema.GroupResource]verbs.Review{
		{Group: group, Resource: "tokenreviews"}: who.TokenReview, {Group: group, Resource: "selfsubjectreviews"}: who.SelfSubjectReview,
	}})
	must(t, err)
	srv, err := New(Config{
		Verbs: vb, Kinds: registry.All(), Listen: "127.0.0.1:0", Certificate: certs.Server(pki.Serving), ClientCAs: certs.Pool(), Authn: who,
		Kubelets: &tls.Config{RootCAs: certs.Pool()}, Audit: auditlog.New(&audit.Policy{Rules: []audit.PolicyRule{{Level: audit.LevelRequestResponse}}}, log),
	})
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- srv.Run(ctx, func() { close(ready) }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	<-ready
	return &world{t: t, ctx: t.Context(), verbs: vb, certs: certs, address: "https://" + srv.Addr().String(), server: srv}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A client asks for a token, shows it, and is who it says; the audit log knows the token by its ID alone.
func TestTokensOverTheWire(t *testing.T) {
	var log bytes.Buffer
	w := serveTokens(t, &log)
	for _, media := range []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf} {
		c := w.config(pki.Admin)
		c.ContentType = media
		admin, err := kubernetes.NewForConfig(c)
		must(t, err)
		out, err := admin.CoreV1().ServiceAccounts("default").CreateToken(w.ctx, "default", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
		must(t, err)
		if out.Name != "default" || *out.Spec.ExpirationSeconds != 3600 || out.Status.Token == "" {
			t.Errorf("%s: %+v", media, out.Spec)
		}
		robot, err := kubernetes.NewForConfig(&rest.Config{Host: w.address, BearerToken: out.Status.Token, TLSClientConfig: rest.TLSClientConfig{CAData: w.certs.CAPEM()}, ContentConfig: rest.ContentConfig{ContentType: media}})
		must(t, err)
		me, err := robot.AuthenticationV1().SelfSubjectReviews().Create(w.ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		if err != nil && !apierrors.IsForbidden(err) || err == nil && me.Status.UserInfo.Username != "system:serviceaccount:default:default" {
			t.Errorf("%s: %+v, %v", media, me, err)
		}
		if _, err := robot.CoreV1().Secrets("default").List(w.ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `User "system:serviceaccount:default:default" cannot list resource "secrets"`) {
			t.Errorf("%s: %v", media, err)
		}
		review, err := admin.AuthenticationV1().TokenReviews().Create(w.ctx, &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: out.Status.Token}}, metav1.CreateOptions{})
		must(t, err)
		if !review.Status.Authenticated || review.Status.User.Username != "system:serviceaccount:default:default" || !slices.Equal(review.Status.Audiences, []string{"https://issuer"}) {
			t.Errorf("%s: %+v", media, review.Status)
		}
		if _, err := admin.CoreV1().ServiceAccounts("default").CreateToken(w.ctx, "nobody", &authenticationv1.TokenRequest{}, metav1.CreateOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("%s: of nobody: %v", media, err)
		}
		for _, part := range strings.Split(out.Status.Token, ".") {
			if strings.Contains(log.String(), part) {
				t.Errorf("%s: the audit log tells the token", media)
			}
		}
	}
	if !strings.Contains(log.String(), `"authentication.kubernetes.io/issued-credential-id":"JTI=`) {
		t.Errorf("the audit log does not tell the token's ID:\n%s", log.String())
	}
	if res, _ := w.do(w.http(pki.Admin), http.MethodGet, "/api/v1/namespaces/default/serviceaccounts/default/token", ""); res.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("a token can be read: %d", res.StatusCode)
	}
	list, err := kubernetes.NewForConfigOrDie(w.config(pki.Admin)).Discovery().ServerResourcesForGroupVersion("v1")
	must(t, err)
	if i := slices.IndexFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == "serviceaccounts/token" }); i < 0 || list.APIResources[i].Kind != "TokenRequest" || list.APIResources[i].Group != "authentication.k8s.io" {
		t.Error("discovery does not tell of the subresource")
	}
}

// What is answered and not kept has its fields' owners too, as with upstream, and nothing that only a server can say.
func TestAnswersSayWhoWrote(t *testing.T) {
	l := newLocked(t, nil, town()...)
	const root = "root|system:masters"
	for _, c := range []struct{ line, body, want string }{
		{
			"POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews", `{"metadata":{"uid":"x","creationTimestamp":"2020-01-01T00:00:00Z"},"spec":{"nonResourceAttributes":{"path":"/x"}}}`,
			`[{"manager":"m","operation":"Update","apiVersion":"authorization.k8s.io/v1","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"f:nonResourceAttributes":{".":{},"f:path":{}}}}}]`,
		},
		{
			"POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews", `{"metadata":{"managedFields":[{"manager":"x"}]},"spec":{"nonResourceAttributes":{"path":"/x"}}}`,
			`[{"manager":"m","operation":"Update","apiVersion":"authorization.k8s.io/v1","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"f:nonResourceAttributes":{".":{},"f:path":{}}}}}]`,
		},
		{
			"POST /api/v1/namespaces/team/serviceaccounts/default/token", `{"spec":{"audiences":["a"]}}`,
			`[{"manager":"m","operation":"Update","apiVersion":"authentication.k8s.io/v1","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"f:audiences":{},"f:expirationSeconds":{}}},"subresource":"token"}]`,
		},
	} {
		w := l.ask(root, c.line+"?fieldManager=m", "", c.body)
		var out metav1.PartialObjectMetadata
		if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil || w.Code != 201 {
			t.Fatal(w.Code, w.Body, err)
		}
		for i := range out.ManagedFields {
			out.ManagedFields[i].Time = nil
		}
		if got, err := json.Marshal(out.ManagedFields); err != nil || string(got) != c.want || strings.Contains(c.line, "accessreviews") && (out.UID != "" || !out.CreationTimestamp.IsZero()) {
			t.Errorf("%s: %s, uid %q, created %v, err %v\nwant %s", c.line, got, out.UID, out.CreationTimestamp, err, c.want)
		}
	}
}
