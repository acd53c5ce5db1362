package authn

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"

	"podo.dev/podo/internal/jointoken"
	"podo.dev/podo/internal/pki"
	"podo.dev/podo/internal/view/viewtest"
)

// words are tokens by what they say: the user's name, or "bad" for one that is ours and no good.
func words(_ context.Context, token string) (*authenticator.Response, bool, error) {
	switch {
	case token == "bad":
		return nil, false, errors.New("it has expired")
	case strings.HasPrefix(token, "word-"):
		return &authenticator.Response{User: &user.DefaultInfo{Name: token[5:]}, Audiences: authenticator.Audiences{"api"}}, true, nil
	}
	return nil, false, nil
}

type world struct {
	*Authenticator
	certs *pki.Bundle
	log   *bytes.Buffer
}

func newWorld(t *testing.T, anonymous Anonymous, more ...authenticator.Token) *world {
	t.Helper()
	certs, err := pki.Ensure(pki.Config{Dir: filepath.Join(t.TempDir(), "pki"), NodeName: "n1", NodeIP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{certs: certs, log: &bytes.Buffer{}}
	w.Authenticator, err = New(Config{
		Certificates: &X509{Roots: certs.Pool()}, Tokens: append(more, authenticator.TokenFunc(words)), Audiences: []string{"api"}, Anonymous: anonymous,
		Logger: slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// request asks for path with headers, given as name, value, and a certificate, or none.
func request(path string, certificate *tls.Certificate, headers ...string) *http.Request {
	r := httptest.NewRequest("GET", path, nil)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	r.TLS = &tls.ConnectionState{}
	if certificate != nil {
		r.TLS.PeerCertificates = []*x509.Certificate{certificate.Leaf}
	}
	return r
}

func TestWhoARequestIsFrom(t *testing.T) {
	w := newWorld(t, Health)
	strangers, err := pki.Ensure(pki.Config{Dir: filepath.Join(t.TempDir(), "pki"), NodeName: "n1", NodeIP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	admin, stranger, server := w.certs.Get(pki.Admin), strangers.Get(pki.Admin), w.certs.Get(pki.Serving)
	bearer := func(token string) []string { return []string{"Authorization", "Bearer " + token} }
	socket := func(token string) []string {
		return []string{"Connection", "upgrade", "Upgrade", "websocket", "Sec-Websocket-Protocol", "base64url.bearer.authorization.k8s.io." + base64.RawURLEncoding.EncodeToString([]byte(token)) + ", v5.channel.k8s.io"}
	}
	for _, c := range []struct {
		name string
		r    *http.Request
		want string // "" is refused
	}{
		{"a certificate", request("/api", admin), "kubernetes-admin"},
		{"a stranger's certificate", request("/api", stranger), ""},
		{"a stranger's certificate, for health", request("/livez", stranger), ""},
		{"a certificate that is for servers", request("/api", server), ""},
		{"a token", request("/api", nil, bearer("word-ada")...), "ada"},
		{"a token in lower case", request("/api", nil, "Authorization", "bearer word-ada"), "ada"},
		{"a certificate before a token", request("/api", admin, bearer("word-ada")...), "kubernetes-admin"},
		{"a certificate before a token that is no good", request("/api", admin, bearer("bad")...), "kubernetes-admin"},
		{"a token after a stranger's certificate", request("/api", stranger, bearer("word-ada")...), "ada"},
		{"a token that is no good", request("/api", nil, bearer("bad")...), ""},
		{"a token that is no good, for health", request("/livez", nil, bearer("bad")...), ""},
		{"a token that nobody knows", request("/livez", nil, bearer("what")...), ""},
		{"a WebSocket's token", request("/api", nil, socket("word-ada")...), "ada"},
		{"a WebSocket's token that is no good", request("/livez", nil, socket("bad")...), ""},
		{"nothing", request("/api", nil), ""},
		{"nothing, for health", request("/livez", nil), "system:anonymous"},
		{"nothing, for a part of health", request("/livez/etcd", nil), ""},
		{"nothing, for a way around", request("/livez/../api", nil), ""},
		{"a password", request("/api", nil, "Authorization", "Basic YTpi"), ""},
		{"a password, for health", request("/readyz", nil, "Authorization", "Basic YTpi"), "system:anonymous"},
	} {
		u, err := w.User(c.r)
		if got := name(u); got != c.want || (err != nil) != (c.want == "") {
			t.Errorf("%s: %q, %v", c.name, got, err)
			continue
		}
		if err != nil {
			if !errors.Is(err, ErrUnauthorized) || err.Error() != "Unauthorized" {
				t.Errorf("%s: it says why: %v", c.name, err)
			}
			continue
		}
		if known := slices.Contains(u.GetGroups(), user.AllAuthenticated); known == (c.want == "system:anonymous") {
			t.Errorf("%s: groups %v", c.name, u.GetGroups())
		}
	}
	if strings.Contains(w.log.String(), "Bearer") || strings.Contains(w.log.String(), "what") {
		t.Errorf("the log tells a token:\n%s", w.log)
	}
}

func name(u user.Info) string {
	if u == nil {
		return ""
	}
	return u.GetName()
}

// A token goes no further than here: not to a kubelet that the request is proxied to, nor to a WebSocket's handshake.
func TestTokensAreTakenOffTheRequest(t *testing.T) {
	w := newWorld(t, Nowhere)
	r := request("/api", nil, "Authorization", "Bearer word-ada")
	if _, err := w.User(r); err != nil || r.Header.Get("Authorization") != "" {
		t.Errorf("%v, %v", r.Header, err)
	}
	r = request("/api", nil, "Connection", "upgrade", "Upgrade", "websocket", "Sec-Websocket-Protocol", "base64url.bearer.authorization.k8s.io.d29yZC1hZGE, v5.channel.k8s.io")
	if _, err := w.User(r); err != nil || r.Header.Get("Sec-Websocket-Protocol") != "v5.channel.k8s.io" {
		t.Errorf("%v, %v", r.Header, err)
	}
}

func TestAnonymousElsewhere(t *testing.T) {
	for _, c := range []struct {
		where Anonymous
		path  string
		want  bool
	}{{Everywhere, "/api", true}, {Nowhere, "/livez", false}, {nil, "/livez", false}} {
		if _, err := newWorld(t, c.where).User(request(c.path, nil)); (err == nil) != c.want {
			t.Errorf("%s: %v", c.path, err)
		}
	}
}

func TestAConnectionsVerdictEndsWithItsCertificate(t *testing.T) {
	certs := newWorld(t, Nowhere).certs
	now := time.Now()
	x := &X509{Roots: certs.Pool(), Now: func() time.Time { return now }}
	r := request("/api", certs.Get(pki.Admin))
	r = r.WithContext(ConnContext(t.Context(), nil))
	if _, ok, err := x.AuthenticateRequest(r); !ok {
		t.Fatal(err)
	}
	now = now.AddDate(2, 0, 0)
	if _, ok, err := x.AuthenticateRequest(r); ok || err == nil {
		t.Error("an expired certificate is good on a connection that was open before")
	}
}

func TestBootstrapTokens(t *testing.T) {
	good := func() *v1.Secret {
		return &v1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "bootstrap-token-abcdef"}, Type: jointoken.SecretType,
			Data: map[string][]byte{"token-id": []byte("abcdef"), "token-secret": []byte("0123456789abcdef"), "usage-bootstrap-authentication": []byte("true")},
		}
	}
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	set := func(key, value string) func(*v1.Secret) { return func(s *v1.Secret) { s.Data[key] = []byte(value) } }
	for _, c := range []struct {
		name   string
		change func(*v1.Secret)
		token  string
		want   string // groups
	}{
		{"good", func(*v1.Secret) {}, "abcdef.0123456789abcdef", "system:bootstrappers"},
		{"with groups", set("auth-extra-groups", "system:bootstrappers:b,system:bootstrappers:a"), "abcdef.0123456789abcdef", "system:bootstrappers system:bootstrappers:a system:bootstrappers:b"},
		{"with somebody else's group", set("auth-extra-groups", "system:masters"), "abcdef.0123456789abcdef", ""},
		{"another secret", func(*v1.Secret) {}, "abcdef.0123456789abcdee", ""},
		{"another id", func(*v1.Secret) {}, "abcdee.0123456789abcdef", ""},
		{"an id that is not the name's", set("token-id", "abcdee"), "abcdef.0123456789abcdef", ""},
		{"upper case", func(*v1.Secret) {}, "ABCDEF.0123456789abcdef", ""},
		{"with the authority's hash", func(*v1.Secret) {}, "abcdef.0123456789abcdef@sha256:" + strings.Repeat("0", 64), ""},
		{"a line behind", func(*v1.Secret) {}, "abcdef.0123456789abcdef\n", ""},
		{"for signing only", set("usage-bootstrap-authentication", "false"), "abcdef.0123456789abcdef", ""},
		{"in time", set("expiration", "2026-11-30T12:00:01Z"), "abcdef.0123456789abcdef", "system:bootstrappers"},
		{"expired", set("expiration", "2026-11-30T12:00:00Z"), "abcdef.0123456789abcdef", ""},
		{"with an end that cannot be read", set("expiration", "soon"), "abcdef.0123456789abcdef", ""},
		{"of another type", func(s *v1.Secret) { s.Type = v1.SecretTypeOpaque }, "abcdef.0123456789abcdef", ""},
		{"of another namespace", func(s *v1.Secret) { s.Namespace = "default" }, "abcdef.0123456789abcdef", ""},
		{"being deleted", func(s *v1.Secret) { at := metav1.NewTime(now); s.DeletionTimestamp = &at }, "abcdef.0123456789abcdef", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := good()
			c.change(s)
			vw, _ := viewtest.New(t, s)
			b := &Bootstrap{View: vw, Now: func() time.Time { return now }}
			a, ok, err := b.AuthenticateToken(t.Context(), c.token)
			if err != nil || ok != (c.want != "") {
				t.Fatalf("%v, %v", ok, err)
			}
			if ok && (a.User.GetName() != "system:bootstrap:abcdef" || strings.Join(a.User.GetGroups(), " ") != c.want) {
				t.Errorf("it is %v", a.User)
			}
		})
	}
}

func TestReviews(t *testing.T) {
	w := newWorld(t, Everywhere)
	review := func(token string, audiences ...string) authenticationv1.TokenReviewStatus {
		t.Helper()
		out, err := w.TokenReview(t.Context(), nil, &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: audiences}})
		if err != nil {
			t.Fatal(err)
		}
		return out.(*authenticationv1.TokenReview).Status
	}
	if s := review("word-ada"); !s.Authenticated || s.User.Username != "ada" || !slices.Equal(s.User.Groups, []string{user.AllAuthenticated}) || !slices.Equal(s.Audiences, []string{"api"}) || s.Error != "" {
		t.Errorf("a good token: %+v", s)
	}
	if s := review("bad"); s.Authenticated || s.User.Username != "" || s.Error != "[invalid bearer token, it has expired]" {
		t.Errorf("one that is no good: %+v", s)
	}
	if s := review("what"); s.Authenticated || s.User.Username != "" || s.Error != "invalid bearer token" {
		t.Errorf("one that nobody knows: %+v", s)
	}
	if _, err := w.TokenReview(t.Context(), nil, &authenticationv1.TokenReview{}); !apierrors.IsBadRequest(err) || err.Error() != "token is required for TokenReview in authentication" {
		t.Errorf("without a token: %v", err)
	}
	if _, err := w.TokenReview(t.Context(), nil, &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: "word-ada", Audiences: []string{"x"}}}); !apierrors.IsInternalError(err) {
		t.Errorf("an authenticator that minds no audience: %v", err)
	}
	out, err := w.SelfSubjectReview(t.Context(), &user.DefaultInfo{Name: "ada", UID: "1", Groups: []string{"g"}, Extra: map[string][]string{"k": {"v"}}}, &authenticationv1.SelfSubjectReview{})
	if err != nil {
		t.Fatal(err)
	}
	if u := out.(*authenticationv1.SelfSubjectReview).Status.UserInfo; u.Username != "ada" || u.UID != "1" || u.Groups[0] != "g" || u.Extra["k"][0] != "v" {
		t.Errorf("I am %+v", u)
	}
}
