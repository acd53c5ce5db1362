package config

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"podo.dev/podo/internal/daemon/datadir"
)

const sampleToken = "abcdef.0123456789abcdef@sha256:0000000000000000000000000000000000000000000000000000000000000000"

func sampleAgent() Agent {
	c := DefaultAgent()
	c.NodeName, c.NodeIP, c.Server, c.Token = "node-b", "192.0.2.8", "https://192.0.2.7:6443", sampleToken
	return c
}

func TestAnAgentIsRefusedWithTheFlag(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(sampleToken+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		change func(*Agent)
		want   string
	}{
		{func(c *Agent) { c.Server = "" }, "--server is needed"},
		{func(c *Agent) { c.Server = "192.0.2.7" }, "use https://HOST:6443"},
		{func(c *Agent) { c.Server = "http://192.0.2.7:6443" }, "TLS only"},
		{func(c *Agent) { c.Server = "https://192.0.2.7:6443/api" }, "nothing else"},
		{func(c *Agent) { c.Token = "secret-that-is-none" }, "--token"},
		{func(c *Agent) { c.TokenFile = file }, "--token-file"},
		{func(c *Agent) { c.Token, c.TokenFile = "", file+"none" }, "--token-file"},
		{func(c *Agent) { c.NodeIP = "nowhere" }, "--node-ip"},
	} {
		c := sampleAgent()
		tc.change(&c)
		err := c.Complete()
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("want an error with %q, got %v", tc.want, err)
		} else if strings.Contains(err.Error(), "secret-that") {
			t.Errorf("the token is told: %v", err)
		}
	}
	c := sampleAgent()
	c.Server, c.Token, c.TokenFile = "https://192.0.2.7", "", file
	if err := c.Complete(); err != nil || c.Server != "https://192.0.2.7:6443" || c.Token != sampleToken {
		t.Errorf("%v, server %s", err, c.Server)
	}
	// What is needed once may be gone afterwards.
	c = sampleAgent()
	c.Token, c.TokenFile, c.CAFile, c.DataDir = "", file+"none", file+"none", t.TempDir()
	certificates := datadir.Dir{Root: c.DataDir}.Certificates()
	if err := os.MkdirAll(certificates, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"ca.crt", "kubelet-client-current.pem"} {
		if _, err := c.Authority(); err == nil {
			t.Errorf("before %s, no authority is none", name)
		}
		if err := os.WriteFile(filepath.Join(certificates, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Complete(); err != nil || c.Token != "" {
		t.Errorf("without the token's file, after it has joined: %v", err)
	}
	if ca, err := c.Authority(); err != nil || ca != nil {
		t.Errorf("without the authority's, after it has joined: %v", err)
	}
}

func TestTheServersAddress(t *testing.T) {
	c := sampleAgent()
	if err := c.Complete(); err != nil {
		t.Fatal(err)
	}
	if want := netip.MustParseAddrPort("192.0.2.7:6443"); c.Address != want {
		t.Errorf("the server is at %s", c.Address)
	}
}
