package moved

import (
	"net/netip"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"podo.dev/podo/internal/view/viewtest"
)

func service(namespace, name, ip string) *v1.Service {
	return &v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: v1.ServiceSpec{ClusterIP: ip}}
}

func serviceCIDR(name, cidr string) *networkingv1.ServiceCIDR {
	return &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{cidr}}}
}

// Another range of Services is refused while a Service has an address that no range would have any more, and while pods run that look for the API server
// there; of several servers one alone does not change it.
func TestServicesGetAnotherRange(t *testing.T) {
	own := service("default", "kubernetes", "10.43.0.1")
	for name, c := range map[string]struct {
		objects []runtime.Object
		down    bool
		shared  bool
		want    string
	}{
		"the same": {objects: []runtime.Object{service("default", "kubernetes", "10.44.0.1"), service("a", "s", "10.44.0.7")}},
		"others have addresses": {
			objects: []runtime.Object{own, service("a", "s", "10.43.0.7"), service("a", "none", "None")}, down: true,
			want: "--service-cidr 10.44.0.0/16: Services have addresses outside of it (a/s): give --service-cidr 10.43.0.0/16 again. To move",
		},
		"theirs is a range of its own": {objects: []runtime.Object{own, service("a", "s", "10.43.0.7"), serviceCIDR("old", "10.43.0.0/24")}, down: true},
		"its first address is another": {
			objects: []runtime.Object{service("default", "kubernetes", "10.44.128.1")}, want: "pods that run look for the API server in another range",
		},
		"pods run":            {objects: []runtime.Object{own}, want: "give --service-cidr 10.43.0.0/16 again, or end them first with `podo down`"},
		"nobody else has one": {objects: []runtime.Object{own, service("a", "s", "10.44.0.7")}, down: true},
		"other servers":       {objects: []runtime.Object{own}, down: true, shared: true, want: "all servers on one etcd are given the same: give --service-cidr 10.43.0.0/16 again"},
	} {
		v, _ := viewtest.New(t, append(c.objects, serviceCIDR("kubernetes", "10.43.0.0/16"))...)
		err := Before{Down: c.down}.Services(v.Snapshot(), netip.MustParsePrefix("10.44.0.0/16"), c.shared)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// Another name is refused to a node that volumes are bound to.
func TestANodeOfVolumesKeepsItsName(t *testing.T) {
	pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}, Spec: v1.PersistentVolumeSpec{NodeAffinity: &v1.VolumeNodeAffinity{
		Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
			MatchExpressions: []v1.NodeSelectorRequirement{{Key: v1.LabelHostname, Operator: v1.NodeSelectorOpIn, Values: []string{"a"}}},
		}}},
	}}}
	v, _ := viewtest.New(t, pv)
	if err := (Before{Formers: []string{"a"}}).Volumes(v.Snapshot(), "b"); err == nil || !strings.Contains(err.Error(), "the volume pv is of the node a, and of no other: give --node-name a again") {
		t.Errorf("%v", err)
	}
	if err := (Before{Formers: []string{"c"}}).Volumes(v.Snapshot(), "b"); err != nil {
		t.Error(err)
	}
}
