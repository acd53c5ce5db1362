package tokens

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/authenticator"

	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/store"
	"podo.dev/podo/internal/view"
	"podo.dev/podo/internal/view/viewtest"
)

const (
	issuer   = "https://kubernetes.default.svc.cluster.local"
	extender = extendable
)

// world issues and reads tokens over a store in memory.
type world struct {
	t     *testing.T
	view  *view.View
	store store.Store
	now   time.Time
	used  []string
	*Issuer
	*Authenticator
}

func ecKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func keysOf(t testing.TB, signer *ecdsa.PrivateKey, more ...*ecdsa.PrivateKey) *Keys {
	t.Helper()
	k, err := NewKeys(signer)
	for _, m := range more {
		k, err = NewKeys(signer, signer.Public(), m.Public())
	}
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, now: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)}
	w.view, w.store = viewtest.New(t, account("robot", "sa-1"), pod("worker", "pod-1"), node("n1", "node-1"), secret("bound", "secret-1"))
	w.with(keysOf(t, ecKey(t)), issuer)
	return w
}

// with makes the issuer and the authenticator anew, as after a restart with other keys.
func (w *world) with(k *Keys, as string) {
	w.t.Helper()
	clock := func() time.Time { return w.now }
	var err error
	if w.Issuer, err = NewIssuer(IssuerConfig{Keys: k, Issuer: as, Audiences: []string{issuer}, Now: clock}); err != nil {
		w.t.Fatal(err)
	}
	w.Authenticator, err = NewAuthenticator(AuthenticatorConfig{
		Keys: k, View: w.view, Issuers: []string{issuer}, Audiences: []string{issuer}, Now: clock,
		Used: func(s *v1.Secret, day string) { w.used = append(w.used, s.Name+" "+day) },
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

func account(name, uid string) *v1.ServiceAccount {
	return &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "work", Name: name, UID: types.UID(uid)}}
}

func pod(name, uid string) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "work", Name: name, UID: types.UID(uid)}, Spec: v1.PodSpec{ServiceAccountName: "robot", NodeName: "n1"}}
}

func node(name, uid string) *v1.Node {
	return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(uid)}}
}

func secret(name, uid string) *v1.Secret {
	return &v1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "work", Name: name, UID: types.UID(uid)}}
}

// request is for a token bound to an object; kind "" binds to nothing.
func request(kind, name, uid string, audiences ...string) *authenticationv1.TokenRequest {
	r := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: audiences}}
	if kind != "" {
		r.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: kind, Name: name, UID: types.UID(uid)}
	}
	return r
}

