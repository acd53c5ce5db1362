package podnet

import (
	"net"
	"net/netip"

	"golang.org/x/sys/unix"
)

// IPNet is p as netlink and CNI's types have it.
func IPNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// NoDAD is the flag with which an address is used at once: leases make sure that nobody else has it, so IPv6 need not ask around.
func NoDAD(a netip.Addr) int {
	if a.Is6() {
		return unix.IFA_F_NODAD
	}
	return 0
}
