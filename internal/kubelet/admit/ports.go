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

// ports turns away a pod that wants a port of the host that another one has, or by which the node itself is reached: what is sent there goes
// to the pod before any program of the host sees it. On the host's network a pod takes nothing from a program that listens already.
func ports(pod *v1.Pod, others []*v1.Pod, own []Listener) *worker.Rejection {
	want := hostPorts(pod)
	if len(want) == 0 {
		return nil
	}
	var taken []hostPort
	for _, p := range others {
		taken = append(taken, hostPorts(p)...)
	}
	if !pod.Spec.HostNetwork {
		for _, l := range own {
			taken = append(taken, hostPort{ip: l.IP, protocol: v1.ProtocolTCP, port: l.Port})
		}
	}
	for _, have := range taken {
		for _, w := range want {
			if conflict(w, have) {
				return predicate("NodePorts", "node(s) didn't have free ports for the requested pod ports")
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
