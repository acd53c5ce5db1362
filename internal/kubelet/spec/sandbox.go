package spec

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"podo.dev/podo/internal/kubelet/labels"
)

// Sandbox implements worker.Specs.
func (b *Builder) Sandbox(pod *v1.Pod, attempt uint32, cgroupParent string) (*runtimev1.PodSandboxConfig, error) {
	spaces, err := b.namespaces(pod)
	if err != nil {
		return nil, err
	}
	dns, err := b.dns(pod, attempt == 0)
	if err != nil {
		return nil, err
	}
	cfg := &runtimev1.PodSandboxConfig{
		Metadata:     &runtimev1.PodSandboxMetadata{Name: pod.Name, Namespace: pod.Namespace, Uid: string(pod.UID), Attempt: attempt},
		Labels:       labels.Sandbox(pod, b.c.Node),
		Annotations:  maps.Clone(pod.Annotations),
		DnsConfig:    dns,
		LogDirectory: b.podLogs(pod),
		PortMappings: portMappings(pod),
		Linux:        b.linuxSandbox(pod, cgroupParent, spaces),
	}
	if !pod.Spec.HostNetwork {
		if cfg.Hostname, err = b.kernelHostname(pod); err != nil {
			return nil, err
		}
	}
	// The runtime opens log files and makes no directory for them.
	if err := b.makeLogs(cfg.LogDirectory); err != nil {
		return nil, fmt.Errorf("create pod log directory: %w", err)
	}
	return cfg, nil
}

func (b *Builder) makeLogs(dir string) error {
	if b.c.LogList != "" {
		if err := os.MkdirAll(filepath.Join(b.c.LogList, filepath.Base(dir)), 0o700); err != nil {
			return err
		}
	}
	return os.MkdirAll(dir, 0o755)
}

// portMappings are those of containers that run at the same time. Ports without a host port are included, for the runtime to use
// or ignore.
func portMappings(pod *v1.Pod) []*runtimev1.PortMapping {
	var out []*runtimev1.PortMapping
	add := func(c *v1.Container) {
		for _, p := range c.Ports {
			m := &runtimev1.PortMapping{ContainerPort: p.ContainerPort, HostPort: p.HostPort, HostIp: p.HostIP}
			switch p.Protocol {
			case v1.ProtocolUDP:
				m.Protocol = runtimev1.Protocol_UDP
			case v1.ProtocolSCTP:
				m.Protocol = runtimev1.Protocol_SCTP
			}
			out = append(out, m)
		}
	}
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; isSidecar(c) {
			add(c)
		}
	}
	for i := range pod.Spec.Containers {
		add(&pod.Spec.Containers[i])
	}
	return out
}

func isSidecar(c *v1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways
}

func (b *Builder) linuxSandbox(pod *v1.Pod, cgroupParent string, spaces *runtimev1.NamespaceOption) *runtimev1.LinuxPodSandboxConfig {
	sec := &runtimev1.LinuxSandboxSecurityContext{
		NamespaceOptions: spaces,
		Privileged:       anyPrivileged(pod),
		// The sandbox itself does nothing that the default profile forbids, whatever the pod's containers need.
		Seccomp: &runtimev1.SecurityProfile{ProfileType: runtimev1.SecurityProfile_RuntimeDefault},
	}
	if b.c.SandboxSeccomp != "" {
		sec.Seccomp = &runtimev1.SecurityProfile{ProfileType: runtimev1.SecurityProfile_Localhost, LocalhostRef: b.c.SandboxSeccomp}
	}
	out := &runtimev1.LinuxPodSandboxConfig{CgroupParent: cgroupParent, SecurityContext: sec}
	if sc := pod.Spec.SecurityContext; sc != nil {
		out.Sysctls = map[string]string{}
		for _, s := range sc.Sysctls {
			out.Sysctls[strings.ReplaceAll(s.Name, "/", ".")] = s.Value
		}
		if sc.RunAsUser != nil {
			sec.RunAsUser = &runtimev1.Int64Value{Value: *sc.RunAsUser}
			if sc.RunAsGroup != nil { // a group without a user is an error to the runtime
				sec.RunAsGroup = &runtimev1.Int64Value{Value: *sc.RunAsGroup}
			}
		}
		sec.SupplementalGroups = groups(sc)
		sec.SupplementalGroupsPolicy = groupsPolicy(sc)
		sec.SelinuxOptions = selinux(sc.SELinuxOptions)
	}
	out.Resources = b.sandboxResources(pod)
	out.Overhead = &runtimev1.LinuxContainerResources{}
	if o := pod.Spec.Overhead; o != nil {
		out.Overhead = b.limits(o.Cpu(), o.Cpu(), o.Memory())
	}
	return out
}

// sandboxResources are for runtimes that size a whole sandbox, like virtual machines.
func (b *Builder) sandboxResources(pod *v1.Pod) *runtimev1.LinuxContainerResources {
	opts := resourcehelper.PodResourcesOptions{ExcludeOverhead: true}
	requests, limits := resourcehelper.PodRequests(pod, opts), resourcehelper.PodLimits(pod, opts)
	var cpu *resource.Quantity
	if _, ok := requests[v1.ResourceCPU]; ok {
		cpu = requests.Cpu()
	}
	return b.limits(cpu, limits.Cpu(), limits.Memory())
}

// anyPrivileged also looks at ephemeral containers: the runtime refuses a privileged one unless its sandbox was announced as
// privileged.
func anyPrivileged(pod *v1.Pod) bool {
	privileged := func(sc *v1.SecurityContext) bool { return sc != nil && isTrue(sc.Privileged) }
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if privileged(list[i].SecurityContext) {
				return true
			}
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		if privileged(pod.Spec.EphemeralContainers[i].SecurityContext) {
			return true
		}
	}
	return false
}

// namespaces says which namespaces a pod's containers share, and with whom.
func (b *Builder) namespaces(pod *v1.Pod) (*runtimev1.NamespaceOption, error) {
	out := &runtimev1.NamespaceOption{
		Network: runtimev1.NamespaceMode_POD, Ipc: runtimev1.NamespaceMode_POD, Pid: runtimev1.NamespaceMode_CONTAINER,
	}
	if pod.Spec.HostNetwork {
		out.Network = runtimev1.NamespaceMode_NODE
	}
	if pod.Spec.HostIPC {
		out.Ipc = runtimev1.NamespaceMode_NODE
	}
	switch {
	case pod.Spec.HostPID:
		out.Pid = runtimev1.NamespaceMode_NODE
	case pod.Spec.ShareProcessNamespace != nil && *pod.Spec.ShareProcessNamespace:
		out.Pid = runtimev1.NamespaceMode_POD
	}
	if pod.Spec.HostUsers == nil || *pod.Spec.HostUsers {
		return out, nil
	}
	if b.c.Users == nil {
		return nil, errors.New("user namespaces (hostUsers: false) are not supported")
	}
	handler, err := b.Handler(pod)
	if err != nil {
		return nil, err
	}
	users, err := b.c.Users(pod, handler)
	out.UsernsOptions = users
	return out, err
}
