package nodeipam

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"pgregory.net/rapid"

	"podo.dev/podo/internal/apiserver/verbs"
	"podo.dev/podo/internal/client/local"
	"podo.dev/podo/internal/controllers/loop"
	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/view"
	"podo.dev/podo/internal/view/viewtest"
)

func TestRanges(t *testing.T) {
	for _, tc := range []struct {
		r    Ranges
		i    int
		want string
	}{
		{Ranges{netip.MustParsePrefix("10.42.0.0/16"), 24}, 0, "10.42.0.0/24"},
		{Ranges{netip.MustParsePrefix("10.42.0.0/16"), 24}, 255, "10.42.255.0/24"},
		{Ranges{netip.MustParsePrefix("10.42.0.0/16"), 22}, 5, "10.42.20.0/22"},
		{Ranges{netip.MustParsePrefix("10.42.0.0/24"), 26}, 3, "10.42.0.192/26"},
		{Ranges{netip.MustParsePrefix("fd00:1::/48"), 64}, 258, "fd00:1:0:102::/64"},
	} {
		if got := tc.r.at(tc.i).String(); got != tc.want {
			t.Errorf("%v number %d: %s, want %s", tc.r, tc.i, got, tc.want)
		}
	}
	for _, bad := range []Ranges{{netip.MustParsePrefix("10.42.0.0/24"), 16}, {netip.MustParsePrefix("10.0.0.0/8"), 30}, {netip.MustParsePrefix("10.0.0.0/8"), 40}} {
		if bad.Validate() == nil {
			t.Errorf("%v is accepted", bad)
		}
	}
}

// Whatever is taken: what is free lies in the cluster, overlaps nothing taken, and is found when there is one.
func TestFreeIsFree(t *testing.T) {
	r := Ranges{netip.MustParsePrefix("10.42.0.0/20"), 24}
	rapid.Check(t, func(t *rapid.T) {
		var taken []netip.Prefix
		numbers := map[int]bool{}
		for _, i := range rapid.SliceOf(rapid.IntRange(0, 15)).Draw(t, "taken") {
			taken, numbers[i] = append(taken, r.at(i)), true
		}
		p, next, err := r.Free(taken, rapid.IntRange(0, 15).Draw(t, "begin"))
		if full := len(numbers) == 16; full != errors.Is(err, ErrFull) {
			t.Fatalf("%d of 16 are taken: %v", len(numbers), err)
		} else if full {
			return
		}
		if overlaps(taken, p) || !r.Cluster.Overlaps(p) || r.at((next+15)%16) != p {
			t.Fatalf("%s, then number %d", p, next)
		}
	})
}

// figure is what a controller tells, the number of observations where it is a histogram.
func figure(t *testing.T, b *loop.Board, name string) float64 {
	t.Helper()
	r := prometheus.NewRegistry()
	r.MustRegister(b)
	all, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if f.GetName() == name || f.GetName() == "node_ipam_controller_"+name {
			m := f.GetMetric()[0]
			return m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return 0
}

func node(name, cidr string) *v1.Node {
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
	if cidr != "" {
		n.Spec.PodCIDR, n.Spec.PodCIDRs = cidr, []string{cidr}
	}
	return n
}

// Nodes get ranges that nobody has; one too many is told so, and gets the range of one that goes.
func TestEachNodeHasItsOwn(t *testing.T) {
	vw, s := viewtest.New(t, node("server", "10.42.0.0/24"))
	vb, err := verbs.New(verbs.Config{Store: s, View: vw, Kinds: registry.All()})
	if err != nil {
		t.Fatal(err)
	}
	told := record.NewFakeRecorder(8)
	k, err := New(Config{
		View: vw, Client: local.Admin(vb), Ranges: Ranges{netip.MustParsePrefix("10.42.0.0/22"), 24}, Events: told,
		Reserved: []netip.Prefix{netip.MustParsePrefix("10.42.3.0/24")},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	done := make(chan error, 1)
	board := loop.NewBoard()
	go func() { done <- board.Run(ctx, k, func() {}) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	cidr := func(name string) string {
		for {
			now := vw.Snapshot()
			if got := now.Get(nodes, "", name).Object.(*v1.Node).Spec.PodCIDR; got != "" {
				return got
			}
			w, err := vw.Watch(nodes, now.Rev())
			if err != nil {
				t.Fatal(err)
			}
			if _, _, err := w.Next(ctx); err != nil {
				t.Fatalf("%s has no range: %v", name, err)
			}
		}
	}
	put := func(n *v1.Node) {
		viewtest.Put(t, s, n)
		if _, err := vw.Fresh(ctx); err != nil {
			t.Fatal(err)
		}
	}
	put(node("a", ""))
	put(node("b", ""))
	if a, b := cidr("a"), cidr("b"); a == b || a == "10.42.0.0/24" || b == "10.42.0.0/24" || a == "10.42.3.0/24" || b == "10.42.3.0/24" {
		t.Errorf("a has %s, b %s", a, b)
	}
	put(node("c", ""))
	if got, want := <-told.Events, "Normal CIDRNotAvailable Node c status is now: CIDRNotAvailable"; got != want {
		t.Errorf("told %q", got)
	}
	if given, used := figure(t, board, "cidrset_cidrs_allocations_total"), figure(t, board, "cidrset_usage_cidrs"); given != 2 || used != 1 || figure(t, board, "cirdset_max_cidrs") != 4 || figure(t, board, "running_managed_controllers") != 1 {
		t.Errorf("%v ranges were given, %v of all are taken, by the metrics", given, used)
	}
	free := cidr("a")
	viewtest.Delete(t, s, node("a", ""))
	if got := cidr("c"); got != free {
		t.Errorf("c got %s, a had %s", got, free)
	}
}

// Once all ranges are some node's, one more costs no look at all of them. It has its range when a node has gone nevertheless.
func TestOneTooManyCostsNoLook(t *testing.T) {
	ranges := Ranges{netip.MustParsePrefix("10.32.0.0/16"), 24}
	vw, s := viewtest.New(t)
	for i := range ranges.count() {
		viewtest.Put(t, s, node(fmt.Sprint("node-", i), ranges.at(i).String()))
	}
	for _, name := range []string{"first", "second", "third"} {
		viewtest.Put(t, s, node(name, ""))
	}
	vb, err := verbs.New(verbs.Config{Store: s, View: vw, Kinds: registry.All()})
	if err != nil {
		t.Fatal(err)
	}
	k := &controller{Config: Config{View: vw, Client: local.Admin(vb), Ranges: ranges}, waiting: map[string]bool{}}
	k.meter = newMeter(k.Ranges, k.used)
	give := func(name string) {
		now, err := vw.Fresh(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := k.reconcile(t.Context(), now, view.Key{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	now, err := vw.Fresh(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	give("first")
	give("second")
	if allocated := testing.AllocsPerRun(10, func() {
		if _, err := k.give(t.Context(), now, "third"); err != nil {
			t.Error(err)
		}
	}); allocated > 10 {
		t.Errorf("%.0f allocations for a node of whom it is known that there is no range", allocated)
	}
	viewtest.Delete(t, s, node("node-7", ""))
	give("")
	got := 0
	for _, name := range []string{"first", "second", "third"} {
		if now, err = vw.Fresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if cidr := now.Get(nodes, "", name).Object.(*v1.Node).Spec.PodCIDR; cidr == ranges.at(7).String() {
			got++
		}
	}
	if got != 1 || len(k.waiting) != 2 {
		t.Errorf("%d nodes have the range that is free, and %d wait", got, len(k.waiting))
	}
}
