package spec

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"podo.dev/podo/internal/host"
)

// DNS is the node's configuration of name resolution.
type DNS struct {
	Cluster []string // addresses of the cluster's DNS servers
	Domain  string   // clusterDomain
	// ResolvConf is the file that pods with the policy Default get; "" is the host's own (ResolvConf).
	ResolvConf string
	// Off says that pods have nothing of the host's (an empty resolvConf).
	Off bool
}

// Where the host's resolver is configured. The stub of systemd-resolved listens on an address that is only the host's; the
// servers behind it are in a file of their own.
const (
	hostResolvConf = "/etc/resolv.conf"
	realResolvConf = "/run/systemd/resolve/resolv.conf"
)

// The limits of what a resolver is told, as the API's validation has them.
const (
	maxServers     = 3
	maxSearches    = 32
	maxSearchChars = 2048
	maxSearchName  = 253
)

// ResolvConf finds the file with the name servers that pods can reach: the host's own, unless that names only local ones and
// systemd-resolved says what is behind them.
func ResolvConf(h host.Files) string {
	b, err := h.ReadFile(hostResolvConf)
	if err != nil {
		return hostResolvConf
	}
	conf := parseResolvConf(string(b))
	local := func(s string) bool {
		a, err := netip.ParseAddr(s)
		return err == nil && a.IsLoopback()
	}
	if len(conf.Servers) == 0 || slices.ContainsFunc(conf.Servers, func(s string) bool { return !local(s) }) {
		return hostResolvConf
	}
	if _, err := h.ReadFile(realResolvConf); err == nil {
		return realResolvConf
	}
	return hostResolvConf
}

func parseResolvConf(text string) *runtimev1.DNSConfig {
	out := &runtimev1.DNSConfig{}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) == 0 || strings.HasPrefix(f[0], "#") || strings.HasPrefix(f[0], ";") {
			continue
		}
		switch {
		case f[0] == "nameserver" && len(f) > 1:
			out.Servers = append(out.Servers, f[1])
		case f[0] == "search": // the last one counts
			out.Searches = nil
			for _, s := range f[1:] {
				if s != "." { // "." only says that a name is tried as it is, which needs no entry, and breaks lookups in musl
					out.Searches = append(out.Searches, strings.TrimSuffix(s, "."))
				}
			}
		case f[0] == "options":
			for _, o := range f[1:] { // they add up
				out.Options = withOption(out.Options, o)
			}
		}
	}
	return out
}

// dns is what the pod's containers find in /etc/resolv.conf. tell says whether to report what had to be changed.
func (b *Builder) dns(pod *v1.Pod, tell bool) (*runtimev1.DNSConfig, error) {
	policy := pod.Spec.DNSPolicy
	if policy == v1.DNSClusterFirst && pod.Spec.HostNetwork {
		policy = v1.DNSDefault
	}
	out := &runtimev1.DNSConfig{}
	if policy != v1.DNSNone && !b.c.DNS.Off {
		var err error
		if out, err = b.hostDNS(); err != nil {
			return nil, err
		}
	}
	if b.c.DNS.Off && (policy == v1.DNSDefault || policy != v1.DNSNone && len(b.c.DNS.Cluster) == 0) {
		out = noDNS(b.c.Facts().HostIPs)
	}
	if policy != v1.DNSNone && policy != v1.DNSDefault {
		if len(b.c.DNS.Cluster) > 0 {
			out.Servers = slices.Clone(b.c.DNS.Cluster)
			out.Searches = clusterSearches(pod.Namespace, b.c.DNS.Domain, out.Searches)
			out.Options = []string{"ndots:5"}
		} else if tell {
			text := fmt.Sprintf("kubelet does not have ClusterDNS IP configured and cannot create Pod using %q policy. Falling back to %q policy.",
				v1.DNSClusterFirst, v1.DNSDefault)
			b.noClusterDNS.Do(func() { b.c.NodeEvent(v1.EventTypeWarning, "MissingClusterDNS", text) })
			b.c.Event(pod, "", v1.EventTypeWarning, "MissingClusterDNS", fmt.Sprintf("pod: %q. %s", full(pod), text))
		}
	}
	if c := pod.Spec.DNSConfig; c != nil {
		out.Servers = unique(append(out.Servers, c.Nameservers...))
		out.Searches = unique(append(out.Searches, c.Searches...))
		out.Options = mergeOptions(out.Options, c.Options)
	}
	return b.fit(pod, out, tell), nil
}

