package service

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Row is a Service as `kubectl get` shows it, its name and age excepted: type, cluster IP, external IP, ports, and the selector.
func Row(s *v1.Service) (kind, ip, external, ports, selector string) {
	ip = "<none>"
	if len(s.Spec.ClusterIPs) > 0 {
		ip = s.Spec.ClusterIPs[0]
	}
	ports = "<none>"
	if len(s.Spec.Ports) > 0 {
		list := make([]string, len(s.Spec.Ports))
		for i, p := range s.Spec.Ports {
			list[i] = fmt.Sprintf("%d/%s", p.Port, p.Protocol)
			if p.NodePort > 0 {
				list[i] = fmt.Sprintf("%d:%d/%s", p.Port, p.NodePort, p.Protocol)
			}
		}
		ports = strings.Join(list, ",")
	}
	return string(s.Spec.Type), ip, externalIP(s), ports, labels.FormatLabels(s.Spec.Selector)
}

func externalIP(s *v1.Service) string {
	ips := s.Spec.ExternalIPs
	switch s.Spec.Type {
	case v1.ServiceTypeClusterIP, v1.ServiceTypeNodePort:
		if len(ips) == 0 {
			return "<none>"
		}
		return strings.Join(ips, ",")
	case v1.ServiceTypeLoadBalancer:
		given := balancers(s)
		if len(ips) == 0 && given == "" {
			return "<pending>"
		}
		if given != "" {
			ips = append([]string{given}, ips...)
		}
		return strings.Join(ips, ",")
	case v1.ServiceTypeExternalName:
		return s.Spec.ExternalName
	}
	return "<unknown>"
}

func balancers(s *v1.Service) string {
	var list []string
	for _, in := range s.Status.LoadBalancer.Ingress {
		if in.IP != "" {
			list = append(list, in.IP)
		} else if in.Hostname != "" {
			list = append(list, in.Hostname)
		}
	}
	slices.Sort(list)
	return strings.Join(slices.Compact(list), ",")
}
