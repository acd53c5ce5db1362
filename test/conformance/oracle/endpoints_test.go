//lint:file-ignore SA1019 Endpoints are deprecated, and old clients read them.

package oracle

import (
	"reflect"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	upstream "k8s.io/kubernetes/pkg/api/v1/endpoints"

	"podo.dev/podo/internal/controllers/endpoints"
)

// TestRepack: Endpoints have the same subsets in the same order on both sides.
func TestRepack(t *testing.T) {
	m := mutatorFor(t)
	for range rounds(1) {
		var in []v1.EndpointSubset
		for range 1 + m.IntN(4) {
			var s v1.EndpointSubset
			for range 1 + m.IntN(3) {
				a := v1.EndpointAddress{IP: string([]byte{'1', '.', '1', '.', '1', '.', byte('1' + m.IntN(4))})}
				if m.IntN(2) == 0 {
					a.TargetRef = &v1.ObjectReference{Kind: "Pod", UID: types.UID(a.IP)}
				}
				if m.IntN(3) == 0 {
					s.NotReadyAddresses = append(s.NotReadyAddresses, a)
				} else {
					s.Addresses = append(s.Addresses, a)
				}
			}
			for range m.IntN(4) {
				s.Ports = append(s.Ports, v1.EndpointPort{Name: string(rune('a' + m.IntN(3))), Port: int32(1 + m.IntN(3)), Protocol: v1.ProtocolTCP})
			}
			in = append(in, s)
		}
		want := upstream.RepackSubsets(in)
		if got := endpoints.Repack(in); (len(got) > 0 || len(want) > 0) && !reflect.DeepEqual(got, want) {
			t.Fatalf("%v\nupstream packs as %v\npodo as %v", in, want, got)
		}
	}
}
