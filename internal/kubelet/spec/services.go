package spec

import (
	"fmt"
	"net"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// masterService is told to every container: it is how programs find the API server.
const masterService = "kubernetes"

// serviceVariables are the variables that tell a pod's containers of services: of the API server's, and, when links are on, of all in
// the pod's namespace.
func serviceVariables(services []*v1.Service, namespace string, links bool) map[string]string {
	vars := map[string]string{}
	told := func(s *v1.Service, own bool) {
		if s.Spec.ClusterIP == "" || s.Spec.ClusterIP == v1.ClusterIPNone || len(s.Spec.Ports) == 0 {
			return
		}
		master := s.Namespace == metav1.NamespaceDefault && s.Name == masterService
		if own && links && s.Namespace == namespace || !own && master {
			tell(vars, s)
		}
	}
	for _, s := range services {
		told(s, false)
	}
	for _, s := range services { // a service of the pod's own namespace wins
		told(s, true)
	}
	return vars
}

// tell adds the variables of one service: NAME_SERVICE_HOST and its like, and those of Docker's links.
func tell(vars map[string]string, s *v1.Service) {
	upper := func(name string) string { return strings.ToUpper(strings.ReplaceAll(name, "-", "_")) }
	name, ip := upper(s.Name), s.Spec.ClusterIP
	vars[name+"_SERVICE_HOST"] = ip
	vars[name+"_SERVICE_PORT"] = strconv.Itoa(int(s.Spec.Ports[0].Port))
	for i := range s.Spec.Ports {
		p := &s.Spec.Ports[i]
		port := strconv.Itoa(int(p.Port))
		if p.Name != "" {
			vars[name+"_SERVICE_PORT_"+upper(p.Name)] = port
		}
		protocol := string(v1.ProtocolTCP)
		if p.Protocol != "" {
			protocol = string(p.Protocol)
		}
		address := strings.ToLower(protocol) + "://" + net.JoinHostPort(ip, port)
		if i == 0 {
			vars[name+"_PORT"] = address
		}
		prefix := fmt.Sprintf("%s_PORT_%s_%s", name, port, strings.ToUpper(protocol))
		vars[prefix] = address
		vars[prefix+"_PROTO"] = strings.ToLower(protocol)
		vars[prefix+"_PORT"] = port
		vars[prefix+"_ADDR"] = ip
	}
}
