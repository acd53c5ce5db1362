//go:build e2e

package runtime

import (
	"net/netip"
	"testing"
)

// The kernel takes the rules of a cluster of thousands of nodes.
func TestRulesOfALargeCluster(t *testing.T) {
	own := prefixes("10.0.0.0/24", "fd00::/64")
	cluster := own
	for i := 1; i < 5000; i++ {
		cluster = append(cluster,
			netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 0}), 24),
			netip.PrefixFrom(netip.AddrFrom16([16]byte{0: 0xfd, 6: byte(i >> 8), 7: byte(i)}), 64))
	}
	for name, ranges := range map[string][]netip.Prefix{"both families": cluster, "one of them has no range": own[:1], "none": nil} {
		if err := nft(t.Context(), rules("podo_test", own, ranges, nil), true); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
