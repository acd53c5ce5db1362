package daemon

import (
	"net/netip"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"podo.dev/podo/internal/daemon/datadir"
	"podo.dev/podo/internal/daemon/joined"
)

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

// The Service "kubernetes" leads to the server wherever both are known and can be.
func TestAnAgentsNetwork(t *testing.T) {
	c, err := joined.Load(datadir.Dir{Root: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	server, pods := netip.MustParseAddrPort("192.0.2.7:6443"), []netip.Prefix{netip.MustParsePrefix("10.42.1.0/24")}
	for service, want := range map[string]int{"10.43.0.1": 1, "fd00::1": 0} {
		if err := c.SetNetwork(pods, pods, netip.MustParseAddr(service)); err != nil {
			t.Fatal(err)
		}
		n := agentNetwork(c, server)
		if len(n.Pods) != 1 || len(n.Cluster) != 1 || len(n.Redirects) != want {
			t.Errorf("%s: %+v", service, n)
		}
		if want == 1 && (n.Redirects[0].From.String() != "10.43.0.1:443" || n.Redirects[0].To != server) {
			t.Errorf("it leads %+v", n.Redirects)
		}
		if n = agentNetwork(c, netip.AddrPort{}); len(n.Redirects) != 0 {
			t.Errorf("without a server it leads %+v", n.Redirects)
		}
	}
}
