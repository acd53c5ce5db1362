package joined

import (
	"net/netip"
	"os"
	"strings"
	"testing"

	"podo.dev/podo/internal/daemon/datadir"
)

// A data directory is one node's, of a server or of an agent, and remembers the network for a start without a server.
func TestWhatAnAgentRemembers(t *testing.T) {
	d := datadir.Dir{Root: t.TempDir()}
	const server = "https://192.0.2.7:6443"
	j, err := Load(d)
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Claim("node-x", server, ""); err != nil {
		t.Fatal(err)
	}
	if err := j.Claim("node-b", server, ""); err != nil {
		t.Errorf("a name that the node never had cannot be changed: %v", err)
	}
	if pods, _, _ := j.Network(); len(pods) != 0 {
		t.Error("a network that nobody gave")
	}
	own, all, service := netip.MustParsePrefix("10.42.1.0/24"), netip.MustParsePrefix("10.42.0.0/24"), netip.MustParseAddr("10.43.0.1")
	if err := j.Register(); err != nil {
		t.Fatal(err)
	}
	if err := j.SetNetwork([]netip.Prefix{own}, []netip.Prefix{all, own}, service); err != nil {
		t.Fatal(err)
	}
	if j, err = Load(d); err != nil {
		t.Fatal(err)
	}
	if pods, cluster, at := j.Network(); len(pods) != 1 || pods[0] != own || len(cluster) != 2 || at != service || j.Server != server {
		t.Errorf("remembered %+v", j)
	}
	if err := j.Claim("node-x", server, ""); err == nil || !strings.Contains(err.Error(), `"node-b"`) {
		t.Errorf("another node's data directory: %v", err)
	}
	if d.ForAgent() != nil || d.ForServer() == nil {
		t.Error("a server takes an agent's data directory")
	}
	of := datadir.Dir{Root: t.TempDir()}
	if err := os.Mkdir(of.PKI(), 0o700); err != nil {
		t.Fatal(err)
	}
	if of.ForAgent() == nil || of.ForServer() != nil {
		t.Error("an agent takes a server's data directory")
	}
}
