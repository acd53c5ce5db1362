package servicecidrs

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestPlan(t *testing.T) {
	now := time.Unix(1000, 0)
	of := func(name string, goes time.Duration, cidrs ...string) *networkingv1.ServiceCIDR {
		c := &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: []string{Finalizer}}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: cidrs}}
		if goes >= 0 {
			c.DeletionTimestamp = &metav1.Time{Time: now.Add(-goes)}
		}
		return c
	}
	const stays = -1
	for _, c := range []struct {
		what   string
		of     *networkingv1.ServiceCIDR
		others []*networkingv1.ServiceCIDR
		taken  []string
		keeps  bool
		ready  metav1.ConditionStatus
		again  time.Duration
	}{
		{"a range that stays", of("a", stays, "10.0.0.0/24"), nil, nil, true, metav1.ConditionTrue, 0},
		{"one that nobody uses goes, when everybody knows", of("a", 3*time.Second, "10.0.0.0/24"), nil, nil, true, "", 7 * time.Second},
		{"and then", of("a", 10*time.Second, "10.0.0.0/24"), nil, []string{"10.0.1.7"}, false, "", 0},
		{"one that is used stays", of("a", time.Hour, "10.0.0.0/24"), nil, []string{"10.0.1.7", "10.0.0.7"}, true, metav1.ConditionFalse, 0},
		{"also of its second family", of("a", time.Hour, "10.0.0.0/24", "fd00::/112"), nil, []string{"fd00::9"}, true, metav1.ConditionFalse, 0},
		{"its first and last are no Service's", of("a", time.Hour, "10.0.0.0/24"), nil, []string{"10.0.0.0", "10.0.0.255"}, false, "", 0},
		{"but of IPv6 the last", of("a", time.Hour, "fd00::/112"), nil, []string{"fd00::ffff"}, true, metav1.ConditionFalse, 0},
		{"another covers it", of("a", time.Hour, "10.0.0.0/24"), []*networkingv1.ServiceCIDR{of("b", stays, "10.0.0.0/16")}, []string{"10.0.0.7"}, false, "", 0},
		{
			"another has the address, though not all of the range", of("a", time.Hour, "10.0.0.0/24"),
			[]*networkingv1.ServiceCIDR{of("b", stays, "10.0.0.0/28")},
			[]string{"10.0.0.7"},
			false, "", 0,
		},
		{
			"another's last address is not its to give", of("a", time.Hour, "10.0.0.0/24"),
			[]*networkingv1.ServiceCIDR{of("b", stays, "10.0.0.0/28")},
			[]string{"10.0.0.15"},
			true, metav1.ConditionFalse, 0,
		},
		{"the first of two that go keeps for both", of("a", time.Hour, "10.0.0.0/24"), []*networkingv1.ServiceCIDR{of("b", time.Hour, "10.0.0.0/24")}, []string{"10.0.0.7"}, true, metav1.ConditionFalse, 0},
		{"so that the second goes", of("b", time.Hour, "10.0.0.0/24"), []*networkingv1.ServiceCIDR{of("a", time.Hour, "10.0.0.0/24")}, []string{"10.0.0.7"}, false, "", 0},
	} {
		t.Run(c.what, func(t *testing.T) {
			var taken []netip.Addr
			for _, a := range c.taken {
				taken = append(taken, netip.MustParseAddr(a))
			}
			got := plan(c.of, append(c.others, c.of), slices.Values(taken), now)
			var ready metav1.ConditionStatus
			if got.ready != nil {
				ready = got.ready.Status
			}
			if got.finalizer != c.keeps || ready != c.ready || got.again != c.again {
				t.Errorf("finalizer %v, ready %q, again %v; want %v, %q, %v", got.finalizer, ready, got.again, c.keeps, c.ready, c.again)
			}
			// What is done leaves nothing to do.
			got.put(c.of)
			got.say(c.of)
			if next := plan(c.of, append(c.others, c.of), slices.Values(taken), now); next.put(c.of.DeepCopy()) || next.say(c.of.DeepCopy()) {
				t.Error("there is something to do when all is done")
			}
		})
	}
}
