// Package nodeipam gives each node that has none a range of addresses for its pods, out of the cluster's.
package nodeipam

import (
	"errors"
	"fmt"
	"math/bits"
	"net/netip"

	v1 "k8s.io/api/core/v1"
)

// ErrFull says that every range of the cluster is some node's.
var ErrFull = errors.New("CIDR allocation failed; there are no remaining CIDRs left to allocate in the accepted range")

// Ranges are what a cluster's addresses are cut into: ranges with Bits bits of prefix.
type Ranges struct {
	Cluster netip.Prefix
	Bits    int
}

// maxRanges bounds how many ranges there can be: upstream refuses more as well.
const maxRangeBits = 16

// Validate says what is wrong.
func (r Ranges) Validate() error {
	switch {
	case r.Bits < r.Cluster.Bits() || r.Bits > r.Cluster.Addr().BitLen():
		return fmt.Errorf("a range of /%d for each node does not fit into the cluster's %s", r.Bits, r.Cluster)
	case r.Bits-r.Cluster.Bits() > maxRangeBits:
		return fmt.Errorf("%s has too many ranges of /%d: at most %d bits may lie between the two", r.Cluster, r.Bits, maxRangeBits)
	}
	return nil
}

func (r Ranges) count() int { return 1 << (r.Bits - r.Cluster.Bits()) }

// at is the i-th range.
func (r Ranges) at(i int) netip.Prefix {
	b := r.Cluster.Masked().Addr().AsSlice()
	// i is put into the bits between the cluster's prefix and the range's.
	shift := len(b)*8 - r.Bits
	for n := range bits.Len(uint(i)) {
		if i>>n&1 == 1 {
			at := shift + n
			b[len(b)-1-at/8] |= 1 << (at % 8)
		}
	}
	addr, _ := netip.AddrFromSlice(b)
	return netip.PrefixFrom(addr, r.Bits)
}

// Free is the first range, from the one numbered begin on and around, that overlaps nothing taken, and the number after it: ranges that
// were given back rest for a round, so that what is still on its way to a node that has gone does not reach another.
func (r Ranges) Free(taken []netip.Prefix, begin int) (free netip.Prefix, next int, err error) {
	n := r.count()
	for i := range n {
		number := (begin + i) % n
		if p := r.at(number); !overlaps(taken, p) {
			return p, (number + 1) % n, nil
		}
	}
	return netip.Prefix{}, begin, ErrFull
}

func overlaps(taken []netip.Prefix, p netip.Prefix) bool {
	for _, t := range taken {
		if t.Overlaps(p) {
			return true
		}
	}
	return false
}

// Of are the ranges that a node has. What is no range is none: it was written by hand, and is the node's own trouble.
func Of(n *v1.Node) (all []netip.Prefix) {
	texts := n.Spec.PodCIDRs
	if len(texts) == 0 && n.Spec.PodCIDR != "" {
		texts = []string{n.Spec.PodCIDR}
	}
	for _, text := range texts {
		if p, err := netip.ParsePrefix(text); err == nil {
			all = append(all, p.Masked())
		}
	}
	return all
}
