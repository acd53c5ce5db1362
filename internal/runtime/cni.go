package runtime

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"

	"podo.dev/podo/internal/podnet"
)

// conflist is the network list that containerd reads: only podo's own plug-in, without masquerading, for which podo has one rule
// for all pods (see rules). With a newer version of CNI the runtime would run the plug-in at each request for its status.
func conflist(bridge podnet.Bridge, leases string, pods []netip.Prefix) ([]byte, error) {
	if len(pods) == 0 {
		return nil, fmt.Errorf("no pod addresses: give --pod-cidr")
	}
	conf := podnet.Config{Bridge: bridge, Leases: leases}
	conf.Type, conf.Capabilities = podnet.Type, map[string]bool{"portMappings": true}
	for _, p := range pods {
		conf.Pods = append(conf.Pods, p.Masked())
	}
	return json.MarshalIndent(map[string]any{"cniVersion": "1.0.0", "name": bridge.Name, "plugins": []any{conf}}, "", "  ")
}

// Redirect sends TCP connections to one address to another.
type Redirect struct{ From, To netip.AddrPort }

// rules is an nft script that makes table the only holder of our rules, whatever was in it. Traffic of pods to addresses outside
// of the cluster gets the node's address, and what pods and the node send to a redirect's address is redirected. cluster is every
// node's pods, between which addresses are kept.
func rules(table string, pods, cluster []netip.Prefix, redirects []Redirect) string {
	var b strings.Builder
	// add, then delete, then define: deleting a table that is not there is an error, and all of it is one transaction.
	fmt.Fprintf(&b, "add table inet %s\ndelete table inet %s\ntable inet %s {\n", table, table, table)
	b.WriteString("  comment \"podo: pods leave the cluster under the node's address\"\n")
	for _, family := range []string{"ip", "ip6"} {
		clusterSet(&b, family, cluster)
	}
	b.WriteString("  chain postrouting {\n    type nat hook postrouting priority srcnat; policy accept;\n")
	for _, p := range pods {
		family, multicast := familyOf(p.Addr()), "224.0.0.0/4"
		if family == "ip6" {
			multicast = "ff00::/8"
		}
		fmt.Fprintf(&b, "    %s saddr %s %s daddr != %s %s daddr != @cluster_%s masquerade\n", family, p.Masked(), family, multicast, family, family)
	}
	b.WriteString("  }\n")
	// Pods of other servers on this machine may use the same address for another target. The node's own processes belong to no
	// server: with several servers they reach any of them.
	var own []string
	for _, p := range pods {
		own = append(own, fmt.Sprintf("%s saddr %s ", familyOf(p.Addr()), p.Masked()))
	}
	redirect(&b, "prerouting", own, redirects)
	redirect(&b, "output", []string{""}, redirects)
	b.WriteString("}\n")
	return b.String()
}

// clusterSet is the set of the cluster's addresses of one family, one look-up for any number of nodes; a rule could only compare
// some sixty. Each line has one range, since nft repeats the line that it refuses.
func clusterSet(b *strings.Builder, family string, cluster []netip.Prefix) {
	fmt.Fprintf(b, "  set cluster_%s {\n    type %s; flags interval; auto-merge;\n", family, map[string]string{"ip": "ipv4_addr", "ip6": "ipv6_addr"}[family])
	before := "    elements = {\n      "
	for _, c := range cluster {
		if familyOf(c.Addr()) == family {
			b.WriteString(before + c.Masked().String())
			before = ",\n      "
		}
	}
	if before[0] == ',' {
		b.WriteString("\n    }\n")
	}
	b.WriteString("  }\n")
}

// redirect is the chain of a hook for traffic that fits any of the matches.
func redirect(b *strings.Builder, hook string, matches []string, redirects []Redirect) {
	if len(redirects) == 0 {
		return
	}
	fmt.Fprintf(b, "  chain %s {\n    type nat hook %s priority -100; policy accept;\n", hook, hook)
	for _, r := range redirects {
		family := familyOf(r.From.Addr())
		for _, match := range matches {
			if match == "" || strings.HasPrefix(match, family+" ") {
				fmt.Fprintf(b, "    %s%s daddr %s tcp dport %d dnat %s to %s\n", match, family, r.From.Addr(), r.From.Port(), family, r.To)
			}
		}
	}
	b.WriteString("  }\n")
}

func familyOf(a netip.Addr) string {
	if a.Is6() {
		return "ip6"
	}
	return "ip"
}
