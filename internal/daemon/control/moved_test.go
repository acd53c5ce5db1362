package control

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podo.dev/podo/internal/apiserver/verbs"
	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/controllers/servicecidrs"
	"podo.dev/podo/internal/daemon/config"
	"podo.dev/podo/internal/daemon/moved"
	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/view/viewtest"
)

// moving is a control plane in the range 10.43.0.0/16, whose server is told of that or another one. There are a further range, 10.44.0.0/24, and a
// Service, web.
func moving(t *testing.T, cidr, web string, etcd ...string) *Plane {
	t.Helper()
	ranges := func(name, cidr string) *networkingv1.ServiceCIDR {
		return &networkingv1.ServiceCIDR{
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: "u", Finalizers: []string{servicecidrs.Finalizer}},
			Spec:       networkingv1.ServiceCIDRSpec{CIDRs: []string{cidr}},
		}
	}
	service := func(name, ip string) *v1.Service {
		return &v1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: "u"},
			Spec:       v1.ServiceSpec{ClusterIP: ip, ClusterIPs: []string{ip}, Ports: []v1.ServicePort{{Port: 443, Protocol: v1.ProtocolTCP}}},
		}
	}
	vw, s := viewtest.New(t, ranges("kubernetes", "10.43.0.0/16"), ranges("further", "10.44.0.0/24"), service("kubernetes", "10.43.0.1"), service("web", web))
	vb, err := verbs.New(verbs.Config{Store: s, View: vw, Kinds: registry.All()})
	if err != nil {
		t.Fatal(err)
	}
	return &Plane{view: vw, verbs: vb, cfg: Config{
		Server: &config.Server{ServiceCIDR: cidr, EtcdEndpoints: etcd}, Before: &moved.Before{Down: true}, Logger: slog.New(slog.DiscardHandler),
	}}
}

// left are the names of what is there of ranges and Services.
func (p *Plane) left(t *testing.T) (names []string) {
	t.Helper()
	now, err := p.view.Fresh(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []client.Resource{client.ServiceCIDRs, client.Services} {
		for _, of := range []string{"further", "kubernetes", "web"} {
			ref := r.At("", of)
			if r == client.Services {
				ref = r.At("default", of)
			}
			if now.Get(ref.Resource, ref.Namespace, of) != nil {
				names = append(names, ref.Resource.Resource+"/"+of)
			}
		}
	}
	return names
}

// In another range the server's own range and Service go, held by a finalizer or not, and nobody else's; in the same one, and of several servers,
// everything stays.
func TestWhatTheServerHasInAnotherRangeGoes(t *testing.T) {
	all := []string{"servicecidrs/further", "servicecidrs/kubernetes", "services/kubernetes", "services/web"}
	for name, c := range map[string]struct {
		plane *Plane
		want  []string
	}{
		"another":         {moving(t, "10.44.0.0/16", "10.44.0.7"), []string{"servicecidrs/further", "services/web"}},
		"the same":        {moving(t, "10.43.0.0/16", "10.43.0.7"), all},
		"several servers": {moving(t, "10.44.0.0/16", "10.44.0.7", "https://etcd:2379"), all},
	} {
		for range 2 { // a start may end anywhere
			if err := c.plane.moveServices(t.Context()); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if left := c.plane.left(t); !slices.Equal(left, c.want) {
			t.Errorf("%s: there is %v, want %v", name, left, c.want)
		}
	}
}

// What the store does not allow ends the start before anything is ready.
func TestAMoveThatIsRefused(t *testing.T) {
	for web, want := range map[string]string{"10.43.0.7": "default/web", "10.44.0.7": ""} {
		p := moving(t, "10.45.0.0/16", web)
		ctx, cancel := context.WithCancel(t.Context())
		ready := false
		err := p.checkMoves(ctx, func() { ready = true; cancel() })
		cancel()
		if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) || ready != (want == "") {
			t.Errorf("Service at %s: ready %v, %v, want %q", web, ready, err, want)
		}
	}
}
