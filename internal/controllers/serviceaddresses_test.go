package controllers_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	"podo.dev/podo/internal/client"
	"podo.dev/podo/internal/controllers/serviceaddresses"
	"podo.dev/podo/internal/controllers/servicecidr"
	"podo.dev/podo/internal/view/viewtest"
)

// What another program left in etcd: Services without an IPAddress, with one that is somebody else's, twice the same address and port, and
// IPAddresses of Services that are gone.
func TestImportedServicesAreRepaired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.everyNamespace()
		w.run(servicecidr.New(w.view, w.admin, "10.43.0.0/16", nil))
		old := func(name string, age time.Duration, ip string, port int32) *v1.Service {
			s := &v1.Service{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("u-" + name), CreationTimestamp: metav1.NewTime(time.Now().Add(-age))},
				Spec: v1.ServiceSpec{
					Type: v1.ServiceTypeNodePort, ClusterIP: ip, ClusterIPs: []string{ip}, IPFamilies: []v1.IPFamily{v1.IPv4Protocol},
					Ports: []v1.ServicePort{{Port: 80, Protocol: v1.ProtocolTCP, NodePort: port}},
				},
			}
			s.SetGroupVersionKind(v1.SchemeGroupVersion.WithKind("Service"))
			return s
		}
		address := func(name, of string, age time.Duration) *networkingv1.IPAddress {
			a := serviceaddresses.IPAddress(name, &v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: of}})
			a.CreationTimestamp = metav1.NewTime(time.Now().Add(-age))
			a.SetGroupVersionKind(networkingv1.SchemeGroupVersion.WithKind("IPAddress"))
			return a
		}
		foreign := address("10.43.0.40", "x", time.Hour)
		foreign.Labels = nil
		for _, o := range []runtime.Object{
			old("bare", time.Hour, "10.43.0.10", 30000), old("twin", time.Minute, "10.43.0.10", 30000), old("far", time.Hour, "192.0.2.1", 40000),
			old("stolen", time.Hour, "10.43.0.11", 30001), address("10.43.0.11", "gone", time.Hour), address("10.43.0.12", "gone", time.Hour),
			address("10.43.0.13", "bare", time.Hour), address("10.43.0.14", "soon", 0), foreign,
		} {
			viewtest.Put(t, w.store, o)
		}
		said, ports := record.NewFakeRecorder(100), record.NewFakeRecorder(100)
		w.run(serviceaddresses.New(serviceaddresses.Config{View: w.view, Client: w.admin, Events: said, PortEvents: ports, FirstPort: 30000, LastPort: 32767}))
		synctest.Wait()
		parent := func(ip string) string {
			a, _ := w.get(client.Resource{Group: "networking.k8s.io", Resource: "ipaddresses"}.At("", ip)).(*networkingv1.IPAddress)
			if a == nil {
				return ""
			}
			return a.Spec.ParentRef.Name
		}
		for ip, want := range map[string]string{"10.43.0.10": "bare", "10.43.0.11": "stolen", "10.43.0.12": "", "10.43.0.13": "", "10.43.0.14": "soon", "10.43.0.40": "x"} {
			if got := parent(ip); got != want {
				t.Errorf("%s is %q's, want %q", ip, got, want)
			}
		}
		drain := func(r *record.FakeRecorder) (out []string) {
			for len(r.Events) > 0 {
				out = append(out, <-r.Events)
			}
			slices.Sort(out)
			return slices.Compact(out)
		}
		want := []string{
			"Warning ClusterIPAlreadyAllocated Cluster IP [IPv4]:10.43.0.10 was assigned to multiple services; please recreate service",
			"Warning ClusterIPNotAllocated Cluster IP [IPv4]: 10.43.0.10 is not allocated; repairing",
			"Warning ClusterIPNotAllocated the ClusterIP [IPv4]: 10.43.0.11 for Service default/stolen has a wrong reference; repairing",
			"Warning ClusterIPOutOfRange Cluster IP [IPv4]: 192.0.2.1 is not within any configured Service CIDR; please recreate service",
			"Warning IPAddressNotAllocated IPAddress: 10.43.0.12 for Service default/gone appears to have leaked: cleaning up",
			"Warning IPAddressWrongReference IPAddress: 10.43.0.13 for Service default/bare has a wrong reference; cleaning up",
		}
		got := slices.DeleteFunc(drain(said), func(e string) bool { // whichever of the two is looked at first
			return strings.Contains(e, "10.43.0.11 for Service default/gone")
		})
		if !slices.Equal(got, want) {
			t.Errorf("said\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		if got := drain(ports); !slices.Equal(got, []string{
			"Warning PortAlreadyAllocated Port 30000 was assigned to multiple services; please recreate service",
			"Warning PortOutOfRange Port 40000 is not within the port range 30000-32767; please recreate service",
		}) {
			t.Errorf("of ports it was said\n%s", strings.Join(got, "\n"))
		}
		// One whose Service never comes goes after a minute; one that somebody deletes comes back.
		w.delete(client.Resource{Group: "networking.k8s.io", Resource: "ipaddresses"}.At("", "10.43.0.11"))
		if got := parent("10.43.0.11"); got != "stolen" {
			t.Errorf("deleted, it is %q's", got)
		}
		time.Sleep(2 * time.Minute)
		if got := parent("10.43.0.14"); got != "" {
			t.Errorf("after two minutes it is still %q's", got)
		}
		// What the API writes itself is nothing to say anything of.
		drain(said)
		w.must(w.admin.Create(context.Background(), client.Services.At("default", ""), &v1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "fresh"}, Spec: v1.ServiceSpec{Ports: []v1.ServicePort{{Port: 80}}},
		}))
		w.delete(client.Services.At("default", "fresh"))
		time.Sleep(2 * time.Minute)
		if got := drain(said); len(got) > 0 {
			t.Errorf("of a Service that was made here it was said %v", got)
		}
	})
}