func (w *world) issue(name string, r *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error) {
	registry.DefaultTokenRequest(r)
	now, err := w.view.Fresh(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return w.Issue(w.t.Context(), Request{Namespace: "work", Name: name, Object: r, Now: now, Admit: func() error { return nil }})
}

func (w *world) token(r *authenticationv1.TokenRequest) string {
	w.t.Helper()
	out, err := w.issue("robot", r)
	if err != nil {
		w.t.Fatal(err)
	}
	return out.Status.Token
}

// put writes an object and waits until the view has it.
func (w *world) put(obj runtime.Object)    { w.seen(viewtest.Put(w.t, w.store, obj)) }
func (w *world) delete(obj runtime.Object) { w.seen(viewtest.Delete(w.t, w.store, obj)) }

func (w *world) seen(rev int64) {
	w.t.Helper()
	if _, err := w.view.WaitFor(w.t.Context(), rev); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) who(token string, audiences ...string) (*authenticator.Response, error) {
	ctx := w.t.Context()
	if len(audiences) > 0 {
		ctx = authenticator.WithAudiences(ctx, audiences)
	}
	answer, ok, err := w.AuthenticateToken(ctx, token)
	if !ok {
		return nil, err
	}
	return answer, err
}

func TestATokenSaysWhoWhereAndForWhom(t *testing.T) {
	w := newWorld(t)
	token := w.token(request("Pod", "worker", "pod-1"))
	a, err := w.who(token)
	if err != nil {
		t.Fatal(err)
	}
	u := a.User
	if u.GetName() != "system:serviceaccount:work:robot" || u.GetUID() != "sa-1" || strings.Join(u.GetGroups(), " ") != "system:serviceaccounts system:serviceaccounts:work" {
		t.Errorf("it is %v", u)
	}
	e := u.GetExtra()
	for key, want := range map[string]string{
		"authentication.kubernetes.io/pod-name": "worker", "authentication.kubernetes.io/pod-uid": "pod-1",
		"authentication.kubernetes.io/node-name": "n1", "authentication.kubernetes.io/node-uid": "node-1",
	} {
		if len(e[key]) != 1 || e[key][0] != want {
			t.Errorf("%s is %v, want %s", key, e[key], want)
		}
	}
	if id := e["authentication.kubernetes.io/credential-id"]; len(id) != 1 || !strings.HasPrefix(id[0], "JTI=") {
		t.Errorf("the credential is %v", id)
	}
	if len(a.Audiences) != 1 || a.Audiences[0] != issuer {
		t.Errorf("it is for %v", a.Audiences)
	}
}

func TestATokenEndsWithWhatItNames(t *testing.T) {
	later := metav1.NewTime(time.Date(2026, 11, 30, 11, 58, 0, 0, time.UTC)) // two minutes before now
	deleting := func(m *metav1.ObjectMeta) { m.DeletionTimestamp = &later }
	for _, c := range []struct {
		name string
		to   *authenticationv1.TokenRequest
		then func(w *world)
		want string
	}{
		{"nothing happened", request("Pod", "worker", ""), func(*world) {}, ""},
		{"the pod is deleted", request("Pod", "worker", ""), func(w *world) { w.delete(pod("worker", "")) }, "service account token has been invalidated"},
		{"the pod is another of its name", request("Pod", "worker", ""), func(w *world) { w.put(pod("worker", "pod-2")) }, "pod UID (pod-2) does not match service account pod ref claim (pod-1)"},
		{"the pod has been ending for long", request("Pod", "worker", ""), func(w *world) {
			p := pod("worker", "pod-1")
			deleting(&p.ObjectMeta)
			w.put(p)
		}, "service account token has been invalidated"},
		{"the account is deleted", request("", "", ""), func(w *world) { w.delete(account("robot", "")) }, `serviceaccounts "robot" not found`},
		{"the account is deleted and made again", request("", "", ""), func(w *world) {
			w.delete(account("robot", ""))
			w.put(account("robot", "sa-2"))
		}, "service account UID (sa-2) does not match claim (sa-1)"},
		{"the account has been ending for long", request("", "", ""), func(w *world) {
			s := account("robot", "sa-1")
			deleting(&s.ObjectMeta)
			w.put(s)
		}, "service account work/robot has been deleted"},
		{"the Secret is deleted", request("Secret", "bound", ""), func(w *world) { w.delete(secret("bound", "")) }, "service account token has been invalidated"},
		{"the node is deleted", request("Node", "n1", ""), func(w *world) { w.delete(node("n1", "")) }, "service account token has been invalidated"},
		{"the node of the pod is deleted", request("Pod", "worker", ""), func(w *world) { w.delete(node("n1", "")) }, ""},
		{"an hour and a minute and a bit pass", request("", "", ""), func(w *world) { w.now = w.now.Add(61*time.Minute + time.Second) }, "service account token has expired"},
		{"an hour passes", request("", "", ""), func(w *world) { w.now = w.now.Add(time.Hour) }, ""},
		{"the clock goes back", request("", "", ""), func(w *world) { w.now = w.now.Add(-2 * time.Minute) }, "service account token is not valid yet"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			token := w.token(c.to)
			if _, err := w.who(token); err != nil { // remembered from now on
				t.Fatal(err)
			}
			c.then(w)
			_, err := w.who(token)
			if got := text(err); got != c.want {
				t.Errorf("it is refused with %q, want %q", got, c.want)
			}
		})
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestAudiencesAreNotMixedUp(t *testing.T) {
	w := newWorld(t)
	vault := w.token(request("", "", "", "vault"))
	api := w.token(request("", "", ""))
	both := w.token(request("", "", "", "vault", issuer))
	for _, c := range []struct {
		token string
		asked []string
		want  string // the audiences, or "" for refused
	}{
		{vault, nil, ""},
		{vault, []string{"vault"}, "vault"},
		{vault, []string{"vault2"}, ""},
		{api, nil, issuer},
		{api, []string{"vault"}, ""},
		{both, nil, issuer},
		{both, []string{"vault"}, "vault"},
		{both, []string{issuer, "vault"}, "vault " + issuer},
	} {
		a, err := w.who(c.token, c.asked...)
		if (err == nil) != (c.want != "") {
			t.Errorf("for %v: %v", c.asked, err)
		}
		if err == nil && len(a.Audiences) != len(strings.Fields(c.want)) {
			t.Errorf("for %v: %v", c.asked, a.Audiences)
		}
	}
}

func TestKeysAndIssuers(t *testing.T) {
	w := newWorld(t)
	first, second, strange := ecKey(t), ecKey(t), ecKey(t)
	w.with(keysOf(t, first), issuer)
	old := w.token(request("", "", ""))
	w.with(keysOf(t, second, first), issuer)
	if _, err := w.who(old); err != nil {
		t.Errorf("after a rotation an earlier token is refused: %v", err)
	}
	fresh := w.token(request("", "", ""))
	w.with(keysOf(t, first), issuer)
	if _, err := w.who(fresh); text(err) != "invalid signature, no keys found" {
		t.Errorf("the newest key must sign: %v", err)
	}
	w.with(keysOf(t, second), issuer)
	if _, err := w.who(old); err == nil {
		t.Error("a key that has gone still verifies")
	}
	w.with(keysOf(t, strange), issuer)
	forged := w.token(request("", "", ""))
	w.with(keysOf(t, first), issuer)
	if _, err := w.who(forged); err == nil {
		t.Error("a stranger's signature is taken")
	}
	// The stranger calls their key by our key's name.
	forger := keysOf(t, strange)
	forger.now.Load().signs.ID = keysOf(t, first).now.Load().signs.ID
	w.with(forger, issuer)
	forged = w.token(request("", "", ""))
	w.with(keysOf(t, first), issuer)
	if _, err := w.who(forged); text(err) != "go-jose/go-jose: error in cryptographic primitive" {
		t.Errorf("a stranger's signature under our key's name: %v", err)
	}
	// Another issuer's token is none of ours, whoever signed it.
	w.with(keysOf(t, first), "https://elsewhere")
	other := w.token(request("", "", ""))
	if a, err := w.who(other); a != nil || err != nil {
		t.Errorf("another issuer's token: %v, %v", a, err)
	}
}

func TestUnsignedAndMixedAlgorithms(t *testing.T) {
	w := newWorld(t)
	token := w.token(request("", "", ""))
	parts := strings.Split(token, ".")
	enc := base64.RawURLEncoding.EncodeToString
	for name, forged := range map[string]string{
		"none":           enc([]byte(`{"alg":"none"}`)) + "." + parts[1] + ".",
		"an HMAC":        enc([]byte(`{"alg":"HS256"}`)) + "." + parts[1] + "." + parts[2],
		"no signature":   parts[0] + "." + parts[1] + ".",
		"other claims":   parts[0] + "." + enc([]byte(`{"iss":"`+issuer+`","sub":"system:serviceaccount:kube-system:root"}`)) + "." + parts[2],
		"another header": enc([]byte(`{"alg":"RS256"}`)) + "." + parts[1] + "." + parts[2],
	} {
		if a, err := w.who(forged); a != nil || err == nil {
			t.Errorf("%s: %v, %v", name, a, err)
		}
	}
}

func TestRefusedRequests(t *testing.T) {
	w := newWorld(t)
	seconds := func(n int64) *authenticationv1.TokenRequest {
		r := request("", "", "")
		r.Spec.ExpirationSeconds = &n
		return r
	}
	named := func(change func(*authenticationv1.TokenRequest)) *authenticationv1.TokenRequest {
		r := request("", "", "")
		change(r)
		return r
	}
	webhook := request("ValidatingWebhookConfiguration", "x", "", "a")
	webhook.Spec.BoundObjectRef.APIVersion = "admissionregistration.k8s.io/v1"
	webhook.Spec.Attestations = map[string]authenticationv1.AttestationValue{"admissionReviewAPIGroups": {"apps"}}
	for _, c := range []struct {
		name, account string
		r             *authenticationv1.TokenRequest
		want          string
	}{
		{"bound to a pod without a name", "robot", request("Pod", "", ""), "Name parameter required."},
		{"no such account", "nobody", request("", "", ""), `serviceaccounts "nobody" not found`},
		{"another's pod", "other", request("Pod", "worker", ""), `cannot bind token for serviceaccount "other" to pod running with different serviceaccount name.`},
		{"no such pod", "robot", request("Pod", "nobody", ""), `pods "nobody" not found`},
		{"another pod of the name", "robot", request("Pod", "worker", "pod-0"), `Operation cannot be fulfilled on Pod "worker": the UID in the bound object reference (pod-0) does not match the UID in record. The object might have been deleted and then recreated`},
		{"a ConfigMap", "robot", request("ConfigMap", "x", ""), `cannot bind token to object of type /v1, Kind=ConfigMap`},
		{"a webhook", "robot", webhook, `cannot bind token to object of type admissionregistration.k8s.io/v1, Kind=ValidatingWebhookConfiguration (feature gate APIServerWebhookAuthenticationToken is disabled)`},
		{"too short", "robot", seconds(599), `TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds: Invalid value: 599: may not specify a duration less than 10 minutes`},
		{"too long", "robot", seconds(1<<32 + 1), `TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds: Invalid value: 4294967297: may not specify a duration larger than 2^32 seconds`},
		{"another name", "robot", named(func(r *authenticationv1.TokenRequest) { r.Name = "x" }), `TokenRequest.authentication.k8s.io "robot" is invalid: metadata.name: Invalid value: "x": must match the service account name if specified`},
		{"another namespace", "robot", named(func(r *authenticationv1.TokenRequest) { r.Namespace = "x" }), `TokenRequest.authentication.k8s.io "robot" is invalid: metadata.namespace: Invalid value: "x": must match the service account namespace if specified`},
		{"another UID", "robot", named(func(r *authenticationv1.TokenRequest) { r.UID = "x" }), `Operation cannot be fulfilled on TokenRequest.authentication.k8s.io "robot": the UID in the token request (x) does not match the UID of the service account (sa-1)`},
		{"attestations", "robot", named(func(r *authenticationv1.TokenRequest) {
			r.Spec.Attestations = map[string]authenticationv1.AttestationValue{"a": {"b"}}
		}), `TokenRequest.authentication.k8s.io "" is invalid: spec.attestations: Invalid value: {"a":["b"]}: attestations may only be specified with a webhook bound object reference`},
	} {
		w.put(account("other", "sa-9"))
		if _, err := w.issue(c.account, c.r); text(err) != c.want {
			t.Errorf("%s: %q\nwant %q", c.name, text(err), c.want)
		}
	}
}

// A pod's token for the API server lives a year and warns after an hour; what is told to the kubelet is the hour.
func TestExtendedLife(t *testing.T) {
	w := newWorld(t)
	life := func(r *authenticationv1.TokenRequest) (told, real, warn time.Duration) {
		n := int64(extender)
		r.Spec.ExpirationSeconds = &n
		out, err := w.issue("robot", r)
		if err != nil {
			t.Fatal(err)
		}
		c, err := w.Issuer.c.Keys.read(out.Status.Token)
		if err != nil {
			t.Fatal(err)
		}
		if c.Kubernetes.WarnAfter != nil {
			warn = c.Kubernetes.WarnAfter.Sub(w.now)
		}
		return out.Status.ExpirationTimestamp.Sub(w.now), c.ExpiresAt.Sub(w.now), warn
	}
	hour := 3607 * time.Second
	if told, real, warn := life(request("Pod", "worker", "")); told != hour || real != 365*24*time.Hour || warn != hour {
		t.Errorf("a pod's token is told to live %v, lives %v, warns after %v", told, real, warn)
	}
	for name, r := range map[string]*authenticationv1.TokenRequest{
		"of another audience": request("Pod", "worker", "", "vault"), "bound to nothing": request("", "", ""), "of a Secret": request("Secret", "bound", ""),
	} {
		if _, real, warn := life(r); real != hour || warn != 0 {
			t.Errorf("a token %s lives %v and warns after %v", name, real, warn)
		}
	}
}

// The audit log hears of tokens that outlive the time they were asked for.
func TestStaleTokensAreAnnotated(t *testing.T) {
	w := newWorld(t)
	r := request("Pod", "worker", "")
	n := int64(extender)
	r.Spec.ExpirationSeconds = &n
	token := w.token(r)
	stale := func() string {
		ctx := audit.WithAuditContext(t.Context())
		if _, ok, err := w.AuthenticateToken(ctx, token); !ok {
			t.Fatal(err)
		}
		said, _ := audit.AuditContextFrom(ctx).GetEventAnnotation("authentication.k8s.io/stale-token")
		return said
	}
	if got := stale(); got != "" {
		t.Errorf("a fresh token: %q", got)
	}
	w.now = w.now.Add(2 * time.Hour)
	if got := stale(); got != "subject: system:serviceaccount:work:robot, seconds after warning threshold: 3593" {
		t.Errorf("a stale token: %q", got)
	}
}

func TestATokenInASecret(t *testing.T) {
	w := newWorld(t)
	s := secret("robot-token", "secret-2")
	s.Type = v1.SecretTypeServiceAccountToken
	token, err := w.ForSecret(account("robot", "sa-1"), s)
	if err != nil {
		t.Fatal(err)
	}
	check := func(want string) {
		t.Helper()
		if _, err := w.who(token); text(err) != want {
			t.Errorf("%q, want %q", text(err), want)
		}
	}
	check("Token has been invalidated")
	s.Data = map[string][]byte{"token": []byte("another")}
	w.put(s)
	check("Token does not match server's copy")
	s.Data = map[string][]byte{"token": []byte(token)}
	w.put(s)
	w.now = w.now.AddDate(20, 0, 0) // it has no end
	check("")
	if len(w.used) != 1 || w.used[0] != "robot-token 2046-11-30" {
		t.Errorf("its use is told as %v", w.used)
	}
	s.Labels = map[string]string{LastUsed: "2046-11-30"}
	w.put(s)
	check("")
	if len(w.used) != 1 {
		t.Errorf("its use is told twice a day: %v", w.used)
	}
	s.Labels[InvalidSince] = "2046-11-01"
	w.put(s)
	check("the token in secret work/robot-token for service account work/robot has been marked invalid. Use tokens from the TokenRequest API or manually created secret-based tokens, or remove the 'kubernetes.io/legacy-token-invalid-since' label from the secret to temporarily allow use of this token")
	delete(s.Labels, InvalidSince)
	w.put(s)
	w.put(account("robot", "sa-2"))
	check("ServiceAccount UID (sa-2) does not match claim (sa-1)")
	if _, err := w.who(token, "vault"); err == nil {
		t.Error("a Secret's token is for the API server alone")
	}
}

func TestDiscovery(t *testing.T) {
	own, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	k, err := NewKeys(ecKey(t), own.Public())
	if err != nil {
		t.Fatal(err)
	}
	config, keys, err := k.Discovery(issuer, "192.0.2.1:6443")
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	config.ServeHTTP(w, nil)
	want := `{"issuer":"` + issuer + `","jwks_uri":"https://192.0.2.1:6443/openid/v1/jwks","response_types_supported":["id_token"],"subject_types_supported":["public"],"id_token_signing_alg_values_supported":["ES256","RS256"]}`
	if w.Body.String() != want || w.Header().Get("Content-Type") != "application/json" || w.Header().Get("Cache-Control") != "public, max-age=3600" {
		t.Errorf("the configuration is %s under %v", w.Body, w.Header())
	}
	w = httptest.NewRecorder()
	keys.ServeHTTP(w, nil)
	var set struct{ Keys []map[string]string }
	if err := json.Unmarshal(w.Body.Bytes(), &set); err != nil || len(set.Keys) != 2 || w.Header().Get("Content-Type") != "application/jwk-set+json" {
		t.Fatalf("%v: %s", err, w.Body)
	}
	ec, r := set.Keys[0], set.Keys[1]
	if ec["kty"] != "EC" || ec["crv"] != "P-256" || ec["alg"] != "ES256" || ec["use"] != "sig" || len(ec["x"]) != 43 || len(ec["y"]) != 43 || ec["kid"] != k.now.Load().signs.ID {
		t.Errorf("the EC key is %v", ec)
	}
	if r["kty"] != "RSA" || r["alg"] != "RS256" || r["e"] != "AQAB" || len(r["n"]) != 342 {
		t.Errorf("the RSA key is %v", r)
	}
	for _, bad := range []string{"kubernetes/serviceaccount", "http://x", "https://x?y=z"} {
		if _, _, err := k.Discovery(bad, "x"); err == nil {
			t.Errorf("the issuer %q can be discovered", bad)
		}
	}
}

// A rotation: tokens of the key before stay good and both keys are published, until the old one is taken away.
func TestKeysAreReplaced(t *testing.T) {
	first, second := ecKey(t), ecKey(t)
	k := keysOf(t, first)
	old, err := k.sign(&claims{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.read(old); err != nil {
		t.Fatal(err)
	}
	_, published, err := k.Discovery("https://us", "us:443")
	if err != nil {
		t.Fatal(err)
	}
	count := func() int {
		w := httptest.NewRecorder()
		published.ServeHTTP(w, nil)
		return strings.Count(w.Body.String(), `"kid"`)
	}
	if err := k.Replace(second, second.Public(), first.Public()); err != nil {
		t.Fatal(err)
	}
	fresh, err := k.sign(&claims{})
	if err != nil {
		t.Fatal(err)
	}
	for name, token := range map[string]string{"old": old, "new": fresh} {
		if _, err := k.read(token); err != nil {
			t.Errorf("the %s one: %v", name, err)
		}
	}
	if id, err := KeyID(second.Public()); err != nil || k.now.Load().signs.ID != id || count() != 2 {
		t.Errorf("%s signs, %d keys are published, %v", k.now.Load().signs.ID, count(), err)
	}
	if err := k.Replace(second, second.Public()); err != nil {
		t.Fatal(err)
	}
	if _, err := k.read(old); err == nil || count() != 1 {
		t.Errorf("after its key has gone the old one is read: %v; %d keys are published", err, count())
	}
	if _, err := k.read(fresh); err != nil {
		t.Error(err)
	}
}

// No error tells anything of a token, whatever it is.
func FuzzAuthenticate(f *testing.F) {
	signer := ecKey(f)
	k := keysOf(f, signer)
	good, err := k.sign(&claims{})
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{
		"", ".", "..", "a.b.c", good, good + ".", "{" + good, strings.ToUpper(good),
		"eyJhbGciOiJub25lIn0.eyJpc3MiOiJrdWJlcm5ldGVzL3NlcnZpY2VhY2NvdW50In0.",
		"eyJhbGciOiJFUzI1NiIsImtpZCI6MX0.eyJpc3MiOiJrdWJlcm5ldGVzL3NlcnZpY2VhY2NvdW50IiwiZXhwIjoxZTMwMH0.AA",
		"eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJrdWJlcm5ldGVzL3NlcnZpY2VhY2NvdW50IiwiYXVkIjp7fX0.AA",
	} {
		f.Add(seed)
	}
	vw, _ := viewtest.New(f)
	a, err := NewAuthenticator(AuthenticatorConfig{Keys: k, View: vw, Issuers: []string{issuer}, Audiences: []string{issuer}})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, token string) {
		answer, ok, err := a.AuthenticateToken(context.Background(), token)
		if ok || answer != nil {
			t.Fatalf("%q is %v", token, answer)
		}
		if parts := strings.Split(token, "."); err != nil && len(parts) == 3 && len(parts[1]) > 40 && strings.Contains(err.Error(), parts[1]) {
			t.Errorf("the error tells the token: %v", err)
		}
	})
}

func TestRefusalsAreAPIErrors(t *testing.T) {
	w := newWorld(t)
	if _, err := w.issue("nobody", request("", "", "")); !apierrors.IsNotFound(err) {
		t.Error(err)
	}
}
