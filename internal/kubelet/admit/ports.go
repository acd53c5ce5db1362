package admit

import (
	v1 "k8s.io/api/core/v1"

	"podo.dev/podo/internal/kubelet/worker"
)

type hostPort struct {
	ip       string
	protocol v1.Protocol
	port     int32
}

// ports turns away a pod that wants a port of the host that another one has.
func ports(pod *v1.Pod, others []*v1.Pod) *worker.Rejection {
	want := hostPorts(pod)
	if len(want) == 0 {
		return nil
	}
	for _, p := range others {
		for _, have := range hostPorts(p) {
			for _, w := range want {
				if conflict(w, have) {
					return predicate("NodePorts", "node(s) didn't have free ports for the requested pod ports")
				}
			}
		}
	}
	return nil
}

// conflict: every address includes each single one.
func conflict(a, b hostPort) bool {
	return a.port == b.port && a.protocol == b.protocol && (a.ip == b.ip || a.ip == anyIP || b.ip == anyIP)
}

const anyIP = "0.0.0.0"

// hostPorts are the ports of containers that live beside each other: init containers only when they stay (sidecars).
func hostPorts(pod *v1.Pod) []hostPort {
	var out []hostPort
	add := func(c *v1.Container) {
		for _, p := range c.Ports {
			if p.HostPort <= 0 {
				continue
			}
			h := hostPort{ip: p.HostIP, protocol: p.Protocol, port: p.HostPort}
			if h.ip == "" {
				h.ip = anyIP
			}
			if h.protocol == "" {
				h.protocol = v1.ProtocolTCP
			}
			out = append(out, h)
		}
	}
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways {
			add(c)
		}
	}
	for i := range pod.Spec.Containers {
		add(&pod.Spec.Containers[i])
	}
	return out
}
