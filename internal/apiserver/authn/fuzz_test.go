package authn

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podo.dev/podo/internal/jointoken"
	"podo.dev/podo/internal/view/viewtest"
)

// FuzzBootstrap: nobody but who knows the whole token is let in, and nobody gets into a group that is none of bootstrappers.
func FuzzBootstrap(f *testing.F) {
	const id, secret = "abcdef", "0123456789abcdef"
	for _, seed := range [][3]string{
		{id + "." + secret, "", ""},
		{id + "." + secret + "\n", "system:bootstrappers:x", "2030-01-01T00:00:00Z"},
		{"ABCDEF." + secret, "system:masters", "never"},
		{".", ",", "0"},
		{"", "system:bootstrappers:a,system:bootstrappers:b", ""},
		{id + "." + secret, "system:bootstrappers:a\nsystem:masters", ""},
	} {
		f.Add(seed[0], seed[1], seed[2])
	}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	good := func() *v1.Secret {
		return &v1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: jointoken.SecretPrefix + id}, Type: jointoken.SecretType,
			Data: map[string][]byte{"token-id": []byte(id), "token-secret": []byte(secret), "usage-bootstrap-authentication": []byte("true")},
		}
	}
	vw, _ := viewtest.New(f, good())
	b := &Bootstrap{View: vw, Now: func() time.Time { return now }}
	f.Fuzz(func(t *testing.T, token, groups, expires string) {
		if _, ok, err := b.AuthenticateToken(t.Context(), token); err != nil || ok != (token == id+"."+secret) {
			t.Errorf("%q: %v, %v", token, ok, err)
		}
		s := good()
		s.Data["auth-extra-groups"], s.Data["expiration"] = []byte(groups), []byte(expires)
		in, why := bootstrapper(s, id, secret, now)
		for _, g := range in {
			if g != bootstrapGroup && !jointoken.IsGroup(g) {
				t.Errorf("%q leads into %q", groups, g)
			}
		}
		if (len(in) > 0) == (why != "") {
			t.Errorf("%q %q: %v and %q", groups, expires, in, why)
		}
	})
}
