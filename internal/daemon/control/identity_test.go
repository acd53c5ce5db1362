package control

import (
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"podo.dev/podo/internal/daemon/config"
	"podo.dev/podo/internal/pki"
	"podo.dev/podo/internal/view/viewtest"
)

// knowing is a control plane that knows people by a --token-auth-file with this content.
func knowing(t *testing.T, content string) (*Plane, error) {
	t.Helper()
	dir := t.TempDir()
	certs, err := pki.Ensure(pki.Config{Dir: filepath.Join(dir, "pki"), NodeName: "n1", NodeIP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "tokens.csv")
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	vw, _ := viewtest.New(t)
	p := &Plane{view: vw, cfg: Config{
		Server: &config.Server{TokenAuthFile: file, ServiceAccountIssuers: []string{"https://issuer.example"}, AnonymousAuth: "health"},
		Certs:  certs, Logger: slog.New(slog.DiscardHandler),
	}}
	return p, p.buildIdentity()
}

// Who is in the file is who it says, with its groups; nobody else is let in by a token that looks like one of them.
func TestStaticTokens(t *testing.T) {
	p, err := knowing(t, "ada-secret,ada,u1,\"builders,readers\"\nbob-secret,bob,u2\n")
	if err != nil {
		t.Fatal(err)
	}
	for token, want := range map[string]string{
		"ada-secret": "ada u1 builders,readers,system:authenticated",
		"bob-secret": "bob u2 system:authenticated",
		"ada-secre":  "", "ada": "", "ADA-SECRET": "", "": "",
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api", nil)
		r.Header.Set("Authorization", "Bearer "+token)
		u, err := p.identity.authn.User(r)
		got := ""
		if err == nil {
			got = u.GetName() + " " + u.GetUID() + " " + strings.Join(slices.Sorted(slices.Values(u.GetGroups())), ",")
		}
		if got != want {
			t.Errorf("%q is %q, %v; want %q", token, got, err, want)
		}
	}
}

// A line that is no user's keeps the server from starting, and names the flag; the token in it is not told.
func TestBadStaticTokens(t *testing.T) {
	for _, content := range []string{"ada-secret\n", "ada-secret,ada\n", "ada-secret,ada,\"u1\n"} {
		if _, err := knowing(t, content); err == nil || !strings.Contains(err.Error(), "--token-auth-file") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", content, err)
		}
	}
}
