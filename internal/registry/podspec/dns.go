package podspec

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// What the C library's resolver reads of /etc/resolv.conf.
const (
	maxNameservers     = 3
	maxSearchPaths     = 32
	maxSearchListChars = 2048
)

func (v *validator) dnsConfig(p *field.Path) {
	c := v.spec.DNSConfig
	if v.spec.DNSPolicy == v1.DNSNone {
		if c == nil {
			v.Required(p, fmt.Sprintf("must provide `dnsConfig` when `dnsPolicy` is %s", v1.DNSNone))
			return
		}
		if len(c.Nameservers) == 0 {
			v.Required(child(p, "nameservers"), fmt.Sprintf("must provide at least one DNS nameserver when `dnsPolicy` is %s", v1.DNSNone))
			return
		}
	}
	if c == nil {
		return
	}
	if len(c.Nameservers) > maxNameservers {
		v.Invalid(child(p, "nameservers"), c.Nameservers, fmt.Sprintf("must not have more than %v nameservers", maxNameservers))
	}
	for i, ns := range c.Nameservers {
		v.IP(item(child(p, "nameservers"), i), ns, nil)
	}
	if len(c.Searches) > maxSearchPaths {
		v.Invalid(child(p, "searches"), c.Searches, fmt.Sprintf("must not have more than %v search paths", maxSearchPaths))
	}
	if len(strings.Join(c.Searches, " ")) > maxSearchListChars {
		v.Invalid(child(p, "searches"), c.Searches,
			fmt.Sprintf("must not have more than %v characters (including spaces) in the search list", maxSearchListChars))
	}
	for i, s := range c.Searches {
		if s != "." {
			s = strings.TrimSuffix(s, ".")
			v.Each(item(child(p, "searches"), i), s, validation.IsDNS1123SubdomainWithUnderscore(s))
		}
	}
	for i, o := range c.Options {
		if o.Name == "" {
			v.Required(item(child(p, "options"), i), "must not be empty")
		}
	}
}

func (v *validator) hostAliases(p *field.Path) {
	for i, a := range v.spec.HostAliases {
		v.IP(child(item(p, i), "ip"), a.IP, nil)
		for j, name := range a.Hostnames {
			v.Subdomain(item(child(item(p, i), "hostnames"), j), name)
		}
	}
}
