// Package routes makes this node's routes to the pods of the others: for each node on the same link a route to its pod range by
// way of its address. A node behind a router cannot be reached this way, which an event says once.
//
// plan.go decides and is pure; source.go and neighbours.go know the nodes; keeper.go looks at the host and acts. It records in a
// file which routes it made, so that it removes its own and nobody else's.
package routes

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
)

// Node is what counts of a node here.
type Node struct {
	Name string         `json:"name"`
	IP   netip.Addr     `json:"ip,omitzero"` // InternalIP; invalid when it has told none yet
	Pods []netip.Prefix `json:"pods,omitempty"`
}

// Link is a network device and the networks on it.
type Link struct {
	Index int
	Name  string
	Nets  []netip.Prefix
}

// Route is one route of ours.
type Route struct {
	To   netip.Prefix
	Via  netip.Addr
	Link int
}

func (r Route) String() string { return fmt.Sprintf("%s via %s", r.To, r.Via) }

// Plan is what to do.
type Plan struct {
	Add, Remove []Route
	Far         []Node // not on the same link
}

// Decide compares the routes that self needs with those of ours that exist. A node with self's own address (two nodes in one
// network namespace) needs none: its bridge is on this host.
func Decide(self string, nodes []Node, links []Link, have []Route) (p Plan) {
	var want []Route
	own := map[netip.Addr]bool{}
	for _, l := range links {
		for _, n := range l.Nets {
			own[n.Addr()] = true
		}
	}
	for _, n := range nodes {
		if n.Name == self || !n.IP.IsValid() || own[n.IP] {
			continue
		}
		far := false
		for _, to := range n.Pods {
			if to.Addr().Is4() != n.IP.Is4() {
				continue
			}
			link, ok := linkTo(links, n.IP)
			if !ok {
				far = true
				continue
			}
			want = append(want, Route{To: to.Masked(), Via: n.IP, Link: link})
		}
		if far {
			p.Far = append(p.Far, n)
		}
	}
	for _, r := range have {
		if !slices.Contains(want, r) {
			p.Remove = append(p.Remove, r)
		}
	}
	for _, r := range want {
		if !slices.Contains(have, r) {
			p.Add = append(p.Add, r)
		}
	}
	byTarget := func(a, b Route) int { return cmp.Compare(a.To.String(), b.To.String()) }
	slices.SortStableFunc(p.Add, byTarget)
	slices.SortStableFunc(p.Remove, byTarget)
	return p
}

// linkTo is the link whose network has the address: the narrowest, as the kernel chooses.
func linkTo(links []Link, ip netip.Addr) (index int, ok bool) {
	best := -1
	for _, l := range links {
		for _, n := range l.Nets {
			if n.Contains(ip) && n.Bits() > best {
				best, index, ok = n.Bits(), l.Index, true
			}
		}
	}
	return index, ok
}
