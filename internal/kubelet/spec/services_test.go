package spec

import (
	"maps"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podo.dev/podo/internal/kubelet/expand"
)

func service(namespace, name, ip string, ports ...v1.ServicePort) *v1.Service {
	return &v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: v1.ServiceSpec{ClusterIP: ip, Ports: ports}}
}

func TestServiceVariables(t *testing.T) {
	all := []*v1.Service{
		service("default", "kubernetes", "10.43.0.1", v1.ServicePort{Name: "https", Port: 443, Protocol: v1.ProtocolTCP}),
		service("work", "my-db", "10.43.0.2", v1.ServicePort{Port: 5432}, v1.ServicePort{Name: "stats-x", Port: 53, Protocol: v1.ProtocolUDP}),
		service("work", "headless", v1.ClusterIPNone, v1.ServicePort{Port: 1}),
		service("work", "external", "", v1.ServicePort{Port: 1}),
		service("other", "theirs", "10.43.0.3", v1.ServicePort{Port: 1}),
	}
	api := map[string]string{
		"KUBERNETES_SERVICE_HOST": "10.43.0.1", "KUBERNETES_SERVICE_PORT": "443", "KUBERNETES_SERVICE_PORT_HTTPS": "443",
		"KUBERNETES_PORT": "tcp://10.43.0.1:443", "KUBERNETES_PORT_443_TCP": "tcp://10.43.0.1:443", "KUBERNETES_PORT_443_TCP_PROTO": "tcp",
		"KUBERNETES_PORT_443_TCP_PORT": "443", "KUBERNETES_PORT_443_TCP_ADDR": "10.43.0.1",
	}
	if got := serviceVariables(all, "work", false); !maps.Equal(got, api) {
		t.Errorf("without links: %v", got)
	}
	db := maps.Clone(api)
	maps.Copy(db, map[string]string{
		"MY_DB_SERVICE_HOST": "10.43.0.2", "MY_DB_SERVICE_PORT": "5432", "MY_DB_SERVICE_PORT_STATS_X": "53", "MY_DB_PORT": "tcp://10.43.0.2:5432",
		"MY_DB_PORT_5432_TCP": "tcp://10.43.0.2:5432", "MY_DB_PORT_5432_TCP_PROTO": "tcp", "MY_DB_PORT_5432_TCP_PORT": "5432", "MY_DB_PORT_5432_TCP_ADDR": "10.43.0.2",
		"MY_DB_PORT_53_UDP": "udp://10.43.0.2:53", "MY_DB_PORT_53_UDP_PROTO": "udp", "MY_DB_PORT_53_UDP_PORT": "53", "MY_DB_PORT_53_UDP_ADDR": "10.43.0.2",
	})
	if got := serviceVariables(all, "work", true); !maps.Equal(got, db) {
		t.Errorf("with links: %v", got)
	}
	own := append(all, service("work", "kubernetes", "10.43.0.9", v1.ServicePort{Port: 80}))
	if got := serviceVariables(own, "work", true)["KUBERNETES_SERVICE_HOST"]; got != "10.43.0.9" {
		t.Errorf("a namespace's own service of that name is at %s", got)
	}
}

// What a container says counts more, and may refer to what it is told.
func TestServiceVariablesAreABackground(t *testing.T) {
	env := &environment{values: map[string]string{}, services: map[string]string{"A": "told", "B": "told"}}
	env.set("A", "said")
	env.set("C", expand.Refs("$(A) $(B) $(D)", env.lookup))
	got := map[string]string{}
	for _, kv := range env.list() {
		got[kv.Key] += string(kv.Value)
	}
	if want := map[string]string{"A": "said", "B": "told", "C": "said told $(D)"}; !maps.Equal(got, want) {
		t.Errorf("%v", got)
	}
}
