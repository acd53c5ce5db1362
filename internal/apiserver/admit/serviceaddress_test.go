package admit_test

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"podo.dev/podo/internal/apiserver/admit"
	"podo.dev/podo/internal/apiserver/verbs"
	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/registry"
	"podo.dev/podo/internal/store"
	"podo.dev/podo/internal/view"
	"podo.dev/podo/internal/view/viewtest"
)

var (
	services  = client.Resource{Resource: "services"}
	addresses = schema.GroupResource{Group: "networking.k8s.io", Resource: "ipaddresses"}
	admin     = &user.DefaultInfo{Name: "admin", Groups: []string{user.SystemPrivilegedGroup, user.AllAuthenticated}}
)

type cluster struct {
	t     *testing.T
	verbs *verbs.Verbs
	view  *view.View
	store store.Store
}

func newCluster(t *testing.T, cidr, ports string, objs ...runtime.Object) *cluster {
	t.Helper()
	vw, s := viewtest.New(t, append(objs, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}, Status: v1.NamespaceStatus{Phase: v1.NamespaceActive}})...)
	r, err := admit.ParseNodePorts(ports)
	if err != nil {
		t.Fatal(err)
	}
	rule := &admit.ServiceAddresses{View: vw, Store: s, CIDR: netip.MustParsePrefix(cidr), Ports: r}
	v, err := verbs.New(verbs.Config{Store: s, View: vw, Kinds: registry.All(), Admission: admit.Chain{rule}})
	if err != nil {
		t.Fatal(err)
	}
	return &cluster{t, v, vw, s}
}

func newService(name string, edit func(*v1.ServiceSpec)) *v1.Service {
	s := &v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	s.Spec.Ports = []v1.ServicePort{{Name: "a", Port: 80}}
	s.Spec.Selector = map[string]string{"app": name}
	if edit != nil {
		edit(&s.Spec)
	}
	return s
}

func (c *cluster) create(s *v1.Service) (*v1.Service, error) {
	out, err := c.verbs.Create(c.t.Context(), admin, services.At("default", ""), s, verbs.Options{})
	if err != nil {
		return nil, err
	}
	return out.DeepCopyObject().(*v1.Service), nil
}

func (c *cluster) must(s *v1.Service, err error) *v1.Service {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
	return s
}

func (c *cluster) update(name string, edit func(*v1.Service)) (*v1.Service, error) {
	ref := services.At("default", name)
	e, err := c.verbs.Get(c.t.Context(), admin, ref, "")
	if err != nil {
		return nil, err
	}
	s := e.Object.DeepCopyObject().(*v1.Service)
	edit(s)
	out, _, err := c.verbs.Update(c.t.Context(), admin, ref, s, verbs.Options{})
	if err != nil {
		return nil, err
	}
	return out.DeepCopyObject().(*v1.Service), nil
}

func (c *cluster) remove(name string) {
	c.t.Helper()
	if _, _, err := c.verbs.Delete(c.t.Context(), admin, services.At("default", name), &metav1.DeleteOptions{}, verbs.Options{}); err != nil {
		c.t.Fatal(err)
	}
}

