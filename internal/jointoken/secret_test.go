package jointoken

import (
	"bytes"
	"crypto/rand"
	"reflect"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
)

func TestNewTokens(t *testing.T) {
	a, err := New(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	b, err := New(rand.Reader)
	if err != nil || a == b {
		t.Fatalf("%v twice, %v", a.ID, err)
	}
	if again, err := Parse(a.Text()); err != nil || again != a {
		t.Errorf("%v, %v", again.ID, err)
	}
	// 255 is beyond the last whole round of the 36 letters: it is drawn again.
	got, err := New(bytes.NewReader(append([]byte{255, 251}, bytes.Repeat([]byte{252, 0, 35, 36}, 22)...)))
	if err != nil || got.ID != "9a9aa9" {
		t.Errorf("%q, %v", got.ID, err)
	}
	if _, err := New(strings.NewReader("short")); err == nil {
		t.Error("a token was made of nothing")
	}
}

func TestASecretTellsWhatWasAsked(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	o := Options{TTL: time.Hour, Usages: []string{"authentication"}, Groups: []string{"system:bootstrappers:a", "system:bootstrappers:b"}, Description: "for the attic"}
	s := Token{ID: "abcdef", Secret: "0123456789abcdef", CAHash: "sha256:x"}.ToSecret(o, now)
	want := map[string]string{
		"token-id": "abcdef", "token-secret": "0123456789abcdef", "expiration": "2026-11-30T13:00:00Z", "usage-bootstrap-authentication": "true",
		"auth-extra-groups": "system:bootstrappers:a,system:bootstrappers:b", "description": "for the attic",
	}
	got := map[string]string{}
	for k, v := range s.Data {
		got[k] = string(v)
	}
	if s.Name != "bootstrap-token-abcdef" || s.Namespace != "kube-system" || s.Type != SecretType || !reflect.DeepEqual(got, want) {
		t.Errorf("%s/%s %s %v", s.Namespace, s.Name, s.Type, got)
	}
	k, ok := FromSecret(s)
	if !ok || !reflect.DeepEqual(k, Known{ID: "abcdef", End: now.Add(time.Hour), Usages: o.Usages, Groups: o.Groups, Description: o.Description}) {
		t.Errorf("%+v, %v", k, ok)
	}
	s.Type = v1.SecretTypeOpaque
	if _, ok := FromSecret(s); ok {
		t.Error("any Secret is a token")
	}
}

func TestOptions(t *testing.T) {
	for _, c := range []struct {
		o   Options
		why string
	}{
		{Options{Usages: []string{"authentication", "signing"}, Groups: []string{"system:bootstrappers:x"}}, ""},
		{Options{TTL: -time.Second, Usages: []string{"signing"}}, "is over already"},
		{Options{}, "needs a usage"},
		{Options{Usages: []string{"all"}}, `no usage "all"`},
		{Options{Usages: []string{"signing"}, Groups: []string{"system:masters"}}, "none of bootstrappers"},
	} {
		err := c.o.Validate()
		if (err == nil) != (c.why == "") || err != nil && !strings.Contains(err.Error(), c.why) {
			t.Errorf("%+v: %v", c.o, err)
		}
	}
}
