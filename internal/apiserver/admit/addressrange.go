package admit

import (
	"encoding/binary"
	"iter"
	"net/netip"
)

// addressRange is the usable part of a network of Services: all of it except its first address and, for IPv4, its last. Automatic
// addresses come from above band; those below are left for people who choose one.
type addressRange struct {
	prefix            netip.Prefix
	first, band, last netip.Addr
}

// The lower band is a sixteenth of the network, within bounds.
const (
	bandStep        = 16
	minBand         = 16
	maxBand         = 256
	maxServiceBits6 = 64 // host bits of an IPv6 range that are used
)

func newAddressRange(p netip.Prefix) addressRange {
	p = p.Masked()
	bits := p.Addr().BitLen() - p.Bits()
	size := uint64(1) << min(bits, maxServiceBits6-1)
	r := addressRange{prefix: p, first: p.Addr().Next(), last: offset(p.Addr(), size-1)}
	if p.Addr().Is4() {
		r.last = r.last.Prev()
	}
	band := uint64(0)
	if size > minBand {
		band = min(max(size/bandStep, minBand), maxBand)
	}
	r.band = offset(r.first, band)
	return r
}

// contains says whether the address is one that Services can have.
func (r addressRange) contains(a netip.Addr) bool {
	return r.prefix.Contains(a) && !a.Less(r.first) && !r.last.Less(a)
}

// addresses are all of the range, those of the upper band first, each band starting at a random place. random returns a number
// below n.
func (r addressRange) addresses(random func(n uint64) uint64) iter.Seq[netip.Addr] {
	return func(yield func(netip.Addr) bool) {
		if !around(r.band, r.last, random, yield) {
			return
		}
		if r.first.Less(r.band) {
			around(r.first, r.band.Prev(), random, yield)
		}
	}
}

// around goes once through [first, last] from a random start. It returns false when yield did.
func around(first, last netip.Addr, random func(n uint64) uint64, yield func(netip.Addr) bool) bool {
	if last.Less(first) {
		return true
	}
	start := offset(first, random(distance(first, last)+1))
	for a := start; ; {
		if !yield(a) {
			return false
		}
		if a == last {
			a = first
		} else {
			a = a.Next()
		}
		if a == start {
			return true
		}
	}
}

// offset is the address n after a. Ranges are aligned, so only the lower 64 bits change.
func offset(a netip.Addr, n uint64) netip.Addr {
	if a.Is4() {
		b := a.As4()
		binary.BigEndian.PutUint32(b[:], binary.BigEndian.Uint32(b[:])+uint32(n))
		return netip.AddrFrom4(b)
	}
	b := a.As16()
	binary.BigEndian.PutUint64(b[8:], binary.BigEndian.Uint64(b[8:])+n)
	return netip.AddrFrom16(b)
}

func distance(a, b netip.Addr) uint64 {
	if a.Is4() {
		x, y := a.As4(), b.As4()
		return uint64(binary.BigEndian.Uint32(y[:]) - binary.BigEndian.Uint32(x[:]))
	}
	x, y := a.As16(), b.As16()
	return binary.BigEndian.Uint64(y[8:]) - binary.BigEndian.Uint64(x[8:])
}