// taken are the addresses and node ports that are taken, each with its owner.
func (c *cluster) taken() (ips, ports []string) {
	c.t.Helper()
	s, err := c.view.Fresh(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	for e := range s.All(addresses, "", view.Key{}) {
		ips = append(ips, e.Key.Name+" "+e.Object.(*networkingv1.IPAddress).Spec.ParentRef.Name)
	}
	list, err := c.store.List(c.t.Context(), "/registry/podo/nodeports/", store.ListOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	for _, kv := range list.KVs {
		ports = append(ports, strings.TrimPrefix(kv.Key, "/registry/podo/nodeports/")+" "+string(kv.Value))
	}
	return ips, ports
}

func (c *cluster) expect(ips, ports int) {
	c.t.Helper()
	if i, p := c.taken(); len(i) != ips || len(p) != ports {
		c.t.Fatalf("taken: %q and %q, want %d and %d", i, p, ips, ports)
	}
}

// A Service's life through its types: what it takes comes and goes with the write that says so.
func TestServiceAddressesFollowTheType(t *testing.T) {
	c := newCluster(t, "10.43.0.0/16", "30000-32767")
	s := c.must(c.create(newService("web", nil)))
	ip := netip.MustParseAddr(s.Spec.ClusterIP)
	if low := netip.MustParseAddr("10.43.1.0"); ip.Less(low) || !slices.Equal(s.Spec.ClusterIPs, []string{s.Spec.ClusterIP}) ||
		s.Spec.IPFamilies[0] != v1.IPv4Protocol || *s.Spec.IPFamilyPolicy != v1.IPFamilyPolicySingleStack {
		t.Fatalf("%+v", s.Spec)
	}
	c.expect(1, 0)
	// The same manifest again keeps what was chosen.
	if again := c.must(c.update("web", func(s *v1.Service) { s.Spec.ClusterIP, s.Spec.ClusterIPs = "", nil })); again.Spec.ClusterIP != s.Spec.ClusterIP {
		t.Fatalf("%+v", again.Spec)
	}
	s = c.must(c.update("web", func(s *v1.Service) { s.Spec.Type = v1.ServiceTypeNodePort }))
	if n := s.Spec.Ports[0].NodePort; n < 30086 || n > 32767 {
		t.Fatalf("node port %d is not of the upper band", n)
	}
	c.expect(1, 1)
	s = c.must(c.update("web", func(s *v1.Service) {
		s.Spec.Type, s.Spec.ExternalTrafficPolicy = v1.ServiceTypeLoadBalancer, v1.ServiceExternalTrafficPolicyLocal
		s.Spec.Ports = append(s.Spec.Ports, v1.ServicePort{Name: "b", Port: 81, NodePort: 30001})
	}))
	if s.Spec.HealthCheckNodePort == 0 || s.Spec.Ports[1].NodePort != 30001 {
		t.Fatalf("%+v", s.Spec)
	}
	c.expect(1, 3)
	s = c.must(c.update("web", func(s *v1.Service) { s.Spec.Type = v1.ServiceTypeClusterIP }))
	if s.Spec.Ports[1].NodePort != 0 || s.Spec.HealthCheckNodePort != 0 || s.Spec.ExternalTrafficPolicy != "" {
		t.Fatalf("%+v", s.Spec)
	}
	c.expect(1, 0)
	s = c.must(c.update("web", func(s *v1.Service) { s.Spec.Type, s.Spec.ExternalName = v1.ServiceTypeExternalName, "example.com" }))
	if s.Spec.ClusterIP != "" || len(s.Spec.IPFamilies) != 0 || s.Spec.InternalTrafficPolicy != nil {
		t.Fatalf("%+v", s.Spec)
	}
	c.expect(0, 0)
	c.must(c.update("web", func(s *v1.Service) { s.Spec.Type, s.Spec.ExternalName = v1.ServiceTypeClusterIP, "" }))
	c.expect(1, 0)
	c.must(c.update("web", func(s *v1.Service) { s.Finalizers = []string{"a.io/b"}; s.Spec.Type = v1.ServiceTypeNodePort }))
	c.remove("web")
	c.expect(1, 2)
	c.must(c.update("web", func(s *v1.Service) { s.Finalizers = nil }))
	c.expect(0, 0)
}

func TestServiceAddressesAreRefused(t *testing.T) {
	c := newCluster(t, "10.43.0.0/28", "30000-30001")
	c.must(c.create(newService("web", func(s *v1.ServiceSpec) {
		s.ClusterIP = "10.43.0.10"
		s.Type = v1.ServiceTypeNodePort
		s.Ports[0].NodePort = 30001
	})))
	for _, r := range []struct {
		edit func(*v1.ServiceSpec)
		want string
	}{
		{func(s *v1.ServiceSpec) { s.ClusterIP = "10.43.0.10" }, `spec.clusterIPs: Invalid value: ["10.43.0.10"]: failed to allocate IP 10.43.0.10: provided IP is already allocated`},
		{func(s *v1.ServiceSpec) { s.ClusterIP = "10.44.0.10" }, `failed to allocate IP 10.44.0.10: the provided network does not match the current range`},
		{func(s *v1.ServiceSpec) { s.ClusterIP = "10.43.0.15" }, `failed to allocate IP 10.43.0.15: the provided network does not match the current range`},
		{func(s *v1.ServiceSpec) { s.ClusterIP = "fd00::1" }, `spec.clusterIPs[0]: Invalid value: ["fd00::1"]: IPv6 is not configured on this cluster`},
		{func(s *v1.ServiceSpec) { s.IPFamilyPolicy = new(v1.IPFamilyPolicyRequireDualStack) }, `spec.ipFamilyPolicy: Invalid value: "RequireDualStack": this cluster is not configured for dual-stack services`},
		{func(s *v1.ServiceSpec) { s.Type = v1.ServiceTypeNodePort; s.Ports[0].NodePort = 30001 }, `spec.ports[0].nodePort: Invalid value: 30001: provided port is already allocated`},
		{func(s *v1.ServiceSpec) { s.Type = v1.ServiceTypeNodePort; s.Ports[0].NodePort = 80 }, `spec.ports[0].nodePort: Invalid value: 80: provided port is not in the valid range. The range of valid ports is 30000-30001`},
		{func(s *v1.ServiceSpec) {
			s.Type = v1.ServiceTypeNodePort
			s.Ports = append(s.Ports, v1.ServicePort{Name: "b", Port: 81})
		}, `failed to allocate a nodePort: range is full`},
	} {
		if _, err := c.create(newService("other", r.edit)); err == nil || !strings.Contains(err.Error(), r.want) {
			t.Errorf("%v\nwant %s", err, r.want)
		}
	}
	c.expect(1, 1)
	// A dry run takes nothing.
	out, err := c.verbs.Create(t.Context(), admin, services.At("default", ""), newService("dry", nil), verbs.Options{DryRun: true})
	if err != nil || out.(*v1.Service).Spec.ClusterIP == "" {
		t.Fatal(out, err)
	}
	c.expect(1, 1)
	// All fourteen addresses can be had, and no more; what is given back can be had again.
	for i := range 13 {
		c.must(c.create(newService(fmt.Sprint("s", i), nil)))
	}
	if _, err := c.create(newService("full", nil)); err == nil || !strings.Contains(err.Error(), `failed to allocate a serviceIP for Service "full": range is full`) {
		t.Error(err)
	}
	c.remove("s3")
	c.must(c.create(newService("again", nil)))
	c.must(c.create(newService("headless", func(s *v1.ServiceSpec) { s.ClusterIP = v1.ClusterIPNone })))
	c.expect(14, 1)
}

// Many creators at once, on a range and ports that are just enough: each gets its own, and nobody is refused.
func TestServiceAddressesAreTakenOnce(t *testing.T) {
	const n = 30
	c := newCluster(t, "10.43.0.0/27", "30000-30029")
	var wg sync.WaitGroup
	errs := make([]error, n)
	for i := range n {
		wg.Go(func() {
			_, errs[i] = c.create(newService(fmt.Sprint("s", i), func(s *v1.ServiceSpec) { s.Type = v1.ServiceTypeNodePort }))
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	c.expect(n, n)
	seen := map[string]bool{}
	s, err := c.view.Fresh(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for e := range s.All(schema.GroupResource(services), "", view.Key{}) {
		spec := e.Object.(*v1.Service).Spec
		for _, what := range []string{spec.ClusterIP, fmt.Sprint(spec.Ports[0].NodePort)} {
			if seen[what] {
				t.Errorf("%s was given twice", what)
			}
			seen[what] = true
		}
	}
}

// A further ServiceCIDR counts once it is ready; Services that another program stored keep what they have.
func TestServiceAddressesOfAnotherCluster(t *testing.T) {
	more := &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "more"}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.99.0.0/24"}}}
	more.Status.Conditions = []metav1.Condition{{Type: networkingv1.ServiceCIDRConditionReady, Status: metav1.ConditionTrue}}
	imported := newService("imported", func(s *v1.ServiceSpec) {
		s.Type, s.ClusterIP, s.ClusterIPs, s.Ports[0].NodePort = v1.ServiceTypeNodePort, "10.43.0.5", []string{"10.43.0.5"}, 30000
	})
	c := newCluster(t, "10.43.0.0/28", "30000-30000", more, imported)
	c.must(c.create(newService("far", func(s *v1.ServiceSpec) { s.ClusterIP = "10.99.0.7" })))
	_, err := c.create(newService("port", func(s *v1.ServiceSpec) { s.Type = v1.ServiceTypeNodePort; s.Ports[0].NodePort = 30000 }))
	if !apierrors.IsInvalid(err) {
		t.Fatal(err)
	}
	c.remove("imported")
	c.must(c.create(newService("port", func(s *v1.ServiceSpec) { s.Type = v1.ServiceTypeNodePort; s.Ports[0].NodePort = 30000 })))
	c.expect(2, 1)
}

// A dry run takes nothing, so that as upstream it minds only what cannot be and ports that others have; where any would do it shows
// a guess.
func TestDryRunsOfServices(t *testing.T) {
	c := newCluster(t, "10.43.0.0/28", "30000-30001")
	c.must(c.create(newService("one", func(s *v1.ServiceSpec) {
		s.Type, s.ClusterIP = v1.ServiceTypeNodePort, "10.43.0.5"
		s.Ports[0].NodePort = 30000
	})))
	c.must(c.create(newService("away", func(s *v1.ServiceSpec) { s.Type, s.ExternalName = v1.ServiceTypeExternalName, "example.com" })))
	ports := func(numbers ...int32) func(*v1.ServiceSpec) {
		return func(s *v1.ServiceSpec) {
			s.Type, s.Ports = v1.ServiceTypeNodePort, nil
			for i, n := range numbers {
				s.Ports = append(s.Ports, v1.ServicePort{Name: fmt.Sprint("p", i), Port: int32(80 + i), NodePort: n})
			}
		}
	}
	for _, r := range []struct {
		edit func(*v1.ServiceSpec)
		want string
	}{
		{nil, "10.43.0.0"},
		{func(s *v1.ServiceSpec) { s.ClusterIP = "10.43.0.5" }, "10.43.0.5"},
		{func(s *v1.ServiceSpec) { s.ClusterIP = "10.44.0.1" }, "failed to allocate IP 10.44.0.1: the provided IP (10.44.0.1) is not in the valid range. The range of valid IPs is 10.43.0.0/28"},
		{func(s *v1.ServiceSpec) { s.ClusterIP = "10.43.0.15" }, "is not in the valid range"},
		{ports(0, 0), "10.43.0.0 32769 32770"},
		{ports(30001, 0), "10.43.0.0 30001 30002"},
		{ports(99), "10.43.0.0 99"},
		{ports(30000), "spec.ports[0].nodePort: Invalid value: 30000: provided port is already allocated"},
		{func(s *v1.ServiceSpec) {
			s.Type, s.ExternalTrafficPolicy = v1.ServiceTypeLoadBalancer, v1.ServiceExternalTrafficPolicyLocal
		}, "10.43.0.0 32769 and 32770"},
		{func(s *v1.ServiceSpec) {
			s.Type, s.ExternalTrafficPolicy, s.HealthCheckNodePort = v1.ServiceTypeLoadBalancer, v1.ServiceExternalTrafficPolicyLocal, 30000
		}, "failed to allocate requested HealthCheck NodePort 30000: provided port is already allocated"},
	} {
		for _, name := range []string{"new", "away"} {
			got := ""
			out, err := runtime.Object(nil), error(nil)
			if dry := (verbs.Options{DryRun: true}); name == "new" {
				out, err = c.verbs.Create(t.Context(), admin, services.At("default", ""), newService(name, r.edit), dry)
			} else {
				was, readErr := c.verbs.Get(t.Context(), admin, services.At("default", name), "")
				if readErr != nil {
					t.Fatal(readErr)
				}
				s := newService(name, r.edit)
				s.ResourceVersion = was.Meta.GetResourceVersion()
				if s.Spec.Type == "" {
					s.Spec.Type = v1.ServiceTypeClusterIP
				}
				out, _, err = c.verbs.Update(t.Context(), admin, services.At("default", name), s, dry)
			}
			if err != nil {
				got = err.Error()
			} else {
				s := out.(*v1.Service)
				got = s.Spec.ClusterIP
				for _, p := range s.Spec.Ports {
					if p.NodePort != 0 {
						got += fmt.Sprint(" ", p.NodePort)
					}
				}
				if n := s.Spec.HealthCheckNodePort; n != 0 {
					got += fmt.Sprint(" and ", n)
				}
			}
			if !strings.Contains(got, r.want) || err == nil && got != r.want {
				t.Errorf("%s: got %s, want %s", name, got, r.want)
			}
		}
	}
	c.expect(1, 1)
}
