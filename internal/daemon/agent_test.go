package daemon

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

const sampleToken = "abcdef.0123456789abcdef@sha256:0000000000000000000000000000000000000000000000000000000000000000"

func sampleAgent() AgentConfig {
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
		change func(*AgentConfig)
		want   string
	}{
		{func(c *AgentConfig) { c.Server = "" }, "--server is needed"},
		{func(c *AgentConfig) { c.Server = "192.0.2.7" }, "use https://HOST:6443"},
		{func(c *AgentConfig) { c.Server = "http://192.0.2.7:6443" }, "TLS only"},
		{func(c *AgentConfig) { c.Server = "https://192.0.2.7:6443/api" }, "nothing else"},
		{func(c *AgentConfig) { c.Token = "secret-that-is-none" }, "--token"},
		{func(c *AgentConfig) { c.TokenFile = file }, "--token-file"},
		{func(c *AgentConfig) { c.Token, c.TokenFile = "", file+"none" }, "--token-file"},
		{func(c *AgentConfig) { c.NodeIP = "nowhere" }, "--node-ip"},
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
	certificates := Dirs{Root: c.DataDir}.Certificates()
	if err := os.MkdirAll(certificates, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"ca.crt", "kubelet-client-current.pem"} {
		if _, err := c.authority(); err == nil {
			t.Errorf("before %s, no authority is none", name)
		}
		if err := os.WriteFile(filepath.Join(certificates, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Complete(); err != nil || c.Token != "" {
		t.Errorf("without the token's file, after it has joined: %v", err)
	}
	if ca, err := c.authority(); err != nil || ca != nil {
		t.Errorf("without the authority's, after it has joined: %v", err)
	}
}

func TestTheServersAddress(t *testing.T) {
	c := sampleAgent()
	if err := c.Complete(); err != nil {
		t.Fatal(err)
	}
	if want := netip.MustParseAddrPort("192.0.2.7:6443"); c.address != want {
		t.Errorf("the server is at %s", c.address)
	}
}

// A data directory is one node's, of a server or of an agent, and remembers the network for a start without a server.
func TestWhatAnAgentRemembers(t *testing.T) {
	d := Dirs{Root: t.TempDir()}
	c := sampleAgent()
	if err := c.Complete(); err != nil {
		t.Fatal(err)
	}
	j, err := loadJoined(d)
	if err != nil {
		t.Fatal(err)
	}
	other := c
	other.NodeName = "node-x"
	if err := j.claim(d, other, ""); err != nil {
		t.Fatal(err)
	}
	if err := j.claim(d, c, ""); err != nil {
		t.Errorf("a name that the node never had cannot be changed: %v", err)
	}
	if len(j.network(c).Pods) != 0 {
		t.Error("a network that nobody gave")
	}
	pods, all := netip.MustParsePrefix("10.42.1.0/24"), netip.MustParsePrefix("10.42.0.0/24")
	if err := j.registered(d); err != nil {
		t.Fatal(err)
	}
	if err := j.addressed(d, []netip.Prefix{pods}, []netip.Prefix{all, pods}, netip.MustParseAddr("10.43.0.1")); err != nil {
		t.Fatal(err)
	}
	if j, err = loadJoined(d); err != nil {
		t.Fatal(err)
	}
	n := j.network(c)
	if len(n.Pods) != 1 || n.Pods[0] != pods || len(n.Cluster) != 2 || len(n.Redirects) != 1 ||
		n.Redirects[0].From.String() != "10.43.0.1:443" || n.Redirects[0].To != c.address {
		t.Errorf("remembered %+v", n)
	}
	if err := j.claim(d, other, ""); err == nil || !strings.Contains(err.Error(), `"node-b"`) {
		t.Errorf("another node's data directory: %v", err)
	}
	if ofAgent(d) != nil || ofServer(d) == nil {
		t.Error("a server takes an agent's data directory")
	}
	server := Dirs{Root: t.TempDir()}
	if err := os.Mkdir(server.PKI(), 0o700); err != nil {
		t.Fatal(err)
	}
	if ofAgent(server) == nil || ofServer(server) != nil {
		t.Error("an agent takes a server's data directory")
	}
}

func TestWhoseNameItIs(t *testing.T) {
	node := func(ip string, ready v1.ConditionStatus) *v1.Node {
		n := &v1.Node{}
		n.Status.Addresses = []v1.NodeAddress{{Type: v1.NodeHostName, Address: "x"}, {Type: v1.NodeInternalIP, Address: ip}}
		n.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: ready}}
		return n
	}
	for want, n := range map[string]*v1.Node{
		"192.0.2.9": node("192.0.2.9", v1.ConditionTrue),
		"":          node("192.0.2.9", v1.ConditionUnknown), // it is lost: its name may be had
	} {
		if got := livesAt(n, "192.0.2.8"); got != want {
			t.Errorf("taken by %q, want %q", got, want)
		}
	}
	if got := livesAt(node("192.0.2.8", v1.ConditionTrue), "192.0.2.8"); got != "" {
		t.Errorf("its own name is taken by %q", got)
	}
}

func TestClusterRanges(t *testing.T) {
	for _, tc := range []struct{ pods, cluster, services, want string }{
		{"10.42.0.0/24", "", "10.43.0.0/16", "10.42.0.0/16 of /24"},
		{"10.42.0.0/22", "", "10.43.0.0/16", "10.42.0.0/16 of /22"},
		{"10.0.0.0/12", "", "10.43.0.0/16", "10.0.0.0/12 of /12"},
		{"10.42.0.0/24", "", "10.42.128.0/17", "10.42.0.0/24 of /24"}, // no room for more
		{"10.42.0.0/24", "10.42.0.0/20", "10.43.0.0/16", "10.42.0.0/20 of /24"},
		{"fd00:0:0:1::/64", "", "10.43.0.0/16", "fd00::/48 of /64"},
	} {
		c := Default()
		c.NodeIP, c.PodCIDR, c.ClusterCIDR, c.ServiceCIDR = "192.0.2.7", tc.pods, tc.cluster, tc.services
		r, err := c.clusterRanges()
		if got := r.Cluster.String() + " of /" + strings.TrimPrefix(netip.PrefixFrom(r.Cluster.Addr(), r.Bits).String(), r.Cluster.Addr().String()+"/"); err != nil || got != tc.want {
			t.Errorf("%+v: %s, %v", tc, got, err)
		}
	}
	for cluster, want := range map[string]string{"10.44.0.0/16": "lies outside", "10.42.0.0/25": "lies outside", "10.0.0.0/5": "host bits", "8.0.0.0/5": "too many ranges"} {
		c := Default()
		c.NodeName, c.NodeIP, c.ClusterCIDR = "a", "192.0.2.7", cluster
		if err := c.Complete(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("--cluster-cidr %s: want an error with %q, got %v", cluster, want, err)
		}
	}
}

func TestANodesRangeIsKept(t *testing.T) {
	n := &v1.Node{}
	n.Name = "a"
	pods := netip.MustParsePrefix("10.42.0.0/24")
	for _, is := range []string{"", "10.42.0.0/24"} {
		if n.Spec.PodCIDR = is; samePods(n, pods) != nil || samePods(nil, pods) != nil {
			t.Errorf("%q is refused", is)
		}
	}
	n.Spec.PodCIDR = "10.42.7.0/24"
	if err := samePods(n, pods); err == nil || !strings.Contains(err.Error(), "--pod-cidr 10.42.0.0/24: the node a has 10.42.7.0/24") {
		t.Errorf("another range: %v", err)
	}
}
