package admit

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"podo.dev/podo/internal/kubelet/worker"
)

// safeSysctls are those that have a namespace, and with which a pod can harm nobody but itself.
var safeSysctls = []string{
	"kernel.shm_rmid_forced",
	"net.ipv4.ip_local_port_range",
	"net.ipv4.ip_local_reserved_ports",
	"net.ipv4.ip_unprivileged_port_start",
	"net.ipv4.ping_group_range",
	"net.ipv4.tcp_fin_timeout",
	"net.ipv4.tcp_keepalive_intvl",
	"net.ipv4.tcp_keepalive_probes",
	"net.ipv4.tcp_keepalive_time",
	"net.ipv4.tcp_rmem",
	"net.ipv4.tcp_syncookies",
	"net.ipv4.tcp_wmem",
}

// sysctls rejects a pod that sets a sysctl which is neither safe nor allowed by the node, or one that would reach the host
// because the pod shares that namespace with it.
func sysctls(pod *v1.Pod, unsafe []string) *worker.Rejection {
	if pod.Spec.SecurityContext == nil {
		return nil
	}
	for _, s := range pod.Spec.SecurityContext.Sysctls {
		name := strings.ReplaceAll(s.Name, "/", ".")
		ns := sysctlNamespace(name)
		switch {
		case ns == "ipc" && pod.Spec.HostIPC:
			return forbidden(s.Name, "not allowed with host ipc enabled")
		case ns == "net" && pod.Spec.HostNetwork:
			return forbidden(s.Name, "not allowed with host net enabled")
		case !slices.Contains(safeSysctls, name) && !matches(unsafe, name):
			return forbidden(s.Name, "not allowlisted")
		}
	}
	return nil
}

func forbidden(name, why string) *worker.Rejection {
	return &worker.Rejection{Reason: "SysctlForbidden", Message: fmt.Sprintf("forbidden sysctl: %q %s", name, why)}
}

func sysctlNamespace(name string) string {
	switch {
	case strings.HasPrefix(name, "net."):
		return "net"
	case strings.HasPrefix(name, "kernel.shm"), strings.HasPrefix(name, "kernel.msg"), name == "kernel.sem",
		strings.HasPrefix(name, "fs.mqueue."):
		return "ipc"
	}
	return ""
}

func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		prefix, wild := strings.CutSuffix(p, "*")
		return p == name || (wild && strings.HasPrefix(name, prefix))
	})
}

// appArmor turns away a pod that asks for a profile which this kernel cannot enforce.
func appArmor(pod *v1.Pod, enabled bool) *worker.Rejection {
	if enabled {
		return nil
	}
	wants := func(p *v1.AppArmorProfile) bool { return p != nil && p.Type != v1.AppArmorProfileTypeUnconfined }
	any := pod.Spec.SecurityContext != nil && wants(pod.Spec.SecurityContext.AppArmorProfile)
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			any = any || (list[i].SecurityContext != nil && wants(list[i].SecurityContext.AppArmorProfile))
		}
	}
	if !any {
		return nil
	}
	return &worker.Rejection{Reason: "AppArmor", Message: "Cannot enforce AppArmor: AppArmor is not enabled on the host"}
}
