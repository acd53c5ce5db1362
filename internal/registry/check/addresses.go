package check

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"
)

// EndpointIP checks for an address that traffic can be sent to: not one of this machine's or this link's own.
func (e *Errors) EndpointIP(p *field.Path, v string) {
	ip := netutils.ParseIPSloppy(v)
	if ip == nil {
		e.Invalid(p, v, "must be a valid IP address")
		return
	}
	if ip.IsUnspecified() {
		e.Invalid(p, v, fmt.Sprintf("may not be unspecified (%v)", v))
	}
	if ip.IsLoopback() {
		e.Invalid(p, v, "may not be in the loopback range (127.0.0.0/8, ::1/128)")
	}
	if ip.IsLinkLocalUnicast() {
		e.Invalid(p, v, "may not be in the link-local range (169.254.0.0/16, fe80::/10)")
	}
	if ip.IsLinkLocalMulticast() {
		e.Invalid(p, v, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)")
	}
}

// LegacyEndpointIP is IP, and EndpointIP for what is written well.
func (e *Errors) LegacyEndpointIP(p *field.Path, v string, stored []string) {
	before := len(e.list)
	if e.IP(p, v, stored); len(e.list) == before {
		e.EndpointIP(p, v)
	}
}
