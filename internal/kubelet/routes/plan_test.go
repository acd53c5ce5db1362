package routes

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
)

func TestDecide(t *testing.T) {
	prefix := netip.MustParsePrefix
	ip := netip.MustParseAddr
	links := []Link{
		{Index: 2, Name: "eth0", Nets: []netip.Prefix{prefix("192.0.2.1/24"), prefix("fd00::1/64")}},
		{Index: 3, Name: "eth1", Nets: []netip.Prefix{prefix("192.0.2.129/25")}},
	}
	node := func(name, addr string, pods ...string) (n Node) {
		n.Name = name
		if addr != "" {
			n.IP = ip(addr)
		}
		for _, p := range pods {
			n.Pods = append(n.Pods, prefix(p))
		}
		return n
	}
	route := func(to, via string, link int) Route { return Route{prefix(to), ip(via), link} }
	for _, tc := range []struct {
		name  string
		nodes []Node
		have  []Route
		want  string
	}{
		{"alone", []Node{node("self", "192.0.2.1", "10.0.0.0/24")}, nil, "add [] remove [] far []"},
		{"a neighbour", []Node{node("self", "192.0.2.1", "10.0.0.0/24"), node("b", "192.0.2.2", "10.0.1.0/24")}, nil, "add [10.0.1.0/24 via 192.0.2.2] remove [] far []"},
		{"it is there", []Node{node("b", "192.0.2.2", "10.0.1.0/24")}, []Route{route("10.0.1.0/24", "192.0.2.2", 2)}, "add [] remove [] far []"},
		{"the narrowest network counts", []Node{node("b", "192.0.2.130", "10.0.1.0/24")}, []Route{route("10.0.1.0/24", "192.0.2.130", 3)}, "add [] remove [] far []"},
		{
			"a new address",
			[]Node{node("b", "192.0.2.3", "10.0.1.0/24")},
			[]Route{route("10.0.1.0/24", "192.0.2.2", 2)},
			"add [10.0.1.0/24 via 192.0.2.3] remove [10.0.1.0/24 via 192.0.2.2] far []",
		},
		{"the node has gone", nil, []Route{route("10.0.1.0/24", "192.0.2.2", 2)}, "add [] remove [10.0.1.0/24 via 192.0.2.2] far []"},
		{"no address, or no range, yet", []Node{node("b", "", "10.0.1.0/24"), node("c", "192.0.2.4")}, nil, "add [] remove [] far []"},
		{"behind a router", []Node{node("b", "198.51.100.2", "10.0.1.0/24")}, nil, "add [] remove [] far [b]"},
		{"another node here", []Node{node("b", "192.0.2.1", "10.0.1.0/24")}, nil, "add [] remove [] far []"},
		{"each family by its own", []Node{node("b", "fd00::2", "10.0.1.0/24", "fd01:1::/64")}, nil, "add [fd01:1::/64 via fd00::2] remove [] far []"},
	} {
		p := Decide("self", tc.nodes, links, tc.have)
		var far []string
		for _, n := range p.Far {
			far = append(far, n.Name)
		}
		if got := fmt.Sprintf("add %v remove %v far [%s]", p.Add, p.Remove, strings.Join(far, " ")); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
	}
}