// noDNS is a configuration in which no name is resolved: its name servers are the pod's own loopback addresses, since without any
// name server resolvers would use those anyway. The search list keeps the runtime from adding the host's.
func noDNS(node []string) *runtimev1.DNSConfig {
	var servers []string
	for _, ip := range node {
		if a, err := netip.ParseAddr(ip); err == nil && a.Is6() {
			servers = append(servers, "::1")
		} else {
			servers = append(servers, "127.0.0.1")
		}
	}
	if len(servers) == 0 {
		servers = []string{"127.0.0.1"}
	}
	return &runtimev1.DNSConfig{Servers: servers, Searches: []string{"."}}
}

func (b *Builder) resolvConf() string {
	if b.c.DNS.ResolvConf != "" {
		return b.c.DNS.ResolvConf
	}
	return ResolvConf(b.c.Files)
}

func (b *Builder) hostDNS() (*runtimev1.DNSConfig, error) {
	path := b.resolvConf()
	text, err := b.c.Files.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) && path == hostResolvConf {
		return &runtimev1.DNSConfig{}, nil // a host without any
	}
	if err != nil {
		return nil, fmt.Errorf("read the resolver configuration (resolvConf): %w", err)
	}
	return parseResolvConf(string(text)), nil
}

// CheckResolvConf reports what of the node's resolver configuration cannot be given to pods in full.
func (b *Builder) CheckResolvConf() {
	if b.c.DNS.Off {
		return
	}
	path := b.resolvConf()
	tell := func(text string) { b.c.NodeEvent(v1.EventTypeWarning, "CheckLimitsForResolvConf", text) }
	conf, err := b.hostDNS()
	if err != nil {
		tell(errors.Unwrap(err).Error())
		return
	}
	most := maxSearches
	if b.c.DNS.Domain != "" {
		most -= len(clusterSearches("", b.c.DNS.Domain, nil))
	}
	switch long := func(s string) bool { return len(s) > maxSearchName }; {
	case len(conf.Searches) > most:
		tell(fmt.Sprintf("Resolv.conf file '%s' contains search line consisting of more than %d domains!", path, most))
	case slices.ContainsFunc(conf.Searches, long):
		tell(fmt.Sprintf("Resolv.conf file %q contains a search path which length is more than allowed %d chars!", path, maxSearchName))
	case len(strings.Join(conf.Searches, " ")) > maxSearchChars:
		tell(fmt.Sprintf("Resolv.conf file '%s' contains search line which length is more than allowed %d chars!", path, maxSearchChars))
	}
}

func clusterSearches(namespace, domain string, rest []string) []string {
	if domain == "" {
		return rest
	}
	return unique(append([]string{namespace + ".svc." + domain, "svc." + domain, domain}, rest...))
}

func unique(list []string) []string {
	var out []string
	for _, s := range list {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// mergeOptions overrides options by name and keeps the order.
func mergeOptions(have []string, more []v1.PodDNSConfigOption) []string {
	out := slices.Clone(have)
	for _, o := range more {
		text := o.Name
		if o.Value != nil && *o.Value != "" {
			text += ":" + *o.Value
		}
		out = withOption(out, text)
	}
	return out
}

// withOption is a list with one more option; one of that name gives way to it.
func withOption(list []string, option string) []string {
	name := func(s string) string { name, _, _ := strings.Cut(s, ":"); return name }
	if i := slices.IndexFunc(list, func(s string) bool { return name(s) == name(option) }); i >= 0 {
		list[i] = option
		return list
	}
	return append(list, option)
}

// fit leaves out what resolvers do not take.
func (b *Builder) fit(pod *v1.Pod, c *runtimev1.DNSConfig, tell bool) *runtimev1.DNSConfig {
	if len(c.Servers) > maxServers {
		c.Servers = c.Servers[:maxServers]
		if tell {
			b.c.Event(pod, "", v1.EventTypeWarning, "DNSConfigForming",
				"Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: "+strings.Join(c.Servers, " "))
		}
	}
	var fits []string
	chars := -1 // of the joined list: one blank less than names
	for _, s := range c.Searches[:min(len(c.Searches), maxSearches)] {
		if len(s) > maxSearchName {
			continue
		}
		if chars+1+len(s) > maxSearchChars {
			break
		}
		fits, chars = append(fits, s), chars+1+len(s)
	}
	if len(fits) < len(c.Searches) && tell {
		b.c.Event(pod, "", v1.EventTypeWarning, "DNSConfigForming",
			"Search Line limits were exceeded, some search paths have been omitted, the applied search line is: "+strings.Join(fits, " "))
	}
	c.Searches = fits
	return c
}
